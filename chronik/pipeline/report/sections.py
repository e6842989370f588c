"""The parts of the page below its verdict. Each yields nothing where there is nothing to show."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from typing import Any

from chronik.pipeline.report.charts import NARROW, WIDTH, Chart, ChartSeries, Mark, Point, bands, curves, shares
from chronik.pipeline.report.findings import Findings
from chronik.pipeline.report.tables import time_of_day
from chronik.pipeline.report.words import subject

DRAWN_MAX = 12  # partitions, the slowest first
STALLS_MAX = 8  # stalls in full
TOPICS_MAX = 6  # of which the balance is shown
OVER_US = 5_000_000  # what was last seen so long before the trace ends was over
KEYS = {"next": "next offset", "mark": "high watermark", "read": "consumed", "done": "committed"}


def stalls(findings: Findings) -> Iterator[str]:
    if findings.totals is None or not findings.stalls:
        return
    rows: dict[str, list[Mark]] = {}
    for stall in findings.stalls:
        rows.setdefault(f"{stall['cause']}", []).append(_mark(stall))
    yield heading("What stalled", "By the rules of the live stall finder: from when it began to when it was last seen.")
    drawn = bands(list(rows.items()), findings.totals["from_us"], findings.totals["to_us"])
    yield _wide("When it stalled", drawn)
    groups = _alike(findings.stalls)
    yield from (_stall(alike, findings.totals["to_us"]) for alike in groups[:STALLS_MAX])
    if len(groups) > STALLS_MAX:
        yield f'<p class="note">And {len(groups) - STALLS_MAX} more, in the tables of the diagnosis.</p>'


def _mark(stall: dict[str, Any]) -> Mark:
    return Mark(stall["since_us"], stall["until_us"], f"{stall['cause']}: {subject(stall)}")


def _alike(rows: Sequence[dict[str, Any]]) -> list[list[dict[str, Any]]]:
    """One follower that stops holds many partitions: that is one thing to read."""
    found: dict[tuple[Any, ...], list[dict[str, Any]]] = {}
    for row in rows:
        about_one = row["client_id"] is not None or row["group"] is not None
        key = (
            row["cause"],
            row["topic"],
            row["group"],
            row["client_id"],
            row["named_us"],
            None if about_one else row["node"],
        )
        found.setdefault(key, []).append(row)
    return list(found.values())


def _stall(alike: Sequence[dict[str, Any]], end_us: int) -> str:
    first = alike[0]
    is_over = end_us - first["until_us"] > OVER_US
    lasted = f"{(first['until_us'] - first['since_us']) / 1e6:,.0f} s"
    until = time_of_day(first["until_us"]) if is_over else "the end of the trace"
    when = f"{time_of_day(first['since_us'])} to {until}, {lasted}"
    others = ", ".join(dict.fromkeys(subject(row) for row in alike[1:]))
    evidence = "".join(f"<li>{escape(each)}</li>" for each in first["evidence"])
    return (
        f'<article class="card stalled"><h3>{escape(first["cause"].capitalize())}</h3>'
        f'<p class="note">{escape(when)}</p><p>{escape(first["summary"])}</p>'
        + (f"<p>So it is with {escape(others)}.</p>" if others else "")
        + f"<ul>{evidence}</ul><p class='do'><b>What to do:</b> {escape(first['advice'])}.</p></article>"
    )


def offsets(findings: Findings) -> Iterator[str]:
    drawn = _drawn(findings)
    if not drawn or findings.totals is None:
        return
    more = (
        f" The {len(drawn)} slowest of {findings.partitions_count}." if findings.partitions_count > len(drawn) else ""
    )
    words = (
        "Where each partition's log ends, how far it may be read, and how far it was read. Shaded: it stalled." + more
    )
    yield heading("Offsets over time", words)
    yield _key(("next", "mark", "read", "done"))
    yield '<div class="grid narrow">'
    for topic, partition in drawn:
        rows = _rows(findings, topic, partition)
        series = [
            ChartSeries("next offset", "next", _points(rows, "next_offset")),
            ChartSeries("high watermark", "mark", _points(rows, "watermark")),
            ChartSeries("consumed", "read", _points(rows, "consumed")),
            ChartSeries("committed", "done", _points(rows, "committed")),
        ]
        marks = _marks(findings, topic, partition)
        yield _card(
            f"{topic}:{partition}",
            _chart(findings, f"Offsets of {topic}:{partition}", series, "", marks, NARROW),
        )
    yield "</div>"


def gaps(findings: Findings) -> Iterator[str]:
    drawn = _drawn(findings, DRAWN_MAX // 2)
    if not drawn or findings.totals is None:
        return
    yield heading(
        "Gap and lag",
        "Gap: records that are written and not visible yet. Lag: visible, and not consumed. Both return to nothing in "
        "a cluster that is well and has readers.",
    )
    yield _key_of((("mark", "gap: written, not visible"), ("read", "lag: visible, not consumed")))
    yield '<div class="grid narrow">'
    for topic, partition in drawn:
        rows = _carried(_rows(findings, topic, partition))
        series = [
            ChartSeries("gap", "mark", [(row["from_us"], less(row["next_offset"], row["watermark"])) for row in rows]),
            ChartSeries("lag", "read", [(row["from_us"], less(row["watermark"], row["consumed"])) for row in rows]),
        ]
        marks = _marks(findings, topic, partition)
        yield _card(
            f"{topic}:{partition}",
            _chart(findings, f"Gap and lag of {topic}:{partition}", series, "records", marks, NARROW),
        )
    yield "</div>"


def throughput(findings: Findings) -> Iterator[str]:
    rows = findings.whole_timeline
    if findings.totals is None or not any(row["records_in"] or row["records_out"] for row in rows):
        return
    per_second = 1e6 / findings.whole_step_us
    yield heading("Throughput", "Of all partitions together.")
    yield _key_of((("mark", "produced"), ("read", "given to consumers")))
    yield '<div class="grid">'
    for title, unit, names, scale in (
        ("Records a second", "a second", ("records_in", "records_out"), per_second),
        ("Megabytes a second", "MB/s", ("bytes_in", "bytes_out"), per_second / 1e6),
    ):
        series = [
            ChartSeries(name, kind, [(row["from_us"], round(row[column] * scale, 3)) for row in rows])
            for name, kind, column in zip(("produced", "given to consumers"), ("mark", "read"), names, strict=True)
        ]
        yield _card(title, _chart(findings, title, series, unit, _all_marks(findings)))
    yield "</div>"


def latency(findings: Findings) -> Iterator[str]:
    rows = findings.whole_timeline
    if findings.totals is None or not any(row["produce_us"] or row["fetch_us"] for row in rows):
        return
    yield heading(
        "How long answers took",
        "By the nodes' clocks, on a scale of powers of ten. Of fetches, those that found something there.",
    )
    yield _key_of((("mark", "half of them (p50)"), ("read", "p99"), ("done", "p99.9")))
    yield '<div class="grid">'
    for title, column in (("Produce", "produce_us"), ("Fetch", "fetch_us")):
        series = [
            ChartSeries(
                name, kind, [(row["from_us"], row[column][place] / 1000 if row[column] else None) for row in rows]
            )
            for place, (name, kind) in enumerate((("p50", "mark"), ("p99", "read"), ("p99.9", "done")))
        ]
        if any(value is not None for each in series for _, value in each.points):
            yield _card(
                f"{title}, milliseconds",
                _chart(findings, f"{title} times", series, "ms", _all_marks(findings), is_log=True),
            )
    yield "</div>"


def imbalance(findings: Findings) -> Iterator[str]:
    by_topic: dict[str, list[dict[str, Any]]] = {}
    for row in findings.partitions:
        by_topic.setdefault(row["topic"], []).append(row)
    loaded = {
        topic: sorted(rows, key=lambda row: row["partition"])
        for topic, rows in by_topic.items()
        if len(rows) > 1 and sum(row["records_in"] for row in rows)
    }
    if not loaded:
        return
    yield heading("Balance", "How the records that were written are shared among the partitions of a topic.")
    for topic, rows in sorted(loaded.items())[:TOPICS_MAX]:
        total = sum(row["records_in"] for row in rows)
        even = 1 / len(rows)
        largest = max(row["records_in"] for row in rows) / total
        bars = [
            (
                f"{topic}:{row['partition']}",
                row["records_in"] / total,
                f"{row['records_in']:,} ({row['records_in'] / total:.1%})",
            )
            for row in rows[:DRAWN_MAX]
        ]
        words = (
            f"The fullest partition has {largest / even - 1:.1%} more than an even share."
            if largest > even * 1.001
            else "All even."
        )
        inside = f'<h3>{escape(topic)}</h3><p class="note">{words}</p>{shares(bars, even)}'
        yield _wide(f"Balance of {topic}", inside)


# --- pieces


def _drawn(findings: Findings, at_most: int = DRAWN_MAX) -> list[tuple[str, int]]:
    """The slowest, in the order of their names."""
    return sorted((row["topic"], row["partition"]) for row in findings.partitions[:at_most])


def _rows(findings: Findings, topic: str, partition: int) -> list[dict[str, Any]]:
    rows = [row for row in findings.timeline if (row["topic"], row["partition"]) == (topic, partition)]
    return sorted(rows, key=lambda row: row["from_us"])


def _carried(rows: Sequence[dict[str, Any]]) -> list[dict[str, Any]]:
    """What was not reported has not moved."""
    last: dict[str, Any] = {"consumed": None}
    found = []
    for row in rows:
        last |= {name: value for name, value in row.items() if value is not None}
        found.append({"next_offset": None, "watermark": None, **last})
    return found


def _points(rows: Sequence[dict[str, Any]], name: str) -> list[Point]:
    return [(row["from_us"], row[name]) for row in rows if row[name] is not None]


def less(more: int | None, less: int | None) -> int | None:
    return None if more is None else max(more - (less or 0), 0)


def _marks(findings: Findings, topic: str, partition: int) -> list[Mark]:
    return [
        _mark(stall)
        for stall in findings.stalls
        if stall["topic"] in (None, topic) and stall["partition"] in (-1, partition)
    ]


def _all_marks(findings: Findings) -> list[Mark]:
    """Each time once, however many partitions stalled."""
    return list({(each.from_us // 1_000_000, each.to_us): each for each in map(_mark, findings.stalls)}.values())


def _chart(
    findings: Findings,
    title: str,
    series: list[ChartSeries],
    unit: str,
    marks: list[Mark],
    width: int = WIDTH,
    *,
    is_log: bool = False,
) -> str:
    assert findings.totals is not None
    return curves(
        Chart(title, series, findings.totals["from_us"], findings.totals["to_us"], unit, marks, is_log, width)
    )


def _wide(label: str, inside: str) -> str:
    """What may be wider than the page; with the keyboard, too, it can be moved."""
    return f'<div class="card scroll" tabindex="0" role="region" aria-label="{escape(label)}">{inside}</div>'


def _card(name: str, inside: str) -> str:
    return f'<div class="card"><h3>{escape(name)}</h3>{inside}</div>'


def heading(name: str, words: str) -> str:
    note = f'<p class="note">{escape(words)}</p>' if words else ""
    return f"<h2>{escape(name)}</h2>{note}"


def _key(kinds: Sequence[str]) -> str:
    return _key_of([(kind, KEYS[kind]) for kind in kinds])


def _key_of(kinds: Sequence[tuple[str, str]]) -> str:
    sample = '<svg width="26" height="8" aria-hidden="true"><polyline class="{}" points="1,4 25,4"/></svg>'
    keys = "".join(f"<span>{sample.format(kind)}{escape(words)}</span>" for kind, words in kinds)
    return f'<div class="key">{keys}</div>'
