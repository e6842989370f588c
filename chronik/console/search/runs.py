"""The searches of all pages: so many at most, the ones not looked at for longest go first."""

from __future__ import annotations

import secrets
import threading
from collections import OrderedDict
from collections.abc import Callable

from chronik.client.admin import ClusterAdmin
from chronik.console.search.query import SearchQuery
from chronik.console.search.reader import BYTES_PER_S, SearchRun, TopicReader

KEPT_MAX = 24
READING_MAX = 3  # at a time; further ones wait


class SearchRuns:
    def __init__(
        self,
        admin: Callable[[], ClusterAdmin],
        open_consumer: Callable[[], TopicReader],
        bytes_per_s: int = BYTES_PER_S,
    ) -> None:
        self._admin = admin
        self._open_consumer = open_consumer
        self._bytes_per_s = bytes_per_s
        self._legs = threading.Semaphore(READING_MAX)
        self._guard = threading.Lock()
        self._runs: OrderedDict[str, SearchRun] = OrderedDict()

    def begin(self, query: SearchQuery) -> tuple[str, SearchRun]:
        run = SearchRun(query, self._admin, self._open_consumer, self._legs, self._bytes_per_s // READING_MAX)
        name = secrets.token_hex(8)
        with self._guard:
            self._runs[name] = run
            old = [self._runs.popitem(last=False)[1] for _ in range(len(self._runs) - KEPT_MAX)]
        for each in old:
            each.stop("there are too many searches")
        run.go_on()
        return name, run

    def find(self, name: str) -> SearchRun | None:
        with self._guard:
            if name in self._runs:
                self._runs.move_to_end(name)
            return self._runs.get(name)

    def stop_all(self) -> None:
        with self._guard:
            runs = list(self._runs.values())
        for run in runs:
            run.stop("the console ends")
