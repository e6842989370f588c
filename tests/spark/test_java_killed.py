"""Spark's Java process is killed while a command works: one clear line and an exit code, and no traceback."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import threading
import time
from contextlib import suppress
from pathlib import Path

import psutil
import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")

from chronik.testing import RunningNode
from tests.spark.commands import RUN_S_MAX, environment_of
from tests.spark.support import new_topic, send, simple
from tests.spark.test_ingest_kills import has_ended

pytestmark = pytest.mark.timeout(900)  # Java is started, and the machine may do ten other things

RECORDS = 2_000
POLL_S = 0.02
EXIT_ERROR = 2


def spark_java(driver: psutil.Process) -> psutil.Process | None:
    """The Java that Spark runs in, once it has started Python for its tasks: others come and go before."""
    for child in driver.children():
        with suppress(psutil.NoSuchProcess):
            if "java" in child.name() and any("python" in each.name() for each in child.children()):
                return child
    return None


@pytest.mark.parametrize("job", ["audit", "ingest"])
def test_a_java_that_is_killed_is_told_in_one_line(chronik_node: RunningNode, tmp_path: Path, job: str) -> None:
    topic = new_topic(chronik_node.bootstrap, partitions=2)
    send(chronik_node.bootstrap, topic, simple(RECORDS))
    where = ["--topic", topic] if job == "audit" else [topic, "--to", str(tmp_path / "table")]
    command = [sys.executable, "-m", "chronik", "pipeline", job, *where, "--bootstrap", chronik_node.bootstrap]
    # On a terminal there is also a thread that draws how far it is.
    terminal, err = pty.openpty()
    process = subprocess.Popen(
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=err,
        env={**environment_of(tmp_path), "TERM": "xterm"},
        start_new_session=True,
    )
    os.close(err)
    said = bytearray()
    reader = threading.Thread(target=read_all, args=(terminal, said))
    reader.start()
    try:
        driver = psutil.Process(process.pid)
        deadline = time.monotonic() + RUN_S_MAX
        while (java := spark_java(driver)) is None:
            assert not has_ended(driver, within_s=POLL_S), said.decode()
            assert time.monotonic() < deadline, "Spark runs no task"
        java.kill()
        code = process.wait(RUN_S_MAX)
    finally:
        with suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
        process.wait()
        reader.join()
        os.close(terminal)

    words = " ".join(said.decode().split())
    assert code == EXIT_ERROR, words
    assert words.count("the connection to Spark's Java process is broken: it has ended") == 1, words
    assert "Traceback" not in words
    assert "py4j" not in words


def read_all(terminal: int, said: bytearray) -> None:
    with suppress(OSError):  # so a terminal ends whose other side is closed
        while piece := os.read(terminal, 1 << 16):
            said += piece
