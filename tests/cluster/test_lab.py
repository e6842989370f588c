"""The gallery of faults: each is called what it is, within seconds and with evidence; a healthy cluster nothing.

Once each here; `make lab` does it ten times, and a hundred healthy runs.
"""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from chronik.cli.lab_run import LabRun
from chronik.lab.gallery import GALLERY, HEALTHY
from chronik.trace.verdicts import Verdict

# Each takes as long as the rule that finds it wants to be sure, which is 5 to 25 s.
NAMED_S_MAX = 60.0
HEALTHY_S = 12.0
LOOK_EVERY_S = 1.0
# Who it must be laid to: a node, or a client.
BLAMED: dict[str, set[object]] = {
    "follower-stops-fetching": {3},
    "metadata-lists-one-node": {"lab-writer", "lab-reader"},
    "fetch-hangs": {"lab-reader"},
    "partition-starved": {"lab-reader"},
    "client-timeout-too-short": {"lab-impatient-reader"},
    "consumer-stops": {"lab-reader"},
}
FAULTS = [name for name in GALLERY if name != HEALTHY]


def run_lab(name: str, directory: Path, seconds: float) -> LabRun:
    """Until it has been named, or so long."""
    lab = LabRun(GALLERY[name], str(directory / name), port=0)
    lab.open()
    try:
        while lab.named_after_s is None and lab.seconds < seconds:
            time.sleep(LOOK_EVERY_S)
            lab.look()
        assert lab.ended() == []
    finally:
        lab.close()
    return lab


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_called_what_it_is_and_nothing_else(name: str, tmp_path: Path) -> None:
    lab = run_lab(name, tmp_path, NAMED_S_MAX)

    assert lab.named_after_s is not None, f"{lab.verdicts} after {lab.seconds:.0f} s, {lab.counts}"
    assert lab.others == []
    for verdict in lab.verdicts:
        assert verdict.cause is lab.exhibit.cause
        assert verdict.evidence
        assert verdict.advice
        assert _blamed(verdict) <= BLAMED.get(name, _blamed(verdict))
    if name == "metadata-lists-one-node":
        assert any("told it of brokers" in line for line in lab.verdicts[0].evidence)


def _blamed(verdict: Verdict) -> set[object]:
    return {verdict.node if verdict.client_id is None else verdict.client_id}


def test_a_healthy_cluster_is_called_nothing(tmp_path: Path) -> None:
    lab = run_lab(HEALTHY, tmp_path, HEALTHY_S)

    assert (lab.verdicts, lab.others) == ([], [])
    assert lab.counts.failed == 0
    assert lab.counts.consumed > 0
