"""How an audit is told to a person."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

pytest.importorskip("pyspark", reason="pyspark is not installed: pip install 'chronik[spark]'")
pytest.importorskip("numba", reason="numba is not installed: pip install 'chronik[spark]'")

from chronik.cli.pipeline.audit import audit, tell
from chronik.client.errors import ChronikError
from chronik.pipeline.audit_rows import verdict
from chronik.pipeline.jobs.audit import COUNTS, MORE_COUNTS, AuditOutcome
from chronik.pipeline.schemas import REASONS

NOTHING = dict.fromkeys((*COUNTS, *MORE_COUNTS), 0)
FINE = AuditOutcome(
    totals={**NOTHING, "expected": 5_000, "found": 5_000},
    explained_by=dict.fromkeys(REASONS, 0),
    sequences=dict.fromkeys(COUNTS[:5], 0),
    partitions=[{**NOTHING, "topic": "t", "partition": 0, "start_offset": 0, "end_offset": 5_000, "found": 5_000}],
    partitions_count=1,
    producers=[],
    findings=[],
    findings_count=0,
    sequence_findings=[],
    served=[],
    committed=[],
    is_order_known=True,
    expected_by="ledger",
    out=None,
)


def finding(name: str, start: int, end: int, **more: Any) -> dict[str, Any]:
    plain: dict[str, Any] = {
        "reason": None,
        "producer": None,
        "is_in_log": False,
        "is_served": False,
        "times": 0,
        "committed_by": [],
    }
    return {"topic": "t", "partition": 0, "finding": name, "start_offset": start, "end_offset": end, **plain, **more}


def test_a_clean_audit_says_so_in_one_line() -> None:
    assert verdict(FINE) == "Nothing is lost: 5,000 found of 5,000 expected in 1 partitions."


def test_what_is_lost_comes_first_and_what_is_explained_has_its_reasons() -> None:
    totals = {**FINE.totals, "found": 4_988, "lost": 2, "duplicated": 7, "explained": 10}
    outcome = replace(FINE, totals=totals, explained_by={**FINE.explained_by, "retention": 10})

    said = verdict(outcome)

    assert said == "LOST: 2 of 5,000 expected in 1 partitions; 7 duplicated; 10 explained (10 retention)."


def test_a_gap_in_a_producers_own_numbers_is_a_loss(capsys: pytest.CaptureFixture[str]) -> None:
    lost = {"topic": "t", "partition": 0, "producer_id": 7, "producer_epoch": 1, "finding": "lost", "reason": None}
    outcome = replace(
        FINE,
        sequences={**FINE.sequences, "lost": 3},
        sequence_findings=[{**lost, "start_sequence": 5, "end_sequence": 8}],
    )

    tell(outcome)

    said = capsys.readouterr().out
    assert outcome.lost == 3
    assert said.startswith("LOST: 0 of 5,000")
    assert "3 that producers numbered are not in the log" in said
    assert "5 to 7" in said


def test_findings_are_told_with_where_and_why(capsys: pytest.CaptureFixture[str]) -> None:
    findings = [
        finding("lost", 10, 13, is_in_log=True, is_served=True, committed_by=["g1", "g2"]),
        finding("duplicated", 20, 21, times=2),
        finding("explained", 0, 5, reason="retention"),
    ]

    tell(replace(FINE, findings=findings, findings_count=40, is_order_known=False))

    told = capsys.readouterr()
    lines = {line.split()[0]: line for line in told.out.splitlines() if line.strip()}
    assert "10 to 12" in lines["lost"]
    assert "in the log, and served" in lines["lost"]
    assert "g1, g2" in lines["lost"]
    assert "2 times" in lines["duplicated"]
    assert "retention" in lines["explained"]
    assert "20 of 40 findings are shown; --out DIR writes them all" in told.err
    assert "nothing can be found reordered" in told.err


def test_nothing_to_compare_is_bad_input() -> None:
    with pytest.raises(ChronikError, match="there is nothing to compare"):
        audit(ledger=["ledger.csv"])
