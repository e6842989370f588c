"""The one poller of the console: all open pages share what it sees.

It looks only while a page is open, and rests after each look for as long as keeps the cost to the nodes below a set
share of the time: a large cluster, where a look takes longer, is looked at less often.
"""

from __future__ import annotations

import asyncio
import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass

from chronik.client import inspect_request
from chronik.client.connecting import parse_addresses
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import NotChronik
from chronik.client.request import NoAnswer
from chronik.console.kafka_source import KafkaSource
from chronik.console.series import RateSeries, Series
from chronik.console.sight import Sight, of_chronik
from chronik.inspect.live_model import RateHistory
from chronik.inspect.live_source import Looker

log = logging.getLogger(__name__)

INTERVAL_S = 2.0
SHARE_MAX = 0.1  # of the time, spent in looks: most of that is waiting, so the nodes work for far less of it
REST_S_MAX = 60.0
AWAY_PAUSE_S = 1.0
AWAKE_S = 20.0  # after the last page asked for anything
FIRST_LOOK_S = 8.0

Look = Callable[[int], Sight]


@dataclass(frozen=True)
class Observed:
    """The newest sight, if there ever was one; and since when and why there is no newer one."""

    sight: Sight | None
    problem: str | None = None
    since_ms: int | None = None
    version: int = 0
    """Rises with each look, also with one that failed."""


def rest_s(took_s: float, interval_s: float = INTERVAL_S, share: float = SHARE_MAX) -> float:
    """How long to rest after a look."""
    return max(interval_s - took_s, min(took_s / share, REST_S_MAX))


class ClusterSource:
    """Looks at a cluster, whichever kind it is: that is found out anew whenever it did not answer."""

    def __init__(self, bootstrap: str, kafka: KafkaSource) -> None:
        self._addresses = parse_addresses(bootstrap)
        self._looker = Looker(self._addresses)
        self._history = RateHistory()
        self._kafka = kafka
        self._is_chronik = True

    def __call__(self, number: int) -> Sight:
        """Raises NoAnswer, ChronikError."""
        if not self._is_chronik:
            try:
                return self._kafka.look(number)
            except (NoAnswer, ChronikError):
                self._is_chronik = True  # something else may be there when it answers again
                raise
        began_s = time.monotonic()
        try:
            snapshot = self._looker()
            cluster = inspect_request.cluster(self._looker.addresses)
        except NotChronik:
            self._is_chronik = False
            return self._kafka.look(number)
        view = self._history.take(snapshot)
        return of_chronik(number, round(time.time() * 1000), cluster, snapshot, view, time.monotonic() - began_s)


class ClusterWatch:
    """Runs on a thread of its own: a node that hangs must not hang a page."""

    def __init__(self, look: Look, interval_s: float = INTERVAL_S) -> None:
        self._look = look
        self._interval_s = interval_s
        self._changed = threading.Condition()
        self._observed = Observed(None)
        self._series = RateSeries()
        self._number = 0
        self._awake_until_s = 0.0
        self._is_closing = False
        self._is_wanted_now = False
        self._subscribers: dict[asyncio.Event, asyncio.AbstractEventLoop] = {}
        self._thread = threading.Thread(target=self._run, name="console-watch", daemon=True)

    def open(self) -> None:
        self._thread.start()

    def close(self) -> None:
        """Pages that wait are answered as well, and go."""
        with self._changed:
            self._is_closing = True
            self._tell_subscribers()
            self._changed.notify_all()

    def close_soon(self) -> None:
        """From a signal handler, which may have interrupted what holds the lock."""
        threading.Thread(target=self.close, name="console-close", daemon=True).start()

    @property
    def is_closing(self) -> bool:
        return self._is_closing

    def touch(self) -> None:
        """A page is open: go on looking."""
        with self._changed:
            self._awake_until_s = time.monotonic() + AWAKE_S
            self._changed.notify_all()

    def observed(self, timeout_s: float = FIRST_LOOK_S) -> Observed:
        """The newest; waits for the first look, and for a new one where no page looked for long."""
        self.touch()
        with self._changed:
            if self._is_old():
                before = self._observed.version
                self._changed.wait_for(lambda: self._observed.version > before or self._is_closing, timeout_s)
            return self._observed

    def newest(self) -> Observed:
        """What there is, without waiting."""
        with self._changed:
            return self._observed

    def look_again(self) -> None:
        """Something was changed by hand: the next page is to show it. Waits for a look that began after this."""
        self.touch()
        with self._changed:
            self._is_wanted_now = True
            self._changed.notify_all()
            self._changed.wait_for(lambda: not self._is_wanted_now or self._is_closing, FIRST_LOOK_S)

    def series(self) -> Series:
        with self._changed:
            return self._series.read()

    def subscribe(self) -> asyncio.Event:
        """An event of this loop that is set after each look."""
        event = asyncio.Event()
        with self._changed:
            self._subscribers[event] = asyncio.get_running_loop()
        return event

    def unsubscribe(self, event: asyncio.Event) -> None:
        with self._changed:
            self._subscribers.pop(event, None)

    def _is_old(self) -> bool:
        sight = self._observed.sight
        return sight is None or time.time() * 1000 - sight.at_ms > AWAKE_S * 1000 + REST_S_MAX * 1000

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._is_closing or time.monotonic() < self._awake_until_s)
                if self._is_closing:
                    return
                was_wanted, self._number = self._is_wanted_now, self._number + 1
            pause_s = self._look_once()
            with self._changed:
                if was_wanted:
                    self._is_wanted_now = False
                self._changed.notify_all()
                self._changed.wait_for(lambda: self._is_closing or self._is_wanted_now, pause_s)

    def _look_once(self) -> float:
        began_s = time.monotonic()
        try:
            sight = self._look(self._number).prepare()
        except (NoAnswer, ChronikError) as problem:
            self._tell(None, str(problem))
            return AWAY_PAUSE_S
        except Exception as fault:  # the pages say it; what comes next may be whole again
            log.exception("a look at the cluster failed")
            self._tell(None, f"a fault of the console: {fault!r}")
            return AWAY_PAUSE_S
        self._tell(sight, None)
        # The first look loads modules and opens connections: what it took says nothing of the next.
        return self._interval_s if self._number == 1 else rest_s(time.monotonic() - began_s, self._interval_s)

    def _tell(self, sight: Sight | None, problem: str | None) -> None:
        with self._changed:
            before = self._observed
            since_ms = None if problem is None else before.since_ms or round(time.time() * 1000)
            self._observed = Observed(sight or before.sight, problem, since_ms, before.version + 1)
            if sight is not None:
                self._series.take(time.time(), sight)
            self._tell_subscribers()
            self._changed.notify_all()

    def _tell_subscribers(self) -> None:
        for event, loop in self._subscribers.items():
            if not loop.is_closed():
                loop.call_soon_threadsafe(event.set)
