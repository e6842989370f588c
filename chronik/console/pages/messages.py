"""A topic's messages: what was looked for, what was found, and what was read for it."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.console.pages.frame import Frame
from chronik.console.search.query import NEWEST, OFFSET, OLDEST, TIME, SearchQuery
from chronik.console.search.reader import FAILED, FINISHED, READING, FoundRow, SearchProgress
from chronik.console.words import time_of


@dataclass(frozen=True)
class CoverageRow:
    partition: int
    begin: int
    end: int
    read: tuple[str, ...]
    gone: int
    is_whole: bool
    problem: str | None


@dataclass(frozen=True)
class MessagesPage:
    frame: Frame
    query: SearchQuery
    at: str
    """The offset or time, as it was typed."""
    search: str | None
    status: str
    reason: str | None
    is_reading: bool
    can_go_on: bool
    rows: tuple[FoundRow, ...]
    found: int
    coverage: str
    is_whole: bool
    parts: tuple[CoverageRow, ...]
    problem: str | None = None


def messages_page(frame: Frame, query: SearchQuery, at: str, search: str, progress: SearchProgress) -> MessagesPage:
    parts = tuple(
        CoverageRow(
            part.partition,
            part.begin,
            part.end,
            tuple(f"{span.begin:,} to {span.end - 1:,}" for span in part.read),
            len(part.gone),
            part.is_whole,
            part.problem,
        )
        for part in progress.parts
    )
    return MessagesPage(
        frame, query, at, search, progress.status, progress.reason, progress.status == READING,
        progress.status not in (READING, FINISHED), progress.rows, progress.found, progress.coverage,
        progress.is_whole, parts,
    )  # fmt: skip


def refused_page(frame: Frame, query: SearchQuery, at: str, problem: str) -> MessagesPage:
    return MessagesPage(
        frame, query, at, None, FAILED, problem, False, False, (), 0, "nothing was read", False, (), problem
    )


def command_of(query: SearchQuery) -> list[str]:
    """The nearest that the command line has: text, header and JSON filters are the console's own."""
    if query.key and query.begin in (NEWEST, OLDEST):
        return ["where", query.topic, "--key", query.key]
    parts = ["consume", query.topic]
    if query.begin == OFFSET:
        parts += ["--offset", str(query.offset)]
    elif query.begin == TIME:
        parts += ["--offset", (time_of(query.time_ms) or "").replace(" ", "T")]
    else:
        parts.append("--from-beginning")
    if query.partitions is not None and len(query.partitions) == 1:
        parts += ["--partition", str(query.partitions[0])]
    return [*parts, "--timeout", "2"]
