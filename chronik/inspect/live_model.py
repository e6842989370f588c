"""What `chronik watch` shows, without a terminal: snapshots of a cluster go in, rows with rates and histories come out.

Pure: each snapshot has the time. A partition is reported by its leader; when that is silent, by the best
copy that answers, and then the row says so.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from chronik.trace.events import FollowerSeen, GroupSeen, PartitionSeen
from chronik.trace.inspections import CopySeen, StateView, UnopenedSeen
from chronik.trace.leading import newest_leaders, sure_leaders
from chronik.trace.verdicts import Verdict

Partition = tuple[str, int]

HISTORY_SAMPLES = 60
# Figures are means over so many samples: one alone jumps, and clients commit in jerks (every 5 s by default).
IN_SAMPLES = 3
OUT_SAMPLES = 6
# A follower is always a few records behind a busy leader. After so long without having everything it is worth a look.
LAG_MS_NOTABLE = 1_000


@dataclass(frozen=True)
class ClusterSnapshot:
    """What the nodes answered at one time."""

    at_s: float
    """By the watcher's own clock, which never jumps: the nodes' clocks may differ."""
    states: Mapping[int, StateView]
    silent: Mapping[int, str] = field(default_factory=dict)
    """Nodes of the cluster that did not answer, each with the reason."""
    given: Mapping[Partition, int] = field(default_factory=dict)
    """Records given to consumers since the snapshot before, as far as it is traced."""
    verdicts: tuple[Verdict, ...] = ()
    """What stalls."""
    known_s: float | None = None
    """How far back all is known that clients did; None: as far as the rules look."""


class Trend(NamedTuple):
    """How a partition went, the oldest first."""

    produced: tuple[float, ...] = ()
    """Records a second between each two snapshots."""
    gaps: tuple[float, ...] = ()


NO_TREND = Trend()


@dataclass(frozen=True)
class Row:
    """A partition. Rates are None until there are two snapshots, offsets while no copy is open or can be read."""

    topic: str
    partition: int
    leader: int | None
    is_heard: bool
    """The leader itself reported this. Else it is what a follower knows, or a leader that may be one no more: it is not
    in touch with the cluster, and another that could lead does not answer."""
    leader_epoch: int
    log_start: int | None
    last_stable_offset: int | None
    watermark: int | None
    next_offset: int | None
    gap: int | None
    in_sync: tuple[int, ...]
    in_sync_min: int
    followers: tuple[FollowerSeen, ...]
    size_bytes: int
    offline: str | None
    is_leader_unsure: bool = False
    """It reported this itself, and may lead no more."""
    placed: tuple[int, ...] = ()
    """The nodes that are to have it, where nothing is known of followers."""
    in_per_s: float | None = None
    out_per_s: float | None = None
    trend: Trend = NO_TREND

    @property
    def name(self) -> str:
        return f"{self.topic}:{self.partition}"

    @property
    def replicas(self) -> tuple[int, ...]:
        nodes = {*self.in_sync, *self.placed, *(follower.node for follower in self.followers)}
        return tuple(sorted(nodes if self.leader is None else nodes | {self.leader}))

    @property
    def out_of_sync(self) -> tuple[int, ...]:
        """Known only where the leader tells an in-sync set."""
        return tuple(node for node in self.replicas if node not in self.in_sync) if self.in_sync else ()

    @property
    def lag_records(self) -> int | None:
        """Of the follower that is furthest behind."""
        return max((follower.lag_records for follower in self.followers), default=None)

    @property
    def lag_ms(self) -> int | None:
        """How long some follower has not had everything; -1 for one that never had since this leader leads."""
        if any(follower.lag_ms < 0 and follower.lag_records for follower in self.followers):
            return -1
        return max((max(follower.lag_ms, 0) for follower in self.followers), default=None)

    @property
    def is_lagging(self) -> bool:
        return bool(self.lag_records)

    @property
    def is_internal(self) -> bool:
        return self.topic.startswith("__")

    @property
    def is_troubled(self) -> bool:
        """Not as it should be, for longer than a moment."""
        lag_ms = self.lag_ms or 0
        return not self.is_heard or bool(self.out_of_sync) or (self.is_lagging and not 0 <= lag_ms < LAG_MS_NOTABLE)


@dataclass(frozen=True)
class GroupRow:
    """A group, reported by its coordinator."""

    group: str
    state: str
    state_ms: int
    members: int
    lag: int | None
    """Of all partitions that it has committed; None when there is none, or of one of them it is not known."""
    committed: Mapping[Partition, int]
    lags: tuple[float, ...] = ()


@dataclass(frozen=True)
class LiveTotals:
    """Of all partitions, whatever is filtered."""

    partitions: int
    lagging: int
    under_replicated: int
    leaderless: int
    gap_largest: int
    gap_largest_at: str | None
    in_per_s: float | None
    out_per_s: float | None


@dataclass(frozen=True)
class LiveView:
    """All that is shown, as of one snapshot."""

    rows: tuple[Row, ...]
    groups: tuple[GroupRow, ...]
    totals: LiveTotals
    alive: tuple[int, ...]
    silent: Mapping[int, str]
    is_tracing: bool
    verdicts: tuple[Verdict, ...]
    took_s: float = 0.0
    """How long the nodes took to answer: one that hangs is waited for."""
    known_s: float | None = None
    """How far back all is known that clients did; None: as far as the rules look."""


@dataclass
class _Track:
    """What is remembered of one partition."""

    at_s: float
    next_offset: int
    produced: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY_SAMPLES))
    gaps: deque[float] = field(default_factory=lambda: deque(maxlen=HISTORY_SAMPLES))
    taken: deque[float] = field(default_factory=lambda: deque(maxlen=OUT_SAMPLES))


class RateHistory:
    """Remembers as much of earlier snapshots as rates and sparklines need, and of nothing that is gone."""

    def __init__(self) -> None:
        self._tracks: dict[Partition, _Track] = {}
        self._lags: dict[str, deque[float]] = {}
        self._committed: dict[tuple[str, Partition], int] = {}
        self._at_s: float | None = None

    def take(self, snapshot: ClusterSnapshot) -> LiveView:
        elapsed_s = None if self._at_s is None else snapshot.at_s - self._at_s
        groups = _groups(snapshot)
        taken = self._taken(snapshot, groups)
        rows = [self._with_rates(row, snapshot.at_s, elapsed_s, taken) for row in _rows(snapshot)]
        known = {(row.topic, row.partition): row for row in rows}
        group_rows = [self._group_row(group, known, snapshot) for group in groups]
        self._forget(known, group_rows)
        self._at_s = snapshot.at_s
        return LiveView(
            tuple(rows),
            tuple(group_rows),
            _totals(rows),
            tuple(sorted(snapshot.states)),
            snapshot.silent,
            any(state.traces.is_on for state in snapshot.states.values()),
            snapshot.verdicts,
            known_s=snapshot.known_s,
        )

    def _taken(self, snapshot: ClusterSnapshot, groups: Sequence[GroupSeen]) -> dict[Partition, int]:
        """Records that consumers got since the snapshot before: as traced, else as far as groups committed."""
        taken: dict[Partition, int] = {}
        committed = {
            (group.group, (each.topic, each.partition)): each.offset for group in groups for each in group.offsets
        }
        for (group_id, partition), offset in committed.items():
            before = self._committed.get((group_id, partition), offset)
            taken[partition] = taken.get(partition, 0) + max(offset - before, 0)
        self._committed = committed
        for state in snapshot.states.values():
            for seen in state.partitions:
                if seen.is_traced:
                    place = (seen.topic, seen.partition)
                    taken[place] = snapshot.given.get(place, 0)
        return taken

    def _with_rates(self, row: Row, at_s: float, elapsed_s: float | None, taken: Mapping[Partition, int]) -> Row:
        place = (row.topic, row.partition)
        track = self._tracks.get(place)
        if row.next_offset is not None and row.gap is not None:  # its leader tells
            if track is None:
                track = self._tracks[place] = _Track(at_s, row.next_offset)
            elif at_s > track.at_s:
                # A new leader may know less than the one before: nothing was produced backwards.
                track.produced.append(max(row.next_offset - track.next_offset, 0) / (at_s - track.at_s))
                track.at_s, track.next_offset = at_s, row.next_offset
            track.gaps.append(row.gap)
        if track is None or not row.is_heard:
            return row if track is None else replace(row, trend=Trend(tuple(track.produced), tuple(track.gaps)))
        if place in taken and elapsed_s:
            track.taken.append(taken[place] / elapsed_s)
        return replace(
            row,
            in_per_s=_mean(track.produced, IN_SAMPLES),
            out_per_s=_mean(track.taken, OUT_SAMPLES),
            trend=Trend(tuple(track.produced), tuple(track.gaps)),
        )

    def _group_row(self, group: GroupSeen, known: Mapping[Partition, Row], snapshot: ClusterSnapshot) -> GroupRow:
        is_all_told = not snapshot.silent
        # A node that is cut off may still take itself for the coordinator, with the offsets of that time.
        is_any_current = any(state.is_current for state in snapshot.states.values())
        is_sure = snapshot.states[group.node].is_current or (is_all_told and not is_any_current)
        committed = {(each.topic, each.partition): each.offset for each in group.offsets}
        # A topic that no node tells of is deleted, unless a node is silent. A sum without what is not known would be
        # too small.
        told = {place: known.get(place) for place in committed if place in known or not is_all_told}
        ends = {place: row.watermark if row is not None and row.is_heard else None for place, row in told.items()}
        behind = [max(end - committed[place], 0) for place, end in ends.items() if end is not None]
        lag = sum(behind) if is_sure and behind and len(behind) == len(told) else None
        lags = self._lags.setdefault(group.group, deque(maxlen=HISTORY_SAMPLES))
        if lag is not None:
            lags.append(lag)
        return GroupRow(group.group, group.state, group.state_ms, len(group.members), lag, committed, tuple(lags))

    def _forget(self, known: Mapping[Partition, Row], groups: Sequence[GroupRow]) -> None:
        self._tracks = {place: track for place, track in self._tracks.items() if place in known}
        names = {group.group for group in groups}
        self._lags = {name: lags for name, lags in self._lags.items() if name in names}


def _mean(samples: Sequence[float], count: int) -> float | None:
    newest = list(samples)[-count:]
    return sum(newest) / len(newest) if newest else None


def _groups(snapshot: ClusterSnapshot) -> list[GroupSeen]:
    """One of each name: two nodes may think that they coordinate it, for a moment or while one is cut off. One that is
    in touch with the others is right, and of those the later generation; it says nothing about offsets."""
    found: dict[str, tuple[bool, int, GroupSeen]] = {}
    for state in snapshot.states.values():
        for group in state.groups:
            known = found.get(group.group)
            if known is None or known[:2] < (state.is_current, group.generation):
                found[group.group] = (state.is_current, group.generation, group)
    return [group for _, (_, _, group) in sorted(found.items())]


def _rows(snapshot: ClusterSnapshot) -> list[Row]:
    led = newest_leaders(snapshot.states.values())
    sure = sure_leaders(snapshot.states, snapshot.silent)
    copies: dict[Partition, CopySeen] = {}
    for state in snapshot.states.values():
        for copy in state.copies:
            place = (copy.topic, copy.partition)
            if place not in led and (place not in copies or _knowledge(copies[place]) < _knowledge(copy)):
                copies[place] = copy
    unopened = [seen for state in snapshot.states.values() for seen in state.unopened]
    # Each knows better than those before it.
    rows = {(seen.topic, seen.partition): _row_of_unopened(seen) for seen in unopened if seen.leader < 0}
    rows |= {place: _row_of_copy(copy) for place, copy in copies.items()}
    rows |= {(seen.topic, seen.partition): _row_of_unopened(seen) for seen in unopened if seen.leader >= 0}
    rows |= {place: _row_of_leader(seen, is_sure=place in sure) for place, seen in led.items()}
    return [row for _, row in sorted(rows.items())]


def _knowledge(copy: CopySeen) -> tuple[int, bool, int]:
    return copy.leader_epoch, copy.is_leader, copy.next_offset


def _row_of_leader(seen: PartitionSeen, is_sure: bool) -> Row:
    return Row(
        topic=seen.topic,
        partition=seen.partition,
        leader=seen.node,
        is_heard=is_sure,
        leader_epoch=seen.leader_epoch,
        log_start=seen.log_start,
        last_stable_offset=seen.last_stable_offset,
        watermark=seen.watermark,
        next_offset=seen.next_offset,
        gap=max(seen.next_offset - seen.watermark, 0),
        in_sync=tuple(sorted(seen.in_sync)),
        in_sync_min=seen.in_sync_min,
        followers=seen.followers,
        size_bytes=seen.size_bytes,
        offline=None,
        is_leader_unsure=not is_sure,
    )


def _row_of_copy(copy: CopySeen) -> Row:
    """The metadata's log is reported in this way even by its leader: it has a quorum and no in-sync set."""
    return Row(
        topic=copy.topic,
        partition=copy.partition,
        leader=copy.leader if copy.leader >= 0 else None,
        is_heard=copy.is_leader,
        leader_epoch=copy.leader_epoch,
        log_start=_known(copy.log_start),
        last_stable_offset=_known(copy.last_stable_offset),
        watermark=_known(copy.watermark),
        next_offset=_known(copy.next_offset),
        # Only the leader knows how far its log goes.
        gap=max(copy.next_offset - copy.watermark, 0) if copy.is_leader and copy.offline is None else None,
        in_sync=(),
        in_sync_min=0,
        followers=(),
        size_bytes=copy.size_bytes,
        offline=copy.offline,
    )


