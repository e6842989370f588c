"""An audit's outcome, for people: the verdict as one sentence, findings as cells of a table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from chronik.pipeline.jobs.audit import AuditOutcome


def verdict(outcome: AuditOutcome) -> str:
    """The verdict, in one line."""
    totals, said = outcome.totals, []
    where = f"{totals['expected']:,} expected in {outcome.partitions_count:,} partitions"
    if outcome.lost:
        said.append(f"LOST: {totals['lost']:,} of {where}")
    else:
        said.append(f"Nothing is lost: {totals['found']:,} found of {where}")
    if outcome.sequences["lost"]:
        said.append(f"{outcome.sequences['lost']:,} that producers numbered are not in the log")
    said += [
        f"{totals[name]:,} {name}" for name in ("duplicated", "reordered", "unexpected", "unknown") if totals[name]
    ]
    reasons = ", ".join(f"{count:,} {name}" for name, count in outcome.explained_by.items() if count)
    if reasons:
        said.append(f"{totals['explained']:,} explained ({reasons})")
    if totals["acknowledged_twice"]:
        said.append(f"{totals['acknowledged_twice']:,} offsets were promised twice: of two messages, one is not there")
    return "; ".join(said) + "."


def finding_cells(row: dict[str, Any]) -> list[object]:
    why = row["reason"]
    if row["finding"] == "lost" and row["is_in_log"]:
        why = "in the log" + (", and served" if row["is_served"] else "")
    elif row["finding"] == "duplicated":
        why = f"{row['times']} times"
    size = row["end_offset"] - row["start_offset"]
    committed_by = ", ".join(row["committed_by"]) or None
    return [row["finding"], place(row), offset_range(row), size, why, row["producer"], committed_by]


def place(row: dict[str, Any]) -> str:
    return f"{row['topic']}-{row['partition']}"


def offset_range(row: dict[str, Any]) -> str:
    return span(row["start_offset"], row["end_offset"])


def sequence_range(row: dict[str, Any]) -> str:
    return span(row["start_sequence"], row["end_sequence"])


def span(start: int, end: int) -> str:
    """Both ends included, as people say it."""
    return f"{start:,}" if end - start == 1 else f"{start:,} to {end - 1:,}"
