"""The trace: what is traced, the newest events, what was refused to which client, and how long each step took."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from chronik.client.inspect_request import Inspections
from chronik.console.pages.frame import Frame
from chronik.console.words import time_of
from chronik.inspect.event_lines import KINDS, STATE_KINDS, kind_of, line_of
from chronik.trace.events import AnyEvent, FetchAnswered, ProduceAnswered, RefusedEvent
from chronik.trace.inspections import EventsView, Traces

ASKED_MAX = 2_000
"""Events of each node that a page is made of."""
SHOWN_MAX = 200
REFUSALS_MAX = 30
SHOWN_KINDS = tuple(kind for kind in KINDS if kind not in STATE_KINDS)


@dataclass(frozen=True)
class TracedNode:
    node: int
    words: str
    events: int
    kept: int
    is_stored: bool
    lost: int


@dataclass(frozen=True)
class EventShown:
    at: str | None
    node: int
    kind: str
    subject: str
    verb: str
    words: str


@dataclass(frozen=True)
class RefusalShown:
    client_id: str
    host: str
    api: str
    error: str
    count: int
    reason: str | None
    last_at: str | None


@dataclass(frozen=True)
class StepTime:
    """Of one step in one topic, in milliseconds."""

    step: str
    topic: str
    count: int
    p50_ms: float
    p99_ms: float
    longest_ms: float


@dataclass(frozen=True)
class TracePage:
    frame: Frame
    topic: str
    kind: str
    client: str
    kinds: tuple[str, ...]
    nodes: tuple[TracedNode, ...]
    is_on: bool
    is_all: bool
    topics: tuple[str, ...]
    """Those of which something else holds than of all others."""
    events: tuple[EventShown, ...]
    fitting: int
    refusals: tuple[RefusalShown, ...]
    times: tuple[StepTime, ...]
    unknown: tuple[str, ...]


def trace_page(frame: Frame, found: Inspections[EventsView], topic: str, kind: str, client: str) -> TracePage:
    events = sorted((event for view in found.values() for event in view.events), key=lambda event: -event.at_us)
    events = [event for event in events if _fits(event, client)]
    listed = [event for event in events if not kind or kind_of(event) == kind]
    traces = [view.traces for view in found.values()]
    unknown = [f"what node {node} traced: it does not answer ({why})" for node, why in sorted(found.silent.items())]
    unknown += [f"events of node {view.node} that it had to let go of" for view in found.values() if view.lost]
    return TracePage(
        frame, topic, kind, client, SHOWN_KINDS, tuple(_node(view) for view in found.values()),
        any(each.is_on for each in traces), any(each.is_all for each in traces),
        tuple(sorted({name for each in traces for name in each.exceptions})),
        tuple(_shown(event) for event in listed[:SHOWN_MAX]), len(listed),
        tuple(refusals(events))[:REFUSALS_MAX], tuple(step_times(events)), tuple(unknown),
    )  # fmt: skip


def _fits(event: AnyEvent, client: str) -> bool:
    return not client or client in getattr(event, "client_id", "")


def _node(view: EventsView) -> TracedNode:
    traces = view.traces
    return TracedNode(view.node, _words(traces), traces.added, traces.kept, traces.is_stored, view.lost)


def _words(traces: Traces) -> str:
    if traces.is_all:
        return "every topic" + (f" but {', '.join(traces.exceptions)}" if traces.exceptions else "")
    return ", ".join(traces.exceptions) or "nothing"


def _shown(event: AnyEvent) -> EventShown:
    line = line_of(event)
    return EventShown(time_of(event.at_us / 1000), event.node, kind_of(event), line.subject, line.verb, line.words)


def refusals(events: Iterable[AnyEvent]) -> list[RefusalShown]:
    """By client and reason, the most frequent first."""
    counts: Counter[tuple[str, str, str, str]] = Counter()
    last: dict[tuple[str, str, str, str], RefusedEvent] = {}
    for event in events:
        if isinstance(event, RefusedEvent):
            key = event.client_id, event.host, event.api, event.error
            counts[key] += 1
            if key not in last or event.at_us > last[key].at_us:
                last[key] = event
    return [
        RefusalShown(*key, count, last[key].reason, time_of(last[key].at_us / 1000))
        for key, count in counts.most_common()
    ]


def step_times(events: Iterable[AnyEvent]) -> list[StepTime]:
    """From the request's arrival to its answer. A fetch that waited for records took as long as it was asked to."""
    took: Mapping[tuple[str, str], list[int]] = defaultdict(list)
    for event in events:
        if isinstance(event, ProduceAnswered):
            took["produce answered", event.topic].append(event.took_us)
        elif isinstance(event, FetchAnswered) and not event.has_waited:
            took["fetch answered at once", event.topic].append(event.took_us)
    return [
        StepTime(step, topic, len(times), _ms(times, 0.5), _ms(times, 0.99), _ms(times, 1.0))
        for (step, topic), times in sorted(took.items())
    ]


def _ms(times_us: Sequence[int], share: float) -> float:
    ordered = sorted(times_us)
    return ordered[min(int(share * len(ordered)), len(ordered) - 1)] / 1000
