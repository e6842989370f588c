"""One view on paper, and as JSON."""

from __future__ import annotations

import io
import json

import pytest
from rich.console import Console

from chronik.cli.watch.report import as_json, print_view
from chronik.inspect.live_model import LiveView, RateHistory
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.inspect.watched import NOW_US, copy, follower, group, led, snapshot, state

STALL = Verdict(Cause.FETCH_HANGS, "orders:0 waits", ("asked at 5",), "restart node 2", NOW_US, "orders", 0)


def seen(*verdicts: Verdict) -> LiveView:
    slow = [follower(2), follower(3, lag_records=40, lag_ms=2000, is_in_sync=False)]
    partitions = [led("orders", 0, watermark=100, next_offset=130, in_sync=(1, 2), followers=slow), led("__internal")]
    one = state(1, partitions, groups=[group("billing", [("orders", 0, 40)])])
    two = state(2, copies=[copy("orders", 1, leader=3)])
    return RateHistory().take(snapshot(0.0, one, two, silent={3: "it hung up"}, verdicts=verdicts))


def on_paper(view: LiveView, width: int) -> list[str]:
    paper = io.StringIO()
    print_view(view, Console(file=paper, width=width))
    return [line.rstrip() for line in paper.getvalue().splitlines()]


def test_nodes_totals_partitions_groups_and_stalls_are_printed_in_this_order() -> None:
    lines = on_paper(seen(STALL), 200)

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
    assert max(len(line) for line in on_paper(seen(), width)) <= width


def test_an_empty_cluster_is_printed_too() -> None:
    assert on_paper(RateHistory().take(snapshot(0.0, state(1))), 120) == [
        "node 1",
        "0 partitions  0 lagging  largest gap 0",
        "",
        "● nothing stalls  what clients do is not seen: chronik trace on",
    ]


def test_as_json_it_has_everything_and_null_for_what_is_not_known() -> None:
    told = json.loads(json.dumps(as_json(seen(STALL))))

    assert told["nodes"] == [
        {"id": 1, "answers": True, "reason": None},
        {"id": 2, "answers": True, "reason": None},
        {"id": 3, "answers": False, "reason": "it hung up"},
    ]
    assert told["totals"] == {
        "partitions": 3,
        "lagging": 1,
        "under_replicated": 1,
        "without_leader": 1,
        "largest_gap": 30,
        "largest_gap_at": "orders:0",
        "in_per_s": None,
        "out_per_s": None,
    }
    by_name = {f"{each['topic']}:{each['partition']}": each for each in told["partitions"]}
    assert sorted(by_name) == ["__internal:0", "orders:0", "orders:1"]
    assert (by_name["orders:0"]["out_of_sync"], by_name["orders:0"]["lag_records"]) == ([3], 40)
    assert (by_name["orders:1"]["leader_answers"], by_name["orders:1"]["gap"]) == (False, None)
    assert told["groups"] == [{"group": "billing", "state": "Stable", "members": 1, "lag": 60}]
    (stall,) = told["stalls"]
    assert (stall["cause"], stall["evidence"], stall["node"]) == ("fetch hangs", ["asked at 5"], None)
