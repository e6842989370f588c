"""Traces of the lab's faults, recorded once: what the trace topic held, and what the live stall finder said of it."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from chronik.cli.lab_run import LabRun
from chronik.cli.trace_topic import stored_events
from chronik.lab.gallery import GALLERY, HEALTHY
from chronik.trace.events import to_lines
from chronik.trace.verdicts import Cause, Verdict
from tests.cluster.test_lab import HEALTHY_S, LOOK_EVERY_S, NAMED_S_MAX

STORED_AFTER_S = 1.5  # a record of the trace topic is a fifth of a second old at most; nodes here are busy
TRACE_PARTITIONS = 3


class Recorded(NamedTuple):
    """What came of one fault."""

    name: str
    causes: list[Cause]  # that were named live, at any look
    verdicts: list[Verdict]  # as of the last look
    path: Path  # of its events, one JSON object a line

    @property
    def blamed(self) -> set[tuple[Cause, str | None, str | None, int]]:
        return {(each.cause, each.topic, each.client_id, each.node) for each in self.verdicts}


def record(
    name: str, directory: Path, while_open: Callable[[LabRun, int], None] = lambda lab, until_us: None
) -> Recorded:
    """Runs a fault until it has been named, and keeps its trace as exported files have it. `while_open` is told until
    when that is: a cluster with a fault may get worse after it."""
    lab = LabRun(GALLERY[name], str(directory / name), port=0)
    causes: dict[Cause, None] = {}
    lab.open()
    try:
        while lab.named_after_s is None and lab.seconds < (HEALTHY_S if name == HEALTHY else NAMED_S_MAX):
            time.sleep(LOOK_EVERY_S)
            causes |= dict.fromkeys(verdict.cause for verdict in lab.look())
        time.sleep(STORED_AFTER_S)
        until_us = round(time.time() * 1e6)
        stored = stored_events(lab.cluster.bootstrap, TRACE_PARTITIONS, 0, b"")
        events = [event for event in stored if event.at_us < until_us]
        while_open(lab, until_us)
    finally:
        lab.close()
    path = directory / f"{name}.ndjson"
    path.write_bytes(to_lines(events))
    return Recorded(name, list(causes), lab.verdicts, path)
