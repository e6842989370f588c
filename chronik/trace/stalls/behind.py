"""One partition behind: a consumer reads the other partitions of a topic, but has nothing of this one.

Either it asks for it and is given nothing, although there is something, again and again while others are served. Or,
though it is its member's to read and it has worked off all that it was given of it, it does not ask for it, while it
asks for others.
"""

from __future__ import annotations

from collections.abc import Iterator

from chronik.trace.events import FetchAnswered, FetchWaits
from chronik.trace.stalls.history import EventHistory, Fetch, Partition, TracedClient, bound
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.members import MemberReading, Unasked, readings
from chronik.trace.stalls.starving import is_served_elsewhere, starving
from chronik.trace.stalls.words import clock, counted, listed, seconds
from chronik.trace.verdicts import Cause, Verdict


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    starved: set[tuple[str, Partition]] = set()
    for client, partition, run in starving(history, limits):
        if is_served_elsewhere(history, client, partition, run):
            starved.add((client.client_id, partition))
            yield _not_given(client, partition, run)
    for reading in readings(history, limits):
        for unasked in reading.unasked:
            others = [number for other, number in reading.asked if other == unasked.partition[0]]
            is_told = (reading.member.client_id, unasked.partition) in starved
            if others and not is_told and _is_too_long(unasked, reading, history, limits):
                yield _not_asked(reading, unasked, others, history)


def _is_too_long(unasked: Unasked, reading: MemberReading, history: EventHistory, limits: Limits) -> bool:
    """While it has records of it, it need not ask for more, in whatever order it works. When not, it should, whenever
    it asks for others: soon if it has come to the end of one of them. One that is behind in all of them has records of
    others to work off, and some clients (librdkafka with a short queue) leave it to luck whose turn is next."""
    if unasked.committed is None or (unasked.given is not None and unasked.committed < unasked.given):
        return False
    asks = [
        [fetch for fetch in history.fetches_by_name[reading.member.client_id, other] if fetch.at_us > unasked.since_us]
        for other in reading.asked
        if other[0] == unasked.partition[0]
    ]
    has_caught_up = any(_is_at_end(fetch) for fetches in asks for fetch in fetches)
    allowed_ms = limits.unasked_ms if unasked.given is not None and has_caught_up else limits.unworked_ms
    if unasked.until_us - unasked.since_us < allowed_ms * 1000:
        return False
    return max(map(len, asks)) >= limits.repeats


def _is_at_end(fetch: Fetch) -> bool:
    return isinstance(fetch, FetchWaits) or (isinstance(fetch, FetchAnswered) and fetch.to_offset >= bound(fetch))


def _not_given(client: TracedClient, partition: Partition, run: list[FetchAnswered]) -> Verdict:
    first, last = run[0], run[-1]
    topic, number = partition
    return Verdict(
        Cause.PARTITION_BEHIND,
        f"{topic}:{number} stays at {last.offset:,} for {client} since {clock(first.at_us)} "
        f"({seconds(last.at_us - first.at_us)}), while other partitions are read",
        (
            f"{counted(len(run), 'answer')} of node {last.node} from {clock(first.at_us)} to {clock(last.at_us)} held "
            f"nothing of it, the client asking from {last.offset:,} on each time",
            f"in the last it could have read below {bound(last):,} (watermark {last.watermark:,}, next offset "
            f"{last.next_offset:,})",
            "meanwhile the client got records of other partitions of the topic, or waited at their end",
        ),
        f"look at node {last.node}: move the leadership of this partition to another node, or restart it",
        first.at_us,
        topic,
        number,
        last.group,
        client.client_id,
        client.host,
        last.node,
    )


def _not_asked(reading: MemberReading, unasked: Unasked, others: list[int], history: EventHistory) -> Verdict:
    member, (topic, number) = reading.member, unasked.partition
    client = TracedClient(member.client_id, member.host)
    return Verdict(
        Cause.PARTITION_BEHIND,
        f"{unasked.name} is not asked for by {client} since {clock(unasked.since_us)} "
        f"({seconds(history.now_us - unasked.since_us)}), while it asks for {topic}:{listed(others)}",
        (*told(unasked), f"the group {reading.group!r} is stable, and the partition is this member's"),
        "see whether the application has paused this partition, or its client cannot reach node "
        f"{unasked.leader}, which leads it; restarting that consumer has it ask anew",
        unasked.since_us,
        topic,
        number,
        reading.group,
        client.client_id,
        client.host,
        unasked.leader,
    )


def told(unasked: Unasked) -> Iterator[str]:
    """What is known of a partition that is not asked for."""
    asked = "never in this trace" if unasked.asked_us is None else f"at {clock(unasked.asked_us)}"
    given = "nothing" if unasked.given is None else f"everything below {unasked.given:,}"
    committed = "nothing" if unasked.committed is None else f"everything below {unasked.committed:,}"
    yield f"{unasked.name}: last asked for {asked}; given {given}; committed {committed}"
    yield f"{unasked.name}: there is more, the watermark is {unasked.watermark:,} (leader: node {unasked.leader})"
