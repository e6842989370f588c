"""Findings as one HTML page that needs nothing else: the verdict in words, pictures as SVG, and tables."""

from __future__ import annotations

from collections.abc import Iterator
from html import escape
from importlib import resources

from chronik.pipeline.report import figures, sections
from chronik.pipeline.report.findings import Findings
from chronik.pipeline.report.tables import moment
from chronik.pipeline.report.words import ReportVerdict, verdict_of

SIGNS = {"good": "✔", "poor": "◐", "bad": "✘", "unknown": "?"}
SPOKEN = {"good": "well", "poor": "with a remark", "bad": "wrong", "unknown": "not known"}


def page(findings: Findings) -> str:
    verdict = verdict_of(findings.audit, findings.runs, findings.stalls, findings.totals)
    head = (
        '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
        '<meta name="color-scheme" content="light dark">'
        f"<title>{escape(findings.title)}</title><style>{_file('page.css')}</style>"
    )
    body = f"<main>{''.join(_body(findings, verdict))}</main><script>{_file('page.js')}</script>"
    return f'<!doctype html>\n<html lang="en"><head>{head}</head>\n<body>{body}</body></html>\n'


def _file(name: str) -> str:
    return resources.files("chronik.pipeline.report").joinpath(name).read_text(encoding="utf-8")


def _body(findings: Findings, verdict: ReportVerdict) -> Iterator[str]:
    made = escape(" · ".join([*findings.made_from, moment(findings.made_at_us)]))
    yield f"<header><h1>{escape(findings.title)}</h1><p>{made}</p></header>"
    yield _verdict(verdict)
    yield _tiles(findings)
    yield from sections.stalls(findings)
    yield from sections.offsets(findings)
    yield from sections.gaps(findings)
    yield from sections.throughput(findings)
    yield from sections.latency(findings)
    yield from sections.imbalance(findings)
    yield from figures.tables(findings)
    yield (
        f"<footer>Made by chronik {escape(findings.version)}. Times are UTC, by the clocks of the nodes. "
        "A page by itself: it loads nothing, and can be sent and kept.</footer>"
    )


def _verdict(verdict: ReportVerdict) -> str:
    lines = "".join(
        f'<li class="{each.level}"><span aria-hidden="true">{SIGNS[each.level]}</span>{escape(each.words)}</li>'
        for each in verdict.said
    )
    sign = f'<span role="img" aria-label="{SPOKEN[verdict.level]}">{SIGNS[verdict.level]}</span>'
    return (
        f'<section class="verdict {verdict.level}" aria-label="Verdict">'
        f'<p class="big">{sign}{escape(verdict.headline)}</p><ul>{lines}</ul></section>'
    )


def _tiles(findings: Findings) -> str:
    tiles: list[tuple[str, str, bool]] = []
    if findings.audit is not None:
        for name in ("expected", "found", "lost", "duplicated", "reordered", "unexpected"):
            count = findings.audit[name]
            tiles.append((name, f"{count:,}", bool(count) and name not in ("expected", "found")))
    if findings.totals is not None:
        tiles.append(("stalls", f"{findings.stalls_count:,}", findings.stalls_count > 0))
        tiles.append(("partitions", f"{findings.partitions_count:,}", False))
        for name, words in (("records_in", "records produced"), ("records_out", "records given out")):
            tiles.append((words, f"{sum(row[name] for row in findings.whole_timeline):,}", False))
        tiles.append(("of trace", f"{(findings.totals['to_us'] - findings.totals['from_us']) / 1e6:,.1f} s", False))
    return f'<div class="tiles">{"".join(_tile(*each) for each in tiles)}</div>' if tiles else ""


def _tile(name: str, figure: str, is_alarm: bool) -> str:
    return f'<div class="tile{" alarm" if is_alarm else ""}"><b>{escape(figure)}</b><span>{escape(name)}</span></div>'
