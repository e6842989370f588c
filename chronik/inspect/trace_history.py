"""What all nodes have traced and how things stand on them, look after look: the history that the stall rules read.

Clocks of nodes differ. Where one is off by more than a look takes, what it tells is put into the time of the others:
else an answer could come before its question.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections.abc import Iterable, Mapping, Sequence
from operator import attrgetter
from typing import Protocol

from msgspec.structs import replace

from chronik.client import inspect_request
from chronik.client.inspect_request import Inspections
from chronik.client.request import Address
from chronik.trace.events import AnyEvent, EventsLost
from chronik.trace.inspections import EventsView, StateView
from chronik.trace.stalls.limits import EVENTS_MAX, WINDOW_MS
from chronik.trace.stalls.window import fit, known_since_us

ROUNDS_MAX = 20  # a node that traces faster than it can be read must not keep us for ever
SKEW_US = 500_000  # clocks that differ by less are taken for the same

_at_us = attrgetter("at_us")


class NodeInspector(Protocol):
    """How nodes are asked (chronik.client.inspect_request)."""

    def states(
        self, addresses: Sequence[Address], timeout_s: float, topics: Sequence[str] | None, is_sure: bool
    ) -> Inspections[StateView]: ...

    def events(
        self,
        addresses: Sequence[Address],
        timeout_s: float,
        topics: Sequence[str] | None,
        cursors: Mapping[int, int] | None,
    ) -> Inspections[EventsView]: ...


class TraceHistory:
    """Keeps a window of events of all nodes, in the order of their times."""

    def __init__(
        self,
        addresses: Sequence[Address],
        topics: Sequence[str] | None = None,
        window_s: float = WINDOW_MS / 1000,
        events_max: int = EVENTS_MAX,
        asking: NodeInspector = inspect_request,
    ) -> None:
        self.addresses = addresses
        self.topics = topics
        self.silent: dict[int, str] = {}
        """Nodes that did not answer the last look, with the reason."""
        self.cut_off: list[int] = []
        """Nodes that answered the last look, and were not in touch with the cluster: what they say may be old."""
        self.unheard: set[int] = set()
        """Nodes of which not all that they traced has come with the last look: nothing follows from its absence."""
        self.states: dict[int, StateView] = {}
        """What each node answered to the last look: `chronik watch` shows it, and need not ask a second time."""
        self.untraced: list[str] = []
        """Topics of which no client's doings are known, as of the last look: they are not traced."""
        self.lost = 0
        """Events that nodes had let go before they could be read, since the first look."""
        self.known_s: float | None = None
        """How far back all is known that clients did, as of the last look; None: as far as the rules look."""
        self._window_us = int(window_s * 1e6)
        self._events_max = events_max
        self._asking = asking
        self._events: list[AnyEvent] = []
        self._cursors: dict[int, int] = {}
        self._began_us: dict[int, int] = {}
        self._wrapped: set[int] = set()  # nodes that dropped events before the first look, and reported none yet
        self._shifts_us: dict[int, int] = {}  # by node: what to add to its times

    def look(self, timeout_s: float = 5.0) -> tuple[list[AnyEvent], int]:
        """One look at every node: the window as it now is, and the time, both fit for `find`. Raises NoAnswer."""
        for _ in range(ROUNDS_MAX):
            began_s = time.monotonic()
            told = self._asking.events(self.addresses, timeout_s, self.topics, self._cursors)
            self._compare_clocks({node: look.now_us for node, look in told.items()}, time.monotonic() - began_s)
            for look in told.values():
                self._take_events(look)
            self.unheard = {*told.silent, *(node for node, look in told.items() if look.is_more)}
            if not any(look.is_more for look in told.values()):
                break
        # Last, so that how things stand is never older than what happened.
        began_s = time.monotonic()
        states = self._asking.states(self.addresses, timeout_s, self.topics, is_sure=True)
        self._compare_clocks({node: look.now_us for node, look in states.items()}, time.monotonic() - began_s)
        self.states, self.silent = dict(states), states.silent
        self.cut_off = [node for node, state in states.items() if not state.is_current]
        for node, state in states.items():
            # A node that is cut off while the cluster goes on without it may take itself for a leader whose watermark
            # stands still: it is none any more. Where all are cut off, what each sees is all there is.
            if state.is_current or len(self.cut_off) == len(states):
                self._take(node, (*state.partitions, *state.groups, *state.transactions))
        partitions = [seen for state in states.values() for seen in state.partitions]
        self.untraced = sorted(
            {seen.topic for seen in partitions if not seen.is_traced and not seen.topic.startswith("__")}
        )
        now_us = max((state.now_us + self._shifts_us[node] for node, state in states.items()), default=0)
        self._tidy(now_us)
        since_us = known_since_us(self._events)
        self.known_s = None if since_us is None else max(now_us - since_us, 0) / 1e6
        # Nodes that say how things stand and not what happened: a hole up to now. It is not kept, for what they traced
        # may still come with the next look.
        holes = [EventsLost(now_us, node, 0) for node in sorted(self.unheard) if node in states]
        return [*self._events, *holes], now_us

    def _take_events(self, look: EventsView) -> None:
        # What a node that was started anew had under way before is reported by no node.
        is_new = look.began_us != self._began_us.setdefault(look.node, look.began_us)
        if look.node not in self._cursors and look.traces.kept < look.traces.added:
            self._wrapped.add(look.node)  # what it has begins with the first event that it tells
        is_first = look.node in self._wrapped and (bool(look.events) or not look.is_more)
        self._wrapped -= {look.node} if is_first else set()
        if look.lost > 0 or is_new or is_first:
            self.lost += look.lost
            at_us = look.events[0].at_us if look.events else look.now_us
            self._take(look.node, (EventsLost(at_us, look.node, look.lost),))
        self._began_us[look.node] = look.began_us
        self._take(look.node, look.events)
        self._cursors[look.node] = look.cursor

    def _take(self, node: int, events: Iterable[AnyEvent]) -> None:
        shift_us = self._shifts_us[node]
        self._events += events if not shift_us else [replace(event, at_us=event.at_us + shift_us) for event in events]

    def _compare_clocks(self, now_us: Mapping[int, int], took_s: float) -> None:
        """The first node that was ever asked has the time."""
        allowed_us = SKEW_US + int(took_s * 1e6)
        true_us = next(
            (at_us + self._shifts_us[node] for node, at_us in now_us.items() if node in self._shifts_us), None
        )
        for node, at_us in now_us.items():
            true_us = at_us if true_us is None else true_us
            off_us = true_us - at_us
            if abs(off_us - self._shifts_us.get(node, 0)) > allowed_us or node not in self._shifts_us:
                self._shifts_us[node] = off_us if abs(off_us) > allowed_us else 0

    def _tidy(self, now_us: int) -> None:
        self._events.sort(key=_at_us)
        begin = bisect_left(self._events, now_us - self._window_us, key=_at_us)
        if begin > 0:
            del self._events[:begin]
        if len(self._events) > self._events_max:
            self._events = fit(self._events, self._events_max)
