"""Jobs by their commands: what cannot be done is said in one line with exit code 2, and nothing is half written.
What was temporary is gone at the end, also after Ctrl-C."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from chronik.testing import RunningNode
from tests.clients.support import needs, wait_until
from tests.spark.commands import Done, environment_of, left_in, run_command, run_commands
from tests.spark.support import Sent, delete_records, new_topic, options, send, simple

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("deltalake", reason="deltalake is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

import deltalake

from chronik.pipeline.jobs import ingest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

pytestmark = pytest.mark.timeout(900)  # each waits for a Java of its own
NOBODY = "127.0.0.1:1"
LOCAL = ("--master", "local[2]", "--driver-memory", "512m")


def fill(spark: SparkSession, bootstrap: str, topic: str, table: Path, checkpoint: Path | None = None) -> None:
    ingest.run(spark, ingest.IngestSettings(options(bootstrap, topic), table, checkpoint=checkpoint))


def offsets(table: Path) -> list[int]:
    if not deltalake.DeltaTable.is_deltatable(str(table)):
        return []
    return sorted(deltalake.DeltaTable(str(table)).to_pyarrow_table().column("offset").to_pylist())


def said(done: Done) -> str:
    """Why it could not be done: the last line, after nothing but notes."""
    assert (done.code, done.out) == (2, ""), done
    *notes, last = done.err.splitlines()
    assert last.startswith("error: "), done.err
    assert not any(note.startswith("error: ") for note in notes)
    return last.removeprefix("error: ")


def test_what_cannot_be_done_is_said_and_leaves_everything_as_it_was(
    spark: SparkSession, chronik_node: RunningNode, small_disk: Path, tmp_path: Path
) -> None:
    here = chronik_node.bootstrap
    gone, whole, large = new_topic(here), new_topic(here), new_topic(here)
    tables = {name: tmp_path / name for name in ("gone", "whole")} | {"large": small_disk / "large"}
    for topic, table in zip((gone, whole, large), tables.values(), strict=True):
        send(here, topic, simple(10))
        fill(spark, here, topic, table, tmp_path / f"{table.name}-checkpoint")
    send(here, gone, simple(20, first=10))
    delete_records(here, gone, 0, 15)
    send(here, large, [Sent(0, None, os.urandom(4000)) for _ in range(1000)])
    (tmp_path / "schema").write_text("id bigint")
    (tmp_path / "no-table").mkdir()
    (tmp_path / "no-table" / "note.txt").write_text("something else")
    new, out = str(tmp_path / "new"), str(tmp_path / "out")

    def filling(topic: str, table: Path, *more: str) -> list[str]:
        checkpoint = tmp_path / f"{table.name}-checkpoint"
        return ["ingest", topic, "--to", str(table), "--checkpoint", str(checkpoint), "--once", *more]

    cases: dict[str, tuple[str, list[str], str]] = {
        "unknown topic": (here, ["ingest", "nowhere", "--to", new, "--once"], "there is no topic 'nowhere'"),
        "unknown topic to audit": (here, ["audit", "--topic", "nowhere", "--out", out], "there is no topic 'nowhere'"),
        "unknown topic to write": (
            here, ["replay", "--table", str(tables["whole"]), "--to", "nowhere"], "there is no topic 'nowhere'",
        ),
        "unknown topic to read": (here, ["replay", "--topic", "nowhere", "--to", whole], "there is no topic 'nowhere'"),
        "nobody to ingest from": (NOBODY, ["ingest", "t", "--to", new], f"no Kafka node answers at {NOBODY}"),
        "nobody to replay to": (
            NOBODY, ["replay", "--table", str(tables["whole"]), "--to", "t"], f"no Kafka node answers at {NOBODY}",
        ),
        "nobody to audit": (NOBODY, ["audit", "--topic", "t", "--out", out], f"no Kafka node answers at {NOBODY}"),
        "nobody to diagnose": (NOBODY, ["diagnose", "--out", out], f"no Kafka node answers at {NOBODY}"),
        "nobody to report of": (NOBODY, ["report", "--out", new], f"no Kafka node answers at {NOBODY}"),
        "offsets that are gone": (here, filling(gone, tables["gone"]), "offsets 10 to before 15 are gone"),
        "another schema": (
            here, filling(whole, tables["whole"], "--value", "json", "--schema", str(tmp_path / "schema")),
            "is not a table of json values",
        ),
        "no table": (here, filling(whole, tmp_path / "no-table"), "no-table"),
        "no table to replay": (here, ["replay", "--table", new, "--to", whole], "new"),
        "a full disk": (here, filling(large, tables["large"]), "No space left on device"),
    }  # fmt: skip
    commands = {name: [*words, "--bootstrap", node, *LOCAL] for name, (node, words, _) in cases.items()}

    on = [*filling(gone, tables["gone"], "--allow-gaps"), "--bootstrap", here, *LOCAL]

    done = run_commands(tmp_path, {**commands, "gaps allowed": on})

    told = {name: said(done[name]) for name in cases}
    assert {name: told[name] for name, (_, _, words) in cases.items() if words not in told[name]} == {}
    assert (done["gaps allowed"].code, offsets(tables["gone"])) == (0, [*range(10), *range(15, 30)])
    assert offsets(tables["whole"]) == offsets(tables["large"]) == list(range(10))
    assert not Path(new).exists()
    assert not Path(out).exists()
    assert [each.name for each in (tmp_path / "no-table").iterdir()] == ["note.txt"]


def test_without_java_on_the_path_the_command_says_how_to_get_it(chronik_node: RunningNode, tmp_path: Path) -> None:
    arguments = ["ingest", "t", "--to", str(tmp_path / "t"), "--bootstrap", chronik_node.bootstrap]

    done = run_command(tmp_path, *arguments, PATH=str(tmp_path), JAVA_HOME="")

    assert said(done).startswith("there is no Java. Spark needs Java 17 or newer: `apt install")
    assert not (tmp_path / "t").exists()


@pytest.mark.parametrize("ending", [signal.SIGINT, signal.SIGKILL])
def test_after_its_end_nothing_temporary_is_left(
    chronik_node: RunningNode, tmp_path: Path, ending: signal.Signals
) -> None:
    """Killed, too: then Java, which outlives it by a moment, removes what is there."""
    needs("spark")
    here, table = chronik_node.bootstrap, tmp_path / "table"
    topic = new_topic(here)
    send(here, topic, simple(100))
    words = ["ingest", topic, "--to", str(table), "--every", "1", "--bootstrap", here, *LOCAL]

    with subprocess.Popen(
        [sys.executable, "-m", "chronik", "pipeline", *words],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment_of(tmp_path),
        text=True,
    ) as process:
        try:
            wait_until(lambda: len(offsets(table)) > 0, "rows", 300.0)
            assert left_in(tmp_path), "what Spark needs is where we look for it"
            process.send_signal(ending)
            out, err = process.communicate(timeout=120)
        finally:
            process.kill()

    if ending == signal.SIGINT:
        assert (process.returncode, err) == (0, "")
        assert "100 records into" in out
    wait_until(lambda: left_in(tmp_path) == [], lambda: str(left_in(tmp_path)), 60.0)
    assert offsets(table) == list(range(100))
