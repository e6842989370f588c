"""Single events, with what does not matter filled in; times in seconds after the beginning."""

from __future__ import annotations

from chronik.trace.events import (
    AnyEvent,
    Committed,
    FetchAnswered,
    FetchDropped,
    FetchWaits,
    FollowerSeen,
    GroupChanged,
    GroupJoined,
    GroupLeft,
    GroupSeen,
    MemberSeen,
    MetadataTold,
    OffsetSeen,
    OpenTransactionSeen,
    PartitionSeen,
    ProduceAnswered,
    RefusedEvent,
)
from chronik.trace.stalls.history import EventHistory

START_US = 1_763_265_600_000_000
TOPIC, GROUP, CLIENT, HOST = "orders", "billing", "reader", "10.0.0.7"
LATER_US = 500_000


def at(second: float) -> int:
    return START_US + round(second * 1_000_000)


def history(*events: AnyEvent, now: float) -> EventHistory:
    return EventHistory(sorted(events, key=lambda event: event.at_us), at(now))


def follower(
    node: int, durable_end_offset: int, lag: int = 0, *, is_in_sync: bool = True, silent_ms: int = 100
) -> FollowerSeen:
    return FollowerSeen(node, is_in_sync, durable_end_offset, lag, 1_000 if lag else 0, silent_ms)


def seen(
    second: float,
    watermark: int,
    end: int | None = None,
    *,
    partition: int = 0,
    node: int = 1,
    epoch: int = 1,
    durable_end_offset: int | None = None,
    in_sync: tuple[int, ...] = (1, 2, 3),
    in_sync_min: int = 1,
    followers: tuple[FollowerSeen, ...] = (),
    stable: int | None = None,
    topic: str = TOPIC,
    is_traced: bool = True,
    transactions: tuple[OpenTransactionSeen, ...] = (),
) -> PartitionSeen:
    end = watermark if end is None else end
    return PartitionSeen(
        at(second),
        node,
        topic,
        partition,
        epoch,
        0,
        watermark if stable is None else stable,
        watermark,
        end,
        end if durable_end_offset is None else durable_end_offset,
        in_sync,
        in_sync_min,
        followers,
        100,
        is_traced,
        transactions,
    )


def waits(
    second: float,
    offset: int,
    watermark: int,
    *,
    waited: float = 0,
    partition: int = 0,
    node: int = 1,
    connection: int = 5,
    client: str = CLIENT,
    min_bytes: int = 1,
    max_wait_ms: int = 500,
    is_committed_only: bool = False,
    stable: int | None = None,
) -> FetchWaits:
    return FetchWaits(
        at(second),
        node,
        TOPIC,
        partition,
        client,
        HOST,
        connection,
        GROUP,
        offset,
        1 << 20,
        min_bytes,
        max_wait_ms,
        is_committed_only,
        watermark,
        watermark if stable is None else stable,
        watermark,
        round(waited * 1e6),
    )


def answered(
    second: float,
    offset: int,
    to_offset: int,
    watermark: int | None = None,
    *,
    partition: int = 0,
    node: int = 1,
    connection: int = 5,
    client: str = CLIENT,
    host: str = HOST,
    is_committed_only: bool = False,
    stable: int | None = None,
) -> FetchAnswered:
    watermark = to_offset if watermark is None else watermark
    return FetchAnswered(
        at(second),
        node,
        TOPIC,
        partition,
        client,
        host,
        connection,
        GROUP,
        offset,
        1 << 20,
        1,
        500,
        is_committed_only,
        watermark,
        watermark if stable is None else stable,
        watermark,
        to_offset,
        100 * (to_offset - offset),
        False,
        1_000,
    )


def dropped(
    second: float,
    offset: int,
    *,
    waited: float,
    connection: int,
    max_wait_ms: int = 500,
    partition: int = 0,
    client: str = CLIENT,
) -> FetchDropped:
    where = (TOPIC, partition, client, HOST, connection, None, offset, max_wait_ms, round(waited * 1e6))
    return FetchDropped(at(second), 1, *where)


def refused(
    second: float,
    code: int,
    *,
    api: str = "produce",
    topic: str | None = TOPIC,
    partition: int = 0,
    client: str = CLIENT,
    node: int = 1,
    leader: int = -1,
) -> RefusedEvent:
    error = f"ERROR_{code}"
    return RefusedEvent(at(second), node, api, client, HOST, 5, code, error, None, topic, partition, leader, 1)


def stored(second: float, acks: int = -1, partition: int = 0, client: str = CLIENT) -> ProduceAnswered:
    return ProduceAnswered(at(second), 1, TOPIC, partition, client, HOST, 5, acks, 0, 1, 0, 1, (1, 2), 100)


def told(
    second: float, brokers: tuple[int, ...], leaders: tuple[int, ...], client: str = CLIENT, node: int = 1
) -> MetadataTold:
    return MetadataTold(at(second), node, TOPIC, client, HOST, 5, brokers, 1, leaders)


def member(*assigned: int, member_id: str = "m1", client: str = CLIENT) -> MemberSeen:
    return MemberSeen(member_id, client, HOST, tuple((TOPIC, number) for number in assigned))


def group(
    second: float,
    *members: MemberSeen,
    state: str = "Stable",
    generation: int = 1,
    state_ms: int = 0,
    offsets: dict[int, int] | None = None,
    name: str = GROUP,
) -> GroupSeen:
    kept = tuple(OffsetSeen(TOPIC, number, offset) for number, offset in (offsets or {}).items())
    return GroupSeen(at(second), 2, name, "classic", state, generation, state_ms, members, kept)


def joined(second: float, member_id: str = "m1", client: str = CLIENT) -> GroupJoined:
    return GroupJoined(at(second), 2, GROUP, member_id, client, HOST)


def left(second: float, reason: str = "left", member_id: str = "m1", client: str = CLIENT) -> GroupLeft:
    return GroupLeft(at(second), 2, GROUP, member_id, client, HOST, reason)


def changed(second: float, state: str, generation: int = 1, before: str = "Stable") -> GroupChanged:
    return GroupChanged(at(second), 2, GROUP, before, state, generation, 1)


def committed(second: float, offset: int, partition: int = 0, client: str = CLIENT) -> Committed:
    return Committed(at(second), 2, TOPIC, partition, GROUP, client, HOST, offset)
