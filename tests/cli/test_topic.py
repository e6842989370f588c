"""`chronik topic` against a real node."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tests.cli.conftest import Chronik, run_at_terminal


def test_a_topic_is_created_listed_described_altered_and_deleted(chronik: Chronik, name: str) -> None:
    created = chronik.ok("topic", "create", name, "--partitions", "3", "--config", "retention.ms=86400000")
    assert created.out == f"created topic {name}: 3 partitions, replication 1\n"

    listed = chronik.ok("topic", "list").out
    assert [line.split() for line in listed.splitlines() if name in line] == [[name, "3", "1", "ok"]]

    described = chronik.ok("topic", "describe", name).out
    assert f"topic {name}: 3 partitions" in described
    assert "retention.ms" in described

    altered = chronik.ok("topic", "alter", name, "--config", "retention.ms=3600000", "--partitions", "5")
    assert altered.out == f"retention.ms is now 3600000\ntopic {name} has 5 partitions now, it had 3\n"

    assert chronik.ok("topic", "delete", name, "--yes").out == f"deleted topic {name}\n"
    assert name not in chronik.ok("topic", "list").out


def test_describe_as_json_has_offsets_and_the_settings_that_differ(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic("--partitions", "2", "--config", "retention.ms=86400000")
    chronik.ok("produce", topic, "--partition", "1", stdin="a\nb\nc\n")

    described = chronik.ok("topic", "describe", topic, "--json").json

    assert described["topic"] == topic
    first, second = described["partitions"]
    assert (first["partition"], first["start_offset"], first["end_offset"], first["messages"]) == (0, 0, 0, 0)
    assert (second["partition"], second["start_offset"], second["end_offset"], second["messages"]) == (1, 0, 3, 3)
    assert first["leader"] in first["replicas"] == first["in_sync"]
    assert described["config"]["retention.ms"] == {"value": "86400000", "set_by": "topic"}
    assert "segment.bytes" not in described["config"]


def test_describe_all_has_the_defaults_too(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    config = chronik.ok("topic", "describe", make_topic(), "--all", "--json").json["config"]

    assert config["segment.bytes"] == {"value": "1073741824", "set_by": "default"}


def test_a_setting_goes_back_to_its_default(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic("--config", "retention.ms=1000000")

    assert chronik.ok("topic", "alter", topic, "--delete-config", "retention.ms").out == (
        "retention.ms is back at its default\n"
    )
    assert "retention.ms" not in chronik.ok("topic", "describe", topic, "--json").json["config"]


def test_every_answer_can_be_had_as_json(chronik: Chronik, name: str) -> None:
    created = chronik.ok("topic", "create", name, "--partitions", "2", "--json").json
    assert created == {"topic": name, "partitions": 2, "replication": 1, "created": True}
    again = chronik.ok("topic", "create", name, "--if-not-exists", "--json").json
    assert again["created"] is False
    assert {"topic": name, "partitions": 2, "replication": 1, "state": "ok"} in chronik.ok(
        "topic", "list", "--json"
    ).json
    altered = chronik.ok("topic", "alter", name, "--config", "retention.ms=1000000", "--json").json
    assert altered == {"topic": name, "partitions": 2, "config": {"retention.ms": "1000000"}}
    assert chronik.ok("topic", "delete", name, "--yes", "--json").json == {"deleted": [name]}


@pytest.mark.parametrize(("typed", "code"), [("y", 0), ("n", 1), ("", 1)])
def test_who_deletes_is_asked_on_standard_error(
    chronik: Chronik, make_topic: Callable[..., str], typed: str, code: int
) -> None:
    topic = make_topic("--partitions", "2")
    chronik.ok("produce", topic, "--count", "3")

    answered = run_at_terminal(chronik, "topic", "delete", topic, "--json", typed=typed)

    assert answered.code == code
    assert answered.err.startswith(f"{topic}: 2 partitions, about 3 messages\nDelete for good? [y/N]: ")
    if code == 0:
        assert answered.out == f'{{\n  "deleted": [\n    "{topic}"\n  ]\n}}\n'
    else:
        assert answered.out == ""
        assert answered.err.endswith("nothing deleted\n")
    assert (topic in chronik.ok("topic", "list").out) == (code == 1)


@pytest.mark.parametrize("command", ["describe", "alter", "delete"])
def test_an_unknown_topic_is_refused_with_the_nearest(
    chronik: Chronik, make_topic: Callable[..., str], command: str
) -> None:
    topic = make_topic()
    options = ["--partitions", "3"] if command == "alter" else ["--yes"] if command == "delete" else []

    assert chronik.refused("topic", command, f"{topic}x", *options) == f"no topic {topic}x; did you mean {topic}?"


def test_a_topic_that_resembles_none_is_refused_with_how_to_create_it(chronik: Chronik) -> None:
    assert chronik.refused("topic", "describe", "QQQQQQQQ") == (
        "no topic QQQQQQQQ; create it with `chronik topic create QQQQQQQQ`"
    )


def test_a_wrong_config_key_is_refused_with_the_nearest(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    expected = "no topic config retention.m; did you mean retention.ms?"

    assert chronik.refused("topic", "create", "never-made", "--config", "retention.m=1") == expected
    assert chronik.refused("topic", "alter", make_topic(), "--config", "retention.m=1") == expected
    assert "never-made" not in chronik.ok("topic", "list").out


def test_a_key_to_delete_that_is_none_is_refused_and_nothing_is_altered(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic("--config", "retention.ms=1000000", "--config", "segment.bytes=2000000")
    before = chronik.ok("topic", "describe", topic, "--json").json["config"]

    wrong = ["--delete-config", "retention.m", "--delete-config", "segment.bytes", "--config", "retention.ms=5000000"]
    refused = chronik.refused("topic", "alter", topic, *wrong)

    assert refused == "no topic config retention.m; did you mean retention.ms?"
    assert chronik.ok("topic", "describe", topic, "--json").json["config"] == before


def test_a_wrong_config_value_is_refused_in_the_nodes_words(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    refused = chronik.refused("topic", "alter", make_topic(), "--config", "retention.ms=soon")

    assert "retention.ms" in refused
    assert "soon" in refused


def test_bad_requests_are_refused_with_what_to_do(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic("--partitions", "2")

    assert f"topic {topic} already exists" in chronik.refused("topic", "create", topic)
    assert "INVALID_REPLICATION_FACTOR" in chronik.refused("topic", "create", f"{topic}-b", "--replication", "3")
    assert "TOPIC_EXCEPTION" in chronik.refused("topic", "create", "not a name")
    assert "is not KEY=VALUE" in chronik.refused("topic", "create", f"{topic}-b", "--config", "retention.ms")
    assert "nothing to alter" in chronik.refused("topic", "alter", topic)
    assert "partitions can only be added" in chronik.refused("topic", "alter", topic, "--partitions", "1")
    assert "there is no terminal to ask; say --yes" in chronik.refused("topic", "delete", topic)
    assert topic in chronik.ok("topic", "list").out


def test_a_number_that_no_client_sends_is_refused_as_bad_input(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()

    for number in ("0", str(2**31 - 1), str(2**70)):
        refusals = [
            chronik.run("topic", "create", f"{topic}-b", "--partitions", number),
            chronik.run("topic", "create", f"{topic}-b", "--replication", number),
            chronik.run("topic", "alter", topic, "--partitions", number),
        ]

        assert [refused.code for refused in refusals] == [2, 2, 2]
        assert not any("Traceback" in refused.err for refused in refusals)
