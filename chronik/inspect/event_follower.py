"""The trace of all nodes, followed live: each event once, in the order of time, and what cannot be followed.

Nodes are asked with a cursor each. What is off (a node that does not answer, a topic that is not traced) is noted once,
and again only after it was over.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from chronik.client.inspect_request import Inspections, events
from chronik.client.request import Address, NoAnswer
from chronik.client.trace_switch import is_traced, plain_looks
from chronik.client.words import counted
from chronik.trace.events import AnyEvent
from chronik.trace.inspections import EventsView

LOOK_TIMEOUT_S = 5.0


class EventFollower:
    """Looks at all nodes again and again, and shows each event once."""

    def __init__(
        self,
        addresses: Sequence[Address],
        bootstrap: str,
        topics: list[str] | None,
        kinds: list[str],
        show: Callable[[Sequence[AnyEvent]], None],
        note: Callable[[str], None],
    ) -> None:
        self._addresses = addresses
        self._bootstrap = bootstrap
        self._topics = topics
        self._arguments: dict[str, Any] = {"kinds": kinds}
        self._show = show
        self._print_note = note
        self._cursors: dict[int, int] = {}
        self._noted: dict[str, None] = {}  # what was said already, until it is over

    def begin(self, last: int) -> None:
        """The newest events there are. Raises ChronikError."""
        with plain_looks(self._bootstrap):
            found = events(self._addresses, LOOK_TIMEOUT_S, self._topics, last=last, **self._arguments)
        self._say_what_is_off(found)
        newest = self._taken(found)
        self._show(newest[len(newest) - last :] if last < len(newest) else newest)

    def step(self) -> bool:
        """What came since; whether there is more already."""
        try:
            found = events(self._addresses, LOOK_TIMEOUT_S, self._topics, self._cursors, **self._arguments)
        except NoAnswer as problem:  # as long as a restart takes, say
            self._note(f"no node answers ({problem}); trying again")
            return False
        self._say_what_is_off(found)
        self._show(self._taken(found))
        return any(look.is_more for look in found.values())

    def _taken(self, found: Inspections[EventsView]) -> list[AnyEvent]:
        for node_id, look in found.items():
            if look.lost:
                self._print_note(
                    f"node {node_id} had to let go of {counted(look.lost, 'event')} before they could be read"
                )
            self._cursors[node_id] = look.cursor
        return sorted((event for look in found.values() for event in look.events), key=lambda event: event.at_us)

    def _say_what_is_off(self, found: Inspections[EventsView]) -> None:
        notes = [f"node {node_id} does not answer: {reason}" for node_id, reason in found.silent.items()]
        every = [look.traces for look in found.values()]
        if not any(traces.is_on for traces in every):
            notes.append("tracing is off: switch it on with `chronik trace on`")
        else:
            notes += [
                f"topic {topic} is not traced: switch it on with `chronik trace on --topic {topic}`"
                for topic in self._topics or []
                if not any(is_traced(traces, topic) for traces in every)
            ]
        for note in [each for each in self._noted if each not in notes]:
            del self._noted[note]
        for note in notes:
            self._note(note)

    def _note(self, note: str) -> None:
        if note not in self._noted:
            self._noted[note] = None
            self._print_note(note)
