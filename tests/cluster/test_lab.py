"""The gallery of faults: each is called what it is, within seconds and with evidence; a healthy cluster nothing.
The stored trace of each, looked at afterwards, says the same.

Once each here; `make lab` does it ten times, and a hundred healthy runs.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from chronik.lab.bystanders import COMPACTED_GROUP, IDLE_GROUP, SLOW_GROUP, WAITING_GROUP
from chronik.lab.gallery import GALLERY, HEALTHY
from chronik.lab.run import LabRun
from chronik.trace.events import GroupSeen
from chronik.trace.verdicts import Verdict
from tests.cluster.lab_traces import HEALTHY_LONG_S, blamed, record

# Who it must be laid to: a node, or a client.
BLAMED: dict[str, set[object]] = {
    "follower-stops-fetching": {3},
    "metadata-lists-one-node": {"lab-writer", "lab-reader"},
    "fetch-hangs": {"lab-reader"},
    "partition-starved": {"lab-reader"},
    "client-timeout-too-short": {"lab-impatient-reader"},
    "consumer-stops": {"lab-reader"},
    "coordinator-cannot-reach-a-partition": {3},
}
VERIFIED_S_MAX = 90.0
FAULTS = [name for name in GALLERY if name != HEALTHY]


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_called_what_it_is_and_nothing_else_live_and_from_its_trace(name: str, tmp_path: Path) -> None:
    found = record(name, tmp_path)

    lab = found.lab
    assert lab.named_after_s is not None, f"{lab.verdicts} after {lab.seconds:.0f} s, {lab.counts}"
    assert lab.others == []
    for verdict in lab.verdicts:
        assert verdict.cause is lab.exhibit.cause
        assert verdict.evidence
        assert verdict.advice
        assert _blamed(verdict) <= BLAMED.get(name, _blamed(verdict))
    if name == "metadata-lists-one-node":
        assert any("answered with brokers" in line for line in lab.verdicts[0].evidence)
    stored = [stall.verdict for stall in found.stalls()]
    assert {verdict.cause for verdict in stored} == {lab.exhibit.cause}
    assert found.blamed <= blamed(stored)


def _blamed(verdict: Verdict) -> set[object]:
    return {verdict.node if verdict.client_id is None else verdict.client_id}


def test_a_healthy_cluster_is_called_nothing_live_and_from_its_trace(tmp_path: Path) -> None:
    """Nor are a slow reader, one that waits at an empty topic, a group without members, and a topic being compacted."""
    found = record(HEALTHY, tmp_path, healthy_s=HEALTHY_LONG_S)

    assert (found.lab.verdicts, found.lab.others) == ([], [])
    assert found.lab.counts.failed == 0
    assert found.lab.counts.consumed > 0
    assert found.events
    assert found.stalls() == []
    groups = {group.group: group for group in found.events if isinstance(group, GroupSeen)}
    assert {SLOW_GROUP, IDLE_GROUP, WAITING_GROUP, COMPACTED_GROUP} <= groups.keys()
    assert groups[IDLE_GROUP].members == ()
    assert any(b"bytes less by compaction" in log.read_bytes() for log in tmp_path.rglob("*.log"))


@pytest.mark.parametrize("name", ["follower-stops-fetching", "fetch-hangs", "partition-starved"])
def test_a_delivery_check_that_meets_a_fault_names_it(name: str, tmp_path: Path) -> None:
    lab = LabRun(GALLERY[name], str(tmp_path / name), port=0, is_loaded=False)
    lab.open()
    try:
        told = verified(lab, tmp_path / "runs.sqlite3")
    finally:
        lab.close()

    assert (told["verdict"], told["cause"]) == ("partial", str(lab.exhibit.cause)), told["evidence"]
    assert told["evidence"]
    assert told["lost"] == 0


def verified(lab: LabRun, history: Path) -> Any:
    """As `chronik lab` tells people to do it."""
    first = lab.cluster.bootstrap.split(",")[0]
    options = ["--bootstrap", first, *str(lab.exhibit.verify_options).split(), "--json", "--history", str(history)]
    command = [sys.executable, "-m", "chronik", "verify", *options]
    done = subprocess.run(command, capture_output=True, text=True, timeout=VERIFIED_S_MAX, check=False)
    assert done.returncode == 1, done.stderr
    return json.loads(done.stdout)
