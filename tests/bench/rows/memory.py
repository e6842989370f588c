"""Memory of a node: when nobody has asked anything yet, and after much has gone in and out."""

from __future__ import annotations

import time

from tests.bench.row import Bench, Figure, Figures, Row, at_most, one_line
from tests.bench.systems.system import bootstrap, memory_megabytes

TOPIC = "much"
VALUE_BYTES = 1_000


def memory(bench: Bench) -> Figures:
    with bench.server() as server:
        time.sleep(bench.scale.settle_s)
        idle_resident, idle_unshared = memory_megabytes(server.pid)
        messages = bench.scale.memory_bytes // VALUE_BYTES
        stream = {"topic": TOPIC, "messages": messages, "value_bytes": VALUE_BYTES}
        bench.client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 12})
        for job in ("produce", "consume"):
            bench.client.ask(job, bootstrap=bootstrap(server), node_pids=[server.pid], **stream)
        used_resident, used_unshared = memory_megabytes(server.pid)
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
        Figure("idle_resident_mb", "idle, RSS, MB", at_most(60)),
        Figure("idle_unshared_mb", "idle, PSS, MB"),
        Figure("used_resident_mb", "used, RSS, MB"),
        Figure("used_unshared_mb", "used, PSS, MB"),
    ),
    (one_line("one node", memory),),
)
