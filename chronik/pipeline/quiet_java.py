"""What the Java process of a Spark session says goes into a file, not among what a command prints."""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager

LOG_SHOWN = 2000


@contextmanager
def quiet_java(log: str, plain: tuple[type[BaseException], ...]) -> Iterator[None]:
    """What Java, when it is started here, says on standard error for all its life goes into a file.

    Those are warnings about itself, and the stack traces of errors that are shown in one line. Where it does not even
    start, the end of the file is shown, unless the error is one of the `plain` ones, which say enough.
    """
    logging.getLogger().addHandler(logging.NullHandler())  # py4j logs what it raises, with a stack trace
    sys.stderr.flush()
    terminal = os.dup(2)
    try:
        with open(log, "w", encoding="utf-8") as file:
            os.dup2(file.fileno(), 2)
        yield
    except BaseException as problem:
        os.dup2(terminal, 2)
        if not isinstance(problem, plain):
            with open(log, encoding="utf-8", errors="replace") as file:
                sys.stderr.write(file.read()[-LOG_SHOWN:])
        raise
    finally:
        os.dup2(terminal, 2)
        os.close(terminal)
