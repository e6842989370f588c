"""One Spark session for the whole run, and a small disk. All is skipped, in words, where Spark cannot run."""

from __future__ import annotations

import subprocess
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chronik.pipeline.session import open_session
from tests.clients.jvm import jars_of
from tests.clients.support import needs

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    needs("spark")
    # Spark's own connector is in the same session; where its jars are missing, test_connector says so.
    settings = {"spark.jars": ",".join(sorted(map(str, jars_of("connector").glob("*.jar"))))}
    scratch_dir = str(tmp_path_factory.mktemp("spark"))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # PySpark's own
        session = open_session("chronik-tests", "local[2]", "1g", settings, scratch_dir)
    yield session
    session.stop()


@pytest.fixture
def small_disk(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "small"
    folder.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(folder)]
    if subprocess.run(mount, capture_output=True, check=False).returncode != 0:
        pytest.skip("no small disk can be made here: that needs the right to mount one")
    yield folder
    # Lazily: Java may still have a file of a task that failed open.
    subprocess.run(["umount", "--lazy", str(folder)], check=True)
