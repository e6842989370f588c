"""Ingest killed at random moments, driver and workers: the table equals the topic, and has no record twice.

CHRONIK_INGEST_KILLS=10 kills more often; CHRONIK_INGEST_SEED chooses other moments.
"""

from __future__ import annotations

import itertools
import os
import random
import signal
import subprocess
import sys
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest

from chronik.testing import RunningNode
from tests.clients.support import needs
from tests.spark.commands import environment_of
from tests.spark.support import Sent, new_topic, send

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")

import deltalake

KILLS = int(os.environ.get("CHRONIK_INGEST_KILLS", "3"))
SEED = int(os.environ.get("CHRONIK_INGEST_SEED", "5"))
PARTITIONS = 3
BATCH_ROWS = 600
BATCHES = 4 + 2 * KILLS  # each restart finds some done, one under way, some to do
RECORDS = BATCHES * BATCH_ROWS
RUN_S_MAX = 240
pytestmark = pytest.mark.timeout(120 + RUN_S_MAX * (KILLS + 2))


def value_of(number: int) -> bytes:
    """Every hundredth is none that can be read."""
    return b"broken %d" % number if number % 100 == 0 else b'{"number": %d}' % number


@contextmanager
def started(arguments: list[str], log: Path) -> Iterator[psutil.Process]:
    """The real command, in a group of its own; whatever happens, nothing of it stays."""
    with open(log, "ab") as file:
        process = subprocess.Popen(
            [sys.executable, "-m", "chronik", "pipeline", "ingest", *arguments],
            stdout=file,
            stderr=file,
            env=environment_of(log.parent),
            start_new_session=True,
        )
    try:
        yield psutil.Process(process.pid)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()


def commits(table: Path) -> int:
    return len(list((table / "_delta_log").glob("*.json")))


def wait_for_commits(process: psutil.Process, table: Path, count: int) -> bool:
    """Whether there were so many while the process lived."""
    deadline = time.monotonic() + RUN_S_MAX
    while commits(table) < count:
        assert time.monotonic() < deadline, f"{commits(table)} of {count} commits"
        if has_ended(process, within_s=0.02):
            return False
    return True


def has_ended(process: psutil.Process, within_s: float) -> bool:
    try:
        process.wait(within_s)
    except psutil.TimeoutExpired:
        return False
    return True


def kill_driver(process: psutil.Process) -> None:
    """Python and Java at the same moment, as when a machine is lost."""
    os.killpg(process.pid, signal.SIGKILL)


def kill_java(process: psutil.Process) -> None:
    for child in process.children():
        if "java" in child.name():
            child.kill()


def kill_workers(process: psutil.Process) -> None:
    """The Python processes that Java has started: tasks are tried again, or the job ends with an error."""
    for child in process.children(recursive=True):
        with suppress(psutil.NoSuchProcess):
            if "java" not in child.name():
                child.kill()


KINDS = (kill_driver, kill_workers, kill_java)


def test_after_kills_of_driver_and_workers_the_table_equals_the_topic(
    chronik_node: RunningNode, tmp_path: Path
) -> None:
    needs("spark")
    topic = new_topic(chronik_node.bootstrap, PARTITIONS)
    sent = [Sent(number % PARTITIONS, b"%d" % number, value_of(number)) for number in range(RECORDS)]
    send(chronik_node.bootstrap, topic, sent)
    (tmp_path / "schema").write_text("number bigint")
    table, log = tmp_path / "table", tmp_path / "log"
    said = [topic, "--to", str(table), "--once", "--batch-rows", str(BATCH_ROWS), "--value", "json"]
    said += ["--schema", str(tmp_path / "schema"), "--bootstrap", chronik_node.bootstrap]
    said += ["--master", "local[2]", "--driver-memory", "1g"]

    chance = random.Random(SEED)
    kinds = itertools.cycle(KINDS)
    killed: Counter[str] = Counter()
    while killed.total() < KILLS:
        with started(said, log) as process:
            while killed.total() < KILLS and wait_for_commits(process, table, commits(table) + chance.randrange(1, 3)):
                if has_ended(process, within_s=chance.random()):  # a moment somewhere within a batch
                    break
                kill = next(kinds)
                kill(process)
                killed[kill.__name__] += 1
            assert commits(table) < BATCHES, f"it was done before it was killed often enough: {killed}"
    with started(said, log) as process:
        assert process.wait(RUN_S_MAX) == 0, log.read_text()

    assert "Traceback" not in log.read_text()  # Java is killed too, and what is said of it is one line
    rows, bad = read(table), read(tmp_path / "table-quarantine")
    expected = {(each.partition, number // PARTITIONS): each.value for number, each in enumerate(sent)}
    assert len(rows) + len(bad) == RECORDS, f"{killed}"
    assert {place(row): value_of(row["value"]["number"]) for row in rows} | {
        place(row): row["value"] for row in bad
    } == expected
    assert {row["reason"] for row in bad} == {"not JSON"}


def read(path: Path) -> list[dict[str, Any]]:
    return deltalake.DeltaTable(str(path)).to_pyarrow_table().to_pylist()


def place(row: dict[str, Any]) -> tuple[int, int]:
    return row["partition"], row["offset"]
