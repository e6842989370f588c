"""A stream of the trace to a stream of what begins to stall and what is over, by the rules of the live stall finder.

The rules need the events of the whole cluster for the last two minutes: those, and what stalls now, are the state of
the stream, kept in its checkpoint. It is as large as a live watcher's, however long the stream runs. After a crash it
goes on where it was, and raises nothing twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import TYPE_CHECKING, Any, NamedTuple

import msgspec
import pyarrow as pa

from chronik.pipeline.judging import (
    EVERY_US,
    JudgedStall,
    Stalls,
    Window,
    find_at,
    known_events,
    moments,
    ripe_until_us,
)
from chronik.trace.events import AnyEvent
from chronik.trace.lines import to_lines

if TYPE_CHECKING:
    import pandas as pd
    from pyspark.sql import DataFrame
    from pyspark.sql.streaming.state import GroupState

BEGAN, OVER = "stall_began", "stall_over"
RAISED = "key string, value string"
_STATE = "judged_us bigint, under_way binary, size bigint, events binary"
_CODEC = pa.Codec("zstd")


class Raised(msgspec.Struct, frozen=True, omit_defaults=False):
    """What is written to the topic, as JSON: the verdict, and from when to when."""

    kind: str
    at_us: int
    since_us: int
    named_us: int
    until_us: int
    verdict: dict[str, Any]


class StreamState(NamedTuple):
    """What a stream knows between two micro-batches."""

    judged_us: int
    stalls: Stalls
    window: Window


def step(seen: StreamState, more: Iterable[AnyEvent], every_us: int = EVERY_US) -> tuple[StreamState, list[Raised]]:
    """More events: what begins and what is over by them, as far as every node has reported."""
    seen.window.add(more)
    if not seen.window.events:
        return seen, []
    from_us = seen.judged_us or seen.window.events[0].at_us
    to_us = ripe_until_us(seen.window.events)
    raised: list[Raised] = []
    judged_us = seen.judged_us
    for now_us in moments(seen.window, from_us, to_us + 1, every_us):
        began, over = seen.stalls.see(now_us, find_at(seen.window, now_us))
        raised += [_raised(OVER, now_us, stall) for stall in over]
        raised += [_raised(BEGAN, now_us, stall) for stall in began]
        judged_us = now_us + 1
    seen.window.forget(judged_us)
    return StreamState(judged_us, seen.stalls, seen.window), raised


def _raised(kind: str, at_us: int, stall: JudgedStall) -> Raised:
    verdict = msgspec.to_builtins(stall.verdict)
    return Raised(kind, at_us, stall.since_us, stall.named_us, stall.until_us, verdict)


def raised(records: DataFrame, every_us: int = EVERY_US) -> DataFrame:
    """Records of the trace topic, as a stream, to records for another topic (`RAISED`)."""

    def judge(_: tuple[Any, ...], parts: Iterator[pd.DataFrame], state: GroupState) -> Iterator[pd.DataFrame]:
        import pandas as pd

        rows = sorted(
            row for part in parts for row in zip(part["partition"], part["offset"], part["value"], strict=True)
        )
        seen = restored(state.get) if state.exists else StreamState(0, Stalls(), Window())
        seen, found = step(seen, (event for _, _, value in rows for event in known_events(bytes(value))), every_us)
        state.update(kept(seen))
        if found:
            keys = [each.verdict["cause"] for each in found]
            yield pd.DataFrame({"key": keys, "value": [msgspec.json.encode(each).decode() for each in found]})

    return (
        records.select("topic", "partition", "offset", "value")
        .groupBy("topic")  # which is one
        .applyInPandasWithState(judge, RAISED, _STATE, "append", "NoTimeout")
    )


def kept(seen: StreamState) -> tuple[int, bytes, int, bytes]:
    lines = to_lines(seen.window.events)
    under_way = msgspec.json.encode(list(seen.stalls.under_way.values()))
    return seen.judged_us, under_way, len(lines), _CODEC.compress(lines, asbytes=True)


def restored(state: tuple[int, bytes, int, bytes]) -> StreamState:
    judged_us, under_way, size, packed = state
    lines = _CODEC.decompress(bytes(packed), size, asbytes=True) if size else b""
    stalls = Stalls(msgspec.json.decode(bytes(under_way), type=list[JudgedStall]))
    return StreamState(judged_us, stalls, Window(known_events(lines)))
