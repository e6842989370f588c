"""The verdict on top of a report."""

from __future__ import annotations

import pytest

from chronik.pipeline.report.words import BAD, GOOD, POOR, UNKNOWN, subject, verdict_of
from tests.unit.pipeline.report_findings import AUDIT, FROM_US, RUN, STALL

TOTALS = {"events": 10, "from_us": FROM_US, "to_us": FROM_US + 12_300_000, "events_lost": 0}


def test_where_all_is_there_and_nothing_stalled_it_says_so() -> None:
    verdict = verdict_of(AUDIT, [], [], TOTALS)

    assert verdict.level == GOOD
    assert verdict.headline == "All 5,000 acknowledged records are there, and nothing stalled"


@pytest.mark.parametrize(
    ("expected_by", "what"),
    [("log", "records of the log"), ("offsets", "expected offsets"), (None, "expected offsets")],
)
def test_without_a_ledger_nothing_is_called_acknowledged(expected_by: str | None, what: str) -> None:
    """What producers were told is known from a ledger alone; an audit of an earlier version does not say."""
    audit = {name: value for name, value in AUDIT.items() if name != "expected_by"}
    audit |= {} if expected_by is None else {"expected_by": expected_by}
    verdicts = [verdict_of(each, [], [], TOTALS) for each in (audit, {**audit, "found": 4988, "lost": 12})]

    assert verdicts[0].headline == f"All 5,000 {what} are there, and nothing stalled"
    for verdict in verdicts:
        words = [each.words for each in verdict.said]
        assert not any("acknowledged" in each for each in words)
        assert "Audit: without a ledger it is not known what producers were answered" in words


def test_what_is_lost_comes_before_everything() -> None:
    verdict = verdict_of({**AUDIT, "found": 4988, "lost": 12}, [RUN], [STALL], TOTALS)

    assert verdict.level == BAD
    assert verdict.headline == "12 records of 5,000 are lost"
    assert [each.level for each in verdict.said] == sorted(
        (each.level for each in verdict.said), key=(BAD, POOR, GOOD, UNKNOWN).index
    )


def test_a_stall_is_named_with_how_long_it_lasted() -> None:
    assert verdict_of(AUDIT, [], [STALL], TOTALS).headline == (
        "Nothing is lost, but it stalled for 10 s: watermark stands still"
    )
    assert verdict_of(None, [], [STALL], TOTALS).headline == "It stalled for 10 s: watermark stands still"
    assert any("orders:1" in each.words for each in verdict_of(None, [], [STALL], TOTALS).said)


@pytest.mark.parametrize("name", ["duplicated", "reordered", "unexpected"])
def test_what_is_not_as_it_should_be_is_a_remark(name: str) -> None:
    verdict = verdict_of({**AUDIT, name: 3}, [], [], TOTALS)

    assert verdict.level == POOR
    assert verdict.headline.endswith("with remarks")
    assert f"Audit: 3 records {name}" in [each.words for each in verdict.said]


def test_a_run_that_is_short_of_messages_is_told() -> None:
    verdict = verdict_of(None, [{**RUN, "consumed": 90, "verdict": "partial", "cause": "fetch hangs"}], [], None)

    assert verdict.level == POOR
    assert verdict.headline == "10 messages of 100 did not arrive"


def test_what_nobody_looked_at_is_not_called_well() -> None:
    verdict = verdict_of(None, [], [], None)

    assert verdict.level == UNKNOWN
    assert "Nothing can be said" in verdict.headline


def test_without_an_audit_only_what_is_known_is_said() -> None:
    verdict = verdict_of(None, [], [], TOTALS)

    assert verdict.headline == "Nothing stalled in 12.3 s of trace"
    assert "No audit was made: whether records were lost was not looked at" in [each.words for each in verdict.said]


def test_a_stall_is_about_a_partition_a_group_or_a_client() -> None:
    nothing = {"topic": None, "partition": -1, "group": None, "client_id": None}

    assert subject({**nothing, "topic": "orders", "partition": 2}) == "orders:2"
    assert subject({**nothing, "topic": "orders", "partition": 2, "client_id": "reader"}) == "orders:2 for reader"
    assert subject({**nothing, "group": "billing"}) == "group billing"
    assert subject({**nothing, "client_id": "writer"}) == "writer"
