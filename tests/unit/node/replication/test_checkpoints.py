"""What a node remembers of its logs over a restart."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Corrupt
from chronik.core.replica.replica import Replica
from chronik.core.types import Buffer, TopicPartition
from chronik.node.replication.checkpoints import CLEAN, CLEANED, STARTS, SYNCED, WATERMARKS, Checkpoints, decode, encode
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NOW_MS, memory_replica

names = st.text("abcXYZ019._-", min_size=1, max_size=20)
offsets = st.dictionaries(
    st.builds(TopicPartition, names, st.integers(0, 2**31 - 1)), st.integers(0, 2**63 - 1), max_size=20
)


def written_to(files: MemoryFiles) -> Checkpoints:
    return Checkpoints(cast(Any, files))


def replica_of(topic: str, records: int, safe_to: int) -> Replica:
    replica = memory_replica(topic=topic)
    for _ in range(records):
        replica.append(batch_of(), 1, NOW_MS)
    replica.log.mark_synced(safe_to)
    replica.own_safe(safe_to)
    return replica


@given(content=offsets)
def test_what_is_written_is_read(content: dict[TopicPartition, int]) -> None:
    assert decode("file", encode(content)) == content


def test_the_format_is_kafkas() -> None:
    content = encode({TopicPartition("b", 1): 7, TopicPartition("a", 0): 5})

    assert content == b"0\n2\na 0 5\nb 1 7\n"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"0\n",
        b"1\n0\n",
        b"0\n2\na 0 5\n",
        b"0\n1\na 0\n",
        b"0\n1\na 0 x\n",
        b"0\n1\na 0 -5\n",
        b"\xff\xfe",
        b"0\n0\na 0 5\n",
    ],
)
def test_what_is_no_checkpoint_is_corrupt(content: bytes) -> None:
    with pytest.raises(Corrupt):
        decode("file", content)


def test_a_first_start_knows_nothing_and_was_not_clean() -> None:
    checkpoints = written_to(MemoryFiles())

    assert (checkpoints.synced, checkpoints.watermarks, checkpoints.starts) == ({}, {}, {})
    assert not checkpoints.was_clean
    assert checkpoints.damaged == []


def test_the_next_process_knows_how_far_each_log_was_safe() -> None:
    files = MemoryFiles()
    replica, moved = replica_of("one", 5, 3), replica_of("two", 4, 4)
    moved.delete_records(2)

    written_to(files).write([replica, moved])
    again = written_to(files)

    one, two = TopicPartition("one", 0), TopicPartition("two", 0)
    assert again.synced == {one: 3, two: 4}
    assert again.watermarks == {one: 3, two: 4}
    assert again.starts == {two: 2}


@pytest.mark.parametrize("name", [SYNCED, WATERMARKS, STARTS])
def test_a_digit_that_turned_into_another_is_damage(name: str) -> None:
    files = MemoryFiles()
    moved = replica_of("two", 4, 4)
    moved.delete_records(2)
    before = written_to(files)
    before.write([moved])
    before.stopped()
    assert written_to(files).was_clean
    files.flip(name, (len(files.read_all(name)) - 2) * 8)

    after = written_to(files)

    assert (after.damaged, after.was_clean) == ([name], False)


def compacted_to(topic: str, clean_offset: int) -> Replica:
    replica = replica_of(topic, 5, 5)
    replica.log.clean_offset = clean_offset
    return replica


def test_how_far_logs_were_compacted_is_known_to_the_next_process() -> None:
    files = MemoryFiles()
    written_to(files).write([compacted_to("one", 3), replica_of("two", 4, 4)])

    assert files.read_all(CLEANED) == b"0\n1\none 0 3\n"  # as Kafka's
    assert written_to(files).cleaned == {TopicPartition("one", 0): 3}


def test_where_nothing_was_ever_compacted_there_is_no_such_checkpoint() -> None:
    files = MemoryFiles()
    written_to(files).write([replica_of("one", 5, 3)])

    assert not files.exists(CLEANED)


def test_a_topic_that_is_made_anew_was_never_compacted() -> None:
    files = MemoryFiles()
    written_to(files).write([compacted_to("one", 3)])
    later = written_to(files)

    later.forget([TopicPartition("one", 0)])
    later.write([])

    assert written_to(files).cleaned == {}


def test_a_log_that_was_cut_to_its_start_is_dirty_again() -> None:
    files = MemoryFiles()
    checkpoints = written_to(files)
    checkpoints.write([compacted_to("one", 3)])

    checkpoints.write([compacted_to("one", 0)])

    assert written_to(files).cleaned == {}


def test_damage_to_it_costs_a_compaction_and_no_look_at_every_log() -> None:
    files = MemoryFiles()
    before = written_to(files)
    before.write([compacted_to("one", 3)])
    before.stopped()
    files.flip(CLEANED, (len(files.read_all(CLEANED)) - 2) * 8)

    after = written_to(files)

    assert (after.cleaned, after.damaged, after.was_clean) == ({}, [], True)


def test_damage_to_the_checksums_themselves_condemns_no_checkpoint() -> None:
    files = MemoryFiles()
    before = written_to(files)
    before.write([replica_of("one", 5, 3)])
    before.stopped()
    files.flip(CLEAN, (len(SYNCED) + 1) * 8)

    after = written_to(files)

    assert after.damaged == []
    assert after.synced == {TopicPartition("one", 0): 3}


def test_an_empty_log_is_not_written_down() -> None:
    files = MemoryFiles()

    written_to(files).write([memory_replica()])

    assert written_to(files).synced == {}


def test_what_is_known_of_a_log_that_is_not_open_stays() -> None:
    """Else the next start would take damage in it for a torn tail, and cut what was acknowledged."""
    files = MemoryFiles()
    written_to(files).write([replica_of("broken", 5, 5), replica_of("fine", 2, 2)])

    next_start = written_to(files)
    next_start.write([replica_of("fine", 3, 3)])

    assert written_to(files).synced == {TopicPartition("broken", 0): 5, TopicPartition("fine", 0): 3}


def test_what_is_forgotten_is_gone_after_the_next_write() -> None:
    files = MemoryFiles()
    written_to(files).write([replica_of("gone", 5, 5), replica_of("fine", 2, 2)])
    checkpoints = written_to(files)

    checkpoints.forget([TopicPartition("gone", 0), TopicPartition("never", 1)])
    checkpoints.write([])

    assert list(written_to(files).synced) == [TopicPartition("fine", 0)]
    assert list(written_to(files).watermarks) == [TopicPartition("fine", 0)]


def test_an_orderly_stop_is_known_until_the_next_start() -> None:
    files = MemoryFiles()
    first = written_to(files)
    first.write([])
    first.stopped()

    second = written_to(files)
    assert second.was_clean
    second.started()

    assert not files.exists(CLEAN)
    assert not written_to(files).was_clean


@pytest.mark.parametrize("name", [SYNCED, WATERMARKS, STARTS])
def test_with_a_damaged_checkpoint_every_log_is_looked_at(name: str) -> None:
    files = MemoryFiles()
    first = written_to(files)
    moved = replica_of("one", 5, 5)
    moved.delete_records(1)
    first.write([moved])
    first.stopped()
    files.contents[name].written[:1] = b"9"

    again = written_to(files)

    assert again.damaged == [name]
    assert not again.was_clean


def test_nothing_is_written_when_nothing_changed() -> None:
    files = MemoryFiles()
    checkpoints = written_to(files)
    checkpoints.write([replica_of("one", 5, 3)])
    before = dict(files.contents)

    checkpoints.write([replica_of("one", 5, 3)])

    assert all(files.contents[path] is content for path, content in before.items())


def test_what_is_written_off_the_loop_is_the_same() -> None:
    files, others = MemoryFiles(), MemoryFiles()
    replicas = [replica_of("one", 5, 3)]
    written_to(files).write(replicas)

    asyncio.run(written_to(others).write_later(lambda: replicas))

    assert {path: bytes(c.written) for path, c in files.contents.items()} == {
        path: bytes(c.written) for path, c in others.contents.items()
    }


class SlowFiles(MemoryFiles):
    """A disk that takes its time over what is done off the loop."""

    async def _replace(self, path: str, content: Buffer, is_wanted: Callable[[], bool] | None) -> None:
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        await super()._replace(path, content, is_wanted)


def test_whoever_is_cancelled_while_a_checkpoint_is_written_waits_for_it() -> None:
    """Else the file under way could take the place of the one that is written at the end."""

    async def write() -> None:
        files = SlowFiles()
        checkpoints = written_to(files)
        writing = asyncio.ensure_future(checkpoints.write_later(lambda: [replica_of("one", 5, 3)]))
        await asyncio.sleep(0)
        writing.cancel()
        with pytest.raises(asyncio.CancelledError):
            await writing
        assert files.exists(SYNCED)

    asyncio.run(write())


def test_a_deletion_while_checkpoints_are_written_is_not_undone_by_them() -> None:
    """Else a new topic of that name would seem to have lost what the old one had."""

    async def write() -> None:
        files = SlowFiles()
        checkpoints = written_to(files)
        replicas = [replica_of("kept", 5, 3), replica_of("deleted", 5, 3)]
        writing = asyncio.ensure_future(checkpoints.write_later(lambda: replicas))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        replicas = replicas[:1]
        checkpoints.write(replicas)
        await writing

        assert written_to(files).synced == written_to(files).watermarks == {TopicPartition("kept", 0): 3}

    asyncio.run(write())


def test_a_cut_that_is_announced_while_checkpoints_are_written_is_never_taken_back() -> None:
    """Else who is killed then finds a log that ends before what was synced, and takes it for damaged."""

    async def write() -> None:
        files = SlowFiles()
        checkpoints = written_to(files)
        replica = replica_of("one", 5, 5)
        writing = asyncio.ensure_future(checkpoints.write_later(lambda: [replica]))
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        replica.log.expect_cut(3)
        checkpoints.write([replica])

        while not writing.done():
            assert written_to(files).synced == {TopicPartition("one", 0): 3}
            await asyncio.sleep(0)

        assert written_to(files).synced == {TopicPartition("one", 0): 3}

    asyncio.run(write())


def test_checkpoints_survive_a_power_cut() -> None:
    files = MemoryFiles()
    written_to(files).write([replica_of("one", 5, 3)])

    files.crash()

    assert written_to(files).synced == {TopicPartition("one", 0): 3}


def test_a_log_start_is_on_disk_after_what_is_synced_and_before_the_watermark() -> None:
    """Below it a follower may have another history than its leader: no watermark may make that readable."""
    files, order = MemoryFiles(), list[str]()
    checkpoints, replica = written_to(files), replica_of("t", 3, safe_to=3)
    replica.delete_records(2)
    replace = files.replace

    def watched(path: str, content: Buffer, sync: bool = True) -> None:
        order.append(path)
        replace(path, content, sync)

    files.replace = watched  # type: ignore[method-assign]
    checkpoints.write([replica])

    assert order == [SYNCED, STARTS, WATERMARKS]
