"""What is recorded of the requests, and how long it is kept."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import BOOLEAN, DAY_MS, INT, LONG, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class TraceConfig(Section):
    """What is recorded of the requests, and how long it is kept."""

    chronik_trace: bool = setting(
        BOOLEAN, False, "Default of a topic's chronik.trace: whether what happens to it is recorded.", dynamic=True
    )
    chronik_trace_store: bool = setting(
        BOOLEAN, True, "Whether what is recorded goes to the topic __chronik_trace as well.", dynamic=True
    )
    chronik_trace_retention_ms: int = setting(
        LONG, DAY_MS, "How long __chronik_trace keeps it; read when that topic is created.", at_least(-1)
    )
    chronik_trace_ring_events: int = setting(
        INT, 50_000, "Events each node keeps in memory for those that look now.", at_least(1)
    )
