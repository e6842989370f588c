"""The console's process: binds its port, builds the parts, serves until it is asked to end."""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType

import uvicorn

from chronik.console.asking import ClusterQuestions
from chronik.console.kafka_source import KafkaSource
from chronik.console.search.reader import BYTES_PER_S, open_consumer
from chronik.console.search.runs import SearchRuns
from chronik.console.watching import ClusterSource, ClusterWatch
from chronik.console.web.app import build
from chronik.console.web.desk import Desk

BACKLOG = 128
HEADER_BYTES_MAX = 32 * 1024


@dataclass(frozen=True)
class ConsoleSettings:
    bootstrap: str
    host: str
    allowed_hosts: tuple[str, ...] = ()
    is_read_only: bool = False
    search_bytes_per_s: int = BYTES_PER_S


def listen(host: str, port: int) -> socket.socket:
    """Raises OSError."""
    family = socket.AF_INET6 if ":" in host else socket.AF_INET
    return socket.create_server((host, port), family=family, backlog=BACKLOG)


class ConsoleServer(uvicorn.Server):
    """uvicorn sends itself the signal that ended it again, at its end. A console that is asked to end has ended as
    it should, with exit code 0."""

    def __init__(self, config: uvicorn.Config, watch: ClusterWatch) -> None:
        super().__init__(config)
        self._watch = watch

    def handle_exit(self, sig: int, frame: FrameType | None) -> None:
        super().handle_exit(sig, frame)
        self._watch.close_soon()  # open pages wait for its next look

    @contextmanager
    def capture_signals(self) -> Iterator[None]:
        before = {number: signal.signal(number, self.handle_exit) for number in (signal.SIGINT, signal.SIGTERM)}
        try:
            yield
        finally:
            for number, handler in before.items():
                signal.signal(number, handler)


def serve(settings: ConsoleSettings, listening: socket.socket) -> None:
    """Until SIGINT or SIGTERM."""
    questions = ClusterQuestions(settings.bootstrap)
    source = ClusterSource(settings.bootstrap, KafkaSource(settings.bootstrap, questions.admin))
    watch = ClusterWatch(source)
    searches = SearchRuns(questions.admin, lambda: open_consumer(settings.bootstrap), settings.search_bytes_per_s)
    desk = Desk(watch, questions, searches, settings.is_read_only)
    names = frozenset(
        name.lower() for name in (settings.host, "localhost", socket.gethostname(), *settings.allowed_hosts)
    )
    watch.open()
    config = uvicorn.Config(
        build(desk, names), http="h11", ws="none", lifespan="off", interface="asgi3", log_config=None, access_log=False,
        proxy_headers=False, server_header=False, timeout_graceful_shutdown=1,
        h11_max_incomplete_event_size=HEADER_BYTES_MAX,
    )  # fmt: skip
    try:
        ConsoleServer(config, watch).run([listening])
    finally:
        searches.stop_all()
        watch.close()
