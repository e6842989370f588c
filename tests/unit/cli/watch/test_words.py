"""What the view says in words."""

from __future__ import annotations

import io

import pytest
from rich.console import Console, RenderableType

from chronik.cli.watch.words import details_text, duration, nodes_line, stall_line, stalls_page, totals_line
from chronik.inspect.live_model import LiveView, RateHistory
from chronik.trace.inspections import UnopenedSeen
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.inspect.watched import NOW_US, copy, follower, group, led, snapshot, state

STALL = Verdict(Cause.FETCH_HANGS, "orders:0 " + "is not answered " * 30, ("it waits",), "look", NOW_US)


def view_of(*states: object, **more: object) -> LiveView:
    return RateHistory().take(snapshot(0.0, *states, **more))  # type: ignore[arg-type]


def printed(what: RenderableType, width: int = 60) -> str:
    paper = io.StringIO()
    Console(file=paper, width=width).print(what)
    return "\n".join(line.rstrip() for line in paper.getvalue().splitlines())


@pytest.mark.parametrize(
    ("alive", "silent", "expected"),
    [
        ([1], {}, "node 1"),
        ([1, 2, 3], {}, "nodes 1 2 3"),
        ([2, 3], {1: "gone"}, "nodes 2 3 !1 silent"),
        ([], {1: "gone"}, "node !1 silent"),
    ],
)
def test_nodes_are_named_alive_or_silent(alive: list[int], silent: dict[int, str], expected: str) -> None:
    assert nodes_line(view_of(*(state(node) for node in alive), silent=silent)).plain == expected


def test_totals_say_what_is_wrong_only_where_something_is() -> None:
    well = view_of(state(1, [led(watermark=100, next_offset=107)]))
    ill = view_of(
        state(1, [led(partition=1, in_sync=(1,), followers=[follower(2, lag_records=5, is_in_sync=False)])]),
        state(2, copies=[copy(leader=3)]),
    )

    assert totals_line(well, 1, 120).plain == "1 partition  0 lagging  largest gap 7 orders:0"
    assert totals_line(ill, 1, 120).plain == (
        "2 partitions (1 shown)  1 without leader  1 not in sync  1 lagging  largest gap 0"
    )


def test_totals_break_between_their_parts_and_fit() -> None:
    view = view_of(state(1, [led(in_sync=(1,), followers=[follower(2, lag_records=5, is_in_sync=False)])]))

    lines = totals_line(view, 0, 40).plain.splitlines()

    assert lines == ["1 partition (0 shown)  1 not in sync", "1 lagging  largest gap 0"]


def test_nothing_stalls_and_what_cannot_be_seen_is_said() -> None:
    assert stall_line(view_of(state(1)), 120).plain == (
        "● nothing stalls  what clients do is not seen: chronik trace on"
    )
    assert stall_line(view_of(state(1, is_tracing=True)), 120).plain == "● nothing stalls"
    assert "No topic is traced" in printed(stalls_page((), is_tracing=False))
    assert "No topic is traced" not in printed(stalls_page((), is_tracing=True))


def test_a_trace_that_goes_back_too_little_is_no_proof_that_nothing_stalls() -> None:
    view = view_of(state(1, is_tracing=True), known_s=1.5)

    assert stall_line(view, 120).plain == (
        "● no stall is seen  what clients did is known for 1.5 s only: more happens than can be kept"
    )
    assert stall_line(view_of(state(1, is_tracing=True), known_s=6.0), 120).plain == "● nothing stalls"


def test_a_silent_node_is_told_with_its_reason() -> None:
    view = view_of(state(1), silent={2: "it hung up"})

    assert stall_line(view, 120).plain == "● nothing stalls  node 2 is silent: it hung up"
    assert stall_line(view, 30).cell_len == 30


@pytest.mark.parametrize("width", [60, 80, 120])
def test_the_worst_stall_is_cut_to_two_lines_and_the_number_of_others_is_told(width: int) -> None:
    line = stall_line(view_of(state(1), verdicts=(STALL, STALL, STALL)), width)

    assert line.plain.startswith("▲ fetch hangs: orders:0 is not answered")
    assert line.plain.endswith("…  +2  s: why")
    assert len(printed(line, width).splitlines()) == 2


def test_a_stall_has_its_evidence_and_advice_on_lines_of_their_own() -> None:
    short = Verdict(Cause.FETCH_HANGS, "orders:0 waits", ("asked at 5", "not answered at 9"), "restart node 2", NOW_US)

    assert printed(stalls_page((short, short), is_tracing=True)).splitlines() == [
        "▲ fetch hangs",
        "  orders:0 waits",
        "· asked at 5",
        "· not answered at 9",
        "→ restart node 2",
        "",
        "▲ fetch hangs",
        "  orders:0 waits",
        "· asked at 5",
        "· not answered at 9",
        "→ restart node 2",
    ]


def test_a_partition_is_told_with_its_followers_and_readers() -> None:
    slow = [
        follower(2),
        follower(3, lag_records=40, lag_ms=31_000, is_in_sync=False),
        follower(4, lag_records=1, lag_ms=-1, is_in_sync=False),
    ]
    readers = [group("billing", [("orders", 0, 60)]), group("other", [("payments", 0, 1)])]
    view = view_of(state(1, [led(watermark=100, next_offset=120, in_sync=(1, 2), followers=slow)], groups=readers))

    lines = [" ".join(line.split()) for line in details_text(view.rows[0], view.groups).plain.splitlines()]

    assert "leader node 1, epoch 5" in lines
    assert "in sync 1 2 !3 !4 at least 2 for acks=all" in lines
    assert "next offset 120 gap 20" in lines
    assert "follower 2 in sync has everything" in lines
    assert "follower 3 out of sync 40 records behind for 31 s, asked 10 ms ago" in lines
    assert "follower 4 out of sync 1 record behind, never had everything, asked 10 ms ago" in lines
    assert lines[-1] == "group billing committed 60, lag 40 Stable"


def test_a_partition_whose_leader_is_silent_says_whose_word_it_is() -> None:
    (silent,) = view_of(state(2, copies=[copy(leader=3)])).rows
    (nobody,) = view_of(state(2, copies=[copy(leader=-1, offline="bad checksum")])).rows

    assert "node 3 leads and does not answer" in details_text(silent, ()).plain
    assert "no node leads" in details_text(nobody, ()).plain
    assert "cannot be read: bad checksum" in details_text(nobody, ()).plain


def test_a_partition_that_nobody_asked_for_is_said_to_be_closed() -> None:
    (row,) = view_of(state(1, unopened=[UnopenedSeen("orders", 0, 1, 5, (1,), (1,))])).rows

    assert details_text(row, ()).plain.startswith("closed: no client has asked for it")


@pytest.mark.parametrize(
    ("milliseconds", "expected"), [(0, "0 ms"), (9_999, "9,999 ms"), (31_500, "31 s"), (600_000, "10 min")]
)
def test_a_duration_is_in_the_unit_that_keeps_it_short(milliseconds: int, expected: str) -> None:
    assert duration(milliseconds) == expected
