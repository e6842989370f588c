"""The tables at the end of the page: every figure that the pictures show, and those of audits and runs."""

from __future__ import annotations

from collections.abc import Iterator

from chronik.pipeline.report.findings import Findings
from chronik.pipeline.report.sections import heading, less
from chronik.pipeline.report.tables import milliseconds, table, time_of_day


def tables(findings: Findings) -> Iterator[str]:
    found = [*_audit_tables(findings), *_trace_tables(findings), *_run_tables(findings)]
    if found:
        yield heading("Figures", "")
        yield from (f'<div class="card" style="margin-bottom:1rem">{each}</div>' for each in found)


def _audit_tables(findings: Findings) -> Iterator[str]:
    audit = findings.audit
    if audit is None:
        return
    counts = ("expected", "found", "lost", "duplicated", "reordered", "unexpected", "explained", "unknown")
    rows = audit["partitions"] if isinstance(audit["partitions"], list) else []
    if rows:
        body = [
            (
                row["topic"],
                row["partition"],
                row["start_offset"],
                row["end_offset"],
                *(row.get(name) for name in counts),
            )
            for row in rows
        ]
        yield table(
            "Audit, by partition: every offset of the range has one outcome",
            ["topic", "partition", "from", "to", *counts],
            body,
            ("lost",),
        )
    worst = [row for row in audit.get("findings", ()) if row["finding"] != "explained"]
    if worst:
        body = [
            (row["finding"], row["topic"], row["partition"], row["start_offset"], row["end_offset"], row["producer"])
            for row in worst
        ]
        yield table("Audit: where those are", ["finding", "topic", "partition", "from", "to", "producer"], body)


def _trace_tables(findings: Findings) -> Iterator[str]:
    if findings.partitions:
        yield table(
            "Partitions, the slowest first",
            [
                "topic",
                "partition",
                "in",
                "out",
                "stalled",
                "not visible",
                "not read",
                "largest gap",
                "refusals",
                "leader changes",
                "produce p50",
                "p99",
                "p99.9",
                "fetch p99",
            ],
            [
                (
                    *(row[name] for name in ("topic", "partition", "records_in", "records_out")),
                    _stalled(findings, row["topic"], row["partition"]),
                    less(row["next_offset"], row["watermark"]),
                    *(row[name] for name in ("unread", "gap_max", "refusals", "leader_changes")),
                    *(milliseconds(row["produce_us"], place) for place in range(3)),
                    milliseconds(row["fetch_us"], 1),
                )
                for row in findings.partitions
            ],
            ("stalled",),
        )
    if findings.refusals:
        yield table(
            "Refusals, by client",
            ["client", "host", "asked", "refused with", "topic", "times", "by nodes", "first", "last"],
            [
                (
                    *(row[name] for name in ("client_id", "host", "api", "error", "topic", "times", "nodes")),
                    time_of_day(row["first_us"]),
                    time_of_day(row["last_us"]),
                )
                for row in findings.refusals
            ],
        )
    if findings.rebalances:
        yield table(
            "Groups",
            ["group", "rebalances", "joined", "left", "expired", "not at rest", "state"],
            [
                (
                    *(row[name] for name in ("group", "rebalances", "joined", "left", "expired")),
                    f"{(row['restless_us'] or 0) / 1e6:.1f} s",
                    row["state"],
                )
                for row in findings.rebalances
            ],
        )


def _stalled(findings: Findings, topic: str, partition: int) -> str | None:
    longest_us = max(
        (
            stall["until_us"] - stall["since_us"]
            for stall in findings.stalls
            if (stall["topic"], stall["partition"]) == (topic, partition)
        ),
        default=None,
    )
    return None if longest_us is None else f"{longest_us / 1e6:,.0f} s"


def _run_tables(findings: Findings) -> Iterator[str]:
    if findings.runs:
        names = (
            "run",
            "verdict",
            "cause",
            "produced",
            "acknowledged",
            "consumed",
            "lost",
            "duplicated",
            "reordered",
            "produced_per_second",
            "consumed_per_second",
        )
        body = [tuple(run.get(name) for name in names) for run in findings.runs]
        yield table(
            "Runs of chronik verify",
            [name.replace("_per_", "/").replace("second", "s") for name in names],
            body,
            ("lost",),
        )
