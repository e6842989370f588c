"""Runs of `chronik verify` and audits, as they were kept: in a history (SQLite), or as `--json` printed them."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from typing import Any, NamedTuple

from chronik.pipeline.problems import JobCannotRun

_SQLITE = b"SQLite format 3\0"
# chronik/verify/history.py has the schema. A run that was not finished has no report, and nothing to compare.
_RUNS = "SELECT report FROM runs WHERE report IS NOT NULL ORDER BY run"


class KeptOutcome(NamedTuple):
    """One run or audit, and where it was."""

    source: str
    report: str  # JSON


def kept_in(path: str) -> Iterator[KeptOutcome]:
    """Of a history, or of a file with one JSON object or a list of them. Raises JobCannotRun."""
    try:
        with open(path, "rb") as file:
            is_history = file.read(len(_SQLITE)) == _SQLITE
        yield from (_of_history(path) if is_history else _of_json(path))
    except OSError as problem:
        raise JobCannotRun(f"{path} cannot be read: {problem.strerror}") from problem


def _of_history(path: str) -> Iterator[KeptOutcome]:
    try:
        with closing(sqlite3.connect(f"file:{path}?mode=ro", uri=True)) as connection:
            for (report,) in connection.execute(_RUNS):
                yield KeptOutcome(path, report)
    except sqlite3.Error as problem:
        raise JobCannotRun(f"{path} is no history of chronik verify: {problem}") from problem


def _of_json(path: str) -> Iterator[KeptOutcome]:
    try:
        with open(path, encoding="utf-8") as file:
            read: Any = json.load(file)
    except ValueError as problem:
        raise JobCannotRun(f"{path} is neither JSON nor a history of chronik verify") from problem
    for each in read if isinstance(read, list) else [read]:
        if not isinstance(each, dict) or "lost" not in each:
            raise JobCannotRun(
                f"{path} holds something that is neither a run nor an audit",
                "give what `chronik verify --json` or `chronik pipeline audit --json` printed",
            )
        yield KeptOutcome(path, json.dumps(each))
