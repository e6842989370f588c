"""Which node leads a partition, by what nodes say of themselves. Pure.

A node that was cut off may still believe that it leads, with the offsets of that time. The newest leader epoch counts.
Whether that is the newest there is, is sure only where every in-sync replica answers, since one that does not may have
been elected; or where the leader made sure, just now, that it is in touch with the cluster.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping

from chronik.trace.events import PartitionSeen
from chronik.trace.inspections import CopySeen, StateView, UnopenedSeen

Partition = tuple[str, int]


def newest_leaders(states: Iterable[StateView]) -> dict[Partition, PartitionSeen]:
    """By partition, what its leader says of it. Left out where a node knows of a later election."""
    epochs: dict[Partition, int] = {}
    told: list[PartitionSeen] = []
    for state in states:
        told += state.partitions
        known: list[PartitionSeen | CopySeen | UnopenedSeen] = [*state.partitions, *state.copies, *state.unopened]
        for seen in known:
            place = (seen.topic, seen.partition)
            epochs[place] = max(seen.leader_epoch, epochs.get(place, -1))
    return {
        (seen.topic, seen.partition): seen for seen in told if seen.leader_epoch >= epochs[seen.topic, seen.partition]
    }


def sure_leaders(states: Mapping[int, StateView], silent: Container[int]) -> dict[Partition, PartitionSeen]:
    """The same, without those whose place a node that does not answer may have taken."""
    return {
        place: seen
        for place, seen in newest_leaders(states.values()).items()
        if states[seen.node].is_current or not any(node in silent for node in seen.in_sync if node != seen.node)
    }
