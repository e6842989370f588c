"""Errors that went through Java and back are said in the words they began with."""

from __future__ import annotations

import pytest

from chronik.core.errors import Corrupt
from chronik.pipeline.problems import JobCannotRun, in_words, plain_errors
from chronik.pipeline.topics.client import NoSuchTopic

TRACEBACK = """[PYTHON_DATA_SOURCE_ERROR] Failed to create a reader. SQLSTATE: 38000
Traceback (most recent call last):
  File "chronik/pipeline/topics/places.py", line 46, in find_topics
    raise NoSuchTopic("...")
chronik.pipeline.topics.client.NoSuchTopic: there is no topic 'ordres'
\tat org.apache.spark.sql.Something
"""


class FromSpark(Exception):
    """As PySpark raises them."""


class FromPy4j(Exception):
    """As the bridge to Java raises them."""


class FromConnect(Exception):
    """As PySpark raises them where Spark runs in a Connect server."""


FromConnect.__module__ = "pyspark.errors.exceptions.connect"
FromSpark.__module__ = "pyspark.errors.exceptions.captured"
FromPy4j.__module__ = "py4j.protocol"


def test_our_words_are_found_in_a_java_error() -> None:
    assert in_words(FromSpark(TRACEBACK)) == "there is no topic 'ordres'"


def test_a_batch_that_does_not_check_out_is_said_with_its_place() -> None:
    words = "orders-0 at offset 17: the checksum is wrong"
    went_through_java = (
        f"An error occurred while calling o5.save.\nTraceback\nchronik.core.errors.Corrupt: {words}\n\tat x"
    )

    assert in_words(FromPy4j(went_through_java)) == words
    with pytest.raises(JobCannotRun, match=words), plain_errors():
        raise Corrupt("orders-0 at offset 17", "the checksum is wrong")


def test_a_full_disk_is_called_one() -> None:
    problem = FromSpark("Job aborted.\njava.io.IOException: No space left on device")

    assert in_words(problem) == "No space left on device: a folder that Spark writes to is full or closed to it"


def test_of_other_errors_of_spark_the_first_line_is_said() -> None:
    assert in_words(FromSpark("\n[PATH_NOT_FOUND] Path does not exist\nmore")) == (
        "Spark: [PATH_NOT_FOUND] Path does not exist"
    )


def test_a_fault_of_ours_stays_a_fault() -> None:
    with pytest.raises(ZeroDivisionError), plain_errors():
        1 / 0


def test_what_the_cluster_would_not_do_and_the_disk_could_not_is_said_plainly() -> None:
    with pytest.raises(JobCannotRun, match="there is no topic 'x'"), plain_errors():
        raise NoSuchTopic("there is no topic 'x'")
    with pytest.raises(JobCannotRun, match="Spark's Java process is broken"), plain_errors():
        raise ConnectionResetError(104, "Connection reset by peer")
    with pytest.raises(JobCannotRun, match="/full/part: No space left on device"), plain_errors():
        raise OSError(28, "No space left on device", "/full/part")


@pytest.mark.parametrize(
    "words",
    [
        "org.apache.spark.sql.classic.SparkSession does not exist in the JVM",
        "Answer from Java side is empty",
        "Error while sending or receiving",
    ],
)
def test_a_java_that_was_killed_is_said_to_have_ended(words: str) -> None:
    assert in_words(FromPy4j(words)) == "the connection to Spark's Java process is broken: it has ended"


@pytest.mark.parametrize(
    "text",
    [
        "<_InactiveRpcError of RPC that terminated with:\n\tstatus = StatusCode.UNAVAILABLE\n\tdetails = 'x'",
        "[INVALID_HANDLE.SESSION_NOT_FOUND] The handle is invalid. Session not found.",
        "[INVALID_HANDLE.SESSION_CHANGED] The existing Spark server driver instance has restarted.",
    ],
)
def test_a_connect_server_that_has_ended_is_said_to_have(text: str) -> None:
    words = "the connection to the Spark Connect server is broken: it has ended, or was started anew"

    assert in_words(FromConnect(text)) == words


def test_what_is_not_installed_where_spark_runs_is_named() -> None:
    text = "Job aborted\n  File 'worker.py'\nModuleNotFoundError: No module named 'chronik'\n\tat org.apache"

    assert in_words(FromSpark(text)) == (
        "chronik is not installed for the Python of Spark's machines: they need the package that runs here"
    )
