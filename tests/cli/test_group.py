"""`chronik group` against a real node."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager

import pytest

from tests.cli.conftest import Chronik, interrupt, run_at_terminal


@pytest.fixture
def topic(chronik: Chronik, make_topic: Callable[..., str]) -> str:
    """Two partitions with five messages each."""
    made = make_topic("--partitions", "2")
    for partition in ("0", "1"):
        chronik.ok("produce", made, "--partition", partition, "--count", "5", "--acks", "1")
    return made


@pytest.fixture
def group(chronik: Chronik, topic: str, name: str) -> str:
    """A group without members that has read all ten."""
    chronik.ok("consume", topic, "--group", name, "--from-beginning", "--max-messages", "10")
    return name


@contextmanager
def member(chronik: Chronik, topic: str, group: str) -> Iterator[subprocess.Popen[bytes]]:
    """A live member of the group that has read at least one message."""
    with chronik.running("consume", topic, "--group", group, "--from-beginning") as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process
        interrupt(process)


def test_a_group_is_listed_and_described_with_its_lag(chronik: Chronik, topic: str, group: str) -> None:
    chronik.ok("produce", topic, "--partition", "1", stdin="one more\n")

    states = {row["group"]: row["state"] for row in chronik.ok("group", "list", "--json").json}
    assert states[group] == "empty"
    assert group in chronik.ok("group", "list").out
    described = chronik.ok("group", "describe", group).out
    rows = [line.split() for line in described.splitlines()]
    assert [topic, "0", "5", "5", "0", "-"] in rows
    assert [topic, "1", "5", "6", "1", "-"] in rows
    assert "no members" in described
    assert "lag: 1" in described
    assert chronik.ok("group", "describe", group, "--json").json["lag"] == 1


def test_members_are_described_with_what_they_read(chronik: Chronik, topic: str, name: str) -> None:
    with member(chronik, topic, name):
        described = chronik.ok("group", "describe", name, "--json").json

    assert described["state"] == "stable"
    (only,) = described["members"]
    assert only["client_id"] == "chronik-cli"
    assert only["partitions"] == [f"{topic}:0", f"{topic}:1"]


def test_a_group_with_live_members_is_neither_reset_nor_deleted(chronik: Chronik, topic: str, name: str) -> None:
    with member(chronik, topic, name):
        reset = chronik.refused("group", "reset", name, "--to-earliest", "--execute")
        deleted = chronik.refused("group", "delete", name, "--yes")

    who = "1 live member (chronik-cli at 127.0.0.1)"
    assert reset == f"group {name} has {who} and cannot be reset; stop them first"
    assert deleted == f"group {name} has {who} and cannot be deleted; stop them first"


def test_a_reset_shows_what_it_would_do_and_does_it_only_when_told(chronik: Chronik, topic: str, group: str) -> None:
    shown = chronik.ok("group", "reset", group, "--to-earliest").out
    assert [topic, "0", "5", "0", "-5"] in [line.split() for line in shown.splitlines()]
    assert "nothing changed yet; add --execute to do it" in shown
    assert _committed(chronik, group) == [5, 5]

    assert f"group {group} was reset" in chronik.ok("group", "reset", group, "--to-earliest", "--execute").out
    assert _committed(chronik, group) == [0, 0]


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        (["--to-offset", "3"], [3, 3]),
        (["--to-offset", "99"], [5, 5]),
        (["--shift-by", "-2"], [3, 3]),
        (["--shift-by", "-2", "--topic", "TOPIC:1"], [5, 3]),
        (["--to-datetime", "2020-01-01T00:00:00Z", "--topic", "TOPIC"], [0, 0]),
        (["--to-datetime", "2100-01-01T00:00:00Z"], [5, 5]),
    ],
)
def test_a_reset_goes_to_an_offset_a_time_or_by_a_shift(
    chronik: Chronik, topic: str, group: str, options: list[str], expected: list[int]
) -> None:
    chosen = [option.replace("TOPIC", topic) for option in options]

    report = chronik.ok("group", "reset", group, *chosen, "--execute", "--json").json

    assert report["executed"] is True
    assert _committed(chronik, group) == expected


def test_a_group_can_be_placed_before_it_first_reads(chronik: Chronik, topic: str, name: str) -> None:
    chronik.ok("group", "reset", f"{name}-new", "--to-latest", "--topic", topic, "--execute")

    assert _committed(chronik, f"{name}-new") == [5, 5]


def test_a_deleted_group_is_gone(chronik: Chronik, group: str) -> None:
    assert chronik.ok("group", "delete", group, "--yes").out == f"deleted group {group}\n"

    assert f"no group {group}" in chronik.refused("group", "describe", group)


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 1)])
def test_who_deletes_is_asked_on_standard_error(chronik: Chronik, group: str, typed: str, code: int) -> None:
    answered = run_at_terminal(chronik, "group", "delete", group, "--json", typed=typed)

    assert answered.code == code
    assert answered.err.startswith(f"{group}: has committed offsets of 2 partitions\nDelete for good? [y/N]: ")
    assert (answered.out and answered.json) == ({"deleted": [group]} if code == 0 else "")
    assert (f'"{group}"' in chronik.ok("group", "list", "--json").out) == (code == 1)


def test_bad_requests_are_refused_with_what_to_do(chronik: Chronik, topic: str, group: str) -> None:
    assert chronik.refused("group", "describe", f"{group}x") == f"no group {group}x; did you mean {group}?"
    assert chronik.refused("group", "delete", f"{group}x", "--yes") == f"no group {group}x; did you mean {group}?"
    assert "say where to, once" in chronik.refused("group", "reset", group)
    assert "say where to, once" in chronik.refused("group", "reset", group, "--to-earliest", "--to-latest")
    assert "soon is not a time" in chronik.refused("group", "reset", group, "--to-datetime", "soon")
    refused = chronik.refused("group", "reset", group, "--to-earliest", "--topic", f"{topic}:9")
    assert refused == f"topic {topic} has no partition 9; it has 0 to 1"
    assert "has committed nothing; say which topic" in chronik.refused("group", "reset", "QQQQ", "--to-earliest")
    assert "there is no terminal to ask; say --yes" in chronik.refused("group", "delete", group)


def _committed(chronik: Chronik, group: str) -> list[int]:
    return [row["committed_offset"] for row in chronik.ok("group", "describe", group, "--json").json["partitions"]]
