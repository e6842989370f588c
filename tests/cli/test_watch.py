"""`chronik watch` where there is no terminal: one look, as a table or as JSON, and what it refuses."""

from __future__ import annotations

import os
from collections.abc import Callable

import pytest

from tests.cli.conftest import Chronik

pytestmark = pytest.mark.skipif(
    os.environ.get("CHRONIK_TEST_PEER") == "kafka", reason="it asks what only chronik tells"
)
QUICK = ("--interval", "0.1")


def test_one_look_is_a_table(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic("--partitions", "2")
    chronik.ok("produce", topic, "--count", "5", "--size", "10")

    printed = chronik.ok("watch", "--once", "--topic", topic, *QUICK).out

    lines = printed.splitlines()
    assert lines[0] == "node 1"
    assert lines[1].startswith("2 partitions  0 lagging  largest gap 0")
    assert "watermark" in lines[3]
    assert [line.split()[:3] for line in lines[4:6]] == [[topic, "0", "1"], [topic, "1", "1"]]
    assert "nothing stalls" in lines[-1]


def test_one_look_as_json_has_everything(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, "--count", "50", "--size", "10")
    chronik.ok("consume", topic, "--group", topic, "--from-beginning", "--max-messages", "20")

    seen = chronik.ok("watch", "--json", "--topic", topic, *QUICK).json

    assert seen["nodes"] == [{"id": 1, "answers": True, "reason": None}]
    (partition,) = seen["partitions"]
    assert (partition["leader"], partition["watermark"], partition["next_offset"], partition["gap"]) == (1, 50, 50, 0)
    assert (partition["in_sync"], partition["out_of_sync"], partition["in_per_s"]) == ([1], [], 0.0)
    (group,) = seen["groups"]
    assert (group["group"], group["lag"]) == (topic, 30)
    assert seen["totals"]["partitions"] == 1
    assert seen["stalls"] == []


def test_without_a_terminal_there_is_no_live_view(chronik: Chronik) -> None:
    assert chronik.refused("watch") == "there is no terminal to draw on; say --once or --json"


def test_a_topic_that_is_not_there_is_refused_with_the_nearest_that_is(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()

    assert chronik.refused("watch", "--once", "--topic", f"{topic}s") == f"no topic {topic}s; did you mean {topic}?"


def test_another_kafka_is_refused(other_kafka: Chronik) -> None:
    error = other_kafka.refused("watch", "--once")

    assert "is no chronik" in error
    assert "`chronik topic describe` works with any Kafka" in error


def test_an_interval_that_makes_no_sense_is_refused(chronik: Chronik) -> None:
    result = chronik.run("watch", "--once", "--interval", "0")

    assert result.code == 2
    assert "0.1" in result.err
