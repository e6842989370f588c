"""The page of a report: whole, by itself, with everything that was found."""

from __future__ import annotations

import json
import re
from html import unescape
from html.parser import HTMLParser

from chronik.pipeline.report.charts import Chart, ChartSeries, Mark, bands, clock, curves, shares
from chronik.pipeline.report.page import page
from chronik.pipeline.report.svg import round_up, short
from chronik.pipeline.report.tables import table
from tests.unit.pipeline.report_findings import AUDIT, FROM_US, RUN, SECOND_US, STALL, findings

VOID = {"meta", "line", "rect", "circle", "polyline", "br"}


class Nesting(HTMLParser):
    """Tags that are opened and not closed, or the other way round."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.wrong: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        pass

    def handle_endtag(self, tag: str) -> None:
        if tag in VOID:
            return
        if not self.open or self.open.pop() != tag:
            self.wrong.append(tag)


def test_a_page_is_well_formed_and_loads_nothing() -> None:
    text = page(findings(stalls=[STALL], stalls_count=1, runs=[RUN]))

    nesting = Nesting()
    nesting.feed(text)
    assert (nesting.open, nesting.wrong) == ([], [])
    assert text.startswith("<!doctype html>")
    addresses = set(re.findall(r"https?://[^\"' <]+", text))
    assert addresses == {"http://www.w3.org/2000/svg"}  # a name, which nobody opens
    assert not re.search(r"<(link|img|iframe|script src)", text)


def test_the_verdict_stands_above_everything_else() -> None:
    text = page(findings(stalls=[STALL], stalls_count=1))

    assert text.index('class="verdict bad"') < text.index("What stalled") < text.index("Offsets over time")


def test_words_of_others_cannot_break_the_page() -> None:
    text = page(findings(title="<script>alert(1)</script>", stalls=[STALL], stalls_count=1))

    assert "<script>alert" not in text
    assert "&lt;above&gt;" in text


def test_a_stall_has_its_evidence_and_is_marked_in_the_plots_of_its_partition_alone() -> None:
    text = page(findings(stalls=[STALL], stalls_count=1))

    assert "follower 3 has 7" in text
    assert "see whether node 3 runs" in text
    cards = re.findall(r'<h3>(orders:\d)</h3><div class="chart"(.*?)</svg>', text)
    marked = {name: 'class="stall"' in inside for name, inside in cards}
    assert marked == {"orders:0": False, "orders:1": True}


def test_every_plot_says_in_words_what_it_shows() -> None:
    text = page(findings())

    pictures = re.findall(r"<svg [^>]*>", text)
    plots = [each for each in pictures if 'aria-hidden="true"' not in each]
    assert len(plots) > 6
    assert all("aria-label=" in each for each in plots)


def test_without_a_trace_there_are_no_plots_and_the_audit_is_told() -> None:
    rows = [{"topic": "orders", "partition": 0, "start_offset": 0, "end_offset": 5000, **AUDIT}]
    text = page(
        findings(totals=None, partitions=[], timeline=[], whole_timeline=[], audit={**AUDIT, "partitions": rows})
    )

    assert "<svg" not in text
    assert "Audit, by partition" in text


def test_a_plot_holds_its_values_for_the_pointer() -> None:
    series = ChartSeries(
        "next offset", "next", [(FROM_US, 1.0), (FROM_US + SECOND_US, None), (FROM_US + 2 * SECOND_US, 9.0)]
    )
    drawn = curves(Chart("t", [series], FROM_US, FROM_US + 2 * SECOND_US, "records", [Mark(FROM_US, FROM_US, "m")]))

    found = re.search(r'data-chart="([^"]*)"', drawn)
    assert found is not None
    held = json.loads(unescape(found[1]))
    assert held["series"][0]["is"] == [1.0, None, 9.0]
    assert drawn.count("<polyline") == 1


def test_a_scale_of_powers_of_ten_holds_what_it_shows() -> None:
    series = ChartSeries("p99", "mark", [(FROM_US, 0.3), (FROM_US + SECOND_US, 250.0)])

    drawn = curves(Chart("t", [series], FROM_US, FROM_US + SECOND_US, "ms", is_log=True))

    ticks = re.findall(r'text-anchor="end">([^<]+)<', drawn)
    assert ticks == ["0.1", "1", "10", "100", "1,000"]


def test_an_empty_plot_and_one_of_a_single_point_are_drawn() -> None:
    empty = curves(Chart("t", [ChartSeries("a", "mark", [])], FROM_US, FROM_US))
    single = curves(Chart("t", [ChartSeries("a", "mark", [(FROM_US, 5.0)])], FROM_US, FROM_US))

    assert "nothing known" in empty
    assert "<circle" in single


def test_bands_and_shares_name_what_they_show() -> None:
    assert "fetch hangs" in bands([("fetch hangs", [Mark(FROM_US, FROM_US + 1, "x")])], FROM_US, FROM_US + SECOND_US)
    assert "orders:0" in shares([("orders:0", 0.6, "60 %"), ("orders:1", 0.4, "40 %")], 0.5)


def test_numbers_on_an_axis_are_short_and_round() -> None:
    assert [short(value) for value in (0, 0.25, 12, 5000, 20_000, 3_500_000, 2e9)] == [
        *("0", "0.25", "12", "5,000", "20k", "3.5M", "2G"),
    ]
    assert [round_up(value) for value in (1, 3, 7.5, 130)] == [1, 4, 8, 200]


def test_times_on_an_axis_are_as_fine_as_its_steps() -> None:
    assert clock(FROM_US, 0.1) == "00:00.00"
    assert clock(FROM_US, 5) == "04:00:00"
    assert clock(FROM_US, 300) == "04:00"
    assert clock(FROM_US, 86400) == "16 Nov"


def test_a_table_sets_figures_to_the_right_and_shows_alarms() -> None:
    made = table("t", ["topic", "lost"], [("orders", 0), ("bills", 3)], ("lost",))

    assert '<td class="word">orders</td><td>0</td>' in made
    assert '<td class="alarm">3</td>' in made
