"""Memory of a node: when nobody has asked anything yet, and after much has gone in and out."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

from tests.bench.row import Bench, Figure, Figures, Row, at_most, one_line
from tests.bench.systems.system import bootstrap, memory_megabytes, resident_megabytes

TOPIC = "much"
VALUE_BYTES = 1_000
SAMPLE_S = 0.2


@contextmanager
def watched_memory(pid: int) -> Iterator[list[tuple[float, float]]]:
    """Seconds and resident megabytes, from now until the block ends."""
    points: list[tuple[float, float]] = []
    is_over = threading.Event()
    started = time.monotonic()

    def watch() -> None:
        while not is_over.wait(SAMPLE_S if points else 0):
            points.append((round(time.monotonic() - started, 2), round(resident_megabytes(pid), 1)))

    watching = threading.Thread(target=watch, daemon=True)
    watching.start()
    try:
        yield points
    finally:
        is_over.set()
        watching.join()


def memory(bench: Bench) -> Figures:
    with bench.server() as server, watched_memory(server.pid) as points:
        time.sleep(bench.scale.settle_s)
        idle_resident, idle_unshared = memory_megabytes(server.pid)
        messages = bench.scale.memory_bytes // VALUE_BYTES
        stream = {"topic": TOPIC, "messages": messages, "value_bytes": VALUE_BYTES}
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 12})
        for job in ("produce", "consume"):
            bench.client.ask(job, bootstrap=bootstrap(server), node_pids=[server.pid], **stream)
        used_resident, used_unshared = memory_megabytes(server.pid)
    bench.series["one node"] = points
    return {
        "idle_resident_mb": idle_resident,
        "idle_unshared_mb": idle_unshared,
        "used_resident_mb": used_resident,
        "used_unshared_mb": used_unshared,
    }


ROW = Row(
    "memory",
    "Memory of a node: idle after its start; used by 1 GB in and 1 GB out (a quick run: 200 MB)",
    (
        Figure("idle_resident_mb", "idle, RSS, MB", at_most(60), ratio_goal=at_most(0.2), moonshot=at_most(0.1)),
        Figure("idle_unshared_mb", "idle, PSS, MB"),
        Figure("used_resident_mb", "used, RSS, MB", ratio_goal=at_most(0.2), moonshot=at_most(0.1)),
        Figure("used_unshared_mb", "used, PSS, MB"),
    ),
    (one_line("one node", memory),),
    code="B9",
)
