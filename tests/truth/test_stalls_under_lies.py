"""A stall that is there is found, or it is said that too little is known: never that nothing stalls.

A real fault is in the nodes (`chronik lab`); a proxy lies between `chronik stalls` and them. CHRONIK_TRUTH_STALLS=20
tells more lies of each kind.
"""

from __future__ import annotations

import os
import random
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from chronik.cli.stalls import _watch, nothing
from chronik.client.connecting import parse_addresses
from chronik.client.request import NoAnswer
from chronik.inspect.trace_history import TraceHistory
from chronik.lab.gallery import GALLERY, Exhibit
from chronik.lab.run import LabRun
from chronik.trace.stalls import find
from tests.cluster.support import wait_until
from tests.truth.lying_proxy import Liar, Recorded, lying_proxy
from tests.truth.test_truth import cut_off, nobody_there, some_lies

CASES = int(os.environ.get("CHRONIK_TRUTH_STALLS", "8"))
SEED = os.environ.get("CHRONIK_TRUTH_SEED", "1")
NAMED_S = 60.0
WATCHED_S = 6.0
AT_ONCE = 8  # most of a case is waiting

pytestmark = pytest.mark.timeout(600)


@pytest.mark.parametrize("name", ["follower-stops-fetching", "watermark-stands-still", "fetch-hangs"])
def test_a_stall_that_is_there_is_found_or_not_known(name: str, tmp_path: Path) -> None:
    exhibit = GALLERY[name]
    lab = LabRun(exhibit, str(tmp_path / "nodes"), port=0)
    lab.open()
    try:
        nodes = {node_id: node.address for node_id, node in lab.cluster.nodes.items()}
        before = looks_before_the_fault(nodes)
        wait_until(lambda: is_named(lab), lambda: f"the fault is named, and not {lab.verdicts}", NAMED_S)
        with ThreadPoolExecutor(AT_ONCE) as threads:
            cases = list(
                threads.map(lambda number: said_of(exhibit, nodes, before, f"{SEED} {name} {number}"), range(CASES))
            )
    finally:
        lab.close()

    wrong = [f"case {number}: {words}" for number, (words, is_wrong) in enumerate(cases) if is_wrong]
    assert wrong == []
    assert any(words == exhibit.cause for words, _ in cases)  # not all lies hide it


def is_named(lab: LabRun) -> bool:
    lab.try_look()
    return lab.named_after_s is not None


def looks_before_the_fault(nodes: dict[int, tuple[str, int]]) -> Recorded:
    """What each node says at first: what it would still say if it had been cut off then."""
    with lying_proxy(nodes) as proxy:
        proxy.is_recording = True
        for node in nodes:
            TraceHistory(parse_addresses(proxy.bootstrap(node))).look()
        return proxy.recorded


def said_of(exhibit: Exhibit, nodes: dict[int, tuple[str, int]], before: Recorded, case: str) -> tuple[str, bool]:
    """What is said through these lies, and whether that is wrong."""
    dice = random.Random(case)
    with lying_proxy(nodes, before) as proxy:
        proxy.liar = some_liar(case, dice)
        gathering = TraceHistory(parse_addresses(proxy.bootstrap(*dice.sample(sorted(nodes), len(nodes)))))
        try:
            events, now_us = _watch(gathering, WATCHED_S, lambda seconds: None)
        except NoAnswer as problem:
            return str(problem), "no chronik" in str(problem)
    causes = {verdict.cause for verdict in find(events, now_us)}
    if causes:
        return ", ".join(sorted(causes)), causes != {exhibit.cause}
    said = nothing(gathering)
    return said, said == "nothing stalls"


def some_liar(case: str, dice: random.Random) -> Liar:
    node = dice.choice([1, 2, 3])
    match dice.choice(["some", "some", "gone", "stale"]):
        case "some":
            return some_lies(case)
        case "gone":
            return nobody_there(node)
        case _:
            return cut_off(node)
