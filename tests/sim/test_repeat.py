"""A seed is a history: the same one always gives the same, in any process."""

from __future__ import annotations

import json
import os
import subprocess
import sys

from chronik.sim.run import run_seed

ALONE, TOGETHER = (1, 4), (11, 17)
SEEDS = [*((seed, None, 1) for seed in ALONE), *((seed, 5.0, 3) for seed in TOGETHER)]


def traces_in_another_process(hash_seed: str) -> list[str]:
    told = f"[run_seed(*seed).trace_hash for seed in {SEEDS}]"
    code = f"import json; from chronik.sim.run import run_seed; print(json.dumps({told}))"
    done = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": hash_seed},
        capture_output=True,
        text=True,
        check=True,
    )
    traces: list[str] = json.loads(done.stdout)
    return traces


def test_a_seed_gives_the_same_trace_however_strings_are_hashed() -> None:
    first, second = traces_in_another_process("1"), traces_in_another_process("4711")

    assert first == second
    assert first == [run_seed(*seed).trace_hash for seed in SEEDS]
    assert len(set(first)) == len(SEEDS)
