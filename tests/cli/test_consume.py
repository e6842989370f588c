"""`chronik consume` against a real node."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable

import pytest

from tests.cli.conftest import COMMAND, Chronik, interrupt


def test_values_are_printed_in_order_and_reading_ends_after_so_many(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, stdin="a\nb\nc\n")

    assert chronik.ok("consume", topic, "--from-beginning", "--max-messages", "2").out == "a\nb\n"


def test_a_format_shows_the_fields_asked_for_and_binary_is_escaped(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, "--key-separator", ":", "--header", "h=1", stdin=b"k:v\nk2:\x00\xff\n")

    out = chronik.ok(
        "consume",
        topic,
        "--from-beginning",
        "--max-messages",
        "2",
        "--format",
        "{partition}@{offset} {key}={value} {headers}",
    ).out

    assert out == "0@0 k=v h=1\n0@1 k2=\\x00\\xff h=1\n"


def test_reading_starts_at_an_offset_or_at_a_time(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic("--partitions", "2")
    chronik.ok("produce", topic, "--partition", "0", stdin="a\nb\nc\n")
    times = [record["timestamp_ms"] for record in _first(chronik, topic, 3)]

    assert chronik.ok("consume", topic, "--partition", "0", "--offset", "1", "--max-messages", "2").out == "b\nc\n"
    assert chronik.ok("consume", topic, "--offset", "2020-01-01", "--max-messages", "3").out == "a\nb\nc\n"
    assert chronik.ok("consume", topic, "--offset", f"{_iso(max(times) + 3_600_000)}", "--timeout", "1").out == ""


def test_a_group_goes_on_where_it_stopped(chronik: Chronik, make_topic: Callable[..., str], name: str) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, stdin="a\nb\nc\n")
    reading = ("consume", topic, "--group", name, "--from-beginning")

    assert chronik.ok(*reading, "--max-messages", "2").out == "a\nb\n"
    assert chronik.ok(*reading, "--max-messages", "1").out == "c\n"


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_ctrl_c_ends_reading_cleanly_and_what_was_printed_is_committed(
    chronik: Chronik, make_topic: Callable[..., str], name: str, number: int
) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, stdin="a\nb\n")

    with chronik.running("consume", topic, "--group", name, "--from-beginning") as process:
        assert process.stdout is not None
        printed = [process.stdout.readline() for _ in range(2)]
        code, _, err = interrupt(process, number)

    assert (code, err, printed) == (0, "", [b"a\n", b"b\n"])
    group = chronik.ok("group", "describe", name, "--json").json
    assert [row["committed_offset"] for row in group["partitions"]] == [2]
    assert group["members"] == []


def test_a_reader_of_the_output_that_goes_away_is_no_error(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    chronik.ok("produce", topic, "--count", "5000")
    command = " ".join([*COMMAND, "consume", topic, "--from-beginning"])

    done = subprocess.run(
        ["sh", "-c", f"{command} | head -n 1"], capture_output=True, env=chronik.environment, timeout=30, check=True
    )

    assert done.stdout.startswith(b"0 ")
    assert done.stderr == b""


def test_bad_requests_are_refused_with_what_to_do(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()

    assert chronik.refused("consume", f"{topic}x") == f"no topic {topic}x; did you mean {topic}?"
    assert "has no partition 7; it has 0 to 0" in chronik.refused("consume", topic, "--partition", "7")
    assert "no field {k} in a record" in chronik.refused("consume", topic, "--format", "{k}")
    assert "soon is not a time" in chronik.refused("consume", topic, "--offset", "soon")
    assert "contradict" in chronik.refused("consume", topic, "--offset", "1", "--from-beginning")
    assert "use `chronik group reset`" in chronik.refused("consume", topic, "--group", "g", "--offset", "1")
    assert "partition 0 has no such offset" in chronik.refused("consume", topic, "--offset", "99", "--timeout", "20")


def _first(chronik: Chronik, topic: str, count: int) -> list[dict[str, int]]:
    out = chronik.ok("consume", topic, "--from-beginning", "--max-messages", str(count), "--json").out
    return [json.loads(line) for line in out.splitlines()]


def _iso(timestamp_ms: int) -> str:
    from chronik.inspect.record_format import iso_time

    text = iso_time(timestamp_ms)
    assert text is not None
    return text
