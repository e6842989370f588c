"""A real Spark Connect server on loopback, from the same PyPI package as the tests."""

from __future__ import annotations

import contextlib
import os
import re
import shlex
import sys
from collections.abc import Iterator
from pathlib import Path

from tests.clients.support import wait_until
from tests.spark.standalone import running

START_SECONDS_MAX = 300.0  # on a machine that does ten other things
_SERVER = "org.apache.spark.sql.connect.service.SparkConnectServer"
_STARTED = re.compile(r"Spark Connect server started at: \S*?:(\d+)")


@contextlib.contextmanager
def connect_server(folder: Path) -> Iterator[str]:
    """Its address, as `--remote` takes it."""
    python = folder / "python"
    path = shlex.quote(os.environ.get("PYTHONPATH", ""))
    python.write_text(f'#!/bin/sh\nPYTHONPATH={path} exec {sys.executable} "$@"\n')
    python.chmod(0o755)
    said = folder / "connect.log"
    settings = {
        "spark.connect.grpc.binding.address": "127.0.0.1",
        "spark.connect.grpc.binding.port": "0",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
    }
    pairs = [word for key, value in settings.items() for word in ("--conf", f"{key}={value}")]
    wish = ("--class", _SERVER, "--master", "local[2]", "--driver-memory", "1g", *pairs)
    with running(folder, said, "org.apache.spark.deploy.SparkSubmit", *wish, SPARK_DAEMON_MEMORY="1g"):
        wait_until(lambda: _STARTED.search(said.read_text()) is not None, said.read_text, START_SECONDS_MAX)
        found = _STARTED.search(said.read_text())
        assert found is not None
        yield f"sc://127.0.0.1:{found[1]}"
