"""kcat (an older librdkafka, as Debian ships it) against the node under test."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.clients.support import CODECS, WAIT_SECONDS, needs, wait_until

needs("kcat")

MakeTopic = Callable[..., str]
Kcat = Callable[..., str]


@pytest.fixture
def kcat(bootstrap: str) -> Kcat:
    """Runs kcat to its end and gives what it printed; a failure is an error that carries what it said."""

    def run(*arguments: str, stdin: bytes = b"") -> str:
        command = ["kcat", "-b", bootstrap, *arguments]
        done = subprocess.run(command, input=stdin, capture_output=True, timeout=WAIT_SECONDS, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stderr.decode())
        return done.stdout.decode()

    return run


def consumed(kcat: Kcat, topic: str, *arguments: str) -> list[dict[str, Any]]:
    """The topic from its beginning to its end."""
    lines = kcat("-C", "-t", topic, "-o", "beginning", "-e", "-q", "-J", *arguments).splitlines()
    return [json.loads(line) for line in lines]


def test_lines_are_produced_and_consumed_with_default_settings(kcat: Kcat, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=3)
    lines = [f"line {number}" for number in range(100)]
    kcat("-P", "-t", topic, stdin="\n".join(lines).encode())
    assert sorted(record["payload"] for record in consumed(kcat, topic)) == sorted(lines)


def test_keys_headers_and_tombstones_come_back(kcat: Kcat, make_topic: MakeTopic) -> None:
    topic = make_topic()
    kcat("-P", "-t", topic, "-K:", "-Z", "-H", "a=1", "-H", "a=2", stdin=b"key:value\n:no key\ndeleted:\n")
    records = consumed(kcat, topic)
    assert [(record["key"], record["payload"]) for record in records] == [
        ("key", "value"),
        (None, "no key"),
        ("deleted", None),
    ]
    assert {tuple(record["headers"]) for record in records} == {("a", "1", "a", "2")}


@pytest.mark.parametrize("codec", CODECS)
def test_every_codec_round_trips(kcat: Kcat, make_topic: MakeTopic, codec: str) -> None:
    topic = make_topic()
    lines = [f"compress me, please {number}" * 10 for number in range(100)]
    kcat("-P", "-t", topic, "-z", codec, stdin="\n".join(lines).encode())
    assert [record["payload"] for record in consumed(kcat, topic)] == lines


@pytest.mark.parametrize("size_bytes", [1, 1000, 1024 * 1024, 10 * 1024 * 1024])
def test_messages_from_one_byte_to_ten_megabytes_round_trip(
    kcat: Kcat, make_topic: MakeTopic, tmp_path: Path, size_bytes: int
) -> None:
    topic = make_topic(**{"max.message.bytes": str(size_bytes + 1024)})
    file = tmp_path / "message"
    file.write_text("x" * size_bytes)
    kcat("-P", "-t", topic, "-X", "message.max.bytes=12000000", str(file))
    [record] = consumed(kcat, topic, "-X", "fetch.message.max.bytes=12000000")
    assert record["payload"] == "x" * size_bytes


def test_a_message_over_the_topic_limit_is_refused(kcat: Kcat, make_topic: MakeTopic) -> None:
    topic = make_topic(**{"max.message.bytes": "10000"})
    with pytest.raises(RuntimeError, match="Message size too large"):
        kcat("-P", "-t", topic, stdin=b"x" * 20_000)
    assert consumed(kcat, topic) == []


def test_an_idempotent_producer_writes_each_line_once(kcat: Kcat, make_topic: MakeTopic) -> None:
    topic = make_topic()
    lines = [str(number) for number in range(1000)]
    kcat("-P", "-t", topic, "-X", "enable.idempotence=true", stdin="\n".join(lines).encode())
    assert [record["payload"] for record in consumed(kcat, topic)] == lines


def test_a_topic_that_is_not_there_is_created_by_the_first_message(kcat: Kcat, name: str) -> None:
    kcat("-P", "-t", name, stdin=b"first")
    assert [record["payload"] for record in consumed(kcat, name)] == ["first"]


def test_metadata_lists_brokers_and_partitions(kcat: Kcat, make_topic: MakeTopic, bootstrap: str) -> None:
    topic = make_topic(partitions=3)
    found = json.loads(kcat("-L", "-J", "-t", topic))
    [broker] = found["brokers"]
    assert broker["name"] == bootstrap
    [described] = found["topics"]
    assert [(at["partition"], at["leader"]) for at in described["partitions"]] == [(n, broker["id"]) for n in range(3)]


def test_offsets_are_asked_by_time_and_reading_starts_there(kcat: Kcat, make_topic: MakeTopic) -> None:
    topic = make_topic()
    for line in (b"early", b"late"):
        kcat("-P", "-t", topic, stdin=line)
    early, late = consumed(kcat, topic)
    assert late["ts"] > early["ts"]
    assert f"{topic} [0] offset 1" in kcat("-Q", "-t", f"{topic}:0:{late['ts']}")
    assert f"{topic} [0] offset 2" in kcat("-Q", "-t", f"{topic}:0:-1")
    assert f"{topic} [0] offset 0" in kcat("-Q", "-t", f"{topic}:0:-2")
    assert [record["offset"] for record in consumed(kcat, topic, "-o", f"s@{late['ts']}")] == [1]


def test_a_group_goes_on_where_it_committed(kcat: Kcat, make_topic: MakeTopic) -> None:
    topic = make_topic()

    def group_reads() -> list[str]:
        return kcat("-G", topic, "-e", "-q", "-X", "auto.offset.reset=earliest", topic).splitlines()

    kcat("-P", "-t", topic, stdin=b"one\ntwo")
    assert group_reads() == ["one", "two"]
    kcat("-P", "-t", topic, stdin=b"three")
    assert group_reads() == ["three"]


class _GroupMember:
    """A kcat that stays in a group; what it owns is read from what it says about rebalances."""

    def __init__(self, command: list[str], said: Path) -> None:
        self._said = said
        with said.open("wb") as output:
            self.running = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=output)

    def partitions(self) -> set[int]:
        rebalances = re.findall(r"rebalanced \(.*?\): (assigned|revoked):(.*)", self._said.read_text())
        if not rebalances or rebalances[-1][0] == "revoked":
            return set()
        return {int(partition) for partition in re.findall(r"\[(\d+)\]", rebalances[-1][1])}


@contextlib.contextmanager
def _member(bootstrap: str, topic: str, said: Path) -> Iterator[_GroupMember]:
    soon = ["-X", "auto.offset.reset=earliest", "-X", "heartbeat.interval.ms=300"]
    member = _GroupMember(["kcat", "-b", bootstrap, "-G", topic, *soon, topic], said)
    try:
        yield member
    finally:
        member.running.send_signal(signal.SIGINT)
        try:
            member.running.wait(WAIT_SECONDS)
        finally:
            member.running.kill()
            member.running.wait()


def test_two_members_share_the_partitions_and_the_last_one_gets_all(
    bootstrap: str, make_topic: MakeTopic, tmp_path: Path
) -> None:
    topic = make_topic(partitions=4)
    everything = {0, 1, 2, 3}
    with _member(bootstrap, topic, tmp_path / "first") as first:
        wait_until(lambda: first.partitions() == everything, "the first member has all partitions")
        with _member(bootstrap, topic, tmp_path / "second") as second:

            def shared() -> bool:
                mine, theirs = first.partitions(), second.partitions()
                return bool(mine) and bool(theirs) and mine | theirs == everything and not mine & theirs

            wait_until(shared, lambda: f"both have partitions: {first.partitions()}, {second.partitions()}")
        wait_until(lambda: first.partitions() == everything, "the last member has all partitions")
