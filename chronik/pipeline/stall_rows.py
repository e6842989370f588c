"""Rows of the table of stalls, for people: which of them are one thing to read, from when to when each lasted."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from datetime import UTC, datetime
from typing import Any

from chronik.pipeline.judging import key_of
from chronik.trace.verdicts import Cause, Verdict, together

OVER_US = 5_000_000  # what was last seen so long before the trace ends was over


def alike_of(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """Stalls that are one thing to read: of many partitions at one time. What came again later is shown again."""
    again: dict[int, list[dict[str, Any]]] = {}  # the first time of each, the second ...
    times: Counter[Any] = Counter()
    for row in rows:
        key = key_of(verdict_of(row))
        again.setdefault(times[key], []).append(row)
        times[key] += 1
    found = []
    for several in again.values():
        by_verdict = {id(verdict): (verdict, row) for row in several for verdict in [verdict_of(row)]}
        verdicts = [verdict for verdict, _ in by_verdict.values()]
        found += [[by_verdict[id(verdict)][1] for verdict in alike] for alike in together(verdicts)]
    return found


def verdict_of(row: dict[str, Any]) -> Verdict:
    who = {name: row[name] for name in ("since_us", "topic", "partition", "group", "client_id", "host", "node")}
    return Verdict(Cause(row["cause"]), row["summary"], tuple(row["evidence"]), row["advice"], **who)


def when_of(row: dict[str, Any], end_us: int) -> str:
    """From when to when, and whether it was still so at the end of the trace."""
    lasted = f"{(row['until_us'] - row['since_us']) / 1e6:.0f} s"
    is_over = end_us - row["until_us"] > OVER_US
    until = f"to {clock_time(row['until_us'])}, {lasted}" if is_over else f"to the end of the trace, {lasted}"
    return f"from {moment(row['since_us'])} {until}; named at {clock_time(row['named_us'])}"


def milliseconds(percentiles_us: Sequence[int] | None) -> str | None:
    """The 99th of 50, 99 and 99.9."""
    return f"{percentiles_us[1] / 1000:.1f} ms" if percentiles_us else None


def moment(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%Y-%m-%d %H:%M:%S UTC")


def clock_time(at_us: int) -> str:
    return datetime.fromtimestamp(at_us / 1e6, UTC).strftime("%H:%M:%S")
