"""Many worlds, on several processes: a world knows nothing of another, so the seed alone says what each of them is."""

from __future__ import annotations

import multiprocessing
import os
import signal
from collections.abc import Generator, Sequence
from functools import partial

from chronik.sim.run import WorldOutcome, run_seed


def cores() -> int:
    """How many this process may use."""
    return len(os.sched_getaffinity(0))


def run_many(
    seeds: Sequence[int], seconds: float | None, node_count: int | None, jobs: int
) -> Generator[WorldOutcome, None, None]:
    """The outcomes in the order of the seeds. When the caller stops asking, or is interrupted, the processes end."""
    run = partial(run_seed, seconds=seconds, node_count=node_count)
    if jobs == 1 or len(seeds) == 1:
        yield from map(run, seeds)
        return
    # Not forked: the caller may have a thread that draws a bar.
    with multiprocessing.get_context("spawn").Pool(min(jobs, len(seeds)), _begin) as pool:
        yield from pool.imap(run, seeds)


def _begin() -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the parent ends it
