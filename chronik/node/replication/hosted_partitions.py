"""The partitions that this node hosts, each in exactly one state (Kafka's `HostedPartition`).

state              its log                                      leaves it when
OpenPartition      is open; its replica may be offline          it fails to be reopened, is found damaged, or is dropped
DamagedPartition   is not what was written, open or not         another node leads and does not count on this copy
FailedPartition    could not be opened: the disk refuses        it is dropped; only a restart tries again
PutOffPartition    could not be opened: something ran out       it is asked for again, or housekeeping comes round

A partition without a state is closed: not asked for yet, or not this node's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from chronik.core.errors import Corrupt, shortage_of
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition

Key: TypeAlias = tuple[str, int]  # or a TopicPartition, which is equal to it


@dataclass(frozen=True, slots=True)
class OpenPartition:
    replica: Replica


@dataclass(frozen=True, slots=True)
class DamagedPartition:
    """Others may still have it whole: then it is fetched anew, once no node counts on this copy."""

    topic_id: bytes
    reason: str
    replica: Replica | None  # None: it could not even be opened


@dataclass(frozen=True, slots=True)
class FailedPartition:
    topic_id: bytes
    reason: str
    replica: ClassVar[None] = None


@dataclass(frozen=True, slots=True)
class PutOffPartition:
    """Room, descriptors or memory ran out. Nothing is known to be wrong with it."""

    topic_id: bytes
    reason: str
    was_open: bool  # in this process, which changed its files: it is recovered as after a crash
    replica: ClassVar[None] = None


HostedPartition: TypeAlias = OpenPartition | DamagedPartition | FailedPartition | PutOffPartition


class HostedPartitions:
    """The states by topic and partition. Changes them, and does nothing to any file."""

    def __init__(self) -> None:
        self._states: dict[Key, HostedPartition] = {}
        self._in_order: tuple[Replica, ...] | None = None  # those that are open, by name; None when that has changed

    def state(self, key: Key) -> HostedPartition | None:
        return self._states.get(key)

    def replica(self, key: Key) -> Replica | None:
        """The replica whose log is open, whether it can be used or not."""
        state = self._states.get(key)
        return None if state is None else state.replica

    def replicas(self) -> Iterator[Replica]:
        """All that are open, by topic and partition."""
        if self._in_order is None:
            states = sorted(self._states.items(), key=_by_key)
            self._in_order = tuple(state.replica for _, state in states if state.replica is not None)
        return iter(self._in_order)

    def not_open(self) -> list[TopicPartition]:
        """What could not be opened."""
        return [TopicPartition(*key) for key, state in self._states.items() if state.replica is None]

    def why_not_open(self, key: Key) -> str | None:
        """Why it could not be opened; None when it is open, or was not asked for."""
        state = self._states.get(key)
        return None if state is None or isinstance(state, OpenPartition) or state.replica is not None else state.reason

    def may_be_opened(self, key: Key) -> bool:
        """Whether there is a point in trying: it is closed, or was only put off."""
        state = self._states.get(key)
        return state is None or isinstance(state, PutOffPartition)

    def is_damaged(self, key: Key) -> bool:
        return isinstance(self._states.get(key), DamagedPartition)

    def is_put_off(self, key: Key) -> bool:
        return isinstance(self._states.get(key), PutOffPartition)

    def was_open(self, key: Key) -> bool:
        """Whether this process had it open before, and could not open it again."""
        state = self._states.get(key)
        return isinstance(state, PutOffPartition) and state.was_open

    def to_repair(self) -> list[TopicPartition]:
        """What is damaged, and then what was put off."""
        damaged = [key for key, state in self._states.items() if isinstance(state, DamagedPartition)]
        put_off = sorted(key for key, state in self._states.items() if isinstance(state, PutOffPartition))
        return [TopicPartition(*key) for key in (*damaged, *put_off)]

    def offline(self) -> dict[Key, str]:
        """What is not served, and why."""
        reasons: dict[Key, str] = {}
        for key, state in self._states.items():
            reason = state.replica.offline if state.replica is not None else self.why_not_open(key)
            if reason is not None:
                reasons[key] = reason
        return reasons

    # --- transitions

    def _set(self, key: Key, state: HostedPartition) -> None:
        self._states[key] = state
        self._in_order = None

    def opened(self, replica: Replica) -> None:
        self._set((replica.topic, replica.partition), OpenPartition(replica))

    def not_opened(
        self, key: Key, topic_id: bytes, problem: Corrupt | OSError, *, was_open: bool = False
    ) -> HostedPartition:
        """Its log could not be opened. Returns the state it is in now."""
        state: HostedPartition
        if isinstance(problem, Corrupt):
            state = DamagedPartition(topic_id, str(problem), None)
        elif shortage_of(problem) is not None:
            state = PutOffPartition(topic_id, str(problem), was_open or self.was_open(key))
        else:
            state = FailedPartition(topic_id, str(problem))
        self._set(key, state)
        return state

    def damaged(self, replica: Replica, reason: str) -> None:
        """What an open log holds is not what was written. Nothing, if it was closed while it was being read."""
        key = replica.topic, replica.partition
        if self.replica(key) is replica:
            self._set(key, DamagedPartition(replica.topic_id, reason, replica))

    def not_moved_aside(self, key: Key, topic_id: bytes, reason: str) -> None:
        """It is closed and still damaged: its directory could not be renamed."""
        self._set(key, DamagedPartition(topic_id, reason, None))

    def not_repairable(self, key: Key) -> None:
        """No replica has it whole any more: its topic is gone."""
        state = self._states.get(key)
        if isinstance(state, DamagedPartition):
            replica = state.replica
            self._set(key, FailedPartition(state.topic_id, state.reason) if replica is None else OpenPartition(replica))

    def closed(self, key: Key) -> None:
        self._states.pop(key, None)
        self._in_order = None


def _by_key(one: tuple[Key, HostedPartition]) -> Key:
    return one[0]
