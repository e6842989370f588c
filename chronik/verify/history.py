"""Runs that were done, with their settings, versions and outcome: a small SQLite file in the user's state directory."""

from __future__ import annotations

import json
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from chronik.verify.errors import RunCannotStart
from chronik.verify.settings import VerifySettings

SCHEMA_VERSION = 1
BUSY_S = 10.0
IN_MEMORY = ":memory:"

_SCHEMA = """
CREATE TABLE IF NOT EXISTS runs (
    run INTEGER PRIMARY KEY AUTOINCREMENT,
    started_at TEXT NOT NULL,
    settings TEXT NOT NULL,
    report TEXT
);
"""


@dataclass(frozen=True)
class KeptRun:
    """A run from the history. `report` is its JSON; None of one that was not finished."""

    run: int
    started_at: str
    settings: dict[str, Any]
    report: dict[str, Any] | None


def default_path() -> Path:
    """`$XDG_STATE_HOME/chronik/verify.sqlite3`, as programs on Linux do."""
    state = os.environ.get("XDG_STATE_HOME") or os.path.join(os.path.expanduser("~"), ".local", "state")
    return Path(state) / "chronik" / "verify.sqlite3"


class RunHistory:
    """Numbers runs and keeps them. Several processes may do so at once."""

    def __init__(self, path: Path | None, busy_s: float = BUSY_S) -> None:
        """None: nothing is kept. Another process is waited for so long. Raises RunCannotStart."""
        self.path = path
        try:
            if path is not None:
                path.parent.mkdir(parents=True, exist_ok=True)
            self._connection = sqlite3.connect(
                IN_MEMORY if path is None else path, timeout=busy_s, isolation_level=None, check_same_thread=False
            )
            with self._change() as change:
                version = change.execute("PRAGMA user_version").fetchone()[0]
                if version > SCHEMA_VERSION:
                    raise RunCannotStart(f"the history {path} is of a newer chronik", "give another --history FILE")
                change.execute(_SCHEMA)
                change.execute(f"PRAGMA user_version = {SCHEMA_VERSION}")
        except (OSError, sqlite3.Error) as problem:
            raise self._unusable(problem) from problem

    @contextmanager
    def _change(self) -> Iterator[sqlite3.Connection]:
        """All or nothing. Raises RunCannotStart: it may be locked, or its disk full."""
        connection = self._connection
        try:
            connection.execute("BEGIN IMMEDIATE")
            try:
                yield connection
                connection.execute("COMMIT")
            except BaseException:
                if connection.in_transaction:  # SQLite has rolled back by itself where the disk is full
                    connection.execute("ROLLBACK")
                raise
        except sqlite3.Error as problem:
            raise self._unusable(problem) from problem

    def _unusable(self, problem: Exception) -> RunCannotStart:
        return RunCannotStart(f"the history {self.path} cannot be used: {problem}", "give another --history FILE")

    def begin(self, started_at: str, settings: VerifySettings) -> int:
        """Its number. Raises RunCannotStart, as all of these do."""
        with self._change() as change:
            added = change.execute(
                "INSERT INTO runs (started_at, settings) VALUES (?, ?)",
                (started_at, json.dumps(settings.to_json())),
            )
        return int(added.lastrowid or 0)

    def finish(self, run: int, report: dict[str, Any]) -> None:
        with self._change() as change:
            change.execute("UPDATE runs SET report = ? WHERE run = ?", (json.dumps(report), run))

    def forget(self, run: int) -> None:
        """One that never came to sending anything."""
        with self._change() as change:
            change.execute("DELETE FROM runs WHERE run = ?", (run,))

    def runs(self, limit: int | None = None) -> list[KeptRun]:
        """The newest, oldest of them first."""
        rows = self._rows("ORDER BY run DESC LIMIT ?", -1 if limit is None else limit)
        return [_kept(row) for row in rows][::-1]

    def run(self, run: int) -> KeptRun | None:
        rows = self._rows("WHERE run = ?", run)
        return _kept(rows[0]) if rows else None

    def _rows(self, which: str, value: int) -> list[tuple[int, str, str, str | None]]:
        try:
            asked = self._connection.execute(f"SELECT run, started_at, settings, report FROM runs {which}", (value,))
            return asked.fetchall()
        except sqlite3.Error as problem:
            raise self._unusable(problem) from problem

    def close(self) -> None:
        self._connection.close()


def _kept(row: tuple[int, str, str, str | None]) -> KeptRun:
    run, started_at, settings, report = row
    return KeptRun(run, started_at, json.loads(settings), None if report is None else json.loads(report))
