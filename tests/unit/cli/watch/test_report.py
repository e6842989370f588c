"""One view on paper."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from chronik.cli.watch.report import print_view
from chronik.inspect.live_model import LiveView, RateHistory
from tests.unit.inspect.watched import STALL, seen_with, snapshot, state


def on_paper(view: LiveView, width: int) -> list[str]:
    paper = io.StringIO()
    print_view(view, Console(file=paper, width=width))
    return [line.rstrip() for line in paper.getvalue().splitlines()]


def test_nodes_totals_partitions_groups_and_stalls_are_printed_in_this_order() -> None:
    lines = on_paper(seen_with(STALL), 200)

    assert lines[0] == "nodes 1 2 !3 silent"
    assert lines[1].startswith("3 partitions (2 shown)  1 without leader  1 not in sync")
    assert lines[3].split()[:4] == ["topic▲", "p", "lead", "start"]
    assert lines[4].split()[:8] == ["orders", "0", "1", "0", "100", "100", "130", "30"]
    assert lines[5].split()[:3] == ["orders", "1", "3?"]
    assert lines[7].split() == ["group", "state", "members", "lag", "lags"]
    assert lines[8].split()[:4] == ["billing", "Stable", "1", "60"]
    assert lines[10:] == ["▲ fetch hangs", "  orders:0 waits", "· asked at 5", "→ restart node 2"]


@pytest.mark.parametrize("width", [60, 80, 120])
def test_what_is_printed_fits_the_terminal(width: int) -> None:
    assert max(len(line) for line in on_paper(seen_with(), width)) <= width


def test_an_empty_cluster_is_printed_too() -> None:
    assert on_paper(RateHistory().take(snapshot(0.0, state(1))), 120) == [
        "node 1",
        "0 partitions  0 lagging  largest gap 0",
        "",
        "● nothing stalls  what clients do is not seen: chronik trace on",
    ]
