"""Committing, fetching, deleting and expiring offsets."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from chronik.core.errors import Code
from chronik.core.machines.groups import offset_desk
from chronik.core.machines.groups.answers import FetchedOffset, GroupDeleted, GroupsCleaned, OffsetsDeleted
from chronik.core.machines.groups.commands import DeleteGroup, DeleteOffsets, OffsetToCommit, TopicsDeleted
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.facts import OffsetSet, TimerSet
from chronik.core.machines.groups.offsets import NO_TOPIC_ID
from tests.unit.core.machines.groups.host import GROUP, NOW_MS, Host, commit, consumer_beat, fetch, join, leave
from tests.unit.core.machines.groups.test_classic_group import subscription

ORDERS_0 = OffsetToCommit("orders", 0, 42, 3, "a note")
DAY_MS = 24 * 3_600_000


def test_what_is_committed_is_fetched_unchanged_also_after_a_restart() -> None:
    host = Host()
    assert host.ask(commit(ORDERS_0)).codes == (Code.NONE,)
    for each in (host, host.restarted()):
        found = each.ask(fetch(("orders", 0), ("orders", 1))).offsets
        assert found == (FetchedOffset("orders", 0, 42, 3, "a note"), FetchedOffset("orders", 1))


def test_fetching_without_naming_partitions_gives_all() -> None:
    host = Host()
    host.ask(commit(ORDERS_0, OffsetToCommit("bills", 1, 5)))
    assert [(one.topic, one.offset) for one in host.ask(fetch()).offsets] == [("orders", 42), ("bills", 5)]


def test_a_group_nobody_knows_has_no_offsets() -> None:
    assert Host().ask(fetch(("orders", 0))).offsets == (FetchedOffset("orders", 0),)
    assert Host().ask(fetch()).offsets == ()


def test_a_note_that_is_too_long_is_refused_and_the_others_are_kept() -> None:
    host = Host(GroupConfig(offset_metadata_max_bytes=4))
    answer = host.ask(commit(OffsetToCommit("t", 0, 1, metadata="äöü"), OffsetToCommit("t", 1, 2, metadata="abcd")))
    assert answer.codes == (Code.OFFSET_METADATA_TOO_LARGE, Code.NONE)
    assert [one.offset for one in host.ask(fetch(("t", 0), ("t", 1))).offsets] == [-1, 2]


def test_a_member_commits_and_a_stranger_does_not() -> None:
    host = Host()
    generation = host.stable_group("a")
    assert host.ask(commit(ORDERS_0, member_id="a", generation=generation)).codes == (Code.NONE,)
    assert host.ask(commit(ORDERS_0, member_id="a", generation=generation - 1)) is Code.ILLEGAL_GENERATION
    assert host.ask(commit(ORDERS_0)) is Code.UNKNOWN_MEMBER_ID


def test_a_generation_in_a_group_that_is_not_there_is_illegal() -> None:
    assert Host().ask(commit(ORDERS_0, generation=3, knows_epochs=False)) is Code.ILLEGAL_GENERATION
    assert Host().ask(commit(ORDERS_0, generation=3)) is Code.GROUP_ID_NOT_FOUND


def test_a_consumer_group_member_commits_and_fetches_at_its_epoch_only() -> None:
    host = Host()
    epoch = host.ask(consumer_beat("m", 0)).member_epoch
    assert host.ask(commit(ORDERS_0, member_id="m", generation=epoch)).codes == (Code.NONE,)
    assert host.ask(commit(ORDERS_0, member_id="m", generation=epoch + 1)) is Code.STALE_MEMBER_EPOCH
    assert host.ask(commit(ORDERS_0, member_id="x", generation=epoch)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(commit(ORDERS_0)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(fetch(member_id="m", member_epoch=epoch)).offsets[0].offset == 42
    assert host.ask(fetch(member_id="m", member_epoch=epoch - 1)) is Code.STALE_MEMBER_EPOCH
    assert host.ask(fetch(member_id="x", member_epoch=epoch)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(fetch()).offsets[0].offset == 42


def test_a_client_too_old_for_a_consumer_group_is_told_so_only_if_it_is_a_member() -> None:
    host = Host()
    epoch = host.ask(consumer_beat("m", 0)).member_epoch
    for generation in (epoch, epoch + 1, -1):
        by_member = commit(ORDERS_0, member_id="m", generation=generation, knows_epochs=False)
        assert host.ask(by_member) is Code.UNSUPPORTED_VERSION
    assert host.ask(commit(ORDERS_0, knows_epochs=False)) is Code.UNKNOWN_MEMBER_ID
    assert host.ask(commit(ORDERS_0, member_id="x", generation=1, knows_epochs=False)) is Code.UNKNOWN_MEMBER_ID


def test_an_empty_consumer_group_takes_commits_from_outside() -> None:
    host = Host()
    host.ask(consumer_beat("m", 0))
    host.ask(consumer_beat("m", -1))
    assert host.ask(commit(ORDERS_0)).codes == (Code.NONE,)


def test_offsets_of_topics_still_subscribed_cannot_be_deleted() -> None:
    host = Host()
    generation = host.stable_group("a", protocols=(("range", subscription("orders")),))
    host.ask(commit(ORDERS_0, OffsetToCommit("bills", 0, 9), member_id="a", generation=generation))
    answer = host.ask(DeleteOffsets(GROUP, (("orders", 0), ("bills", 0), ("bills", 7))))
    assert answer == OffsetsDeleted((Code.GROUP_SUBSCRIBED_TO_TOPIC, Code.NONE, Code.NONE))
    assert [one.topic for one in host.restarted().ask(fetch()).offsets] == ["orders"]


def test_offsets_of_a_group_of_another_kind_cannot_be_deleted_while_it_has_members() -> None:
    host = Host()
    assert host.ask(DeleteOffsets(GROUP, ())) is Code.GROUP_ID_NOT_FOUND
    host.joins("a", protocol_type="connect")
    assert host.ask(DeleteOffsets(GROUP, (("orders", 0),))) is Code.NON_EMPTY_GROUP


@pytest.mark.parametrize("kind", ["classic", "consumer"])
def test_only_an_empty_group_can_be_deleted_and_nothing_of_it_stays(kind: str) -> None:
    host = Host()
    assert host.ask(DeleteGroup(GROUP)) is Code.GROUP_ID_NOT_FOUND
    if kind == "classic":
        host.stable_group("m")
    else:
        host.ask(consumer_beat("m", 0))
    assert host.ask(DeleteGroup(GROUP)) is Code.NON_EMPTY_GROUP
    host.ask(leave(("m", None)) if kind == "classic" else consumer_beat("m", -1))
    host.ask(commit(ORDERS_0))
    assert host.ask(DeleteGroup(GROUP)) == GroupDeleted()
    for each in (host, host.restarted()):
        assert each.machine.groups == {}
        assert each.ask(fetch()).offsets == ()


def test_offsets_of_deleted_topics_are_forgotten_in_all_groups() -> None:
    host = Host()
    host.ask(commit(ORDERS_0, OffsetToCommit("bills", 0, 1)))
    host.ask(commit(ORDERS_0, group_id="other"))
    assert host.ask(TopicsDeleted(frozenset({("orders", NO_TOPIC_ID)}))) == GroupsCleaned(2)
    host = host.restarted()
    assert [one.topic for one in host.ask(fetch()).offsets] == ["bills"]
    assert host.ask(fetch(group_id="other")).offsets == ()


def test_offsets_of_an_empty_group_expire_a_retention_after_it_became_empty() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS))
    generation = host.stable_group("a", session_timeout_ms=1_800_000, rebalance_timeout_ms=60_000)
    host.ask(commit(ORDERS_0, member_id="a", generation=generation))
    host.wait(1_700_000)
    host.ask(leave(("a", None)))
    host.wait(DAY_MS - 1_000_000)
    assert host.ask(fetch()).offsets != ()
    host.wait(1_700_000)
    assert host.ask(fetch()).offsets == ()
    assert host.machine.groups == {}
    assert host.restarted().machine.groups == {}


def test_offsets_committed_without_a_group_expire_a_retention_after_the_commit() -> None:
    host = Host(GroupConfig(offsets_retention_ms=DAY_MS))
    host.ask(commit(ORDERS_0))
    host.wait(DAY_MS // 2)
    host.ask(commit(OffsetToCommit("bills", 0, 1)))
    host.wait(DAY_MS // 2 + 1_000_000)
    assert [one.topic for one in host.ask(fetch()).offsets] == ["bills"]


def test_offsets_a_stable_group_still_uses_never_expire() -> None:
    host = Host(GroupConfig(initial_rebalance_delay_ms=0, offsets_retention_ms=DAY_MS))
    protocols = (("range", subscription("orders")),)
    generation = host.stable_group("a", protocols=protocols)
    host.ask(commit(ORDERS_0, OffsetToCommit("bills", 0, 1), member_id="a", generation=generation))
    for _ in range(DAY_MS // 9_000 + 200):
        host.wait(9_000)
        host.ask(commit(member_id="a", generation=generation))
    assert [one.topic for one in host.ask(fetch()).offsets] == ["orders"]


def test_a_retention_a_client_asked_for_is_kept_over_a_restart() -> None:
    host = Host()
    host.ask(commit(ORDERS_0, retention_ms=1_000_000))
    host = host.restarted()
    host.wait(500_000)
    assert host.ask(fetch()).offsets != ()
    host.wait(2_000_000)
    assert host.ask(fetch()).offsets == ()


def test_a_retention_a_client_asked_for_does_not_take_what_its_group_still_reads() -> None:
    host = Host()
    generation = host.stable_group("a", session_timeout_ms=1_800_000, protocols=(("range", subscription("orders")),))
    host.ask(commit(ORDERS_0, member_id="a", generation=generation, retention_ms=1_000))
    host.wait(1_500_000)
    assert host.ask(fetch()).offsets != ()


def test_a_group_that_is_deleted_leaves_no_timers_behind() -> None:
    host = Host()
    host.ask(join("", new_member_id="given-an-id"))
    host.ask(DeleteGroup(GROUP))
    assert [key for key in host.machine.timers.deadlines() if key.group_id == GROUP] == []


def test_offsets_pass_to_a_group_of_the_other_kind() -> None:
    host = Host()
    host.ask(commit(ORDERS_0))
    host.ask(consumer_beat("m", 0))
    host.ask(consumer_beat("m", -1))
    host.ask(join("", new_member_id="a"))
    for each in (host, host.restarted()):
        assert each.ask(fetch()).offsets[0].offset == 42
        assert each.machine.groups[GROUP].is_empty


# --- clocks that are set: timers go by the steady time, what is kept on disk by the wall clock as well


@pytest.mark.parametrize(("now_ms", "wall_ms"), [(NOW_MS, NOW_MS + 10 * DAY_MS), (NOW_MS + 10 * DAY_MS, NOW_MS)])
def test_a_commit_bears_the_later_of_both_times(now_ms: int, wall_ms: int) -> None:
    host = Host()
    generation = host.stable_group("a", session_timeout_ms=10_000)
    command = commit(ORDERS_0, member_id="a", generation=generation, retention_ms=DAY_MS)
    kept, session = offset_desk.commit(1, command, host.machine.groups, host.config, now_ms, wall_ms).facts
    assert isinstance(kept, OffsetSet)
    assert kept.committed is not None
    assert (kept.committed.commit_ms, kept.committed.expire_ms) == (NOW_MS + 10 * DAY_MS, NOW_MS + 11 * DAY_MS)
    assert isinstance(session, TimerSet)
    assert session.deadline_ms == now_ms + 10_000


@pytest.mark.parametrize("retention_ms", [-1, 7 * DAY_MS])
@pytest.mark.parametrize("kind", ["committed alone", "empty group"])
def test_nothing_expires_before_both_clocks_say_so(kind: str, retention_ms: int) -> None:
    host = Host()
    if kind == "empty group":
        host.stable_group("m")
        host.ask(leave(("m", None)))
    host.ask(commit(ORDERS_0, retention_ms=retention_ms))

    def expired(now_ms: int, wall_ms: int) -> Sequence[object]:
        machine = host.machine
        return offset_desk.expire_offsets(
            machine.groups, machine.offsets, machine.pending, host.config, now_ms, wall_ms
        )

    later_ms = NOW_MS + 10 * DAY_MS
    assert expired(NOW_MS + 1, later_ms) == []  # the wall clock was set forward, or the machine was asleep
    assert expired(later_ms, NOW_MS + 1) == []  # it was fast when this process started, and has been set right
    assert OffsetSet(GROUP, "orders", 0, None) in expired(later_ms, later_ms)


@pytest.mark.parametrize("kind", ["committed alone", "empty group", "session over"])
def test_what_a_node_kept_that_started_before_its_clock_was_set_is_not_old(kind: str) -> None:
    """What a node kept that started before its clock was set is not old for the next."""
    host = Host()
    host.wall_ahead_ms = 10 * DAY_MS
    if kind == "committed alone":
        host.ask(commit(ORDERS_0))
    else:
        generation = host.stable_group("m")
        host.ask(commit(ORDERS_0, member_id="m", generation=generation))
        if kind == "empty group":
            host.ask(leave(("m", None)))
        else:
            host.wait(100_000)
        assert host.classic().is_empty
    successor = host.restarted()
    successor.wait(6 * DAY_MS)
    assert successor.ask(fetch()).offsets != ()
    successor.wait(2 * DAY_MS)
    assert successor.ask(fetch()).offsets == ()


def test_a_clock_that_is_set_forward_takes_neither_offsets_nor_members() -> None:
    host = Host()
    host.stable_group("m", session_timeout_ms=1_800_000)
    host.ask(commit(ORDERS_0, group_id="other"))
    host.wall_ahead_ms = 10 * DAY_MS
    host.wait(2 * host.config.offsets_retention_check_interval_ms)
    assert list(host.classic().members) == ["m"]
    assert host.ask(fetch(group_id="other")).offsets != ()


def test_a_clock_that_was_fast_when_its_node_started_takes_no_offsets() -> None:
    """A clock that was fast when its node started takes no offsets once it is set right."""
    host = Host()
    host.ask(commit(ORDERS_0))
    successor = Host(host.config, host.log, NOW_MS + 10 * DAY_MS)
    successor.wall_ahead_ms = -10 * DAY_MS
    successor.wait(2 * host.config.offsets_retention_check_interval_ms)
    assert successor.ask(fetch()).offsets != ()
