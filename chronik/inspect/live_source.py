"""Where `chronik watch` gets its snapshots from: looks at all nodes, and the stall rules over what they tell."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Mapping, Sequence

from msgspec.structs import replace

from chronik.client import inspect_request
from chronik.client.inspect_request import Inspections
from chronik.client.request import Address, NoAnswer
from chronik.inspect.live_model import ClusterSnapshot, Partition
from chronik.inspect.trace_history import NodeInspector, TraceHistory
from chronik.trace.events import AnyEvent, FetchAnswered, GroupSeen
from chronik.trace.inspections import CLUSTER, ClusterStateView, EventsView, StateView
from chronik.trace.stalls import find
from chronik.trace.verdicts import Verdict

# A node that hangs must not hide the others for long.
LOOK_TIMEOUT_S = 2.0
# Looking for stalls in a long trace takes a while: never more than this part of the time, or the view would be late.
STALLS_SHARE = 0.25


class Looker:
    """Asks the nodes that were named and all that they name: watching goes on when the one that was named dies."""

    def __init__(
        self, addresses: Sequence[Address], topics: Sequence[str] = (), asking: NodeInspector = inspect_request
    ) -> None:
        self._addresses = list(addresses)
        self._topics = list(topics) or None
        self._given = Given(asking)
        self._gathering = TraceHistory(self._addresses, self._topics, asking=self._given)
        self._verdicts: tuple[Verdict, ...] = ()
        self._stalls_due_s = 0.0

    @property
    def addresses(self) -> list[Address]:
        """The one that answered last stands first."""
        return list(self._addresses)

    def __call__(self) -> ClusterSnapshot:
        """Raises NoAnswer, NotChronik."""
        self._find_nodes()
        self._gathering.addresses = self._addresses
        events, now_us = self._gathering.look(LOOK_TIMEOUT_S)
        at_s = time.monotonic()
        states = {node: self._of_topics(state) for node, state in self._gathering.states.items()}
        silent, known_s = self._gathering.silent, self._gathering.known_s
        return ClusterSnapshot(at_s, states, silent, self._given.taken(), self._stalls(events, now_us), known_s)

    def _find_nodes(self) -> None:
        """Puts the address that answers first, so that nothing waits for one that does not again and again."""
        problem = NoAnswer("there is no address to look at")
        for address in self._addresses:
            try:
                found = inspect_request.inspect_node(ClusterStateView, address, CLUSTER, LOOK_TIMEOUT_S)
            except NoAnswer as met:
                problem = met
                continue
            others = [(node.host, node.port) for node in found.nodes]
            self._addresses = list(dict.fromkeys([address, *self._addresses, *others]))
            return
        raise problem

    def _stalls(self, events: Sequence[AnyEvent], now_us: int) -> tuple[Verdict, ...]:
        began_s = time.monotonic()
        if began_s >= self._stalls_due_s:
            self._verdicts = tuple(find(events, now_us))
            self._stalls_due_s = began_s + (time.monotonic() - began_s) / STALLS_SHARE
        return self._verdicts

    def _of_topics(self, state: StateView) -> StateView:
        """Nodes tell of all their groups."""
        if self._topics is None:
            return state
        return replace(state, groups=tuple(group for group in state.groups if self._is_about_topics(group)))

    def _is_about_topics(self, group: GroupSeen) -> bool:
        topics = {each.topic for each in group.offsets}
        topics.update(topic for member in group.members for topic, _ in member.assigned)
        return not topics.isdisjoint(self._topics or ())


class Given:
    """Asks as configured, and counts the records that consumers were given by what passes through it."""

    def __init__(self, asking: NodeInspector) -> None:
        self._asking = asking
        self._records: Counter[Partition] = Counter()
        self._is_first = True

    def states(
        self, addresses: Sequence[Address], timeout_s: float, topics: Sequence[str] | None, is_sure: bool
    ) -> Inspections[StateView]:
        return self._asking.states(addresses, timeout_s, topics, is_sure)

    def events(
        self,
        addresses: Sequence[Address],
        timeout_s: float,
        topics: Sequence[str] | None,
        cursors: Mapping[int, int] | None,
    ) -> Inspections[EventsView]:
        told = self._asking.events(addresses, timeout_s, topics, cursors)
        for look in told.values():
            for event in look.events:
                if isinstance(event, FetchAnswered):
                    self._records[event.topic, event.partition] += max(event.to_offset - event.offset, 0)
        return told

    def taken(self) -> dict[Partition, int]:
        """Since the last time. The first time nothing: nodes tell what happened long before."""
        records = {} if self._is_first else dict(self._records)
        self._is_first = False
        self._records.clear()
        return records
