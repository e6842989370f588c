"""Responses that are not due yet (Kafka's DelayedOperationPurgatory).

Producers wait here until their batch is safe, consumers until there is something to read.

No response has a task or a timer of its own. A producer stands in a line behind its partition, in the order of
appending; a consumer's fetch is registered at each partition it reads. When a watermark moves, the producers below it
are answered, and the fetches registered there are looked at again.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Iterable

from chronik.api.context import WaitingFetch, Watcher
from chronik.core.errors import Code
from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.node.runtime.deadlines import Deadline, Deadlines
from chronik.trace.metrics import Metrics
from chronik.trace.observer import NOT_OBSERVED, Observation

log = logging.getLogger(__name__)


class SafeWait:
    """A producer's wait for one partition: `done(code)` is called once."""

    __slots__ = ("deadline", "done", "end_offset")

    def __init__(self, end_offset: int, done: Callable[[Code], None]) -> None:
        self.end_offset = end_offset
        self.done: Callable[[Code], None] | None = done
        self.deadline: Deadline | None = None


class Purgatory:
    """Who waits for which partition."""

    def __init__(self, deadlines: Deadlines, metrics: Metrics, observation: Observation = NOT_OBSERVED) -> None:
        self._deadlines = deadlines
        self._observation = observation
        self._metrics = metrics
        self._for_leader: dict[Replica, deque[SafeWait]] = {}
        self._for_all: dict[Replica, deque[SafeWait]] = {}
        self._readers: dict[Replica, dict[WaitingFetch, None]] = {}
        self._watchers: dict[Replica, dict[Watcher, None]] = {}

    def when_safe(
        self, replica: Replica, end_offset: int, acks: int, timeout_ms: int, done: Callable[[Code], None]
    ) -> None:
        """Call `done` when everything below `end_offset` is safe as `acks` asks, or with the reason why not."""
        reached = replica.high_watermark if acks == ACKS_ALL else replica.durable_end_offset
        if end_offset <= reached:
            done(replica.code_when_safe() if acks == ACKS_ALL else Code.NONE)
            return
        if replica.offline is not None:  # it was lost already, and will not change again
            done(Code.KAFKA_STORAGE_ERROR)
            return
        wait = SafeWait(end_offset, done)
        lines = self._for_all if acks == ACKS_ALL else self._for_leader
        line = lines.get(replica)
        if line is None:
            line = lines[replica] = deque()
        line.append(wait)
        if timeout_ms >= 0:
            wait.deadline = self._deadlines.after_ms(timeout_ms, lambda: self._give_up(wait))

    def _give_up(self, wait: SafeWait) -> None:
        done, wait.done = wait.done, None
        if done is not None:
            done(Code.REQUEST_TIMED_OUT)

    def when_readable(self, replicas: Iterable[Replica], reader: WaitingFetch) -> None:
        """Wake the reader each time one of them has more to read, until `stop_reading`."""
        for replica in replicas:
            readers = self._readers.get(replica)
            if readers is None:
                readers = self._readers[replica] = {}
            readers[reader] = None

    def stop_reading(self, replicas: Iterable[Replica], reader: WaitingFetch) -> None:
        for replica in replicas:
            readers = self._readers.get(replica)
            if readers is not None:
                readers.pop(reader, None)
                if not readers:
                    del self._readers[replica]

    def after_ms(self, delay_ms: int, action: Callable[[], None]) -> Deadline:
        return self._deadlines.after_ms(delay_ms, action)

    def cancel(self, deadline: Deadline) -> None:
        self._deadlines.cancel(deadline)

    def watch(self, replica: Replica, watcher: Watcher) -> None:
        """Tell the watcher of every append, every move of a watermark or of the leadership, until `unwatch`."""
        self._watchers.setdefault(replica, {})[watcher] = None

    def unwatch(self, replica: Replica, watcher: Watcher) -> None:
        watchers = self._watchers.get(replica)
        if watchers is not None:
            watchers.pop(watcher, None)
            if not watchers:
                del self._watchers[replica]

    def appended(self, replica: Replica) -> None:
        """There is more in the log, safe or not."""
        for watcher in list(self._watchers.get(replica, ())):
            try:
                watcher.changed(replica)
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in a watcher")

    def moved(self, replica: Replica) -> None:
        """The replica is safe further than before: complete the requests that waited for it."""
        self._observation.observer.watermark_moved(replica)
        if replica in self._for_leader:
            self._release(self._for_leader, replica, replica.durable_end_offset)
        if replica in self._for_all:
            self._release(self._for_all, replica, replica.high_watermark, replica.code_when_safe)
        if replica in self._readers:
            self._wake_readers(replica)
        if replica in self._watchers:
            self.appended(replica)

    def lost(self, replica: Replica, code: Code) -> None:
        """The replica is no longer served here: no response can say that a batch is safe."""
        for lines in (self._for_leader, self._for_all):
            for wait in lines.pop(replica, ()):
                self._finish(wait, code)
        self._wake_readers(replica)
        self.appended(replica)

    def _release(
        self,
        lines: dict[Replica, deque[SafeWait]],
        replica: Replica,
        reached: int,
        code: Callable[[], Code] = lambda: Code.NONE,
    ) -> None:
        line = lines.get(replica)
        if line is None:
            return
        while line and line[0].end_offset <= reached:
            self._finish(line.popleft(), code())
        if not line and lines.get(replica) is line:
            del lines[replica]

    def _finish(self, wait: SafeWait, code: Code) -> None:
        if wait.deadline is not None:
            self._deadlines.cancel(wait.deadline)
        done, wait.done = wait.done, None
        if done is not None:
            try:
                done(code)
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in an answer that waited")  # the others in line must still get theirs

    def _wake_readers(self, replica: Replica) -> None:
        readers = self._readers.get(replica)
        if readers:
            for reader in list(readers):
                try:
                    reader.wake()
                except Exception:
                    self._metrics.faults += 1
                    log.exception("fault in a fetch that waited")

    def counts(self) -> tuple[int, int]:
        """Batches that wait to be safe and fetches that wait for something to read, for the metrics."""
        lines = [line for lines in (self._for_leader, self._for_all) for line in lines.values()]
        batches = sum(wait.done is not None for line in lines for wait in line)  # who gave up is still in line
        return batches, len({reader for readers in self._readers.values() for reader in readers})
