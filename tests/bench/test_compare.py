"""Two results beside each other, and the page with pictures."""

from __future__ import annotations

import io
import json
import re
from pathlib import Path
from xml.etree import ElementTree

import pytest
from rich.console import Console

from tests.bench import compare, page, plots, report
from tests.bench.__main__ import main
from tests.bench.fakes import an_empty_result, measured
from tests.bench.ratios import ratios
from tests.bench.results import Result, Series
from tests.bench.rows import ROWS


def a_result(speed: float = 200.0, cpu: float = 0.5, commit: str = "abc") -> Result:
    result = an_empty_result(rounds=2, commit=commit)
    for system, factor in (("chronik", 1.0), ("kafka", 0.5)):
        result.measured += [
            measured("produce", "produce 1 KB x 1", "messages_s", system, speed * factor, speed * factor * 1.02),
            measured("node-cpu", "produce 1 KB x 1", "node_cpu_gb", system, cpu, cpu),
            measured("end-to-end", "one node", "p50_ms", system, 1.0, 1.0),
            measured("many-partitions", "partitions 1,000", "start_s", system, 0.5, 0.5),
            measured("many-partitions", "partitions 10,000", "start_s", system, 3.0, 3.0),
        ]
        result.series.append(Series("memory", "one node", system, [(0.0, 30.0), (1.0, 40.0)]))
    result.ratios = ratios(result.measured, ROWS)
    return result


def change_of(row: str, system: str, before: Result, after: Result) -> compare.Change:
    (found,) = (each for each in compare.changes(before, after) if each.row.name == row and each.system == system)
    return found


def test_more_speed_is_better_and_more_cost_is_worse() -> None:
    before, after = a_result(speed=200, cpu=0.5), a_result(speed=300, cpu=0.8)

    assert change_of("produce", "chronik", before, after).share == pytest.approx(0.5)
    assert change_of("produce", "chronik", before, after).is_better is True
    assert change_of("node-cpu", "chronik", before, after).is_better is False
    assert change_of("node-cpu", "chronik", after, before).is_better is True


def test_a_change_within_the_spread_of_the_rounds_is_noise() -> None:
    before, after = a_result(speed=200), a_result(speed=204)

    assert change_of("produce", "chronik", before, after).is_better is None
    assert not change_of("produce", "chronik", before, after).is_beyond_noise


def test_the_ratio_to_the_peer_is_compared_too_and_does_not_move_with_the_machine() -> None:
    before, after = a_result(speed=200), a_result(speed=400)

    change = change_of("produce", "chronik/kafka", before, after)

    assert change.before == pytest.approx(2.0)
    assert change.after == pytest.approx(2.0)
    assert change.is_better is None


def test_the_comparison_is_shown_with_what_is_not_alike(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before, after = a_result(speed=200, commit="old1"), a_result(speed=300, commit="new2")
    after.machine["cores"] = 64
    screen = io.StringIO()

    compare.show(before, after, Console(width=150, file=screen))

    shown = screen.getvalue()
    assert "old1" in shown
    assert "new2" in shown
    assert "+50%" in shown
    assert "not alike: cores: 2 before, 64 after" in shown

    before.save(tmp_path / "before.json")
    after.save(tmp_path / "after.json")
    assert main(["compare", str(tmp_path / "before.json"), str(tmp_path / "after.json"), "--json"]) == 0
    told = json.loads(capsys.readouterr().out)
    assert {"row": "B1", "line": "produce 1 KB x 1", "system": "chronik"}.items() <= told[0].items()


def test_tables_have_both_systems_their_ratio_and_the_worst_of_each_row() -> None:
    result = a_result()

    text = report.markdown([result])

    assert "| produce 1 KB x 1 | msg/s | 202±1% | 101±1% | 2.00±0% ★ | ≥ 1 |" in text
    assert "| B3 node-cpu | node CPU s/GB | produce 1 KB x 1 | 1.00±0% ✗ | 1.00 | ≤ 0.7 | ≤ 0.4 |" in text


def test_the_page_needs_nothing_else_and_its_pictures_are_well_formed() -> None:
    text = page.page(a_result())

    pictures = re.findall(r"<svg.*?</svg>", text, re.DOTALL)
    assert len(pictures) >= 5
    for picture in pictures:
        ElementTree.fromstring(picture)
    assert not re.search(r"(?:src|href)=|url\(|@import|<script", text)
    assert {"Memory over time", "Growth with partitions: start, s", "Where each goal stands"} <= set(
        re.findall(r"<h2>([^<]*)</h2>", text)
    )


def test_a_page_without_a_peer_has_no_ratios() -> None:
    result = a_result()
    result.measured = [each for each in result.measured if each.system == "chronik"]
    result.series, result.ratios = [], []
    result.left_out = ["Apache Kafka: there is no `java` here"]

    text = page.page(result)

    assert "Where each goal stands" not in text
    assert "there is no `java` here" in text


def test_names_in_pictures_are_escaped_and_nothing_at_all_is_a_picture_too() -> None:
    ElementTree.fromstring(plots.bars({"<a & b>": {"chronik": 0.0}}, ["chronik"]))
    ElementTree.fromstring(plots.bars({}, []))
    ElementTree.fromstring(plots.curves({"chronik": []}, ["chronik"], "x", "y"))
    ElementTree.fromstring(plots.standings([plots.Standing("a", 0.0, 1.0, "-", is_met=False)]))


def test_the_report_command_writes_the_page_beside_the_result(tmp_path: Path) -> None:
    a_result().save(tmp_path / "result.json")

    assert main(["report", str(tmp_path / "result.json")]) == 0

    assert (tmp_path / "result.html").read_text(encoding="utf-8").startswith("<!doctype html>")
