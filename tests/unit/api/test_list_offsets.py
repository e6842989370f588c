"""ListOffsets: where a partition begins, ends, and was at a time."""

from __future__ import annotations

import datetime
from typing import Any

import pytest
from kio.schema.list_offsets.v11.request import ListOffsetsPartition, ListOffsetsRequest, ListOffsetsTopic

from chronik.api import list_offsets
from chronik.api.context import RequestContext
from chronik.core.errors import Code, Corrupt
from chronik.core.log.times import TimedOffset
from chronik.core.records.steps import Steps
from tests.unit.api.fake_context import FakeLog, ask, fake_context, replicas_of

NEWEST = 11
LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL, LATEST_TIERED, EARLIEST_PENDING = range(-1, -7, -1)


def request(*wanted: tuple[int, int], epoch: int = -1, replica_id: int = -1, isolation: int = 0) -> Any:
    parts = tuple(
        ListOffsetsPartition(partition_index=number, current_leader_epoch=epoch, timestamp=timestamp)
        for number, timestamp in wanted
    )
    return ListOffsetsRequest(
        replica_id=replica_id,
        isolation_level=isolation,
        topics=(ListOffsetsTopic(name="a", partitions=parts),),
        timeout=datetime.timedelta(0),
    )


def desk_with_log() -> RequestContext:
    """Offsets 10 to 20 in epochs 2 (from 10) and 4 (from 15), safe up to 18."""
    log = FakeLog(start_offset=10, end_offset=18)
    log.epochs.assign(2, 10)
    log.epochs.assign(4, 15)
    log.times = [TimedOffset(10, 100), TimedOffset(12, 300), TimedOffset(16, 200), TimedOffset(19, 900)]
    context = fake_context()
    replicas_of(context).add("a", 0, log, leader_epoch=4)
    log.end_offset = 20
    return context


def found(response: Any) -> tuple[Code, int, int, int]:
    [part] = response.topics[0].partitions
    return part.error_code, part.offset, part.timestamp, part.leader_epoch


@pytest.mark.parametrize("problem", [Corrupt("a-0", "no batch"), OSError("no such disk")])
def test_a_log_that_cannot_be_searched_goes_offline(problem: Exception) -> None:
    """A log that cannot be searched goes offline and the other partitions are answered."""

    class UnreadableLog(FakeLog):
        def offset_for_time(self, timestamp: int, bound_offset: int) -> Steps[TimedOffset | None]:
            yield None
            raise problem

    context = desk_with_log()
    bad = replicas_of(context).add("a", 1, UnreadableLog(0, 5))

    response = ask(list_offsets, request((0, 300), (1, 300)), context, version=NEWEST)

    codes = [part.error_code for part in response.topics[0].partitions]
    assert codes == [Code.NONE, Code.KAFKA_STORAGE_ERROR]
    assert bad.offline is not None


@pytest.mark.parametrize(
    ("timestamp", "offset", "time", "epoch"),
    [
        (LATEST, 18, -1, 4),
        (EARLIEST, 10, -1, 2),
        (EARLIEST_LOCAL, 10, -1, 2),
        (MAX_TIMESTAMP, 12, 300, 2),
        (LATEST_TIERED, -1, -1, -1),
        (EARLIEST_PENDING, -1, -1, -1),
        (0, 10, 100, 2),
        (101, 12, 300, 2),
        (301, -1, -1, -1),  # offset 19 is that late, but not safe yet
        (2**62, -1, -1, -1),
    ],
)
def test_an_offset_is_found_by_time(timestamp: int, offset: int, time: int, epoch: int) -> None:
    assert found(ask(list_offsets, request((0, timestamp)), desk_with_log(), NEWEST)) == (
        Code.NONE,
        offset,
        time,
        epoch,
    )


def test_the_latest_is_the_high_watermark_for_consumers_and_the_end_for_replicas() -> None:
    # F8: the next offset shown as the watermark.
    context = desk_with_log()

    assert found(ask(list_offsets, request((0, LATEST)), context, NEWEST))[1] == 18
    assert found(ask(list_offsets, request((0, LATEST), isolation=1), context, NEWEST))[1] == 18
    assert found(ask(list_offsets, request((0, LATEST), replica_id=2), context, NEWEST))[1] == 20


