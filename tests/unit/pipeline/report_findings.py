"""Findings of a small cluster with one follower that stopped, for tests of the page."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from chronik.pipeline.report.findings import Findings

FROM_US = 1_763_265_600_000_000
SECOND_US = 1_000_000
STALL = {
    "cause": "watermark stands still",
    "topic": "orders",
    "partition": 1,
    "group": None,
    "client_id": None,
    "host": None,
    "node": 3,
    "since_us": FROM_US + 10 * SECOND_US,
    "named_us": FROM_US + 15 * SECOND_US,
    "until_us": FROM_US + 20 * SECOND_US,
    "moments": 6,
    "summary": "orders:1 hides 5 records <above> 7",
    "evidence": ["at 10:00 its leader has 12", "follower 3 has 7"],
    "advice": "see whether node 3 runs",
}
AUDIT = {
    "expected_by": "ledger",
    "expected": 5000,
    "found": 5000,
    "lost": 0,
    "duplicated": 0,
    "reordered": 0,
    "unexpected": 0,
    "explained": 0,
    "explained_by": {},
    "partitions": [],
    "findings": [],
}
RUN = {"run": 7, "verdict": "pass", "cause": None, "produced": 100, "consumed": 100, "lost": 0}


def stepped(step: int, topic: str, partition: int) -> dict[str, Any]:
    return {
        "topic": topic,
        "partition": partition,
        "from_us": FROM_US + step * SECOND_US,
        "next_offset": 10 * step,
        "watermark": 10 * step if partition != 1 else min(10 * step, 100),
        "consumed": None if step % 2 else 10 * step,
        "committed": None,
        "records_in": 10,
        "bytes_in": 1000,
        "records_out": 10,
        "bytes_out": 1000,
        "produce_us": [1000, 5000, 9000] if step else None,
        "fetch_us": None,
        "refusals": 0,
    }


def partition_row(partition: int) -> dict[str, Any]:
    return stepped(30, "orders", partition) | {"unread": 3, "gap_max": 12, "leader_changes": 1}


def findings(**others: Any) -> Findings:
    """Nothing wrong, with an audit, unless said otherwise."""
    whole = Findings(
        title="A test & more",
        made_at_us=FROM_US,
        made_from=["the trace of a test"],
        version="0.0",
        totals={
            "lines": 100,
            "events": 100,
            "from_us": FROM_US,
            "to_us": FROM_US + 30 * SECOND_US,
            "nodes": [1, 2, 3],
            "events_lost": 0,
        },
        partitions=[partition_row(1), partition_row(0)],
        partitions_count=2,
        timeline=[stepped(step, "orders", number) for number in (0, 1) for step in range(31)],
        whole_timeline=[stepped(step, "orders", 0) for step in range(31)],
        audit=AUDIT,
    )
    return replace(whole, **others)
