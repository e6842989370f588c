"""Chronik against the peer, round by round."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench.fakes import FakeSystem, an_empty_result, measured
from tests.bench.ratios import ratio_of, ratios
from tests.bench.results import Measured
from tests.bench.row import Bench, Case, Figure, Lines, Row, at_least, at_most
from tests.bench.rows import rows_named
from tests.bench.runner import run
from tests.bench.scale import QUICK, TINY

ROW = Row(
    "row",
    "A row",
    (
        Figure("speed", "m/s", ratio_goal=at_least(1.0), moonshot=at_least(1.5)),
        Figure("cost", "s", at_most(3.0), ratio_goal=at_most(0.7), moonshot=at_most(0.4)),
        Figure("weight", "kg"),
    ),
    (),
    code="B1",
)


def test_a_ratio_is_taken_in_each_round_and_its_median_counts() -> None:
    ours = measured("row", "line", "speed", "chronik", 10, 30, 40)
    theirs = measured("row", "line", "speed", "kafka", 10, 10, 20)

    ratio = ratio_of(ours, theirs)

    assert ratio is not None
    assert ratio.values == [1.0, 3.0, 2.0]
    assert ratio.median == 2.0
    assert ratio.spread == 1.0


def test_a_round_that_one_of_them_has_not_is_left_out() -> None:
    ours = Measured("row", "line", "speed", "chronik", [10.0, 30.0], [1, 3])
    theirs = Measured("row", "line", "speed", "kafka", [5.0, 10.0], [2, 3])

    ratio = ratio_of(ours, theirs)

    assert ratio is not None
    assert ratio.values == [3.0]
    assert ratio_of(ours, Measured("row", "line", "speed", "kafka", [0.0, 1.0], [1, 2])) is None


def test_rounds_in_which_the_peer_took_no_time_are_not_left_out_to_look_better() -> None:
    ours = measured("row", "line", "cost", "chronik", 1, 1, 1)
    theirs = measured("row", "line", "cost", "kafka", 0, 0, 1)

    assert ratio_of(ours, theirs) is None


def test_of_several_values_in_a_round_the_ratio_is_of_what_is_taken_of_all() -> None:
    ours = Measured("row", "line", "cost", "chronik", [1.0, 2.0, 9.0, 4.0], [1, 1, 1, 2])
    theirs = measured("row", "line", "cost", "kafka", 4, 4)
    longest = Measured("row", "line", "cost", "chronik", ours.values, ours.rounds, is_longest=True)

    of_median, of_longest = ratio_of(ours, theirs), ratio_of(longest, theirs)

    assert of_median is not None
    assert of_median.values == [0.5, 1.0]
    assert of_longest is not None
    assert of_longest.values == [2.25, 1.0]


@pytest.mark.parametrize(
    ("figure", "ours", "is_met", "is_moonshot"),
    [
        ("speed", 9.9, False, False),
        ("speed", 10.0, True, False),
        ("speed", 15.0, True, True),
        ("cost", 7.1, False, False),
        ("cost", 7.0, True, False),
        ("cost", 4.0, True, True),
        ("weight", 1.0, None, None),
    ],
)
def test_a_ratio_is_held_against_its_goals(
    figure: str, ours: float, is_met: bool | None, is_moonshot: bool | None
) -> None:
    every = [measured("row", "line", figure, "kafka", 10.0), measured("row", "line", figure, "chronik", ours)]

    (ratio,) = ratios(every, [ROW])

    assert (ratio.is_goal_met, ratio.is_moonshot_met) == (is_met, is_moonshot)


def test_the_peer_is_held_against_no_goal_of_ours(tmp_path: Path) -> None:
    """The peer is held against no goal of ours and who is first changes from round to round."""
    order: list[str] = []

    def measure(bench: Bench) -> Lines:
        order.append(bench.system.name)
        return {"line": {"cost": 5.0 if bench.system.name == "kafka" else 2.0, "speed": 1.0, "weight": 1.0}}

    row = Row("row", "A row", ROW.figures, (Case("case", measure),), code="B1")
    result = an_empty_result(rounds=2)
    run(result, [row], [FakeSystem("chronik"), FakeSystem("kafka")], TINY, tmp_path, announce=lambda what: None)

    assert order == ["chronik", "kafka", "kafka", "chronik"]
    met = {each.system: each.is_goal_met for each in result.measured if each.figure == "cost"}
    assert met == {"chronik": True, "kafka": None}
    assert {each.figure: each.median for each in result.ratios} == {"speed": 1.0, "cost": 0.4, "weight": 1.0}


def test_rows_that_share_a_case_each_take_their_own_lines_and_figures(tmp_path: Path) -> None:
    """Rows that share a case each take their own lines and figures of one measurement."""
    asked = 0

    def measure(bench: Bench) -> Lines:
        nonlocal asked
        asked += 1
        return {"in 1": {"speed": 1.0, "cost": 2.0}, "out 1": {"speed": 3.0, "cost": 4.0}}

    cases = (Case("both", measure),)
    rows = [
        Row("in", "In", (Figure("speed", "m/s"),), cases, code="B1", takes="in"),
        Row("out", "Out", (Figure("speed", "m/s"),), cases, code="B2", takes="out"),
        Row("cost", "Cost", (Figure("cost", "s"),), cases, code="B3"),
    ]
    result = an_empty_result()
    run(result, rows, [FakeSystem("chronik")], TINY, tmp_path, announce=lambda what: None)

    assert asked == 1
    assert [(each.row, each.line, each.figure, each.median) for each in result.measured] == [
        ("in", "in 1", "speed", 1.0),
        ("out", "out 1", "speed", 3.0),
        ("cost", "in 1", "cost", 2.0),
        ("cost", "out 1", "cost", 4.0),
    ]


def test_what_needs_the_peer_or_more_time_is_left_out_without_it(tmp_path: Path) -> None:
    done: list[str] = []

    def case(name: str, *, is_quick: bool = True, is_of_peer: bool = False) -> Case:
        def measure(bench: Bench) -> Lines:
            done.append(f"{name} {bench.system.name}")
            return {}

        return Case(name, measure, is_quick, is_of_peer)

    against = Row("a", "A", (), (case("quick"), case("slow", is_quick=False), case("tool", is_of_peer=True)), code="B1")
    alone = Row("b", "B", (), (case("alone"),))
    named = Row("c", "C", (), (case("named"),), code="B15", is_alone=True)

    run(
        an_empty_result(), [against, alone, named], [FakeSystem("chronik")], QUICK, tmp_path, announce=lambda what: None
    )
    assert done == ["quick chronik", "alone chronik", "named chronik"]
    done.clear()

    both = [FakeSystem("chronik"), FakeSystem("kafka")]
    run(an_empty_result(), [against, alone, named], both, TINY, tmp_path, announce=lambda what: None)
    assert done == [f"{name} {system.name}" for name in ("quick", "slow", "tool") for system in both] + [
        "alone chronik",
        "named chronik",
    ]


def test_a_row_answers_to_its_name_and_to_its_code_in_whatever_case() -> None:
    (by_name,), (by_code,) = rows_named(["trace-cost"]), rows_named(["b15"])

    assert by_name is by_code
    assert not by_code.has_peer
