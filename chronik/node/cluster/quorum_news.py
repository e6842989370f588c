"""Fetches of the metadata log that wait at this node until there is news: more of the log, a higher watermark, another
leader. It answers a follower's fetch as a purgatory does, for a log whose watermark is Raft's.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable

from chronik.core.raft.messages import LastAnswer
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)


class QuorumNews:
    """A number that changes with whatever a waiting fetch may want to know, and who waits for it to change."""

    def __init__(self, metrics: Metrics) -> None:
        self.number = 0
        self.last_answers: dict[int, LastAnswer] = {}  # by follower
        self._metrics = metrics
        self._readers: dict[Callable[[], None], None] = {}
        self._is_wake_planned = False

    def publish(self) -> None:
        self.number += 1
        self.wake_soon()

    def add_reader(self, reader: Callable[[], None]) -> None:
        self._readers[reader] = None

    def remove_reader(self, reader: Callable[[], None]) -> None:
        self._readers.pop(reader, None)

    def wake_soon(self) -> None:
        """Once for all that happens in this turn of the loop."""
        if self._readers and not self._is_wake_planned:
            self._is_wake_planned = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._is_wake_planned = False
        for reader in list(self._readers):
            try:
                reader()
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in a fetch that waited")
