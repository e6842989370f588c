"""Everything of the pipeline through a real Spark Connect server, which shares no more than the file system with us."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("grpc", reason="grpc is not installed: pip install 'chronik[connect]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import deltalake

from chronik.testing import RunningNode
from tests.clients.support import needs, wait_until
from tests.spark.commands import RUN_S_MAX, TEMPORARY, environment_of, run_command, run_commands
from tests.spark.connect_server import connect_server
from tests.spark.support import Sent, new_topic, received, send, simple

pytestmark = pytest.mark.timeout(1800)  # a Java process, beside whatever else the machine does
JOB = Path(__file__).with_name("connect_job.py")
RECORDS = 400
# Spark gives a Python process ten seconds to start, which cannot be set; what it did not start is run again.
TOO_SLOW, RUNS_MAX = "Python worker failed to connect back", 4


@pytest.fixture(scope="module")
def remote(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    needs("spark")
    with connect_server(tmp_path_factory.mktemp("connect")) as address:
        yield address


def test_every_job_runs_through_spark_connect(remote: str, chronik_node: RunningNode, tmp_path: Path) -> None:
    here = chronik_node.bootstrap
    source, target, stalls = new_topic(here, 2, chronik_trace="true"), new_topic(here, 2), new_topic(here)
    good = [Sent(number % 2, None, b'{"n": %d}' % number) for number in range(RECORDS)]
    send(here, source, [*good, Sent(0, b"k", b"no JSON", headers=(("h", b"v"),))])
    schema, table, page = tmp_path / "schema", tmp_path / "table", tmp_path / "page.html"
    schema.write_text("n bigint")
    quarantine, audit_file, tables = f"{table}-quarantine", tmp_path / "audit.out", tmp_path / "tables"
    there = ["--bootstrap", here, "--remote", remote]
    follow = ["--follow", "--once", "--from-beginning", "--to", stalls, "--checkpoint", str(tmp_path / "seen")]
    got = ["--received", str(table), "--received", quarantine]
    ingest = ["ingest", source, "--to", str(table), "--once", "--value", "json", "--schema", str(schema), "--json"]

    done = run_commands(
        tmp_path,
        {
            "ingest": [*ingest, *there],
            "again": [*ingest, "--compact", *there],
            "audit": ["audit", "--topic", source, *got, "--with-trace", "--out", str(tables), "--json", *there],
            "replay": ["replay", "--table", str(table), "--to", target, "--json", *there],
            "diagnose": ["diagnose", "--topic", source, "--json", *there],
            "follow": ["diagnose", *follow, *there],
            "compare": ["compare", str(audit_file), "--json", "--remote", remote],
            "report": ["report", "--audit", str(audit_file), "--out", str(page), "--json", *there],
        },
    )

    assert {name: each.code for name, each in done.items()} == dict.fromkeys(done, 0), done
    counts = [done["ingest"].json[name] for name in ("rows", "quarantined", "batches", "skipped")]
    assert counts == [RECORDS, 1, 1, 0]
    assert [done["again"].json[name] for name in ("rows", "quarantined", "batches", "skipped")] == [0, 0, 0, 0]
    rows = deltalake.DeltaTable(str(table)).to_pyarrow_table().to_pylist()
    assert sorted(row["value"]["n"] for row in rows) == list(range(RECORDS))
    (bad,) = deltalake.DeltaTable(quarantine).to_pyarrow_table().to_pylist()
    assert (bad["value"], bad["reason"], bad["headers"]) == (b"no JSON", "not JSON", [{"key": "h", "value": b"v"}])
    names = ("expected", "found", "lost", "duplicated", "unexpected")
    assert [done["audit"].json[name] for name in names] == [RECORDS + 1, RECORDS + 1, 0, 0, 0]
    assert (tables / "accounts").is_dir()
    assert done["replay"].json["rows"] == RECORDS
    sent = [json.loads(message.value())["n"] for message in received(here, target, RECORDS)]
    assert sorted(sent) == list(range(RECORDS))
    assert sum(row["records_in"] for row in done["diagnose"].json["partitions"]) == RECORDS + 1
    assert [(row["runs"], row["lost"]) for row in done["compare"].json["rows"]] == [(1, 0)]
    assert page.read_text().startswith("<!doctype html>")


def test_what_cannot_work_through_spark_connect_is_said_in_a_line(
    remote: str, chronik_node: RunningNode, tmp_path: Path
) -> None:
    here = chronik_node.bootstrap
    odd = new_topic(here)
    send(here, odd, [Sent(0, None, b"no JSON")])
    there = ["--bootstrap", here, "--remote", remote]
    ingest = ["ingest", odd, "--to", str(tmp_path / "nowhere"), "--once"]

    done = run_commands(
        tmp_path,
        {
            "no schema": [*ingest, "--value", "json", "--infer", *there],
            "no topic": ["audit", "--topic", "nowhere", *there],
            "fixed": [*ingest, *there, "--spark", "spark.executor.memory=1g"],
            "two places": [*ingest, *there, "--master", "spark://127.0.0.1:7077"],
            "no server": [*ingest, "--bootstrap", here, "--remote", "sc://127.0.0.1:1"],
            "no address": [*ingest, "--bootstrap", here, "--remote", "local[2]"],
        },
    )

    refused = {name: each.err for name, each in done.items()}
    assert {each.code for each in done.values()} == {2}
    assert all(len(words.strip().splitlines()) <= 2 for words in refused.values()), refused
    assert "no schema can be inferred" in refused["no schema"]
    assert "there is no topic 'nowhere'" in refused["no topic"]
    assert "a session of Spark Connect cannot set spark.executor.memory" in refused["fixed"]
    assert "leave out one of the two" in refused["two places"]
    assert "no Spark Connect server answers at 127.0.0.1:1: Connection refused" in refused["no server"]
    assert "that is sc://HOST:PORT" in refused["no address"]


def test_a_client_that_is_killed_leaves_no_record_out_and_none_twice(
    remote: str, chronik_node: RunningNode, tmp_path: Path
) -> None:
    here, table = chronik_node.bootstrap, tmp_path / "table"
    topic = new_topic(here)
    send(here, topic, simple(RECORDS))
    ingest = ["ingest", topic, "--to", str(table), "--bootstrap", here, "--remote", remote]
    killed = subprocess.Popen(
        [sys.executable, "-m", "chronik", "pipeline", *ingest, "--every", "1"], env=environment_of(tmp_path)
    )
    try:
        wait_until(lambda: len(offsets(table)) == RECORDS, "the first batch", RUN_S_MAX / 4)
    finally:
        killed.kill()
        killed.wait()
    shutil.rmtree(tmp_path / TEMPORARY)  # a killed process leaves its own
    send(here, topic, simple(RECORDS, first=RECORDS))

    for _ in range(RUNS_MAX):
        again = run_command(tmp_path, *ingest, "--once", "--json")
        if TOO_SLOW not in again.err:
            break

    assert again.code == 0, again.err
    assert offsets(table) == list(range(2 * RECORDS))


def offsets(table: Path) -> list[int]:
    if not deltalake.DeltaTable.is_deltatable(str(table)):
        return []
    return sorted(deltalake.DeltaTable(str(table)).to_pyarrow_table()["offset"].to_pylist())


def test_topics_are_frames_in_a_session_of_spark_connect(
    remote: str, chronik_node: RunningNode, tmp_path: Path
) -> None:
    here = chronik_node.bootstrap
    source, target = new_topic(here, 2), new_topic(here, 2)
    send(here, source, simple(RECORDS))

    command = [sys.executable, str(JOB), remote, here, source, target, str(tmp_path / "checkpoint")]
    environment = environment_of(tmp_path) | {"SPARK_REMOTE": remote}
    done = subprocess.run(
        command, env=environment, capture_output=True, text=True, timeout=RUN_S_MAX, check=False, cwd=tmp_path
    )

    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout) == RECORDS
    found = sorted(int(message.value()) for message in received(here, target, 2 * RECORDS))
    assert found == sorted([*range(RECORDS), *range(RECORDS)])
