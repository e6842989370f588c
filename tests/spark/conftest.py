"""One Spark session for the whole run. Everything here is skipped, in words, where Spark cannot run."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
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
