"""What `chronik stalls` prints: one thing to read for what is one thing, and what could not be known."""

from __future__ import annotations

import pytest

from chronik.cli.stalls import tell
from chronik.inspect.trace_history import TraceHistory
from chronik.trace.inspections import StateView, Totals, Traces
from chronik.trace.verdicts import Cause, Verdict, together


def stuck(partition: int, follower: int = 3, topic: str = "orders") -> Verdict:
    return Verdict(
        Cause.WATERMARK_STANDS_STILL,
        f"{topic}:{partition} hides 5 records above {partition} since 04:00 (6.0 s): follower {follower} has nothing",
        ("the watermark is 5", "follower 3 lags"),
        "restart it",
        1,
        topic,
        partition,
        node=follower,
    )


def hanging(client: str) -> Verdict:
    return Verdict(Cause.FETCH_HANGS, f"{client} waits", ("it asked",), "look", 1, "orders", 0, None, client, "h", 1)


def test_partitions_that_one_follower_holds_are_told_together() -> None:
    verdicts = [stuck(0), stuck(1), stuck(2, follower=2), stuck(0, topic="parcels"), hanging("a"), hanging("b")]
    assert together(verdicts) == [
        [stuck(0), stuck(1)],
        [stuck(2, follower=2)],
        [stuck(0, topic="parcels")],
        [hanging("a")],
        [hanging("b")],
    ]


def test_each_is_told_with_evidence_and_advice(capsys: pytest.CaptureFixture[str]) -> None:
    tell([stuck(0), stuck(1), hanging("a")], TraceHistory([]), 6.0)

    lines = [line.rstrip() for line in capsys.readouterr().out.splitlines()]

    assert lines == [
        "WATERMARK STANDS STILL orders:0 hides 5 records above 0 since 04:00 (6.0 s): follower 3 has nothing",
        "  so it is with orders:1",
        "  - the watermark is 5",
        "  - follower 3 lags",
        "  What to do: restart it",
        "",
        "FETCH HANGS a waits",
        "  - it asked",
        "  What to do: look",
    ]


def test_many_partitions_are_counted_not_listed(capsys: pytest.CaptureFixture[str]) -> None:
    tell([stuck(number) for number in range(50)], TraceHistory([]), 6.0)
    assert "orders:8 and 41 more" in capsys.readouterr().out


def test_that_nothing_stalls_is_said(capsys: pytest.CaptureFixture[str]) -> None:
    tell([], known_for(None), 6.0)
    assert capsys.readouterr().out == "nothing stalls: 1 node, 0 partitions and 0 groups watched for 6 s\n"


def test_that_nothing_stalls_is_not_said_where_a_node_does_not_answer(capsys: pytest.CaptureFixture[str]) -> None:
    nobody, silent, unheard = TraceHistory([]), known_for(None), known_for(None)
    silent.silent = {2: "it hung up"}
    unheard.unheard = {1}
    for gathering in (nobody, silent, unheard):
        tell([], gathering, 6.0)

        told = capsys.readouterr()
        assert told.out.startswith("no stall is seen, and too little is known to say that there is none: ")
        assert ("What stalls there is not known" in told.err) == (gathering is silent)
        assert ("node 1 did not tell what clients did" in told.err) == (gathering is unheard)


def test_what_could_not_be_known_is_said_beside_it(capsys: pytest.CaptureFixture[str]) -> None:
    gathering = TraceHistory([])
    gathering.untraced = [f"topic-{number}" for number in range(10)]
    gathering.silent = {2: "it hung up"}
    gathering.lost = 1_500

    tell([], gathering, 6.0)

    said = capsys.readouterr().err
    assert "topic-7 and 2 more. Of these only watermarks and groups can be judged" in said
    assert "node 2 could not be asked: it hung up" in said
    assert "1,500 events came faster than they could be read" in said


def known_for(seconds: float | None) -> TraceHistory:
    """One node answered, and what clients did is known for so long."""
    gathering = TraceHistory([])
    gathering.states = {1: StateView(1, 0, "1", True, Traces(True, ()), (), (), (), Totals(0, 0, 0, 0, 0, 0, 0, 0))}
    gathering.known_s = seconds
    return gathering


def test_where_too_little_is_known_it_is_not_said_that_nothing_stalls(capsys: pytest.CaptureFixture[str]) -> None:
    tell([], known_for(3.2), 6.0)

    told = capsys.readouterr()
    assert "nothing stalls" not in told.out
    assert "no stall is seen, and too little is known" in told.out
    assert "known for the last 3.2 s only" in told.err


def test_a_node_that_is_cut_off_may_hide_a_stall(capsys: pytest.CaptureFixture[str]) -> None:
    gathering = known_for(None)
    gathering.cut_off = [1]

    tell([], gathering, 6.0)

    told = capsys.readouterr()
    assert "no stall is seen, and too little is known" in told.out
    assert "node 1 is not in touch with the cluster" in told.err


def test_where_not_every_stall_could_be_seen_it_is_said_how_far_back_it_goes(
    capsys: pytest.CaptureFixture[str],
) -> None:
    tell([], known_for(12.0), 6.0)

    told = capsys.readouterr()
    assert told.out.startswith("nothing stalls")
    assert "known for the last 12.0 s only" in told.err


@pytest.mark.parametrize("seconds", [None, 61.0])
def test_where_all_is_known_that_the_rules_want_nothing_more_is_said(
    capsys: pytest.CaptureFixture[str], seconds: float | None
) -> None:
    tell([], known_for(seconds), 6.0)

    told = capsys.readouterr()
    assert (told.out.startswith("nothing stalls"), told.err) == (True, "")
