"""OffsetFetch over the wire."""

from __future__ import annotations

import uuid
from typing import Any

import pytest

from chronik.api import offset_fetch
from chronik.api.context import RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import OffsetToCommit
from chronik.wire.unions.offset_fetch import AnyOffsetFetchRequest, AnyOffsetFetchTopic, Group
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context, refusing_desk
from tests.unit.core.machines.groups.host import commit, commit_in_transaction, consumer_beat


def desk_with_offsets() -> RequestContext:
    context, host = grouped_context({"orders": 2})
    host.ask(commit(OffsetToCommit("orders", 0, 42, 3, "note"), OffsetToCommit("gone", 0, 7)))
    return context


def found(topics: Any) -> list[tuple[str, int, int, Code]]:
    return [(t.name, p.partition_index, p.committed_offset, p.error_code) for t in topics for p in t.partitions]


def test_up_to_version_7_there_is_one_group() -> None:
    wanted = (
        AnyOffsetFetchTopic(name="orders", partition_indexes=(0, 1)),
        AnyOffsetFetchTopic(name="gone", partition_indexes=(0,)),
    )
    response = ask(offset_fetch, AnyOffsetFetchRequest(group_id="g", topics=wanted), desk_with_offsets(), version=7)
    assert response.error_code is Code.NONE
    assert found(response.topics) == [
        ("orders", 0, 42, Code.NONE),
        ("orders", 1, -1, Code.NONE),
        ("gone", 0, 7, Code.NONE),
    ]
    first = response.topics[0].partitions[0]
    assert (first.committed_leader_epoch, first.metadata) == (3, "note")


def test_from_version_8_there_are_many() -> None:
    groups = (
        Group(group_id="g"),
        Group(group_id="h", topics=(AnyOffsetFetchTopic(name="orders", partition_indexes=(0,)),)),
    )
    response = ask(offset_fetch, AnyOffsetFetchRequest(groups=groups), desk_with_offsets(), version=8)
    assert [(group.group_id, group.error_code) for group in response.groups] == [("g", Code.NONE), ("h", Code.NONE)]
    assert found(response.groups[0].topics) == [("orders", 0, 42, Code.NONE), ("gone", 0, 7, Code.NONE)]
    assert found(response.groups[1].topics) == [("orders", 0, -1, Code.NONE)]


@pytest.mark.parametrize("version", [7, 8, 10])
def test_an_offset_that_an_open_transaction_may_change_is_not_told_to_a_reader_that_wants_it_stable(
    version: int,
) -> None:
    context, host = grouped_context({"orders": 2})
    host.ask(commit(OffsetToCommit("orders", 0, 42, 3, "note"), OffsetToCommit("orders", 1, 7)))
    host.ask(commit_in_transaction(OffsetToCommit("orders", 0, 50)))
    topic_id = uuid.UUID(bytes=context.metadata.image.topics["orders"].id)
    topics = (AnyOffsetFetchTopic(name="orders", topic_id=topic_id, partition_indexes=(0, 1)),)

    def fetched(requires_stable: bool) -> list[tuple[int, Code]]:
        groups = (Group(group_id="g", topics=topics),)
        request = AnyOffsetFetchRequest(group_id="g", topics=topics, groups=groups, require_stable=requires_stable)
        response = ask(offset_fetch, request, context, version)
        return [(offset, code) for _, _, offset, code in found(response.groups[0].topics)]

    assert fetched(requires_stable=True) == [(-1, Code.UNSTABLE_OFFSET_COMMIT), (7, Code.NONE)]
    assert fetched(requires_stable=False) == [(42, Code.NONE), (7, Code.NONE)]
    host.mark(7)
    assert fetched(requires_stable=True) == [(50, Code.NONE), (7, Code.NONE)]


def test_what_was_committed_for_an_earlier_topic_of_that_name_is_not_this_ones() -> None:
    context, host = grouped_context({"orders": 2})
    own = context.metadata.image.topics["orders"].id
    old = OffsetToCommit("orders", 0, 42, topic_id=b"an earlier topic")
    host.ask(commit(old, OffsetToCommit("orders", 1, 7, topic_id=own), group_id="g"))
    wanted = (AnyOffsetFetchTopic(name="orders", partition_indexes=(0, 1)),)
    response = ask(offset_fetch, AnyOffsetFetchRequest(group_id="g", topics=wanted), context, version=7)
    assert found(response.topics) == [("orders", 0, -1, Code.NONE), ("orders", 1, 7, Code.NONE)]
    every = ask(offset_fetch, AnyOffsetFetchRequest(group_id="g", topics=None), context, version=7)
    assert found(every.topics) == [("orders", 1, 7, Code.NONE)]


