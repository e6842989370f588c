"""Runs of the lab until a fault has been named; what the trace topic then held, and what follows from that alone."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import NamedTuple

from chronik.inspect.trace_topic import stored_events
from chronik.lab.gallery import GALLERY, HEALTHY
from chronik.lab.run import LabRun
from chronik.pipeline.judging import EVERY_US, JudgedStall, stalls_between
from chronik.trace.events import AnyEvent
from chronik.trace.lines import to_lines
from chronik.trace.verdicts import Cause, Verdict

# Each takes as long as the rule that finds it wants to be sure, which is 5 to 25 s.
NAMED_S_MAX = 60.0
HEALTHY_S = 12.0
# In which rules that want to be sure for 20 s (who stopped asking, who rebalances) could speak; and any rule at all.
HEALTHY_LONG_S = 35.0
HEALTHY_LONGEST_S = 70.0
LOOK_EVERY_S = 1.0
NAMED_LATER_S = 3.0  # by a stored trace: nodes tell how things stand every second, or every third where all is calm
STORED_AFTER_S = 1.5  # a record of the trace topic is a fifth of a second old at most; nodes here are busy
TRACE_PARTITIONS = 3

Blamed = tuple[Cause, str | None, str | None, int]


class Recorded(NamedTuple):
    """What came of one fault."""

    lab: LabRun
    causes: set[Cause]  # that were named live, at any look
    events: list[AnyEvent]  # of the trace topic, in the order of their times
    until_us: int  # when it was last looked at live

    @property
    def blamed(self) -> set[Blamed]:
        """As of the last look."""
        return blamed(self.lab.verdicts)

    def stalls(self) -> list[JudgedStall]:
        """What the stored trace says, by the rules that diagnose deals out to Spark."""
        return stalls_between(self.events, self.events[0].at_us, self.until_us + EVERY_US)

    def write(self, path: Path) -> str:
        """As exported files have it."""
        path.write_bytes(to_lines(self.events))
        return str(path)


def blamed(verdicts: Iterable[Verdict]) -> set[Blamed]:
    return {(each.cause, each.topic, each.client_id, each.node) for each in verdicts}


def run_lab(name: str, directory: Path, seconds: float, then: Callable[[LabRun], None] = lambda lab: None) -> LabRun:
    """Until it has been named, or so long; `then` sees it while it still runs."""
    lab = LabRun(GALLERY[name], str(directory / name), port=0)
    lab.open()
    try:
        while lab.named_after_s is None and lab.seconds < seconds:
            time.sleep(LOOK_EVERY_S)
            lab.look()
        assert lab.ended() == []
        then(lab)
    finally:
        lab.close()
    return lab


def record(
    name: str,
    directory: Path,
    while_open: Callable[[LabRun, int], None] = lambda lab, until_us: None,
    healthy_s: float = HEALTHY_S,
) -> Recorded:
    """Runs a fault until it has been named, live and so long after that a stored trace can tell it too. `while_open` is
    told until when that is: a cluster with a fault may get worse after it."""
    told: list[tuple[list[AnyEvent], int]] = []

    def keep(lab: LabRun) -> None:
        later_s = lab.seconds + NAMED_LATER_S
        while lab.seconds < later_s:
            time.sleep(LOOK_EVERY_S)
            lab.look()
        until_us = round(time.time() * 1e6)
        time.sleep(STORED_AFTER_S)
        stored = stored_events(lab.cluster.bootstrap, TRACE_PARTITIONS, 0, [b""])
        events = sorted((event for event in stored if event.at_us < until_us), key=lambda event: event.at_us)
        told.append((events, until_us))
        while_open(lab, until_us)

    lab = run_lab(name, directory, healthy_s if name == HEALTHY else NAMED_S_MAX, keep)
    causes = {verdict.cause for verdict in (*lab.verdicts, *lab.others)}
    if lab.named_after_s is not None and lab.exhibit.cause is not None:
        causes.add(lab.exhibit.cause)
    (events, until_us) = told[0]
    return Recorded(lab, causes, events, until_us)
