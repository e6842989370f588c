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
# By a stored trace, after it was named live: nodes tell how things stand every second, or every third if all is calm.
NAMED_LATER_S_MAX = 30.0
STORED_S_MAX = 15.0  # a node that has stored nothing for so long is not waited for
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
    told: list[Recorded] = []

    def keep(lab: LabRun) -> None:
        given_up_s = lab.seconds + NAMED_LATER_S_MAX
        while True:
            lab.look()
            until_us = round(time.time() * 1e6)
            found = Recorded(lab, set(), _stored(lab, until_us), until_us)
            if _is_told(found) or lab.seconds > given_up_s:
                break
        told.append(found)
        while_open(lab, until_us)

    lab = run_lab(name, directory, healthy_s if name == HEALTHY else NAMED_S_MAX, keep)
    causes = {verdict.cause for verdict in (*lab.verdicts, *lab.others)}
    if lab.named_after_s is not None and lab.exhibit.cause is not None:
        causes.add(lab.exhibit.cause)
    return told[0]._replace(causes=causes)


def _stored(lab: LabRun, until_us: int) -> list[AnyEvent]:
    """What the trace topic holds of the time before `until_us`, as soon as each node has stored what came later: it
    stores its events in their order."""
    nodes, given_up_s = set(lab.cluster.nodes), lab.seconds + STORED_S_MAX
    while True:
        stored = list(stored_events(lab.cluster.bootstrap, TRACE_PARTITIONS, 0, [b""]))
        if nodes <= {event.node for event in stored if event.at_us >= until_us} or lab.seconds > given_up_s:
            return sorted((event for event in stored if event.at_us < until_us), key=lambda event: event.at_us)
        time.sleep(LOOK_EVERY_S)


def _is_told(found: Recorded) -> bool:
    """Whether the stored trace says what was said live."""
    stored = [stall.verdict for stall in found.stalls()]
    cause = found.lab.exhibit.cause
    return found.blamed <= blamed(stored) and (cause is None or cause in {verdict.cause for verdict in stored})