def test_an_empty_log_has_no_largest_timestamp() -> None:
    context = fake_context(topics={"a": 1})

    assert found(ask(list_offsets, request((0, MAX_TIMESTAMP)), context, NEWEST)) == (Code.NONE, -1, -1, -1)
    assert found(ask(list_offsets, request((0, LATEST)), context, NEWEST))[:2] == (Code.NONE, 0)


@pytest.mark.parametrize(
    ("epoch", "code"), [(3, Code.FENCED_LEADER_EPOCH), (4, Code.NONE), (5, Code.UNKNOWN_LEADER_EPOCH)]
)
def test_a_client_with_another_leader_epoch_is_told(epoch: int, code: Code) -> None:
    assert found(ask(list_offsets, request((0, LATEST), epoch=epoch), desk_with_log(), NEWEST))[0] is code


@pytest.mark.parametrize(
    ("timestamp", "first_version"),
    [(MAX_TIMESTAMP, 7), (EARLIEST_LOCAL, 8), (LATEST_TIERED, 9), (EARLIEST_PENDING, 11)],
)
def test_a_special_time_is_known_from_its_version_on(timestamp: int, first_version: int) -> None:
    context = desk_with_log()

    assert found(ask(list_offsets, request((0, timestamp)), context, first_version))[0] is Code.NONE
    assert found(ask(list_offsets, request((0, timestamp)), context, first_version - 1))[0] is Code.UNSUPPORTED_VERSION


def test_a_time_that_is_no_time_is_refused() -> None:
    assert found(ask(list_offsets, request((0, -7)), desk_with_log(), NEWEST))[0] is Code.UNSUPPORTED_VERSION


def test_each_partition_has_its_own_error() -> None:
    context = desk_with_log()
    replicas_of(context).refusing["a", 3] = Code.NOT_LEADER_OR_FOLLOWER

    response = ask(
        list_offsets, request((0, LATEST), (1, LATEST), (2, LATEST), (2, EARLIEST), (3, LATEST)), context, NEWEST
    )

    assert [(part.partition_index, part.error_code) for part in response.topics[0].partitions] == [
        (0, Code.NONE),
        (1, Code.UNKNOWN_TOPIC_OR_PARTITION),
        (2, Code.INVALID_REQUEST),
        (2, Code.INVALID_REQUEST),
        (3, Code.NOT_LEADER_OR_FOLLOWER),
    ]


@pytest.mark.parametrize(("version", "code"), [(4, Code.LEADER_NOT_AVAILABLE), (5, Code.OFFSET_NOT_AVAILABLE)])
def test_a_leader_that_does_not_know_yet_says_so_in_a_code_the_version_knows(version: int, code: Code) -> None:
    context = fake_context()
    replicas_of(context).refusing["a", 0] = Code.OFFSET_NOT_AVAILABLE

    assert found(ask(list_offsets, request((0, LATEST)), context, version))[:2] == (code, -1)


def test_a_new_leader_says_not_available_rather_than_less_than_clients_were_told() -> None:
    context = desk_with_log()
    replica = replicas_of(context).replicas["a", 0]
    replica.lead(5, 1, (1, 2), (1, 2), 0)  # elected at offset 20, and it knows of 18 that they are safe
    not_available = (Code.OFFSET_NOT_AVAILABLE, -1, -1, -1)

    assert found(ask(list_offsets, request((0, LATEST)), context, version=NEWEST)) == not_available
    assert found(ask(list_offsets, request((0, 900)), context, version=NEWEST)) == not_available
    assert found(ask(list_offsets, request((0, EARLIEST)), context, version=NEWEST))[:2] == (Code.NONE, 10)
    assert found(ask(list_offsets, request((0, 300)), context, version=NEWEST))[:2] == (Code.NONE, 12)
    assert found(ask(list_offsets, request((0, LATEST), replica_id=2), context, version=NEWEST))[:2] == (Code.NONE, 20)

    replica.own_safe(20)
    replica.follower_fetched(2, 20, 0)
    assert found(ask(list_offsets, request((0, LATEST)), context, version=NEWEST))[:2] == (Code.NONE, 20)
