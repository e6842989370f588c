"""What a report is made of, in plain values: small, whatever the size of what was looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

Rows = Sequence[dict[str, Any]]


@dataclass(frozen=True)
class Findings:
    """Rows are those of the tables of `diagnose` and `audit` (docs/pipeline-diagnose.md), the worst of each."""

    title: str
    made_at_us: int
    made_from: Sequence[str]  # in words: which cluster, which files
    version: str
    totals: dict[str, Any] | None = None  # of the trace; None: there is none
    whole_step_us: int = 1_000_000  # of `whole_timeline`
    stalls: Rows = ()
    stalls_count: int = 0
    partitions: Rows = ()  # the slowest first
    partitions_count: int = 0
    timeline: Rows = ()  # of the first of those partitions
    whole_timeline: Rows = ()
    refusals: Rows = ()
    rebalances: Rows = ()
    audit: dict[str, Any] | None = None  # as `chronik pipeline audit --json` prints it
    runs: Rows = ()  # as `chronik verify --json` prints them
    comparison: Rows = field(default=())
