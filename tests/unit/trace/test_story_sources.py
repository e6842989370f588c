"""A record's story: whose word counts, and for which group a fetch was."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.trace.events import AnyEvent, Committed, GroupChanged, GroupLeft, GroupSeen, MemberSeen
from chronik.trace.inspections import RecordPlace
from tests.unit.trace.test_story import PARTITION, TOPIC, appended, batch, fetched, look, story


def group_seen(at_us: int, *members: MemberSeen, group: str = "billing", generation: int = 1) -> GroupSeen:
    return GroupSeen(at_us, 2, group, "classic", "Stable", generation, 0, members, ())


def member(name: str, *partitions: int, host: str = "10.0.0.2") -> MemberSeen:
    return MemberSeen(f"{name}-id", name, host, tuple((TOPIC, number) for number in partitions))


def groups_told(*events: AnyEvent) -> list[str | None]:
    told = story(events=sorted(events, key=lambda event: event.at_us)).delivered
    assert all(each.is_group_inferred == (each.group is not None) for each in told)
    return [each.group for each in told]


def test_the_group_of_a_fetch_is_the_one_whose_member_had_the_partition_then() -> None:
    fetches = [fetched(at_us, 40, 45, "app", None) for at_us in (5, 30, 60, 95)]
    changed = GroupChanged(10, 2, "billing", "CompletingRebalance", "Stable", 1, 1)
    seen = [group_seen(at_us, member("app", PARTITION)) for at_us in (50, 80)]
    left = GroupLeft(90, 2, "billing", "app-id", "app", "10.0.0.2", "left")

    assert groups_told(*fetches, changed, *seen, left) == [None, "billing", "billing", None]


def test_a_reader_without_a_group_is_not_the_groups_after_its_last_member_left() -> None:
    """Seen: the same default client id and host, four seconds after."""
    seen = [group_seen(10, member("rdkafka", PARTITION)), group_seen(60, generation=2)]
    left = GroupLeft(50, 2, "billing", "rdkafka-id", "rdkafka", "10.0.0.2", "left")
    commit = Committed(40, 2, TOPIC, PARTITION, "billing", "rdkafka", "10.0.0.2", 45)

    assert groups_told(*seen, left, commit, fetched(54, 40, 45, "rdkafka", "billing")) == [None]


def test_a_member_of_another_partition_or_host_is_not_meant() -> None:
    """A member of another partition or host or before it was dealt out anew is not meant."""
    fetch = fetched(30, 40, 45, "app", None)

    assert groups_told(group_seen(10, member("app", 0)), group_seen(50, member("app", 0)), fetch) == [None]
    elsewhere = member("app", PARTITION, host="10.0.0.9")
    assert groups_told(group_seen(10, elsewhere), group_seen(50, elsewhere), fetch) == [None]
    anew = [group_seen(10, member("app", PARTITION)), group_seen(50, member("app", PARTITION), generation=2)]
    assert groups_told(*anew, fetch) == [None]  # what it had in between is not known


def test_the_group_of_a_fetch_is_not_known_where_two_groups_had_a_member() -> None:
    """The group of a fetch is not known where two groups had a member of that name."""
    seen = [
        group_seen(at_us, member("app", PARTITION), group=group) for at_us in (10, 50) for group in ("billing", "audit")
    ]

    assert groups_told(*seen, fetched(30, 40, 45, "app", None)) == [None]


# --- who says so


def test_that_a_record_is_not_written_yet_is_said_by_its_leader_alone() -> None:
    """The leader may have more than a follower, and whatever was elected since more than a leader."""
    beyond: dict[str, Any] = {"place": RecordPlace.BEYOND_END, "batch": None, "next_offset": 30, "watermark": 30}
    follower = story([look(2, **beyond)], silent={1: "no answer"})
    cut_off = story([look(1, **beyond)], silent={3: "no answer"})
    deposed = story([look(1, **beyond), look(2, leader=3, leader_epoch=4, **beyond)], silent={3: "no answer"})
    sure = story([look(1, in_sync=(1, 2), **beyond), look(2, **beyond)], silent={3: "no answer"})

    assert [told.place for told in (follower, cut_off, deposed)] == [RecordPlace.NOT_KNOWN] * 3
    assert follower.summary == (
        "Not known: no leader answers. As far as is known, node 2 does not have it yet: its log ends at 30."
    )
    assert "node 3 may lead since, and does not answer" in cut_off.summary
    assert (follower.is_below_watermark, follower.watermark, follower.next_offset) == (None, -1, -1)
    assert (sure.place, sure.is_below_watermark) == (RecordPlace.BEYOND_END, False)


@pytest.mark.parametrize("place", [RecordPlace.DELETED, RecordPlace.COMPACTED])
def test_that_a_record_is_gone_is_not_known_from_a_follower(place: RecordPlace) -> None:
    told = story([look(2, place=place, log_start=43, batch=None)], silent={1: "no answer"})

    assert (told.place, told.summary[:9]) == (RecordPlace.NOT_KNOWN, "Not known")


def test_the_word_of_a_leader_counts_only_where_nobody_knows_of_a_later_election() -> None:
    old = look(1, place=RecordPlace.BEYOND_END, batch=None, next_offset=30, watermark=30)
    told = story([old, look(2, leader=2, leader_epoch=4, is_leader=True)])

    assert (told.place, told.watermark) == (RecordPlace.HERE, 50)


def test_a_partition_that_one_node_has_not_heard_of_may_be_there() -> None:
    nowhere = look(1, place=RecordPlace.NO_SUCH_PARTITION, replicas=(), next_offset=-1, leader_epoch=-1, batch=None)
    no_copy = look(2, place=RecordPlace.NO_COPY, next_offset=-1, batch=None)

    assert story([nowhere], silent={2: "no answer"}).place is RecordPlace.NO_COPY
    assert story([nowhere, no_copy]).place is RecordPlace.NO_COPY
    assert story([nowhere]).place is RecordPlace.NO_SUCH_PARTITION


def test_a_batch_of_a_later_leader_was_not_cut_off_for_the_one_that_a_follower_has() -> None:
    events: list[AnyEvent] = [appended(10), appended(30, node=2, leader_epoch=4)]

    assert story([look(3, batch=batch(leader_epoch=3))], events, silent={2: "no answer"}).replaced == ()


def test_where_no_node_says_whether_a_topic_is_traced_that_is_not_known() -> None:
    told = story(is_traced=None, traced_from_us=None)

    assert told.unknown[0].endswith("no node says whether the topic is traced")


def test_groups_that_may_be_missing_are_said_to_be() -> None:
    told = story(untold_groups=["node 3 may coordinate groups, and does not answer"])

    assert told.unknown[0] == "what all groups have committed: node 3 may coordinate groups, and does not answer"
