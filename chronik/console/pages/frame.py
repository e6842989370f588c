"""What is around every page: which cluster this is, how fresh what is shown is, and what is wrong with it right now."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.client.words import counted
from chronik.console.watching import Observed
from chronik.console.words import span, time_of


@dataclass(frozen=True)
class Frame:
    title: str
    section: str
    command: str
    """What says the same on the command line."""
    bootstrap: str
    is_read_only: bool
    cluster_id: str | None
    is_chronik: bool | None
    seen_at: str | None
    problem: str | None
    """Why there is nothing newer than that."""
    silent: tuple[str, ...]
    stalls: int


def frame_of(
    observed: Observed, now_ms: int, title: str, section: str, command: str, bootstrap: str, is_read_only: bool
) -> Frame:
    sight = observed.sight
    problem = None
    if observed.problem is not None:
        for_s = max(now_ms - (observed.since_ms or now_ms), 0) / 1000
        problem = f"no answer for {span(for_s)}: {observed.problem}"
    silent = () if sight is None else tuple(f"node {node.id}: {node.reason}" for node in sight.silent)
    return Frame(
        title,
        section,
        command,
        bootstrap,
        is_read_only,
        None if sight is None else sight.cluster_id,
        None if sight is None else sight.is_chronik,
        None if sight is None else time_of(sight.at_ms),
        problem,
        silent,
        0 if sight is None else len(sight.verdicts),
    )


def paged(count: int, page: int, size: int) -> tuple[int, int, int]:
    """The page that there is nearest to the one asked for, and from which row to which it goes."""
    pages = max((count + size - 1) // size, 1)
    page = min(max(page, 1), pages)
    return page, (page - 1) * size, min(page * size, count)


def rows_words(begin: int, end: int, total: int, noun: str) -> str:
    if end - begin == total:
        return counted(total, noun)
    return f"{begin + 1:,} to {end:,} of {counted(total, noun)}"
