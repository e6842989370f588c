"""Runs are kept, numbered and found again."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from chronik.verify.errors import RunCannotStart
from chronik.verify.history import RunHistory, default_path
from chronik.verify.settings import VerifyAcks, VerifySettings

SETTINGS = VerifySettings("127.0.0.1:9092", acks=VerifyAcks.ALL, note="before the change")
NOW = "2026-11-16T04:25:00+00:00"


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "not" / "there" / "runs.sqlite3"


def test_a_run_is_found_again_with_its_settings_and_report(path: Path) -> None:
    history = RunHistory(path)
    run = history.begin(NOW, SETTINGS)
    history.finish(run, {"run": run, "verdict": "pass", "consumed": 5_000})
    history.close()

    again = RunHistory(path)
    kept = again.run(run)
    again.close()

    assert kept is not None
    assert kept.settings == SETTINGS.to_json()
    assert kept.report == {"run": run, "verdict": "pass", "consumed": 5_000}
    assert kept.started_at == NOW


def test_runs_have_ascending_numbers_that_are_never_used_again(path: Path) -> None:
    history = RunHistory(path)
    first = history.begin(NOW, SETTINGS)
    second = history.begin(NOW, SETTINGS)
    history.forget(second)
    third = history.begin(NOW, SETTINGS)

    assert first < second < third
    assert [kept.run for kept in history.runs()] == [first, third]
    history.close()


def test_a_run_that_was_stopped_has_no_report(path: Path) -> None:
    history = RunHistory(path)
    run = history.begin(NOW, SETTINGS)

    [kept] = history.runs()

    assert (kept.run, kept.report) == (run, None)
    history.close()


def test_the_newest_runs_are_listed_oldest_first(path: Path) -> None:
    history = RunHistory(path)
    runs = [history.begin(NOW, SETTINGS) for _ in range(5)]

    assert [kept.run for kept in history.runs(2)] == runs[-2:]
    history.close()


def test_two_processes_may_keep_runs_at_once(path: Path) -> None:
    one, other = RunHistory(path), RunHistory(path)

    assert one.begin(NOW, SETTINGS) != other.begin(NOW, SETTINGS)
    assert len(one.runs()) == 2
    one.close()
    other.close()


def test_an_unknown_run_is_none(path: Path) -> None:
    history = RunHistory(path)

    assert history.run(17) is None
    history.close()


def test_a_file_that_is_no_history_is_refused_in_plain_words(tmp_path: Path) -> None:
    wrong = tmp_path / "notes.txt"
    wrong.write_text("this is not a database, it is a shopping list" * 10)

    with pytest.raises(RunCannotStart, match="cannot be used"):
        RunHistory(wrong)


def test_a_history_of_a_newer_version_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "runs.sqlite3"
    connection = sqlite3.connect(path)
    connection.execute("PRAGMA user_version = 99")
    connection.close()

    with pytest.raises(RunCannotStart, match="newer"):
        RunHistory(path)


def test_without_a_file_runs_are_numbered_and_forgotten() -> None:
    history = RunHistory(None)

    assert history.begin(NOW, SETTINGS) == 1
    history.close()


def test_the_default_is_the_users_state_directory(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path))

    assert default_path() == tmp_path / "chronik" / "verify.sqlite3"


def test_a_history_that_another_has_locked_is_an_error_for_people(path: Path) -> None:
    history = RunHistory(path, busy_s=0.01)
    run = history.begin(NOW, SETTINGS)
    other = sqlite3.connect(path, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")

    for attempt in (lambda: history.finish(run, {}), lambda: history.forget(run), lambda: history.run(run)):
        with pytest.raises(RunCannotStart, match="locked"):
            attempt()

    other.execute("ROLLBACK")
    other.close()
    history.finish(run, {})
    history.close()


def test_a_full_disk_is_an_error_for_people_and_what_was_there_stays(path: Path) -> None:
    history = RunHistory(path)
    run = history.begin(NOW, SETTINGS)
    [pages] = history._connection.execute("PRAGMA page_count").fetchone()
    history._connection.execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(RunCannotStart, match="full"):
        history.finish(run, {"much": "x" * 100_000})

    [kept] = history.runs()
    assert (kept.run, kept.report) == (run, None)
    history.close()
