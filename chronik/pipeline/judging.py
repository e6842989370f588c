"""What stalled in a stored trace: the rules of the live stall finder, asked again and again along the trace's own time.

Pure: events in, stalls out. A *moment* is a time at which the rules are asked, each whole `every_us` since 1970, so
that every job that judges a part of a trace asks at the same moments. As live, they are given the last `WINDOW_MS`
before it. A *stall* is one and the same verdict at moments that follow one another.
"""

from __future__ import annotations

from bisect import bisect_left, insort
from collections.abc import Iterable, Iterator, Sequence
from operator import attrgetter
from typing import TypeAlias

import msgspec

from chronik.trace.events import AnyEvent
from chronik.trace.lines import from_lines
from chronik.trace.stalls import Limits, find
from chronik.trace.stalls.limits import EVENTS_MAX, WINDOW_MS
from chronik.trace.stalls.window import fit
from chronik.trace.verdicts import Verdict

WINDOW_US = WINDOW_MS * 1000
EVERY_US = 1_000_000  # as often as live
APART_US = 5_000_000  # what is seen again after a longer time than this is another stall
LATE_US = 5_000_000  # a node that was not heard of for so long is not waited for

Key: TypeAlias = tuple[str, str | None, int, str | None, str | None, str | None]
DEFAULT_LIMITS = Limits()
_at_us = attrgetter("at_us")


class JudgedStall(msgspec.Struct, frozen=True):
    """Something that stalled, from its first moment to its last; `verdict` is the last of its verdicts."""

    verdict: Verdict
    since_us: int  # when it began, as the rules say
    named_us: int  # when it was first called a stall
    until_us: int  # when it was last
    moments: int  # how often it was asked and found

    @property
    def key(self) -> Key:
        return key_of(self.verdict)


def key_of(verdict: Verdict) -> Key:
    """What makes two verdicts the same stall."""
    return (
        str(verdict.cause),
        verdict.topic,
        verdict.partition,
        verdict.group,
        verdict.client_id,
        verdict.host,
    )


def known_events(lines: bytes) -> list[AnyEvent]:
    """Of one record or file. What a later version of the schema added is passed over, as its readers promise."""
    try:
        return from_lines(lines)
    except msgspec.DecodeError:
        return [event for line in lines.splitlines() for event in _known(line)]


def _known(line: bytes) -> list[AnyEvent]:
    try:
        return from_lines(line)
    except msgspec.DecodeError:
        return []


class Window:
    """The last events, in the order of their times."""

    def __init__(self, events: Iterable[AnyEvent] = ()) -> None:
        self.events: list[AnyEvent] = list(events)

    def add(self, events: Iterable[AnyEvent]) -> None:
        """They may be older than some that are here."""
        self.events += events
        self.events.sort(key=_at_us)

    def put(self, event: AnyEvent) -> None:
        """One that is the latest, or nearly: of a line that tells two steps, the first is older than its line."""
        if self.events and event.at_us < self.events[-1].at_us:
            insort(self.events, event, key=_at_us)
        else:
            self.events.append(event)

    def before(self, now_us: int) -> Sequence[AnyEvent]:
        """What the rules are given at this moment: as much as a live look would have."""
        end = bisect_left(self.events, now_us, key=_at_us)
        begin = bisect_left(self.events, now_us - WINDOW_US, hi=end, key=_at_us)
        return fit(self.events[begin:end], EVENTS_MAX)

    def is_anything(self, from_us: int, to_us: int) -> bool:
        """Whether anything was reported in [from_us, to_us)."""
        begin = bisect_left(self.events, from_us, key=_at_us)
        return begin < len(self.events) and self.events[begin].at_us < to_us

    def forget(self, now_us: int) -> None:
        """No moment before this one will be asked for."""
        end = bisect_left(self.events, now_us, key=_at_us)
        begin = bisect_left(self.events, now_us - WINDOW_US, hi=end, key=_at_us)
        if end - begin > EVENTS_MAX:
            self.events[:end] = fit(self.events[begin:end], EVENTS_MAX)
        else:
            del self.events[:begin]


class Stalls:
    """Makes stalls of the verdicts of moment after moment."""

    def __init__(self, under_way: Iterable[JudgedStall] = ()) -> None:
        self.under_way: dict[Key, JudgedStall] = {stall.key: stall for stall in under_way}

    def see(self, now_us: int, verdicts: Iterable[Verdict]) -> tuple[list[JudgedStall], list[JudgedStall]]:
        """What was found at a moment, later than all before. Returns those that began, and those that are over."""
        over = self._over(now_us)
        began: list[JudgedStall] = []
        for verdict in verdicts:
            key = key_of(verdict)
            known = self.under_way.get(key)
            if known is None:
                self.under_way[key] = JudgedStall(verdict, verdict.since_us, now_us, now_us, 1)
                began.append(self.under_way[key])
            elif known.until_us < now_us:  # two of one key at one moment are one
                since_us = min(known.since_us, verdict.since_us)
                self.under_way[key] = JudgedStall(verdict, since_us, known.named_us, now_us, known.moments + 1)
        return began, over

    def _over(self, now_us: int) -> list[JudgedStall]:
        over = [stall for stall in self.under_way.values() if now_us - stall.until_us > APART_US]
        for stall in over:
            del self.under_way[stall.key]
        return over


def stalls_between(
    events: Iterable[AnyEvent], from_us: int, to_us: int, every_us: int = EVERY_US, limits: Limits = DEFAULT_LIMITS
) -> list[JudgedStall]:
    """Of the moments in [from_us, to_us), given events nearly sorted by time, with those before. Never holds more
    than a window of them. A moment before which no node reported anything is passed over: nothing is known of it."""
    window, found = Window(), Stalls()
    over: list[JudgedStall] = []
    now_us = _first_moment(from_us, every_us)
    for event in events:
        if event.at_us >= now_us:
            over += _ask(window, found, now_us, to_us, every_us, limits)
            now_us = max(_first_moment(event.at_us + 1, every_us), now_us)
            window.forget(now_us)
        window.put(event)
    over += _ask(window, found, now_us, to_us, every_us, limits)
    return [*over, *found.under_way.values()]


def moments(window: Window, from_us: int, to_us: int, every_us: int = EVERY_US) -> Iterator[int]:
    """Those in [from_us, to_us) before which something was reported."""
    now_us = _first_moment(from_us, every_us)
    while now_us < to_us:
        if window.is_anything(now_us - every_us, now_us):
            yield now_us
        now_us += every_us


def find_at(window: Window, now_us: int, limits: Limits = DEFAULT_LIMITS) -> list[Verdict]:
    """What stalls at a moment."""
    return find(window.before(now_us), now_us, limits)


def _first_moment(from_us: int, every_us: int) -> int:
    return -(-from_us // every_us) * every_us


def _ask(window: Window, found: Stalls, now_us: int, to_us: int, every_us: int, limits: Limits) -> list[JudgedStall]:
    if now_us >= to_us or not window.is_anything(now_us - every_us, now_us):
        return []
    return found.see(now_us, find_at(window, now_us, limits))[1]


def ripe_until_us(events: Sequence[AnyEvent]) -> int:
    """Up to when every node has reported what there is, in a stream: the slowest node counts, unless it is silent."""
    heard: dict[int, int] = {}
    for event in events:
        heard[event.node] = max(heard.get(event.node, 0), event.at_us)
    latest_us = max(heard.values(), default=0)
    return min((at_us for at_us in heard.values() if latest_us - at_us <= LATE_US), default=0)
