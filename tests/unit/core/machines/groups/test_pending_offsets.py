"""Offsets in transactions: pending until the marker, whatever becomes of the group and its coordinator meanwhile."""

from __future__ import annotations

from dataclasses import replace

import pytest

from chronik.core.errors import Code
from chronik.core.machines.groups.answers import FetchedOffset, OffsetsDeleted
from chronik.core.machines.groups.commands import DeleteGroup, DeleteOffsets, OffsetToCommit, TopicsDeleted
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.groups.offsets import NO_TOPIC_ID
from tests.unit.core.machines.groups.host import (
    GROUP,
    Host,
    commit,
    commit_in_transaction,
    consumer_beat,
    fetch,
    join,
    sync,
)

ONE, OTHER = 7, 8  # producers
DAY_MS = 24 * 3_600_000
UNSTABLE = FetchedOffset("orders", 0, code=Code.UNSTABLE_OFFSET_COMMIT)


def at(offset: int, topic: str = "orders", partition: int = 0, topic_id: bytes = NO_TOPIC_ID) -> OffsetToCommit:
    return OffsetToCommit(topic, partition, offset, topic_id=topic_id)


def offset_of(host: Host, topic: str = "orders") -> int:
    return int(host.ask(fetch((topic, 0))).offsets[0].offset)


def is_stable(host: Host) -> bool:
    return host.ask(fetch(("orders", 0), requires_stable=True)).offsets[0].code is Code.NONE


# --- until the marker


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 9), (False, 5)])
def test_an_offset_counts_when_its_transaction_commits_and_is_gone_when_it_aborts(
    is_commit: bool, expected: int
) -> None:
    host = Host()
    host.ask(commit(at(5)))
    assert host.ask(commit_in_transaction(at(9))).codes == (Code.NONE,)
    assert (offset_of(host), is_stable(host)) == (5, False)

    host.mark(ONE, is_commit)

    assert (offset_of(host), is_stable(host)) == (expected, True)


def test_only_a_reader_that_wants_stable_offsets_is_told_of_a_pending_one() -> None:
    host = Host()
    host.ask(commit(at(5), at(6, "bills")))
    host.ask(commit_in_transaction(at(9)))

    stable = host.ask(fetch(("orders", 0), ("bills", 0), requires_stable=True)).offsets
    assert stable == (UNSTABLE, FetchedOffset("bills", 0, 6))
    assert host.ask(fetch(requires_stable=True)).offsets == (UNSTABLE, FetchedOffset("bills", 0, 6))
    assert host.ask(fetch(("orders", 0))).offsets == (FetchedOffset("orders", 0, 5),)


def test_a_marker_decides_its_own_producers_offsets_only() -> None:
    host = Host()
    host.ask(commit_in_transaction(at(9)))
    host.ask(commit_in_transaction(at(4, "bills"), producer_id=OTHER))

    host.mark(OTHER)

    assert (offset_of(host, "bills"), offset_of(host), is_stable(host)) == (4, -1, False)


def test_the_last_offset_of_a_transaction_counts() -> None:
    host = Host()
    host.ask(commit_in_transaction(at(9)))
    host.ask(commit_in_transaction(at(12)))
    host.mark(ONE)
    assert offset_of(host) == 12


def test_a_marker_of_a_producer_that_brought_nothing_changes_nothing() -> None:
    host = Host()
    host.ask(commit(at(5)))
    host.mark(ONE)
    host.mark(ONE, is_commit=False)
    assert (offset_of(host), is_stable(host)) == (5, True)


def test_a_note_that_is_too_long_is_refused_and_the_others_are_pending() -> None:
    host = Host(GroupConfig(offset_metadata_max_bytes=4))
    long, short = OffsetToCommit("orders", 0, 1, metadata="äöü"), OffsetToCommit("orders", 1, 2, metadata="abcd")
    answer = host.ask(commit_in_transaction(long, short))
    host.mark(ONE)
    assert answer.codes == (Code.OFFSET_METADATA_TOO_LARGE, Code.NONE)
    assert [one.offset for one in host.ask(fetch(("orders", 0), ("orders", 1))).offsets] == [-1, 2]


# --- which of several counts


def test_a_later_commit_outside_of_the_transaction_outlives_its_marker() -> None:
    """Else a replay of the compacted log, which has only the later one, would come to another offset."""
    host = Host()
    host.ask(commit_in_transaction(at(9)))
    host.ask(commit(at(20)))
    assert not is_stable(host)  # still: as in Kafka
    host.mark(ONE)
    assert (offset_of(host), is_stable(host)) == (20, True)


