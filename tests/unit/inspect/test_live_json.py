"""A live view as JSON."""

from __future__ import annotations

import json

from chronik.inspect.live_json import as_json
from tests.unit.inspect.watched import STALL, seen_with


def test_as_json_it_has_everything_and_null_for_what_is_not_known() -> None:
    told = json.loads(json.dumps(as_json(seen_with(STALL))))

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
