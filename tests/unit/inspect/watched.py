"""Made-up answers of nodes, for the tests of `chronik watch`."""

from __future__ import annotations

from collections.abc import Sequence

from chronik.inspect.live_model import ClusterSnapshot, LiveView, RateHistory
from chronik.trace.events import FollowerSeen, GroupSeen, MemberSeen, OffsetSeen, PartitionSeen
from chronik.trace.inspections import CopySeen, StateView, Totals, Traces, UnopenedSeen
from chronik.trace.verdicts import Cause, Verdict

NOW_US = 1_700_000_000_000_000
NO_TOTALS = Totals(0, 0, 0, 0, 0, 0, 0, 0)


def led(
    topic: str = "orders",
    partition: int = 0,
    *,
    leader: int = 1,
    epoch: int = 5,
    watermark: int = 100,
    next_offset: int | None = None,
    in_sync: tuple[int, ...] = (1, 2, 3),
    followers: Sequence[FollowerSeen] = (),
    is_traced: bool = False,
) -> PartitionSeen:
    """A partition as its leader tells it; nobody lags unless `followers` say so."""
    end = watermark if next_offset is None else next_offset
    others = tuple(followers) or tuple(follower(node) for node in in_sync if node != leader)
    return PartitionSeen(
        NOW_US, leader, topic, partition, epoch, 0, watermark, watermark, end, end, in_sync, 2, others, 4096, is_traced
    )


def follower(node: int, *, lag_records: int = 0, lag_ms: int = 0, is_in_sync: bool = True) -> FollowerSeen:
    return FollowerSeen(node, is_in_sync, 100 - lag_records, lag_records, lag_ms, 10)


def copy(
    topic: str = "orders",
    partition: int = 0,
    *,
    leader: int = 1,
    is_leader: bool = False,
    epoch: int = 5,
    watermark: int = 90,
    next_offset: int = 95,
    offline: str | None = None,
) -> CopySeen:
    """What a node has, which follows unless it is said to lead."""
    return CopySeen(
        topic, partition, is_leader, leader, epoch, 0, watermark, watermark, next_offset, next_offset, 4096, offline
    )


def group(
    name: str = "billing", committed: Sequence[tuple[str, int, int]] = (), *, state: str = "Stable", members: int = 1
) -> GroupSeen:
    seen = tuple(MemberSeen(f"m{number}", "app", "10.0.0.9", ()) for number in range(members))
    return GroupSeen(NOW_US, 1, name, "classic", state, 3, 60_000, seen, tuple(OffsetSeen(*each) for each in committed))


def state(
    node: int = 1,
    partitions: Sequence[PartitionSeen] = (),
    *,
    copies: Sequence[CopySeen] = (),
    groups: Sequence[GroupSeen] = (),
    is_tracing: bool = False,
    unopened: Sequence[UnopenedSeen] = (),
    is_current: bool = True,
) -> StateView:
    traces = Traces(is_tracing, ())
    seen = (tuple(partitions), tuple(copies), tuple(groups))
    return StateView(node, NOW_US, "1.0", True, traces, *seen, NO_TOTALS, tuple(unopened), is_current)


def snapshot(at_s: float, *states: StateView, silent: dict[int, str] | None = None, **given: object) -> ClusterSnapshot:
    return ClusterSnapshot(at_s, {each.node: each for each in states}, silent or {}, **given)  # type: ignore[arg-type]


STALL = Verdict(Cause.FETCH_HANGS, "orders:0 waits", ("asked at 5",), "restart node 2", NOW_US, "orders", 0)


def seen_with(*verdicts: Verdict) -> LiveView:
    slow = [follower(2), follower(3, lag_records=40, lag_ms=2000, is_in_sync=False)]
    partitions = [led("orders", 0, watermark=100, next_offset=130, in_sync=(1, 2), followers=slow), led("__internal")]
    one = state(1, partitions, groups=[group("billing", [("orders", 0, 40)])])
    two = state(2, copies=[copy("orders", 1, leader=3)])
    return RateHistory().take(snapshot(0.0, one, two, silent={3: "it hung up"}, verdicts=verdicts))