def test_a_coordinator_that_is_not_available_is_to_be_looked_for_anew() -> None:
    """Consumers of Java before 3.9 give up on COORDINATOR_NOT_AVAILABLE here, and Kafka does not tell it either."""
    wanted = (AnyOffsetFetchTopic(name="orders", partition_indexes=(0,)),)
    for version in (1, 7, 9):
        about = (
            {"groups": (Group(group_id="g", topics=wanted),)} if version >= 8 else {"group_id": "g", "topics": wanted}
        )
        response = ask(
            offset_fetch,
            AnyOffsetFetchRequest(**about),
            refusing_desk(Refused(Code.COORDINATOR_NOT_AVAILABLE)),
            version=version,
        )
        codes = [response.error_code, *(group.error_code for group in response.groups)]
        codes += [partition.error_code for topic in response.topics for partition in topic.partitions]
        assert Code.NOT_COORDINATOR in codes
        assert Code.COORDINATOR_NOT_AVAILABLE not in codes


def test_no_topics_named_means_all_and_an_empty_list_means_none() -> None:
    context = desk_with_offsets()
    assert len(ask(offset_fetch, AnyOffsetFetchRequest(group_id="g", topics=None), context, version=2).topics) == 2
    assert ask(offset_fetch, AnyOffsetFetchRequest(group_id="g", topics=()), context, version=2).topics == ()


def test_from_version_10_topics_come_by_id_and_those_without_one_are_left_out() -> None:
    context = desk_with_offsets()
    topic = context.metadata.image.topic("orders")
    assert topic is not None
    known, unknown = uuid.UUID(bytes=topic.id), uuid.UUID(int=999)
    wanted = tuple(AnyOffsetFetchTopic(topic_id=topic_id, partition_indexes=(0,)) for topic_id in (known, unknown))
    groups = (Group(group_id="g", topics=wanted), Group(group_id="g"))
    named, everything = ask(offset_fetch, AnyOffsetFetchRequest(groups=groups), context, version=10).groups
    assert [(t.topic_id, t.partitions[0].committed_offset, t.partitions[0].error_code) for t in named.topics] == [
        (known, 42, Code.NONE),
        (unknown, -1, Code.UNKNOWN_TOPIC_ID),
    ]
    assert [t.topic_id for t in everything.topics] == [known]


def test_a_member_shows_its_epoch_and_one_group_s_error_is_its_own() -> None:
    context, host = grouped_context({"orders": 2})
    epoch = host.ask(consumer_beat("m", 0)).member_epoch
    groups = (Group(group_id="g", member_id="m", member_epoch=epoch + 1), Group(group_id="h"))
    stale, fine = ask(offset_fetch, AnyOffsetFetchRequest(groups=groups), context, version=9).groups
    assert (stale.error_code, stale.topics) == (Code.STALE_MEMBER_EPOCH, ())
    assert fine.error_code is Code.NONE


def test_version_1_knows_errors_of_partitions_only() -> None:
    context = refusing_desk(Refused(Code.NOT_COORDINATOR))
    wanted = (AnyOffsetFetchTopic(name="orders", partition_indexes=(0, 1)),)
    old = ask(offset_fetch, AnyOffsetFetchRequest(group_id="g", topics=wanted), context, version=1)
    assert found(old.topics) == [("orders", 0, -1, Code.NOT_COORDINATOR), ("orders", 1, -1, Code.NOT_COORDINATOR)]
    newer = ask(offset_fetch, AnyOffsetFetchRequest(group_id="g", topics=wanted), context, version=5)
    assert (newer.error_code, newer.topics) == (Code.NOT_COORDINATOR, ())


def test_a_refusal_is_on_every_group_and_partition() -> None:
    wanted = (AnyOffsetFetchTopic(name="orders", partition_indexes=(0,)),)
    many = offset_fetch.refuse(
        AnyOffsetFetchRequest(groups=(Group(group_id="g", topics=wanted),)), Code.UNKNOWN_SERVER_ERROR, None
    )
    assert many.groups[0].error_code is Code.UNKNOWN_SERVER_ERROR
    one = offset_fetch.refuse(AnyOffsetFetchRequest(group_id="g", topics=wanted), Code.UNKNOWN_SERVER_ERROR, None)
    assert one.error_code is Code.UNKNOWN_SERVER_ERROR
    assert found(one.topics) == [("orders", 0, -1, Code.UNKNOWN_SERVER_ERROR)]
