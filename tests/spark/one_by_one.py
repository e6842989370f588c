"""An audit that looks at each offset by itself: slow, simple, and what the fast one is held against."""

from __future__ import annotations

from typing import Any, NamedTuple

from chronik.pipeline import sweep as s
from chronik.pipeline.sweep import NONE, Sides


class Run(NamedTuple):
    layer: int
    start: int
    end: int
    position: int = NONE
    producer: int = NONE


class Said(NamedTuple):
    """Of one offset."""

    outcome: int
    reason: int
    is_expected: bool
    is_duplicated: bool
    is_reordered: bool
    times: int


def one_by_one(runs: list[Run], sides: Sides) -> dict[int, Said]:
    """The same, an offset at a time."""
    (whole,) = (run for run in runs if run.layer == s.RANGE)
    first_given: dict[int, int] = {}
    numbered: dict[int, tuple[int, int]] = {}
    for run in runs:
        for offset in range(run.start, run.end):
            at = run.position + offset - run.start
            if run.layer == s.RECEIVED:
                first_given[offset] = min(first_given.get(offset, at), at)
            if run.layer == s.LEDGER and (offset not in numbered or numbered[offset][1] > at):
                numbered[offset] = (run.producer, at)
    return {offset: _said(offset, runs, sides, first_given, numbered) for offset in range(whole.start, whole.end)}


def _said(offset: int, runs: list[Run], sides: Sides, first_given: dict[int, int], numbered: dict[int, Any]) -> Said:
    over = [run.layer for run in runs if run.start <= offset < run.end]
    is_there, received = s.RECORD in over, over.count(s.RECEIVED)
    times = received if sides.has_received else over.count(s.RECORD)
    reasons = [layer for layer in range(s.MARKER, s.LAYERS) if layer in over and (layer == s.WAITING) == is_there]
    if sides.has_ledger:
        is_expected = s.LEDGER in over
    elif sides.has_log and sides.has_received:
        is_expected = is_there or (received > 0 and (s.RETENTION in over or s.COMPACTION in over))
    else:
        is_expected = True
    reason = NONE
    if is_expected and times:
        outcome = s.FOUND
    elif not is_expected and (times or is_there):
        outcome = s.UNEXPECTED
    elif reasons:
        outcome, reason = s.EXPLAINED, reasons[0]
    else:
        outcome = s.LOST if is_expected else s.UNKNOWN
    mine = numbered.get(offset)
    is_late = offset in first_given and any(
        other > offset and at < first_given[offset] for other, at in first_given.items()
    )
    is_late |= mine is not None and any(
        other < offset and whose == mine[0] and number > mine[1] for other, (whose, number) in numbered.items()
    )
    return Said(outcome, reason, is_expected, times > 1, is_late and times > 0, times)
