"""One audit in a process of its own: `python -m tests.bench.audit_job DIRECTORY RECORDS` prints its figures as JSON."""

from __future__ import annotations

import contextlib
import json
import sys
import threading
import time
from pathlib import Path

import psutil

from chronik.pipeline.jobs.audit import AuditSettings, run
from chronik.pipeline.session import open_session
from tests.spark.planted import plant_runs

WARM_UP_RECORDS = 10_000
PARTITIONS = 4
SHARE = 0.0001
DRIVER_MEMORY = "2g"
SAMPLE_S = 0.1


class Memory(threading.Thread):
    """The largest amount that this process and those it started had at one moment."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_mb = 0.0
        self.is_over = threading.Event()

    def run(self) -> None:
        here = psutil.Process()
        while not self.is_over.wait(SAMPLE_S):
            total = 0
            for each in (here, *here.children(recursive=True)):
                try:
                    total += each.memory_info().rss
                except psutil.NoSuchProcess:
                    continue
            self.peak_mb = max(self.peak_mb, total / 1e6)


def cpu_s() -> float:
    """Of all processes that are still there, and of the children of each that have ended: Spark keeps its own."""
    here = psutil.Process()
    while True:
        with contextlib.suppress(psutil.NoSuchProcess):  # one ended just now: its parent has its seconds the next time
            times = [each.cpu_times() for each in (here, *here.children(recursive=True))]
            return sum(each.user + each.system + each.children_user + each.children_system for each in times)


def main(directory: Path, records: int) -> None:
    planted = plant_runs(directory / "planted", records, PARTITIONS, SHARE)
    plant_runs(directory / "warm-up", WARM_UP_RECORDS, PARTITIONS, 0.01)
    spark = open_session("bench", "local[2]", DRIVER_MEMORY, scratch_dir=str(directory / "scratch"))
    run(spark, settings(directory / "warm-up"))
    memory = Memory()
    memory.start()
    began, cpu_before_s = time.monotonic(), cpu_s()
    found = run(spark, settings(directory / "planted"))
    seconds, used_cpu_s = time.monotonic() - began, cpu_s() - cpu_before_s
    memory.is_over.set()
    for kind, count in planted.items():
        assert found.totals[kind] == count, f"{kind}: {found.totals[kind]} found, {count} planted"
    assert found.totals["expected"] == records // PARTITIONS * PARTITIONS
    spark.stop()
    figures = {"seconds": seconds, "cpu_s": used_cpu_s, "records_s": records / seconds, "memory_mb": memory.peak_mb}
    sys.stdout.write(json.dumps(figures) + "\n")


def settings(folder: Path) -> AuditSettings:
    return AuditSettings(ledgers=[str(folder / "ledger")], received=[str(folder / "received")])


if __name__ == "__main__":
    (Path(sys.argv[1]) / "scratch").mkdir(parents=True)
    main(Path(sys.argv[1]), int(sys.argv[2]))
