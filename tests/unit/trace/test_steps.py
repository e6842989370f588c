"""What the trace keeps for each replica: where its watermark stood in the last event, and no longer than it is here."""

from __future__ import annotations

from chronik.core.replica.replica import ACKS_ALL, Replica
from chronik.trace.events import WatermarkMoved
from chronik.trace.recorder import Recorder
from tests.unit.core.log.logs import batch_of
from tests.unit.node.fakes import NOW_MS, FakeClock, memory_replica


def recorder() -> Recorder:
    made = Recorder(1, FakeClock())
    made.switch(is_all=True, exceptions=frozenset())
    return made


def append_durably(replica: Replica) -> None:
    replica.append(batch_of(), ACKS_ALL, NOW_MS)
    replica.own_safe(replica.log.end_offset)


def moves(trace: Recorder) -> list[tuple[int, int]]:
    return [(each.before, each.watermark) for each in trace.read().events if isinstance(each, WatermarkMoved)]


def test_each_move_begins_where_the_one_before_ended() -> None:
    trace, replica = recorder(), memory_replica()
    assert trace.steps is not None

    for _ in range(2):
        append_durably(replica)
        trace.steps.watermark_moved(replica)
    trace.steps.watermark_moved(replica)

    assert moves(trace) == [(0, 1), (1, 2)]


def test_what_moved_before_it_was_traced_is_not_recorded() -> None:
    trace, replica = recorder(), memory_replica()
    append_durably(replica)
    assert trace.steps is not None

    trace.steps.begin_watermarks([replica])
    trace.steps.watermark_moved(replica)

    assert moves(trace) == []


def test_a_replica_that_left_this_node_is_not_kept_in_memory() -> None:
    trace, stays, leaves = recorder(), memory_replica(), memory_replica()
    assert trace.steps is not None
    for replica in (stays, leaves):
        append_durably(replica)
        trace.steps.watermark_moved(replica)

    trace.steps.keep_watermarks([stays])

    assert trace.steps._recorded_watermarks == {stays: 1}
