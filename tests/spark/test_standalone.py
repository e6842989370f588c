"""The same on a real Spark cluster as on `local[2]`: a standalone master with two workers, on loopback."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("pyarrow", reason="pyarrow is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from chronik.testing import RunningNode
from tests.clients.support import needs
from tests.spark.standalone import WORKERS, standalone
from tests.spark.support import new_topic, received, send, simple

DRIVER = Path(__file__).with_name("standalone_driver.py")


@pytest.mark.timeout(900)  # six Java processes, beside whatever else the machine does
def test_source_sink_ingest_and_audit_run_in_the_executors_of_a_cluster(
    chronik_node: RunningNode, tmp_path: Path
) -> None:
    needs("spark")
    here = chronik_node.bootstrap
    source, target = new_topic(here, 2), new_topic(here, 2)
    send(here, source, simple(500) + simple(500, 1, 500))

    with standalone(tmp_path) as cluster:
        told = json.loads(cluster.run(sys.executable, str(DRIVER), cluster.master, here, source, target, str(tmp_path)))

    assert (told["rows"], told["filled"], told["executors"]) == (1_000, 1_000, WORKERS)
    assert (told["found"]["expected"], told["found"]["found"], told["found"]["lost"]) == (1_000, 1_000, 0)
    assert sorted(int(message.value()) for message in received(here, target, 1_000)) == list(range(1_000))
