"""How partitions and groups stand, from what a node knows anyway."""

from __future__ import annotations

import struct
from collections.abc import Iterable
from typing import Any, cast

from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicMember, ClassicState
from chronik.core.machines.groups.config import GroupConfig
from chronik.core.machines.groups.consumer_group import ConsumerGroup, Current, Subscriber
from chronik.core.machines.groups.machine import GroupsMachine
from chronik.core.machines.groups.offsets import CommittedOffset
from chronik.core.machines.transactions.transaction import Transaction, TransactionStatus
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.core.types import TopicPartition
from chronik.node.observe.partition_states import PARTITIONS_MAX, TRANSACTIONS_MAX, group_seen, partition_seen
from chronik.node.observe.partition_states import transactions_seen as seen_by
from chronik.trace.events import (
    FollowerSeen,
    MarkerMissing,
    MemberSeen,
    OffsetSeen,
    OpenTransactionSeen,
    PartitionSeen,
    TransactionSeen,
)
from tests.unit.core.log.logs import batch_of, end_transaction, put_in_transaction
from tests.unit.node.fakes import NODE_ID, NOW_MS, House, memory_replica

NOW_US = NOW_MS * 1000
SECOND, THIRD = NODE_ID + 1, NODE_ID + 2
ALL = (NODE_ID, SECOND, THIRD)
ORDERS = b"o" * 16
NAMES = {ORDERS: "orders"}


def led_with(count: int) -> Replica:
    """A partition with two followers, of so many records, safe on this node."""
    replica = memory_replica(in_sync=ALL)
    for _ in range(count):
        replica.append(batch_of(), ACKS_ALL, NOW_MS)
    replica.own_safe(replica.log.end_offset)
    return replica


def seen(replica: Replica, at_ms: int) -> PartitionSeen:
    return partition_seen(replica, NODE_ID, NOW_US, at_ms)


def test_a_follower_that_has_everything_lags_nothing_however_long_it_is_silent() -> None:
    replica = led_with(2)
    replica.follower_fetched(SECOND, 2, 100)
    replica.follower_fetched(THIRD, 2, 100)

    followers = seen(replica, 600_100).followers

    assert followers == (FollowerSeen(SECOND, True, 2, 0, 0, 600_000), FollowerSeen(THIRD, True, 2, 0, 0, 600_000))


def test_a_follower_that_lacks_something_lags_since_it_last_had_all() -> None:
    replica = led_with(1)
    replica.follower_fetched(SECOND, 1, 100)
    replica.append(batch_of(), ACKS_ALL, NOW_MS)
    replica.append(batch_of(), ACKS_ALL, NOW_MS)
    replica.follower_fetched(SECOND, 2, 250)

    (follower, _) = seen(replica, 1_000).followers

    assert follower == FollowerSeen(SECOND, True, 2, 1, 900, 750)


def test_a_follower_never_heard_of_lacks_all_there_is() -> None:
    replica = memory_replica(in_sync=ALL)
    replica.lead(1, 1, ALL, (NODE_ID, SECOND), 0)
    replica.append(batch_of(), ACKS_ALL, NOW_MS)

    (_, follower) = seen(replica, 50).followers

    assert follower == FollowerSeen(THIRD, False, -1, 1, -1, -1)


def test_a_partition_tells_its_offsets_and_who_is_in_sync() -> None:
    replica = led_with(3)
    replica.follower_fetched(SECOND, 3, 1)
    replica.follower_fetched(THIRD, 2, 1)
    replica.delete_records(1)

    told = seen(replica, 1)

    assert (told.topic, told.partition, told.leader_epoch, told.at_us, told.node) == ("topic", 0, 0, NOW_US, NODE_ID)
    assert (told.log_start, told.last_stable_offset, told.watermark) == (1, 2, 2)
    assert (told.next_offset, told.durable_end_offset) == (3, 3)
    assert (told.in_sync, told.in_sync_min) == (ALL, 1)
    assert told.size_bytes == replica.log.size_bytes() > 0


def assignment(*topics: tuple[str, list[int]]) -> bytes:
    out = struct.pack(">hi", 0, len(topics))
    for topic, partitions in topics:
        out += struct.pack(f">h{len(topic)}si", len(topic), topic.encode(), len(partitions))
        out += struct.pack(f">{len(partitions)}i", *partitions)
    return out + struct.pack(">i", -1)


def member(member_id: str, assigned: bytes) -> ClassicMember:
    return ClassicMember(member_id, None, "app", "10.0.0.7", 1, 1, (("range", b""),), assigned)


def test_a_classic_group_tells_who_reads_what_and_how_far_it_is() -> None:
    machine = GroupsMachine(0, GroupConfig())
    machine.offsets.put("g", "orders", 1, CommittedOffset(7, -1, "", NOW_MS))
    members = {"a": member("a", assignment(("orders", [0, 2]), ("bills", [1]))), "b": member("b", b"")}
    group = ClassicGroup("g", ClassicState.STABLE, 3, "consumer", "range", "a", members=members)

    told = group_seen(group, machine, NAMES.get, NODE_ID, NOW_US, 40)

    assert (told.group, told.type, told.state, told.generation, told.state_ms) == ("g", "classic", "Stable", 3, 40)
    reads = (("orders", 0), ("orders", 2), ("bills", 1))
    assert told.members == (MemberSeen("a", "app", "10.0.0.7", reads), MemberSeen("b", "app", "10.0.0.7", ()))
    assert told.offsets == (OffsetSeen("orders", 1, 7),)


