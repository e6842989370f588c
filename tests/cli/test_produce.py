"""`chronik produce` against a real node."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Chronik


def test_lines_become_messages_and_the_report_says_at_which_offsets(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic("--partitions", "2")
    chronik.ok("produce", topic, "--partition", "1", stdin="one\n")

    produced = chronik.ok("produce", topic, "--partition", "1", stdin="two\nthree\n\nlast without newline")

    rows = [line.split() for line in produced.out.splitlines()]
    assert ["1", "4", "1", "to", "4"] in rows
    assert "4 of 4 messages acknowledged in" in produced.out
    values = [record["value"] for record in _records(chronik, topic, 5)]
    assert values == ["one", "two", "three", "", "last without newline"]


def test_keys_headers_and_any_bytes_arrive_as_they_were_given(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic()
    options = ["--key-separator", "::", "--header", "trace=a=b", "--header", "empty="]

    chronik.ok("produce", topic, *options, stdin=b"k1::v1::x\nk2::\xff\x00\n")

    first, second = _records(chronik, topic, 2)
    assert (first["key"], first["value"]) == ("k1", "v1::x")
    assert first["headers"] == [{"key": "trace", "value": "a=b"}, {"key": "empty", "value": ""}]
    assert (second["key"], second["value_base64"]) == ("k2", "/wA=")


def test_a_line_without_a_key_is_reported_and_the_others_are_sent(
    chronik: Chronik, make_topic: Callable[..., str]
) -> None:
    topic = make_topic()

    produced = chronik.run("produce", topic, "--key-separator", ":", stdin="a:1\nnokey\nb:2\n")

    assert produced.code == 1
    assert "2 of 3 messages acknowledged" in produced.out
    assert "1 message not acknowledged: no ':' in the line (line 2)" in produced.out
    assert len(_records(chronik, topic, 2)) == 2


def test_a_message_the_node_refuses_is_reported_with_its_reason(
    chronik: Chronik, make_topic: Callable[..., str], tmp_path: Path
) -> None:
    topic = make_topic("--config", "max.message.bytes=2000")
    lines = tmp_path / "lines.txt"
    lines.write_text("small\n" + "x" * 5000 + "\n")

    produced = chronik.run("produce", topic, "--file", str(lines), "--acks", "1", "--json")

    assert produced.code == 1
    report = produced.json
    assert (report["sent"], report["not_acknowledged"] + report["acknowledged"]) == (2, 2)
    assert any("MSG_SIZE_TOO_LARGE" in failure["reason"] for failure in report["failures"])


@pytest.mark.parametrize("compression", ["none", "gzip", "snappy", "lz4", "zstd"])
def test_a_generated_load_is_numbered_and_complete(
    chronik: Chronik, make_topic: Callable[..., str], compression: str
) -> None:
    topic = make_topic("--partitions", "3")

    report = chronik.ok("produce", topic, "--count", "300", "--size", "50", "--compression", compression, "--json").json

    assert (report["sent"], report["acknowledged"], report["failures"]) == (300, 300, [])
    offsets = [part["end_offset"] - part["start_offset"] for each in report["partitions"] for part in each["offsets"]]
    assert sum(offsets) == 300
    numbers = sorted(int(record["value"].split()[0]) for record in _records(chronik, topic, 300))
    assert numbers == list(range(300))


def test_without_acknowledgements_no_offset_is_claimed(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    produced = chronik.ok("produce", make_topic(), "--acks", "0", stdin="a\n")

    assert "unknown: acks=0 asks for no answer" in produced.out
    assert "1 of 1 message sent" in produced.out


def test_bad_requests_are_refused_with_what_to_do(chronik: Chronik, make_topic: Callable[..., str]) -> None:
    topic = make_topic("--partitions", "2")

    assert chronik.refused("produce", f"{topic}x", stdin="a\n") == f"no topic {topic}x; did you mean {topic}?"
    assert f"topic {topic} has no partition 7; it has 0 to 1" in chronik.refused("produce", topic, "--partition", "7")
    assert "cannot read nothing.txt: No such file" in chronik.refused("produce", topic, "--file", "nothing.txt")
    assert "--count generates messages" in chronik.refused("produce", topic, "--count", "1", "--key-separator", ":")
    assert "is not KEY=VALUE" in chronik.refused("produce", topic, "--header", "x")
    assert f"{topic}x" not in chronik.ok("topic", "list").out


def _records(chronik: Chronik, topic: str, count: int) -> list[dict[str, Any]]:
    """The first so many, however long they take on a busy machine; as far as a second shows, there are no more."""
    consume = ("consume", topic, "--from-beginning", "--json")
    assert len(chronik.ok(*consume, "--timeout", "1").json_lines) <= count
    return chronik.ok(*consume, "--timeout", "60", "--max-messages", str(count)).json_lines