@pytest.mark.parametrize("markers", [(ONE, OTHER), (OTHER, ONE)])
def test_of_two_transactions_the_one_that_wrote_last_counts_whichever_ends_last(markers: tuple[int, int]) -> None:
    host = Host()
    host.ask(commit_in_transaction(at(9)))
    host.ask(commit_in_transaction(at(12), producer_id=OTHER))
    for producer in markers:
        host.mark(producer)
    assert offset_of(host) == 12


def test_a_later_transaction_that_aborts_leaves_the_earlier_one_alone() -> None:
    host = Host()
    host.ask(commit_in_transaction(at(9)))
    host.ask(commit_in_transaction(at(12), producer_id=OTHER))
    host.mark(OTHER, is_commit=False)
    host.mark(ONE)
    assert offset_of(host) == 9


# --- another coordinator


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 9), (False, 5)])
def test_the_next_coordinator_knows_what_is_pending_and_takes_the_marker(is_commit: bool, expected: int) -> None:
    host = Host()
    host.ask(commit(at(5)))
    host.ask(commit_in_transaction(at(9)))

    following = host.restarted()

    assert (offset_of(following), is_stable(following)) == (5, False)
    following.mark(ONE, is_commit)
    assert (offset_of(following), is_stable(following)) == (expected, True)


@pytest.mark.parametrize(("is_commit", "expected"), [(True, 9), (False, 5)])
def test_the_next_coordinator_knows_how_a_transaction_ended(is_commit: bool, expected: int) -> None:
    host = Host()
    host.ask(commit(at(5)))
    host.ask(commit_in_transaction(at(9)))
    host.mark(ONE, is_commit)
    following = host.restarted()
    assert (offset_of(following), is_stable(following)) == (expected, True)


def test_the_next_coordinator_comes_to_the_same_of_many_that_overtake_each_other() -> None:
    host = Host()
    for step in range(40):
        producer = ONE + step % 3
        host.ask(commit_in_transaction(at(step), producer_id=producer))
        if step % 5 == 4:
            host.ask(commit(at(100 + step)))
        if step % 4 == 3:
            host.mark(producer, is_commit=step % 8 == 3)
        following = host.restarted()
        assert (offset_of(following), is_stable(following)) == (offset_of(host), is_stable(host)), step


def test_records_of_a_transaction_are_in_kafkas_format_and_in_its_producers_name() -> None:
    host = Host()
    host.ask(commit(at(9)))
    host.ask(commit_in_transaction(at(9)))
    plain, transactional = host.log[-2:]
    assert transactional == plain._replace(producer_id=ONE)


# --- fencing (KIP-447)


