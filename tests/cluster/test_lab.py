"""The gallery of faults: each is called what it is, within seconds and with evidence; a healthy cluster nothing.
The stored trace of each, looked at afterwards, says the same.

Once each here; `make lab` does it ten times, and a hundred healthy runs.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.lab.gallery import GALLERY, HEALTHY
from chronik.trace.verdicts import Verdict
from tests.cluster.lab_traces import blamed, record

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
        assert any("told it of brokers" in line for line in lab.verdicts[0].evidence)
    stored = [stall.verdict for stall in found.stalls()]
    assert {verdict.cause for verdict in stored} == {lab.exhibit.cause}
    assert found.blamed <= blamed(stored)


def _blamed(verdict: Verdict) -> set[object]:
    return {verdict.node if verdict.client_id is None else verdict.client_id}


def test_a_healthy_cluster_is_called_nothing_live_and_from_its_trace(tmp_path: Path) -> None:
    found = record(HEALTHY, tmp_path)

    assert (found.lab.verdicts, found.lab.others) == ([], [])
    assert found.lab.counts.failed == 0
    assert found.lab.counts.consumed > 0
    assert found.events
    assert found.stalls() == []
