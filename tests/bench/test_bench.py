"""The bench still runs: all rows in a tiny form, what they return is gathered, kept, shown and published.

No figure is looked at for its size: how fast a node is depends on the machine, and on who else uses it.
"""

from __future__ import annotations

import dataclasses
import io
import json
import subprocess
from pathlib import Path

import psutil
import pytest
from rich.console import Console

from tests.bench import report, results
from tests.bench.__main__ import main
from tests.bench.fakes import FakeSystem, an_empty_result
from tests.bench.results import Measured, Result
from tests.bench.row import Bench, Case, Figure, Row, at_least, at_most
from tests.bench.rows import ROWS
from tests.bench.runner import Gathering, count_of_steps, run, steps_of
from tests.bench.scale import TINY
from tests.bench.systems.chronik import Chronik
from tests.bench.systems.system import ServerFailed
from tests.clients.support import needs

# Rows that look at the same cases are measured together.
SHARING = [[row for row in ROWS if row.cases is cases] for cases in {id(row.cases): row.cases for row in ROWS}.values()]


@pytest.mark.timeout(600)  # Spark is slow to start on a busy machine
@pytest.mark.parametrize("rows", SHARING, ids=lambda rows: rows[0].name)
def test_a_row_runs_and_each_of_its_lines_has_every_figure(rows: list[Row], tmp_path: Path) -> None:
    if rows[0].is_on_spark:
        needs("spark")
    if rows[0].code == "B13":
        needs("spark connector")
    # The cases of a row do the same with other numbers: the first and the last will do.
    own = [case for case in rows[0].cases if not case.is_of_peer]
    cases = tuple({case.name: case for case in (own[0], own[-1])}.values())
    result = an_empty_result(rounds=1)

    ends = [dataclasses.replace(row, cases=cases) for row in rows]
    run(result, ends, [Chronik()], TINY, tmp_path, announce=lambda what: None)

    assert result.failures == []
    assert [(each.line, each.figure) for each in result.measured if not each.values or each.values[0] < 0] == []
    for row in rows:
        measured = [each for each in result.measured if each.row == row.name]
        lines = {each.line for each in measured}
        assert lines
        assert sorted((each.line, each.figure) for each in measured) == sorted(
            (line, figure.name) for line in lines for figure in row.figures
        )


def test_rounds_are_interleaved_and_a_case_that_fails_is_told_and_the_others_go_on(tmp_path: Path) -> None:
    asked: list[str] = []

    def fine(bench: Bench) -> dict[str, dict[str, float]]:
        asked.append("fine")
        return {"fine": {"speed": float(len(asked))}}

    def broken(bench: Bench) -> dict[str, dict[str, float]]:
        asked.append("broken")
        raise ServerFailed("it did not start")

    row = Row("row", "A row", (Figure("speed", "m/s"),), (Case("fine", fine), Case("broken", broken)))
    result = an_empty_result(rounds=2)

    run(result, [row], [Chronik()], TINY, tmp_path, announce=lambda what: None)

    assert asked == ["fine", "broken", "fine", "broken"]
    assert [each.values for each in result.measured] == [[1.0, 3.0]]
    assert result.failures == [f"round {number}, row, broken, chronik: it did not start" for number in (1, 2)]


def test_a_case_that_the_peer_cannot_be_measured_by_is_for_us_alone() -> None:
    both, ours = (Case(name, lambda bench: {}, is_ours_only=name == "ours") for name in ("both", "ours"))
    row = Row("row", "a row", (Figure("speed", "x"),), (both, ours), code="B99")

    steps = steps_of([row], [FakeSystem("chronik"), FakeSystem("kafka")], TINY)

    assert [(case.name, system.name) for case, system in steps] == [
        ("both", "chronik"),
        ("both", "kafka"),
        ("ours", "chronik"),
    ]


def test_a_long_case_is_not_in_every_round(tmp_path: Path) -> None:
    row = Row("row", "A row", (), (Case("short", lambda bench: {}), Case("long", lambda bench: {}, rounds_max=2)))
    told: list[str] = []

    run(an_empty_result(rounds=3), [row], [Chronik()], TINY, tmp_path, announce=told.append)

    assert [line.split(": ")[1] for line in told] == ["short, chronik", "long, chronik"] * 2 + ["short, chronik"]
    assert count_of_steps([row], [Chronik()], TINY, rounds=3) == len(told)


def test_a_round_that_would_not_be_over_in_time_is_not_begun(tmp_path: Path) -> None:
    row = Row("row", "A row", (Figure("speed", "m/s"),), (Case("case", lambda bench: {"case": {"speed": 1.0}}),))
    result = an_empty_result(rounds=3)

    run(result, [row], [Chronik()], TINY, tmp_path, lambda what: None, limit_s=0.0)

    assert result.rounds == 1
    assert [each.values for each in result.measured] == [[1.0]]


def test_a_goal_is_held_against_the_median_of_the_rounds() -> None:
    row = Row("row", "A row", (Figure("cost", "s", at_most(10)), Figure("speed", "m/s", at_least(10))), ())
    result = an_empty_result(rounds=3)
    gathering = Gathering(result)

    for round_number, value in enumerate((8.0, 9.0, 30.0), 1):
        gathering.take(row, Chronik(), {"line": {"cost": value, "speed": value}}, round_number)

    cost, speed = result.measured
    assert (cost.median, cost.is_goal_met) == (9.0, True)
    assert (speed.median, speed.is_goal_met) == (9.0, False)
    assert cost.spread == pytest.approx(22 / 9)


