"""The sentences of `chronik watch`: who is there, the totals, what stalls, and all about one partition."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from chronik.cli.output import byte_size, counted
from chronik.cli.watch.columns import ACCENT, BAD, GOOD, NOTABLE, QUIET, number, rate, replicas
from chronik.inspect.live_model import GroupRow, LiveView, Row, sparkline
from chronik.trace.stalls import Limits
from chronik.trace.verdicts import Verdict

# Below this the partition with the largest gap is not named.
PLACE_WIDTH_MIN = 100
DETAIL_BARS = 60
# Lines break between words, so two of them hold a little less than twice their width.
WRAP_LOSS = 16


def nodes_line(view: LiveView) -> Text:
    """`nodes 1 2 !3 silent`."""
    cells = [Text(str(node), GOOD) for node in view.alive]
    words = [Text("node " if len(view.alive) + len(view.silent) == 1 else "nodes ", QUIET), Text(" ").join(cells)]
    if view.silent:
        words.append(Text(f"{' ' if cells else ''}{' '.join(f'!{node}' for node in view.silent)} silent", BAD))
    return Text.assemble(*words)


def totals_line(view: LiveView, shown: int, width: int) -> Text:
    totals = view.totals
    parts = [Text(counted(totals.partitions, "partition"))]
    if shown != totals.partitions:
        parts[0].append(f" ({shown:,} shown)", QUIET)
    if totals.leaderless:
        parts.append(Text(f"{totals.leaderless:,} without leader", BAD))
    if totals.under_replicated:
        parts.append(Text(f"{totals.under_replicated:,} not in sync", BAD))
    parts.append(Text(f"{totals.lagging:,} lagging", QUIET if not totals.lagging else ""))
    gap = Text(f"largest gap {number(totals.gap_largest)}", QUIET if not totals.gap_largest else "")
    if totals.gap_largest_at is not None and width >= PLACE_WIDTH_MIN:
        gap.append(f" {totals.gap_largest_at}", QUIET)
    parts.append(gap)
    for word, value in (("in", totals.in_per_s), ("out", totals.out_per_s)):
        if value is not None:
            parts.append(Text.assemble((f"{word} ", QUIET), rate(value), ("/s", QUIET)))
    return _packed(parts, width)


def _packed(parts: Sequence[Text], width: int) -> Text:
    """As many parts in a line as fit."""
    lines: list[Text] = []
    for part in parts:
        if lines and lines[-1].cell_len + 2 + part.cell_len <= width:
            lines[-1].append("  ").append_text(part)
        else:
            lines.append(part.copy())
    return Text("\n").join(lines)


def stall_line(view: LiveView, width: int) -> Text:
    """The worst of what stalls, in a line or two; else which nodes are silent, and why."""
    verdicts = view.verdicts
    if not verdicts:
        reasons = [f"node {node} is silent: {reason}" for node, reason in view.silent.items()]
        unseen = [] if view.is_tracing else ["what clients do is not seen: chronik trace on"]
        is_little = view.is_tracing and view.known_s is not None and view.known_s * 1000 < Limits().stand_still_ms
        if is_little:  # it takes longer to be called a stall
            unseen.append(f"what clients did is known for {view.known_s:.1f} s only: more happens than can be kept")
        is_well = not view.silent and not view.totals.leaderless and not is_little
        words = "● no stall is seen" if is_little else "● nothing stalls"
        line = Text.assemble((words, GOOD if is_well else NOTABLE))
        line.append("".join(f"  {remark}" for remark in reasons or unseen), QUIET)
        line.truncate(width, overflow="ellipsis")
        return line
    more = f"  +{len(verdicts) - 1}" if len(verdicts) > 1 else ""
    ending = f"{more}  s: why"
    worst = Text(f"▲ {verdicts[0].cause}: {verdicts[0].summary}", BAD)
    worst.truncate(max(2 * width - len(ending) - WRAP_LOSS, 10), overflow="ellipsis")
    return Text.assemble(worst, (ending, NOTABLE))


def duration(milliseconds: int) -> str:
    if milliseconds < 10_000:
        return f"{milliseconds:,} ms"
    seconds = milliseconds // 1000
    return f"{seconds} s" if seconds < 120 else f"{seconds // 60} min"


def stalls_page(verdicts: Sequence[Verdict], is_tracing: bool) -> RenderableType:
    """Each verdict with its evidence and what to do."""
    if not verdicts:
        hint = (
            "\n\nNo topic is traced, so only watermarks, followers and groups are judged. "
            "`chronik trace on` adds what clients ask and what they are answered."
        )
        known = "Nothing stalls, as far as the nodes can tell."
        return Text.assemble((known, GOOD), ("" if is_tracing else hint, QUIET))
    return Group(*(_verdict_page(verdict, place) for place, verdict in enumerate(verdicts)))


def _verdict_page(verdict: Verdict, place: int) -> RenderableType:
    title = Text(f"▲ {verdict.cause}", BAD)
    body = Table.grid(padding=(0, 1))
    body.add_row("", Text(verdict.summary))
    for seen in verdict.evidence:
        body.add_row(Text("·", QUIET), Text(seen))
    body.add_row(Text("→", ACCENT), Text(verdict.advice, ACCENT))
    return Group(Text() if place else Text(end=""), title, body)


def details_text(row: Row, groups: Sequence[GroupRow]) -> Text:
    """All that is known of one partition."""
    lines = [*_state_lines(row), Text(), *_follower_lines(row), Text(), *_group_lines(row, groups)]
    return Text("\n").join(lines)


def _state_lines(row: Row) -> Iterator[Text]:
    leader = "none" if row.leader is None else f"node {row.leader}"
    if row.leader is None:
        yield Text("no node leads this partition: this is what one of its replicas has", BAD)
    elif row.is_leader_unsure:
        yield Text(f"{leader} says that it leads, but is not in touch with the cluster: another may lead since", BAD)
    elif not row.is_heard:
        yield Text(f"{leader} leads and does not answer: this is what another node has", BAD)
    elif row.watermark is None and row.offline is None:
        yield Text("closed: no client has asked for it since its leader began to lead", QUIET)
    if row.offline is not None:
        yield Text(f"cannot be read: {row.offline}", BAD)
    yield _pair("leader", f"{leader}, epoch {row.leader_epoch}")
    needed = f"  at least {row.in_sync_min} for acks=all" if row.in_sync else ""
    yield Text.assemble(_label("in sync"), replicas(row), (needed, QUIET))
    yield _pair("log start", number(row.log_start))
    yield _pair("stable", f"{number(row.last_stable_offset)}  read_committed reads below")
    yield _pair("watermark", f"{number(row.watermark)}  consumers read below")
    yield _pair("next offset", f"{number(row.next_offset)}  gap {number(row.gap)}")
    yield _pair("size", byte_size(row.size_bytes))
    yield Text.assemble(
        _label("produced"),
        f"{rate(row.in_per_s)}/s  ".ljust(12),
        (sparkline(row.trend.produced, DETAIL_BARS).strip(), ACCENT),
    )
    yield Text.assemble(
        _label("gap"), f"{number(row.gap)}  ".ljust(12), (sparkline(row.trend.gaps, DETAIL_BARS).strip(), NOTABLE)
    )
    yield _pair("consumed", f"{rate(row.out_per_s)}/s")


def _follower_lines(row: Row) -> Iterator[Text]:
    if not row.followers:
        yield Text("no followers", QUIET)
    for follower in row.followers:
        state = Text("in sync", GOOD) if follower.is_in_sync else Text("out of sync", BAD)
        state.truncate(12, pad=True)
        if follower.lag_records == 0:
            lag = "has everything"
        elif follower.lag_ms < 0:
            lag = f"{counted(follower.lag_records, 'record')} behind, never had everything"
        else:
            lag = f"{counted(follower.lag_records, 'record')} behind for {duration(follower.lag_ms)}"
        heard = "never asked" if follower.silent_ms < 0 else f"asked {duration(follower.silent_ms)} ago"
        is_quiet = follower.is_in_sync and follower.lag_records == 0
        yield Text.assemble(_label(f"follower {follower.node}"), state, lag, ("" if is_quiet else f", {heard}", QUIET))


def _group_lines(row: Row, groups: Sequence[GroupRow]) -> Iterator[Text]:
    readers = [
        (group, group.committed[row.topic, row.partition])
        for group in groups
        if (row.topic, row.partition) in group.committed
    ]
    if not readers:
        yield Text("no group has committed anything here", QUIET)
    for group, offset in readers:
        lag = None if row.watermark is None else max(row.watermark - offset, 0)
        yield Text.assemble(
            _label("group"),
            f"{group.group}  committed {number(offset)}, lag {number(lag)}",
            (f"  {group.state}", QUIET),
        )


def _label(word: str) -> Text:
    return Text(word.ljust(14), QUIET)


def _pair(word: str, value: str) -> Text:
    return Text.assemble(_label(word), value)
