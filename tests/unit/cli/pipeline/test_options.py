"""What the jobs of `chronik pipeline` share, without Spark."""

from __future__ import annotations

import subprocess
import sys

import pytest
import typer

from chronik.cli.pipeline.ingest import topic_options
from chronik.cli.pipeline.options import EXIT_INTERRUPTED, kafka_options, spark_errors
from chronik.client.errors import ChronikError
from chronik.pipeline.session import with_retries
from chronik.pipeline.topics.options import cluster_options


@pytest.mark.parametrize(
    ("given", "used"),
    [
        ("local", "local[1,4]"),
        ("local[2]", "local[2,4]"),
        ("local[*]", "local[*,4]"),
        ("local[2,1]", "local[2,1]"),
        ("spark://host:7077", "spark://host:7077"),
    ],
)
def test_a_local_master_tries_tasks_again_as_a_cluster_does(given: str, used: str) -> None:
    assert with_retries(given) == used


def test_settings_of_the_client_become_options_of_the_source() -> None:
    assert kafka_options("h:1", ["security.protocol=SSL", "kafka.client.id=me"]) == {
        "kafka.bootstrap.servers": "h:1",
        "kafka.security.protocol": "SSL",
        "kafka.client.id": "me",
    }
    with pytest.raises(ChronikError, match="is not KEY=VALUE"):
        kafka_options("h:1", ["ssl"])


def test_topics_are_named_or_of_a_pattern_and_not_both() -> None:
    assert topic_options(["a", "b"], None) == {"subscribe": "a,b"}
    assert topic_options(None, "x.*") == {"subscribePattern": "x.*"}
    for topics, pattern in ((None, None), (["a"], "x.*")):
        with pytest.raises(ChronikError, match="which topics"):
            topic_options(topics, pattern)


def test_what_a_job_cannot_do_is_an_error_of_the_command_line() -> None:
    with pytest.raises(ChronikError, match="/t: No space left"), spark_errors():
        raise OSError(28, "No space left on device", "/t")
    with pytest.raises(ChronikError, match="pip install 'chronik\\[spark\\]'"), spark_errors():
        raise ModuleNotFoundError("No module named 'pyspark'", name="pyspark")
    with pytest.raises(typer.Exit) as ended, spark_errors():
        raise KeyboardInterrupt
    assert ended.value.exit_code == EXIT_INTERRUPTED


def test_the_command_line_is_there_without_loading_spark() -> None:
    program = "import sys, chronik.cli.app; print(sorted({m.split('.')[0] for m in sys.modules}))"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout

    assert "typer" in loaded
    for name in ("deltalake", "numba", "numpy", "pandas", "pyarrow", "pyspark"):
        assert f"'{name}'" not in loaded


def test_an_address_is_understood_as_by_the_other_commands() -> None:
    """They have tried whether somebody answers there before Spark is started."""
    options = kafka_options("localhost, [::1]:1,h:2")

    assert options["kafka.bootstrap.servers"] == "localhost:9092,[::1]:1,h:2"
    assert cluster_options(options).bootstrap == (("localhost", 9092), ("::1", 1), ("h", 2))