def test_a_percentile_is_of_all_kills_of_all_rounds_and_not_of_those_of_each() -> None:
    row = Row("row", "A row", (Figure("p50_s", "p50"), Figure("p99_s", "p99", at_most(1), is_longest=True)), ())
    result = an_empty_result(rounds=2)
    gathering = Gathering(result)

    for round_number, gaps in enumerate(([0.1, 0.2, 5.0], [0.3, 0.4]), 1):
        gathering.take(row, Chronik(), {"line": {"p50_s": gaps, "p99_s": gaps}}, round_number)

    p50, p99 = result.measured
    assert (p50.median, p99.median, p99.is_goal_met) == (0.3, 5.0, False)
    assert p99.rounds == [1, 1, 1, 2, 2]


@pytest.mark.parametrize(
    "problem",
    [ServerFailed("no"), subprocess.TimeoutExpired("job", 9), psutil.NoSuchProcess(1), BrokenPipeError()],
    ids=lambda problem: type(problem).__name__,
)
def test_whatever_goes_wrong_in_a_case_the_next_one_is_measured(problem: Exception, tmp_path: Path) -> None:
    def broken(bench: Bench) -> dict[str, dict[str, float]]:
        raise problem

    cases = Case("broken", broken), Case("fine", lambda bench: {"fine": {"speed": 1.0}})
    result = an_empty_result(rounds=1)

    run(result, [Row("row", "A row", (Figure("speed", "m/s"),), cases)], [Chronik()], TINY, tmp_path, lambda what: None)

    assert len(result.failures) == 1
    assert [each.values for each in result.measured] == [[1.0]]
    assert "Not measured, since something failed: 1 cases" in report.short_markdown([result])


def test_a_result_is_read_back_as_it_was_kept(tmp_path: Path) -> None:
    result = a_result()

    result.save(tmp_path / "result.json")

    assert results.load(tmp_path / "result.json") == result


def test_a_result_of_another_format_is_not_read(tmp_path: Path) -> None:
    path = tmp_path / "result.json"
    path.write_text(json.dumps({"format": 0}))

    with pytest.raises(ValueError, match="format"):
        results.load(path)


def test_a_result_takes_the_place_of_the_last_one_on_the_pages(tmp_path: Path) -> None:
    page, readme = tmp_path / "page.md", tmp_path / "README.md"
    for path in (page, readme):
        path.write_text(f"before\n{report.BEGIN}\nold figures\n{report.END}\nafter\n")

    report.publish([a_result()], page, readme)
    report.publish([a_result()], page, readme)

    for path in (page, readme):
        text = path.read_text()
        assert text.startswith("before\n")
        assert text.endswith("\nafter\n")
        assert "old figures" not in text
    assert page.read_text().count("| first start | 0.700±14% ✗ |") == 1


def test_the_pages_have_a_place_for_figures(tmp_path: Path) -> None:
    page, readme = tmp_path / "benchmarks.md", tmp_path / "README.md"
    page.write_text(report.PAGE.read_text(encoding="utf-8"), encoding="utf-8")
    readme.write_text(report.README.read_text(encoding="utf-8"), encoding="utf-8")

    report.publish([a_result()], page, readme)

    assert "| first start | 0.700±14% ✗ |" in page.read_text(encoding="utf-8")


def test_runs_of_different_rows_are_published_together_and_the_last_of_a_row_counts() -> None:
    first, second, again = (an_empty_result(rounds=1) for _ in range(3))
    first.measured = [Measured("seed-run", "three nodes", "seconds", "chronik", median=9.0)]
    second.measured = [Measured("audit-growth", "growth", "seconds", "chronik", median=8.5)]
    again.measured = [Measured("seed-run", "three nodes", "seconds", "chronik", median=0.75)]

    text, short = report.markdown([first, second, again]), report.short_markdown([first, second, again])

    assert "| B12 seed-run | seconds | 0.75 | ≤ 3 |" in short
    assert "audit-growth" not in short  # no headline
    assert "8.50" in text
    assert "9.00" not in text + short


def test_a_goal_that_is_not_met_is_shown_and_named() -> None:
    screen = io.StringIO()

    report.show(a_result(), Console(width=120, file=screen))

    shown = screen.getvalue()
    assert "0.700±14% ✗" in shown
    assert "1 of 2 goals met. Not met (✗): start, first start." in shown


def test_bad_input_is_exit_code_2(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    broken = tmp_path / "broken.json"
    broken.write_text("{")

    assert main(["run", "no-such-row"]) == 2
    assert "B7 one-record" in capsys.readouterr().err
    assert main(["run", "B7", "--rounds", "0"]) == 2
    assert main(["show", str(tmp_path / "nothing.json")]) == 2
    assert main(["compare", str(broken), str(broken)]) == 2
    assert "is not a result" in capsys.readouterr().err


def a_result() -> Result:
    result = an_empty_result(rounds=3)
    result.measured = [
        Measured(
            "start", "first start", "start_s", "chronik", [0.6, 0.7, 0.8], [1, 2, 3], 0.7, 0.2 / 0.7, is_goal_met=False
        ),
        Measured(
            "start", "later start", "start_s", "chronik", [0.3, 0.4, 0.5], [1, 2, 3], 0.4, 0.2 / 0.4, is_goal_met=True
        ),
    ]
    return result
