"""Where the replicas of new partitions go: round robin over racks, and over the brokers in each rack."""

from __future__ import annotations

from collections.abc import Sequence

from chronik.core.machines.metadata.image import Broker


def place(
    brokers: Sequence[Broker], partition_count: int, replication_factor: int, start: int
) -> list[tuple[int, ...]]:
    """Replicas for each of `partition_count` partitions, the leader first.

    As in Kafka, replicas stripe over racks, so that a partition survives the loss of as many racks as it can; a broker
    without a rack counts as a rack of its own. `start` shifts where the round begins, so that topics of one partition
    do not all go to the first broker.

    A fenced broker never comes first, for the first leads; and in a rack it comes after those that are not fenced.
    """
    if not 0 < replication_factor <= len(brokers):
        raise ValueError(f"{replication_factor} replicas on {len(brokers)} brokers")
    ring = _ring([broker for broker in brokers if not broker.is_fenced])
    fenced = _ring([broker for broker in brokers if broker.is_fenced])
    size = len(ring)
    if not size:
        raise ValueError("all brokers are fenced")
    placed: list[tuple[int, ...]] = []
    for number in range(start, start + partition_count):
        # Each round the followers shift by one more broker, so that those of one leader are spread as well. A round is
        # counted from the start: only a whole round with one shift gives every broker the same number of replicas.
        shift = start // size + (number - start) // size
        leader = number % size
        followers = [ring[(leader + 1 + (shift + step) % (size - 1)) % size] for step in range(size - 1)]
        placed.append(_rack_first((ring[leader], *followers, *_turned(fenced, number)), replication_factor))
    return placed


def _ring(brokers: Sequence[Broker]) -> list[Broker]:
    """Brokers by id, dealt out rack by rack: a0 b0 c0 a1 b1 c1."""
    racks: dict[str, list[Broker]] = {}
    for broker in sorted(brokers, key=lambda broker: broker.id):
        racks.setdefault(broker.rack or "", []).append(broker)
    hands = [racks[name] for name in sorted(racks)]
    rounds = range(max((len(hand) for hand in hands), default=0))
    return [hand[turn] for turn in rounds for hand in hands if turn < len(hand)]


def _turned(ring: list[Broker], by: int) -> list[Broker]:
    start = by % len(ring) if ring else 0
    return ring[start:] + ring[:start]


def _rack_first(candidates: tuple[Broker, ...], count: int) -> tuple[int, ...]:
    """The first `count` in order, but none from a rack twice while another rack is still without."""
    chosen: list[Broker] = []
    left = list(candidates)
    while len(chosen) < count:
        used: list[str | None] = [broker.rack for broker in chosen if broker.rack is not None]
        fewest = min(used.count(broker.rack) for broker in left)
        pick = next(broker for broker in left if used.count(broker.rack) == fewest)
        chosen.append(pick)
        left.remove(pick)
    return tuple(broker.id for broker in chosen)
