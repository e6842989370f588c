"""A log whose last write was torn: cut at every byte of its last two batches, on a real disk.

Every whole batch is there again, byte for byte; what was torn is cut, reported and never served; the log goes on.
"""

from __future__ import annotations

import random
import shutil
from pathlib import Path

import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.core.config.topic import TopicConfig
from chronik.core.log.log import Log
from chronik.shell.files import RealFiles
from chronik.testing import node
from tests.recovery.ledger import TIMEOUT_S, consume_all, send
from tests.unit.core.log.logs import NOW_MS, batch_of, contents, put, sync

DIRECTORY = "topic-0"
POINTS = 2_000
SHAPES = (  # how a log is made: records a batch, bytes a value, producer id, settings
    (1, 10, -1, TopicConfig()),
    (3, 50, 7, TopicConfig()),
    (2, 300, -1, TopicConfig(segment_bytes=2_000, index_interval_bytes=500)),
    (5, 20, 9, TopicConfig(segment_bytes=1_000)),
)
BATCHES = 9


def open_log(root: Path, config: TopicConfig, synced_offset: int) -> Log:
    return Log.open(RealFiles(str(root)), DIRECTORY, config, NOW_MS, was_clean=False, synced_offset=synced_offset)


def make_log(root: Path, shape: tuple[int, int, int, TopicConfig], dice: random.Random) -> list[bytes]:
    """A log as a killed process leaves it. Returns its batches."""
    count, value_bytes, producer_id, config = shape
    log, written = open_log(root, config, 0), []
    for number in range(BATCHES):
        batch = batch_of(
            count,
            value=dice.randbytes(value_bytes),
            time_ms=NOW_MS + number,
            producer_id=producer_id,
            sequence=number * count if producer_id >= 0 else -1,
        )
        put(log, batch)
        sync(log)
        written.append(bytes(batch))
    log.abandon()
    return written


def cut(source: Path, target: Path, size: int) -> None:
    """A copy of the log with only so many bytes in its segments, end to end; later segments were never begun."""
    shutil.copytree(source, target)
    for path in sorted(target.glob("*.log")):
        kept = min(size, path.stat().st_size)
        size -= kept
        if kept == 0:
            for beside in target.glob(f"{path.stem}.*"):
                beside.unlink()
        else:
            with path.open("r+b") as segment:
                segment.truncate(kept)


def check_cut(root: Path, written: list[bytes], size: int, shape: tuple[int, int, int, TopicConfig]) -> None:
    count, _, producer_id, config = shape
    whole = [batch for number, batch in enumerate(written) if sum(map(len, written[: number + 1])) <= size]
    log = open_log(root, config, (len(written) - 2) * count)
    assert log.end_offset == len(whole) * count, size
    assert contents(log) == b"".join(whole), size
    assert log.recovery.cut_bytes == size - len(b"".join(whole))
    more = batch_of(
        count, value=b"more", producer_id=producer_id, sequence=len(whole) * count if producer_id >= 0 else -1
    )
    assert put(log, more).base_offset == len(whole) * count
    log.abandon()


def test_a_log_cut_at_every_byte_of_its_last_two_batches_keeps_what_is_whole(quick_path: Path) -> None:
    dice, points = random.Random(5), 0
    for round_number in range(100):
        shape = SHAPES[round_number % len(SHAPES)]
        source = quick_path / f"source-{round_number}"
        written = make_log(source, shape, dice)
        total = sum(map(len, written))
        for size in range(total - len(written[-1]) - len(written[-2]), total + 1):
            root = quick_path / "cut"
            cut(source / DIRECTORY, root / DIRECTORY, size)
            check_cut(root, written, size, shape)
            shutil.rmtree(root)
            points += 1
        if points >= POINTS:
            return
    pytest.fail(f"only {points} points")


def test_a_node_with_a_torn_log_serves_what_is_whole_and_goes_on(tmp_path: Path) -> None:
    template = tmp_path / "template"
    with node(data_dir=str(template)) as running:
        admin = AdminClient({"bootstrap.servers": running.bootstrap})
        admin.create_topics([NewTopic("torn", 1, 1), NewTopic("other", 1, 1)])["torn"].result(TIMEOUT_S)
        send(running.bootstrap, "torn", *(b"torn-%02d" % number for number in range(20)))
        send(running.bootstrap, "other", b"untouched")
        running.kill()
        shutil.copytree(template, tmp_path / "killed")
    log_bytes = (tmp_path / "killed/torn-0/00000000000000000000.log").read_bytes()
    batch_bytes = log_bytes.rindex(b"torn-19") - log_bytes.rindex(b"torn-18")
    for missing in (1, 7, batch_bytes - 1, batch_bytes, batch_bytes + 1, 2 * batch_bytes - 1):
        root = tmp_path / f"missing-{missing}"
        shutil.copytree(tmp_path / "killed", root)
        with (root / "torn-0/00000000000000000000.log").open("r+b") as segment:
            segment.truncate(len(log_bytes) - missing)
        # What a power cut takes was not synced, and not in the checkpoint.
        (root / "recovery-point-offset-checkpoint").unlink(missing_ok=True)
        kept = 20 - -(-missing // batch_bytes)
        with node(data_dir=str(root)) as running:
            found = consume_all(running.bootstrap, "torn", 1)
            assert found == {(0, number): b"torn-%02d" % number for number in range(kept)}
            assert send(running.bootstrap, "torn", b"more") == [kept]
            assert consume_all(running.bootstrap, "other", 1) == {(0, 0): b"untouched"}
            reported = "was recovered" in Path(running.log_path).read_text()
            assert reported == (missing % batch_bytes != 0)