def test_a_consumer_that_is_no_member_any_more_commits_nothing() -> None:
    host = Host()
    generation = host.stable_group("a")
    good = commit_in_transaction(at(9), member_id="a", generation=generation)
    assert host.ask(good).codes == (Code.NONE,)
    assert host.ask(commit_in_transaction(at(9), member_id="a", generation=generation - 1)) is Code.ILLEGAL_GENERATION
    assert host.ask(commit_in_transaction(at(9), member_id="x", generation=generation)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(commit_in_transaction(at(9), member_id="x")) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(commit_in_transaction(at(9), instance_id="i", generation=generation)) is Code.UNKNOWN_MEMBER_ID


def test_another_instance_of_a_static_member_is_fenced() -> None:
    host = Host()
    host.joins("a", instance_id="i")
    generation = host.classic().generation
    host.send(sync("a", generation, (("a", b"a"),), "i"))
    wrong = commit_in_transaction(at(9), member_id="b", generation=generation, instance_id="i")
    assert host.ask(wrong) is Code.FENCED_INSTANCE_ID


def test_a_client_that_does_not_say_for_whom_commits_though_the_group_has_members() -> None:
    """Of versions before 3: its transactional id is all that fences it."""
    host = Host()
    host.stable_group("a")
    assert host.ask(commit_in_transaction(at(9))).codes == (Code.NONE,)
    consumers = Host()
    consumers.ask(consumer_beat("m", 0))
    assert consumers.ask(commit_in_transaction(at(9))).codes == (Code.NONE,)


def test_a_member_commits_in_a_transaction_while_the_assignment_is_not_there_yet() -> None:
    host = Host()
    host.joins("a")
    generation = host.classic().generation
    assert host.ask(commit(at(9), member_id="a", generation=generation)) is Code.REBALANCE_IN_PROGRESS
    assert host.ask(commit_in_transaction(at(9), member_id="a", generation=generation)).codes == (Code.NONE,)


def test_a_kip_848_member_commits_at_its_epoch_only_in_words_that_producers_know() -> None:
    host = Host()
    epoch = host.ask(consumer_beat("m", 0)).member_epoch
    assert host.ask(commit_in_transaction(at(9), member_id="m", generation=epoch)).codes == (Code.NONE,)
    late = commit_in_transaction(at(9), member_id="m", generation=epoch - 1)
    assert host.ask(late) is Code.ILLEGAL_GENERATION
    assert host.ask(replace(late, knows_epochs=True)) is Code.STALE_MEMBER_EPOCH
    assert host.ask(commit_in_transaction(at(9), member_id="x", generation=epoch)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(commit_in_transaction(at(9), member_id="x")) is Code.UNKNOWN_MEMBER_ID


def test_a_generation_in_a_group_that_is_not_there_is_illegal() -> None:
    command = commit_in_transaction(at(9), generation=3)
    assert Host().ask(command) is Code.ILLEGAL_GENERATION
    assert Host().ask(replace(command, knows_epochs=True)) is Code.GROUP_ID_NOT_FOUND


def test_a_producer_does_not_keep_a_consumer_alive() -> None:
    host = Host()
    generation = host.stable_group("a")
    for _ in range(2):
        host.wait(6_000)
        host.ask(commit_in_transaction(at(9), member_id="a", generation=generation))
    assert host.classic().members == {}


def test_too_many_groups_and_names_that_are_too_long_are_refused() -> None:
    host = Host(GroupConfig(groups_max=1))
    host.ask(commit(at(1)))
    assert host.ask(commit_in_transaction(at(9), group_id="another")) is Code.GROUP_MAX_SIZE_REACHED
    assert host.ask(commit_in_transaction(at(9, "t" * 8_001))) is Code.INVALID_REQUEST


# --- deletion and expiry meanwhile


def test_what_is_deleted_is_not_brought_back_by_the_marker() -> None:
    host = Host()
    host.ask(commit(at(5)))
    host.ask(commit_in_transaction(at(9), at(3, "bills")))
    deleted = host.ask(DeleteOffsets(GROUP, (("orders", 0), ("bills", 0), ("bills", 1))))
    assert deleted == OffsetsDeleted((Code.NONE, Code.NONE, Code.NONE))
    for each in (host, host.restarted()):
        each.mark(ONE)
        assert (offset_of(each), offset_of(each, "bills"), is_stable(each)) == (-1, -1, True)


def test_a_group_that_is_deleted_takes_pending_offsets_with_it() -> None:
    host = Host()
    host.ask(commit(at(5)))
    host.ask(commit_in_transaction(at(9), at(3, "bills")))
    host.ask(DeleteGroup(GROUP))
    for each in (host, host.restarted()):
        each.mark(ONE)
        assert (GROUP in each.machine.groups, offset_of(each), offset_of(each, "bills")) == (False, -1, -1)


def test_what_a_transaction_brings_after_the_deletion_counts() -> None:
    host = Host()
    host.ask(commit_in_transaction(at(9)))
    host.ask(DeleteGroup(GROUP))
    host.ask(commit_in_transaction(at(11)))
    host.mark(ONE)
    assert offset_of(host) == 11


def test_offsets_of_a_deleted_topic_are_not_brought_back_by_the_marker() -> None:
    host = Host()
    old = bytes(15) + b"\x01"
    host.ask(commit_in_transaction(at(9, topic_id=old), at(3, "bills")))
    assert ("orders", old) in host.machine.pending.topics()
    assert host.ask(TopicsDeleted(frozenset({("orders", old)}))).offsets_deleted == 1
    host.mark(ONE)
    assert (offset_of(host), offset_of(host, "bills")) == (-1, 3)


def test_nothing_expires_that_a_transaction_is_about_to_commit_anew() -> None:
    host = Host()
    host.ask(commit(at(5), at(6, "bills")))
    host.ask(commit_in_transaction(at(9)))
    host.wait(8 * DAY_MS)
    assert (offset_of(host), offset_of(host, "bills")) == (5, -1)
    host.mark(ONE, is_commit=False)
    host.wait(DAY_MS)
    assert (offset_of(host), GROUP in host.machine.groups) == (-1, False)


def test_a_group_that_has_only_pending_offsets_stays() -> None:
    host = Host()
    host.ask(commit_in_transaction(at(9)))
    host.wait(8 * DAY_MS)
    assert GROUP in host.machine.groups
    host.mark(ONE)
    assert offset_of(host) == 9


def test_pending_offsets_outlive_a_group_that_turns_into_one_of_the_other_kind() -> None:
    host = Host()
    epoch = host.ask(consumer_beat("m", 0)).member_epoch
    host.ask(commit_in_transaction(at(9), member_id="m", generation=epoch))
    host.ask(consumer_beat("m", -1))
    assert isinstance(host.machine.groups[GROUP], ConsumerGroup)
    host.send(join())
    for each in (host, host.restarted()):
        each.mark(ONE)
        assert offset_of(each) == 9
        assert GROUP in each.machine.groups
