"""The audit trail: what is in a line, and that a flood fills nothing."""

from __future__ import annotations

import json
import logging
from typing import Any

import pytest

from chronik.api.context import Caller
from chronik.core.access.principal import KafkaPrincipal
from chronik.trace.audit import A_SECOND_MAX, NAME_LENGTH_MAX, PENDING_MAX, RESOURCES_MAX, AuditTrail
from tests.unit.api.fake_context import FakeClock

ALICE = Caller("app", "10.0.0.7", 7, 1, principal=KafkaPrincipal("User", "alice"), listener="CLIENTS")


def trail(**options: Any) -> tuple[AuditTrail, FakeClock]:
    clock = FakeClock()
    made = AuditTrail(3, clock, **options)
    made.is_stored = True
    return made, clock


def lines(made: AuditTrail) -> list[dict[str, Any]]:
    return [json.loads(line) for line in made.pending]


def test_an_event_says_which_principal_from_where_did_what_and_what_came_of_it() -> None:
    made, clock = trail()
    made.changed(ALICE, "create_topics", ["TOPIC orders partitions=3"], ["NONE"])
    assert lines(made) == [
        {
            "schema": 1,
            "at_ms": clock.time_ms,
            "node": 3,
            "kind": "change",
            "principal": "User:alice",
            "host": "10.0.0.7",
            "listener": "CLIENTS",
            "client_id": "app",
            "api": "create_topics",
            "resources": ["TOPIC orders partitions=3"],
            "outcome": "done",
            "codes": [],
        }
    ]


def test_what_is_refused_and_what_is_half_done_are_kept_apart() -> None:
    made, _ = trail()
    made.changed(ALICE, "create_topics", ["TOPIC a"], ["TOPIC_ALREADY_EXISTS"])
    made.changed(ALICE, "create_topics", ["TOPIC a", "TOPIC b"], ["NONE", "TOPIC_ALREADY_EXISTS"])
    assert [(line["kind"], line["outcome"], line["codes"]) for line in lines(made)] == [
        ("refused", "refused", ["TOPIC_ALREADY_EXISTS"]),
        ("change", "partly", ["TOPIC_ALREADY_EXISTS"]),
    ]


def test_every_event_is_one_line_of_json_of_a_logger_of_its_own(caplog: pytest.LogCaptureFixture) -> None:
    made, _ = trail()
    with caplog.at_level(logging.INFO, "chronik.audit"):
        made.denied(ALICE, "produce", "WRITE", "TOPIC", "a\nline break")
    [logged] = caplog.records
    assert logged.name == "chronik.audit"
    assert "\n" not in logged.getMessage()
    assert json.loads(logged.getMessage())["resources"] == ["TOPIC a\nline break"]


def test_a_flood_of_refusals_is_sampled_and_counted() -> None:
    made, clock = trail()
    for _ in range(10_000):
        made.denied(ALICE, "fetch", "READ", "TOPIC", "secret")
        made.login_refused(ALICE, "no")
    assert len(made.pending) == A_SECOND_MAX["denied"] + A_SECOND_MAX["login_refused"]
    made.changed(ALICE, "delete_topics", ["TOPIC a"], ["NONE"])  # which a flood does not push out
    assert lines(made)[-1]["kind"] == "change"
    clock.time_ms += 1000
    made.denied(ALICE, "fetch", "READ", "TOPIC", "secret")
    said = lines(made)[-2]
    assert said["kind"] == "left_out"
    assert said["counts"] == {
        "denied": 10_000 - A_SECOND_MAX["denied"],
        "login_refused": 10_000 - A_SECOND_MAX["login_refused"],
    }


def test_what_was_left_out_is_said_though_nothing_else_comes() -> None:
    made, _ = trail()
    for _ in range(A_SECOND_MAX["denied"] + 5):
        made.denied(ALICE, "fetch", "READ", "TOPIC", "secret")
    made.say_what_is_missing()
    made.say_what_is_missing()
    assert [line["counts"] for line in lines(made) if line["kind"] == "left_out"] == [{"denied": 5}]


def test_names_and_lists_are_bounded() -> None:
    made, _ = trail()
    client = ALICE._replace(client_id="x" * 30_000)
    made.changed(client, "delete_groups", ["GROUP " + "y" * 30_000] * (RESOURCES_MAX + 7), ["NONE"])
    [line] = lines(made)
    assert len(line["client_id"]) <= NAME_LENGTH_MAX + 3
    assert len(line["resources"]) == RESOURCES_MAX
    assert line["more"] == 7
    assert len(line["resources"][0]) <= NAME_LENGTH_MAX + 3


def test_lines_that_nothing_stores_are_bounded_and_counted() -> None:
    made, clock = trail(logs=lambda: False)
    assert made.lost_line() == b""
    for _ in range(PENDING_MAX + 10):
        clock.time_ms += 1000
        made.login(ALICE, "SASL")
    assert len(made.pending) == PENDING_MAX
    assert json.loads(made.lost_line())["counts"] == {"not_stored": 10}


def test_switched_off_nothing_is_written(caplog: pytest.LogCaptureFixture) -> None:
    made, _ = trail(logs=lambda: False)
    made.is_stored = False
    with caplog.at_level(logging.INFO, "chronik.audit"):
        made.login(ALICE, "SASL")
    assert not caplog.records
    assert not made.pending
