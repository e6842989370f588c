"""Never produced: a topic holds less than its producers say they sent, and nothing is added any more.

Only for callers that know what was sent. A topic to which nothing is written is healthy, however many wait at its end.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from chronik.trace.events import PartitionSeen
from chronik.trace.stalls.history import EventHistory, PartitionPast
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.words import clock, counted, listed, seconds, times
from chronik.trace.verdicts import Cause, Verdict


def find(history: EventHistory, limits: Limits, expected: Mapping[str, int]) -> Iterator[Verdict]:
    for topic, wanted in expected.items():
        sights = [(past, seen) for past, seen in history.sights(limits.fresh_ms) if past.topic == topic]
        known = sum(past.topic == topic and bool(past.seen) for past in history.partitions.values())
        held = sum(seen.next_offset for _, seen in sights)
        if not sights or len(sights) < known or held >= wanted:
            continue  # where a partition is out of sight, no node knows what it holds
        since_us = max(_unmoved_since_us(past) for past, _ in sights)
        until_us = min(seen.at_us for _, seen in sights)
        if until_us - since_us >= limits.stand_still_ms * 1000:
            yield _verdict(topic, wanted, held, sights, since_us, until_us)


def _unmoved_since_us(past: PartitionPast) -> int:
    last = past.seen[-1]
    since_us = last.at_us
    for seen in reversed(past.seen):
        if seen.next_offset != last.next_offset:
            break
        since_us = seen.at_us
    return since_us


def _verdict(
    topic: str,
    wanted: int,
    held: int,
    sights: list[tuple[PartitionPast, PartitionSeen]],
    since_us: int,
    until_us: int,
) -> Verdict:
    evidence = [
        f"next offsets at {clock(until_us)}: "
        f"{listed(f'{past.name} {seen.next_offset:,}' for past, seen in sights)}; together {held:,}, not {wanted:,}"
    ]
    appended = [past.appended for past, _ in sights if past.appended is not None]
    if appended:
        last = max(appended, key=lambda event: event.at_us)
        evidence.append(
            f"the last batch came at {clock(last.at_us)} from {last.client_id!r} on {last.host}, into "
            f"{topic}:{last.partition} at {last.base_offset:,}"
        )
    refusals = Counter(refusal.error for past, _ in sights for refusal in past.refusals)
    if refusals:
        evidence.append(f"refused were {listed(f'{error} {times(count)}' for error, count in refusals.items())}")
    return Verdict(
        Cause.NEVER_PRODUCED,
        f"{counted(wanted - held, 'record')} of {topic} never came: it holds {held:,} of {wanted:,}, and nothing was "
        f"added since {clock(since_us)} ({seconds(until_us - since_us)})",
        tuple(evidence),
        "look at the producer: what was reported to it for each message (delivery reports), whether it still runs, and "
        "whether it flushes before it ends",
        since_us,
        topic,
    )
