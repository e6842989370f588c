"""The verdict of a report in words: what is known of the messages, worst first, and what was not looked at."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from chronik.trace.stalls.words import counted, listed

GOOD, POOR, BAD, UNKNOWN = "good", "poor", "bad", "unknown"
_ORDER = (UNKNOWN, GOOD, POOR, BAD)
NAMED_MAX = 3
LEDGER = "ledger"  # the audit knows what was acknowledged to producers


@dataclass(frozen=True)
class Said:
    """One thing that is known, and how bad it is."""

    level: str
    words: str


@dataclass(frozen=True)
class ReportVerdict:
    """On top of the page: one sentence, and what it rests on."""

    level: str
    headline: str
    said: Sequence[Said]


def verdict_of(
    audit: dict[str, Any] | None,
    runs: Sequence[dict[str, Any]],
    stalls: Sequence[dict[str, Any]],
    totals: dict[str, Any] | None,
) -> ReportVerdict:
    said = [*_of_audit(audit), *_of_runs(runs), *_of_trace(stalls, totals)]
    said.sort(key=lambda each: _ORDER.index(each.level), reverse=True)
    level = said[0].level if said else UNKNOWN
    return ReportVerdict(level, _headline(level, audit, runs, stalls, totals), said)


def _headline(
    level: str,
    audit: dict[str, Any] | None,
    runs: Sequence[dict[str, Any]],
    stalls: Sequence[dict[str, Any]],
    totals: dict[str, Any] | None,
) -> str:
    if audit is not None and audit["lost"]:
        return (
            f"{counted(audit['lost'], 'record')} of {audit['expected']:,} {'is' if audit['lost'] == 1 else 'are'} lost"
        )
    short = sum(run["produced"] - run["consumed"] for run in runs)
    if short > 0:
        return f"{counted(short, 'message')} of {sum(run['produced'] for run in runs):,} did not arrive"
    if stalls:
        longest_us = max(stall["until_us"] - stall["since_us"] for stall in stalls)
        causes = list(dict.fromkeys(stall["cause"] for stall in stalls))
        kept = "Nothing is lost, but it" if audit is not None and audit["expected"] else "It"
        return f"{kept} stalled for {longest_us / 1e6:,.0f} s: {listed(causes)}"
    if level == UNKNOWN:
        return "Nothing can be said: there is neither an audit nor a trace"
    if level == GOOD:
        return _all_well(audit, runs, totals)
    return f"{_all_well(audit, runs, totals)}, with remarks"


def _all_well(audit: dict[str, Any] | None, runs: Sequence[dict[str, Any]], totals: dict[str, Any] | None) -> str:
    if audit is not None and audit["expected"]:
        arrived = f"All {audit['found']:,} {_expected(audit)} are there"
    elif runs:
        arrived = f"All {sum(run['consumed'] for run in runs):,} messages arrived"
    else:
        return f"Nothing stalled in {_length(totals)} of trace" if totals is not None else "Nothing is amiss"
    return f"{arrived}, and nothing stalled" if totals is not None else arrived


def _length(totals: dict[str, Any]) -> str:
    return f"{(totals['to_us'] - totals['from_us']) / 1e6:,.1f} s"


def _expected(audit: dict[str, Any]) -> str:
    """What was expected to be there, by who said so. An audit of an earlier version does not say."""
    words = {LEDGER: "acknowledged records", "log": "records of the log"}
    return words.get(audit.get("expected_by", ""), "expected offsets")


def _of_audit(audit: dict[str, Any] | None) -> list[Said]:
    if audit is None:
        return [Said(UNKNOWN, "No audit was made: whether records were lost was not looked at")]
    expected, found = audit["expected"], audit["found"]
    if audit["lost"]:
        said = [
            Said(
                BAD,
                f"{counted(audit['lost'], 'record')} lost: {found:,} of {expected:,} {_expected(audit)} are there",
            )
        ]
    elif expected:
        said = [Said(GOOD, f"Audit: all {expected:,} {_expected(audit)} are there, none is lost")]
    else:
        said = [Said(UNKNOWN, "Audit: nothing says what is to be there")]
    if audit.get("expected_by") != LEDGER:
        said.append(Said(UNKNOWN, "Audit: without a ledger it is not known what producers were answered"))
    for name, level in (("duplicated", POOR), ("reordered", POOR), ("unexpected", POOR)):
        if audit[name]:
            said.append(Said(level, f"Audit: {counted(audit[name], 'record')} {name}"))
    if audit["explained"]:
        reasons = {name: count for name, count in (audit.get("explained_by") or {}).items() if count}
        why = f" ({listed(f'{name} {count:,}' for name, count in reasons.items())})" if reasons else ""
        said.append(Said(GOOD, f"Audit: {counted(audit['explained'], 'offset')} not there for a known reason{why}"))
    return said


def _of_runs(runs: Sequence[dict[str, Any]]) -> list[Said]:
    return [
        Said(
            {"pass": GOOD, "partial": POOR}.get(run["verdict"], BAD),
            f"Run {run['run']}: {run['consumed']:,} of {run['produced']:,} messages consumed"
            + (f"; {run['cause']}" if run.get("cause") else ""),
        )
        for run in runs
    ]


def _of_trace(stalls: Sequence[dict[str, Any]], totals: dict[str, Any] | None) -> list[Said]:
    if totals is None:
        return [Said(UNKNOWN, "There is no trace: what stalled is not known")]
    said = []
    by_cause: dict[str, list[dict[str, Any]]] = {}
    for stall in stalls:
        by_cause.setdefault(stall["cause"], []).append(stall)
    for cause, several in by_cause.items():
        longest = max(several, key=lambda stall: stall["until_us"] - stall["since_us"])
        places = list(dict.fromkeys(subject(stall) for stall in several))
        more = f" and {len(places) - NAMED_MAX} more" if len(places) > NAMED_MAX else ""
        where = ", ".join(places[:NAMED_MAX]) + more
        seconds = (longest["until_us"] - longest["since_us"]) / 1e6
        said.append(Said(BAD, f"{cause.capitalize()}: {where}, for {seconds:,.0f} s"))
    if not stalls:
        said.append(Said(GOOD, f"Nothing stalled in {_length(totals)} of trace, {totals['events']:,} events"))
    if totals.get("events_lost"):
        said.append(Said(UNKNOWN, f"{counted(totals['events_lost'], 'event')} did not make it into the trace"))
    return said


def subject(stall: dict[str, Any]) -> str:
    """What a stall is about, in a word."""
    if stall["topic"] is not None:
        place = stall["topic"] if stall["partition"] < 0 else f"{stall['topic']}:{stall['partition']}"
        return place if stall["client_id"] is None else f"{place} for {stall['client_id']}"
    if stall["group"] is not None:
        return f"group {stall['group']}"
    return str(stall["client_id"] or "the cluster")