def _row_of_unopened(seen: UnopenedSeen) -> Row:
    """Nothing is wrong with one that is led: its leader opens it when it is asked for."""
    is_led = seen.leader >= 0
    return Row(
        topic=seen.topic,
        partition=seen.partition,
        leader=seen.leader if is_led else None,
        is_heard=is_led,
        leader_epoch=seen.leader_epoch,
        log_start=None,
        last_stable_offset=None,
        watermark=None,
        next_offset=None,
        gap=None,
        in_sync=tuple(sorted(seen.in_sync)) if is_led else (),
        in_sync_min=0,
        followers=(),
        size_bytes=0,
        offline=None,
        placed=seen.replicas if is_led else (),
    )


def _known(offset: int) -> int | None:
    return offset if offset >= 0 else None


def _totals(rows: Sequence[Row]) -> LiveTotals:
    widest = max(rows, key=lambda row: row.gap or 0, default=None)
    gap = widest.gap or 0 if widest is not None else 0
    return LiveTotals(
        partitions=len(rows),
        lagging=sum(row.is_lagging for row in rows),
        under_replicated=sum(bool(row.out_of_sync) for row in rows),
        leaderless=sum(not row.is_heard and not row.is_leader_unsure for row in rows),
        gap_largest=gap,
        gap_largest_at=widest.name if widest is not None and gap else None,
        in_per_s=_sum(row.in_per_s for row in rows),
        out_per_s=_sum(row.out_per_s for row in rows),
    )


def _sum(values: Iterable[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return sum(known) if known else None


def shown(
    rows: Iterable[Row], *, words: str = "", is_internal: bool = False, is_troubled: bool = False
) -> Iterator[Row]:
    """The rows with all these words in their name. Internal topics on demand, or when something is wrong there."""
    wanted = words.lower().split()
    for row in rows:
        if row.is_internal and not (is_internal or wanted or row.is_troubled):
            continue
        if is_troubled and not row.is_troubled:
            continue
        name = row.name.lower()
        if all(word in name for word in wanted):
            yield row


def sparkline(samples: Sequence[float], width: int) -> str:
    """The newest samples as bars, each in proportion to the highest shown. Something is never drawn as nothing."""
    newest = samples[-width:] if width > 0 else ()
    highest = max(newest, default=0)
    bars = "".join(_bar(sample, highest) for sample in newest)
    return bars.rjust(max(width, 0))


_BARS = "▁▂▃▄▅▆▇"  # no full block: it would touch the line above


def _bar(sample: float, highest: float) -> str:
    if sample <= 0:
        return _BARS[0]
    return _BARS[max(round(sample / highest * (len(_BARS) - 1)), 1)]
