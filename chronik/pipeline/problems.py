"""Why a job could not be done, in words for a user: what is wrong, and what to do about it.

What goes wrong in a task, or in a Python process that Spark started, comes back as text: a Java error around a Python
traceback. The last line of that traceback has our words.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager

from chronik.client.connection import ConnectionFailed
from chronik.core.errors import Corrupt
from chronik.pipeline.topics.client import Failed
from chronik.pipeline.topics.options import BadOption

# `chronik.pipeline.topics.client.NoSuchTopic: there is no topic 'orders'`, somewhere in a page of text.
_OURS = re.compile(r"chronik\.(?:pipeline|core)\.[a-z_.]+\.[A-Z]\w+: (.+)")
_SYSTEM = re.compile(r"(No space left on device|Permission denied|Read-only file system|Disk quota exceeded)")
# py4j's many words for a Java that was killed, or ran out of memory.
_JAVA_IS_GONE = re.compile(
    r"does not exist in the JVM|from Java side is empty|Error while (sending|obtaining)|connect to the Java server"
)
# gRPC's words for a Spark Connect server that is gone, or has forgotten the session since it was started anew.
_SERVER_IS_GONE = re.compile(r"StatusCode\.UNAVAILABLE|SESSION_(CHANGED|NOT_FOUND|CLOSED)")
_SERVER_GONE = "the connection to the Spark Connect server is broken: it has ended, or was started anew"
_NOT_THERE = re.compile(r"No module named '(chronik|deltalake|pyarrow|numba|pyiceberg)")
_JAVA_GONE = "the connection to Spark's Java process is broken: it has ended"
_LINES_OF_SPARK = 300


class JobCannotRun(Exception):
    """A job that cannot be done as it was asked for: `message`, and `hint` on what to do."""

    def __init__(self, message: str, hint: str | None = None) -> None:
        super().__init__(message if hint is None else f"{message}; {hint}")
        self.message = message
        self.hint = hint


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turns what Spark, the source and the sink raise inside the block into CannotRun. A fault of ours stays one."""
    try:
        yield
    except JobCannotRun:
        raise
    except (Failed, ConnectionFailed, BadOption, Corrupt) as problem:
        raise JobCannotRun(str(problem)) from problem
    except ConnectionError as problem:
        raise JobCannotRun(_JAVA_GONE) from problem
    except OSError as problem:
        raise JobCannotRun(f"{problem.filename or 'a file'}: {problem.strerror or problem}") from problem
    except Exception as problem:
        words = in_words(problem)
        if words is None:
            raise
        raise JobCannotRun(words) from problem


def is_of_spark(problem: BaseException) -> bool:
    """Whether Spark raised it, or the connection to its Java process did."""
    return isinstance(problem, ConnectionError) or type(problem).__module__.startswith(("pyspark", "py4j"))


def in_words(problem: BaseException) -> str | None:
    """The words of an error that went through Spark; None for what is not Spark's."""
    if not type(problem).__module__.startswith(("pyspark", "py4j")):
        return None
    text = str(problem)
    if ours := _OURS.findall(text):
        return str(ours[-1]).strip()
    if missing := _NOT_THERE.search(text):
        return f"{missing[1]} is not installed for the Python of Spark's machines: they need the package that runs here"
    if ".connect" in type(problem).__module__ and _SERVER_IS_GONE.search(text):
        return _SERVER_GONE
    if system := _SYSTEM.search(text):
        return f"{system[1]}: a folder that Spark writes to is full or closed to it"
    if type(problem).__module__.startswith("py4j") and _JAVA_IS_GONE.search(text):
        return _JAVA_GONE
    first = next((line.strip() for line in text.splitlines() if line.strip()), type(problem).__name__)
    return f"Spark: {first[:_LINES_OF_SPARK]}"
