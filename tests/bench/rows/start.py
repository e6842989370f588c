"""Start to first acknowledged message: from the spawn of the process, in an empty directory and in one with data."""

from __future__ import annotations

import time

from tests.bench.row import Bench, Figure, Figures, Row, at_most, one_line
from tests.bench.systems.system import Server

TOPIC = "first"


def first_start(bench: Bench) -> Figures:
    """The directory is empty (Kafka's is formatted, which is not counted): the topic is created on the way."""
    server = bench.system.server(bench.directory / "server", {})
    try:
        return {"start_s": _time_to_first_message(bench, server)}
    finally:
        server.kill()


def later_start(bench: Bench) -> Figures:
    """After a stop in order, with the topic there."""
    server = bench.system.server(bench.directory / "server", {})
    try:
        _time_to_first_message(bench, server)
        server.stop()
        return {"start_s": _time_to_first_message(bench, server)}
    finally:
        server.kill()


def _time_to_first_message(bench: Bench, server: Server) -> float:
    bench.client.begin("first_acknowledged", port=server.port, topic=TOPIC)
    spawned = time.monotonic()
    server.spawn()
    return bench.client.wait_for_figures()["at"] - spawned


ROW = Row(
    "start",
    "Start to first acknowledged message",
    (Figure("start_s", "seconds", at_most(0.5), digits=3, ratio_goal=at_most(0.2), moonshot=at_most(0.1)),),
    (one_line("first start", first_start), one_line("later start", later_start, is_quick=False)),
    code="B8",
)
