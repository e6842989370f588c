"""What a user or a cluster did wrong is said to Spark without the way it came through our code.

Spark shows the whole traceback of a Python process. For a topic that is not there, forty lines of it hide the one line
that helps. Faults of ours keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import wraps
from typing import ParamSpec, TypeVar

from chronik.client.connection import ConnectionFailed
from chronik.core.errors import Corrupt
from chronik.pipeline.topics.client import Failed
from chronik.pipeline.topics.options import BadOption

SHOWN_IN_ONE_LINE = (Failed, BadOption, ConnectionFailed, Corrupt)
Given = ParamSpec("Given")
Result = TypeVar("Result")


def brief(function: Callable[Given, Result]) -> Callable[Given, Result]:
    """For what Spark calls: errors that are in words begin here."""

    @wraps(function)
    def called(*args: Given.args, **kwargs: Given.kwargs) -> Result:
        try:
            return function(*args, **kwargs)
        except SHOWN_IN_ONE_LINE as problem:
            raise problem.with_traceback(None) from None

    return called


def briefly(items: Iterator[Result]) -> Iterator[Result]:
    """The same for what is read bit by bit."""
    try:
        yield from items
    except SHOWN_IN_ONE_LINE as problem:
        raise problem.with_traceback(None) from None
