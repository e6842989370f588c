"""Runs and audits, read from where they were kept."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chronik.pipeline.kept_runs import kept_in
from chronik.pipeline.problems import JobCannotRun
from chronik.verify.history import RunHistory
from chronik.verify.settings import VerifySettings


def test_finished_runs_of_a_history_are_read_and_those_that_were_not_are_left_out(tmp_path: Path) -> None:
    path = tmp_path / "history.sqlite3"
    history = RunHistory(path)
    first = history.begin("2026-11-16T07:00:00Z", VerifySettings("127.0.0.1:9092"))
    history.finish(first, {"run": first, "lost": 0})
    history.begin("2026-11-16T07:01:00Z", VerifySettings("127.0.0.1:9092"))
    history.close()

    kept = list(kept_in(str(path)))

    assert [(each.source, json.loads(each.report)) for each in kept] == [(str(path), {"run": 1, "lost": 0})]


@pytest.mark.parametrize("content", [{"lost": 1}, [{"lost": 1}]])
def test_files_have_one_report_or_a_list(tmp_path: Path, content: object) -> None:
    path = tmp_path / "audit.json"
    path.write_text(json.dumps(content))

    assert [json.loads(each.report) for each in kept_in(str(path))] == [{"lost": 1}]


@pytest.mark.parametrize("content", ["not json", '{"found": 3}', "[4]", ""])
def test_what_is_neither_a_run_nor_an_audit_is_named(tmp_path: Path, content: str) -> None:
    path = tmp_path / "other.json"
    path.write_text(content)

    with pytest.raises(JobCannotRun, match=r"other\.json"):
        list(kept_in(str(path)))


def test_a_database_of_something_else_is_named(tmp_path: Path) -> None:
    import sqlite3

    path = tmp_path / "other.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("CREATE TABLE other (a)")
    connection.commit()
    connection.close()

    with pytest.raises(JobCannotRun, match="no history"):
        list(kept_in(str(path)))


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(JobCannotRun, match="cannot be read"):
        list(kept_in(str(tmp_path / "missing")))