def test_an_assignment_that_cannot_be_read_is_nothing_and_no_fault() -> None:
    whole = assignment(("orders", [0, 2]))
    for broken in (whole[:3], whole[:9], whole[:20], b"\x00\x00\x7f\xff\xff\xff", b"\xff" * 40):
        group = ClassicGroup("g", ClassicState.STABLE, 1, "consumer", "range", "a", members={"a": member("a", broken)})
        told = group_seen(group, GroupsMachine(0, GroupConfig()), NAMES.get, NODE_ID, NOW_US, 0)
        assert told.members[0].assigned == ()


def test_a_group_of_another_kind_than_consumers_keeps_its_assignments_to_itself() -> None:
    members = {"a": member("a", assignment(("orders", [0])))}
    group = ClassicGroup("g", ClassicState.STABLE, 1, "connect", "eager", "a", members=members)

    assert group_seen(group, GroupsMachine(0, GroupConfig()), NAMES.get, NODE_ID, NOW_US, 0).members[0].assigned == ()


def test_a_consumer_group_names_the_topics_that_there_are() -> None:
    group = ConsumerGroup("g")
    group.epoch = group.target_epoch = 5
    group.set_subscriber("a", Subscriber(client_id="app", client_host="10.0.0.7", topics=("orders",)))
    group.set_current("a", Current(5, 4, assigned=frozenset({(ORDERS, 2), (ORDERS, 0), (b"gone" * 4, 0)})))

    told = group_seen(group, GroupsMachine(0, GroupConfig()), NAMES.get, NODE_ID, NOW_US, -1)

    assert (told.type, told.state, told.generation, told.state_ms) == ("consumer", "Stable", 5, -1)
    assert told.members == (MemberSeen("a", "app", "10.0.0.7", (("orders", 0), ("orders", 2))),)


# --- transactions


def test_the_transaction_that_holds_the_last_stable_offset_is_seen() -> None:
    replica = led_with(1)
    put_in_transaction(replica.log, 7)
    put_in_transaction(replica.log, 8, count=3)
    put_in_transaction(replica.log, 7, sequence=1, count=2)
    assert seen(replica, 0).open_transactions == (OpenTransactionSeen(7, 0, 1, 6),)

    end_transaction(replica.log, 7)
    assert seen(replica, 0).open_transactions == (OpenTransactionSeen(8, 0, 2, 4),)

    end_transaction(replica.log, 8)
    assert seen(replica, 0).open_transactions == ()


class Unfinished:
    """Transactions as their coordinator has them."""

    def __init__(self, *transactions: tuple[Transaction, dict[TopicPartition, str]]) -> None:
        self._transactions = transactions

    def unfinished(self) -> Iterable[tuple[Transaction, dict[TopicPartition, str]]]:
        return iter(self._transactions)

    def seen(self) -> list[TransactionSeen]:
        return seen_by(cast(Any, self), House(topics={"orders": 1}).image, NODE_ID, NOW_US)


def transaction(name: str, *, began_ms: int, status: TransactionStatus = TransactionStatus.ONGOING) -> Transaction:
    partitions = frozenset({TopicPartition("orders", 0)})
    return Transaction(name, 7, 0, 60_000, status, partitions, NOW_MS - began_ms, NOW_MS - began_ms // 2)


def test_a_transaction_is_seen_when_it_is_not_over_within_a_second() -> None:
    missing = {TopicPartition("orders", 0): "no answer", TopicPartition("orders", 5): ""}
    prepared = transaction("late", began_ms=5_000, status=TransactionStatus.PREPARE_COMMIT)
    told = Unfinished((transaction("quick", began_ms=900), {}), (prepared, missing)).seen()

    assert told == [
        TransactionSeen(
            NOW_US,
            NODE_ID,
            "late",
            7,
            0,
            "PrepareCommit",
            60_000,
            5_000,
            2_500,
            (("orders", 0),),
            (MarkerMissing("orders", 0, NODE_ID, "no answer"), MarkerMissing("orders", 5, -1, "")),
        )
    ]


def test_of_very_many_transactions_the_first_are_seen() -> None:
    nowhere: dict[TopicPartition, str] = {}
    many = [(transaction(f"t-{number}", began_ms=5_000), nowhere) for number in range(TRANSACTIONS_MAX + 5)]
    assert [one.transactional_id for one in Unfinished(*many).seen()] == [f"t-{n}" for n in range(TRANSACTIONS_MAX)]

    wide = frozenset(TopicPartition("orders", number) for number in range(PARTITIONS_MAX + 5))
    one = Transaction("wide", 7, 0, 60_000, TransactionStatus.ONGOING, wide, NOW_MS - 5_000, NOW_MS)
    assert [len(told.partitions) for told in Unfinished((one, {})).seen()] == [PARTITIONS_MAX]
