"""Fetch hangs: a consumer asked and is not answered, or is answered with nothing although there is something.

Four ways to see it. The fetch waits well past the max_wait_ms that it brought. Or there is something to read at its
offset for long, it would be content with one byte, and it still waits. Or its clients hang up, again and again, after
waiting longer than they had asked for. Or answers come, but empty, and nothing else of that topic is given to that
client (when other partitions are, it is 'one partition behind').

Nothing is concluded from fetches of a node whose trace has a hole after them, nor from a client that hung up in time.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from itertools import takewhile

from chronik.trace.events import FetchAnswered, FetchDropped, FetchWaits
from chronik.trace.stalls.history import EventHistory, Fetch, Partition, TracedClient, bound
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.starving import is_served_elsewhere, starving
from chronik.trace.stalls.words import clock, counted, seconds, times
from chronik.trace.verdicts import Cause, Verdict


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    hanging: set[TracedClient] = set()
    for waits in history.waiting.values():
        found = _hangs(list(waits.values()), history, limits)
        if found is not None:
            hanging.add(TracedClient(found.client_id or "", found.host or ""))
            yield found
    by_client: defaultdict[TracedClient, list[tuple[Partition, list[FetchDropped]]]] = defaultdict(list)
    for (client, partition), fetches in history.fetches.items():
        given_up = _given_up(fetches, history, limits)
        if given_up and client not in hanging:
            by_client[client].append((partition, given_up))
    for client, dropped in by_client.items():
        hanging.add(client)
        yield _given_up_verdict(client, *dropped[0])
    for client, partition, run in starving(history, limits):
        if client not in hanging and not is_served_elsewhere(history, client, partition, run):
            yield _empty_verdict(client, partition, run)


def _hangs(waits: list[FetchWaits], history: EventHistory, limits: Limits) -> Verdict | None:
    """One fetch, with all its partitions."""
    first = waits[0]
    past = history.partitions.get((first.topic, first.partition))
    if past is not None and past.seen and not past.seen[-1].is_traced:
        return None  # its end would not be recorded
    asked_us = first.at_us - first.waited_us
    heard_us = history.heard_us[first.node]
    due_us = asked_us + first.max_wait_ms * 1000
    there = [(wait, since_us) for wait in waits if (since_us := _there_since_us(wait, history)) is not None]
    is_overdue = heard_us - due_us >= limits.hang_ms * 1000
    # With a larger min_bytes it may rightly wait until it is due: how many bytes there are is not known here.
    has_enough = first.min_bytes <= 1 and any(
        heard_us - since_us >= limits.stand_still_ms * 1000 for _, since_us in there
    )
    if not is_overdue and not has_enough:
        return None
    worst = max(there, key=lambda each: bound(each[0]) - each[0].offset)[0] if there else first
    client = TracedClient(first.client_id, first.host)
    evidence = [
        f"at {clock(asked_us)} {client} asked node {first.node} (connection {first.connection}) for "
        f"{counted(len(waits), 'partition')}, with max_wait_ms {first.max_wait_ms:,} and min_bytes {first.min_bytes:,}",
        f"until {clock(heard_us)}, {seconds(heard_us - asked_us)} later, it was not answered, and did not hang up",
    ]
    for wait, since_us in there:
        evidence.append(
            f"{wait.topic}:{wait.partition} was asked for from {wait.offset:,} on, and had more at {clock(since_us)}"
        )
    return Verdict(
        Cause.FETCH_HANGS,
        f"the fetch of {client} for {worst.topic}:{worst.partition} from {worst.offset:,} on hangs at node "
        f"{first.node} since {clock(asked_us)} ({seconds(heard_us - asked_us)})",
        tuple(evidence),
        _advice(first.node),
        asked_us,
        worst.topic,
        worst.partition,
        first.group,
        client.client_id,
        client.host,
        first.node,
    )


def _there_since_us(wait: FetchWaits, history: EventHistory) -> int | None:
    """Since when there was something for it to read; None as far as is known when there is not."""
    asked_us = wait.at_us - wait.waited_us
    past = history.partitions.get((wait.topic, wait.partition))
    times_us = [wait.at_us] if bound(wait) > wait.offset else []
    if past is not None:
        later_us = past.first_beyond(wait.offset, wait.is_committed_only, asked_us)
        times_us += [] if later_us is None else [later_us]
    return min(times_us, default=None)


def is_given_up_late(fetch: FetchDropped, limits: Limits) -> bool:
    """Whether the client waited for longer than it had asked the node to take."""
    return fetch.waited_us >= (fetch.max_wait_ms + limits.hang_up_grace_ms) * 1000


def _given_up(fetches: list[Fetch], history: EventHistory, limits: Limits) -> list[FetchDropped]:
    """Fetches in a row, up to the last, on which the client gave up too late for it to be the client's fault."""
    ends = [fetch for fetch in fetches if not isinstance(fetch, FetchWaits)]
    late = [
        fetch
        for fetch in takewhile(lambda end: isinstance(end, FetchDropped), reversed(ends))
        if isinstance(fetch, FetchDropped) and is_given_up_late(fetch, limits)
    ]
    if not late or not history.is_within(late[0].at_us, 2 * limits.fresh_ms):
        return []
    is_long = late[0].waited_us >= (late[0].max_wait_ms + limits.hang_ms) * 1000
    return late[::-1] if is_long or len(late) >= limits.repeats else []


def _given_up_verdict(client: TracedClient, partition: Partition, dropped: list[FetchDropped]) -> Verdict:
    last, since_us = dropped[-1], dropped[0].at_us - dropped[0].waited_us
    name = f"{partition[0]}:{partition[1]}"
    return Verdict(
        Cause.FETCH_HANGS,
        f"fetches of {client} for {name} from {last.offset:,} on hang at node {last.node} since {clock(since_us)}: "
        f"it gave up {times(len(dropped))}",
        tuple(
            f"at {clock(each.at_us)} it hung up on node {each.node} (connection {each.connection}) after "
            f"{seconds(each.waited_us)}, with max_wait_ms {each.max_wait_ms:,} and from offset {each.offset:,}"
            for each in dropped[-5:]
        ),
        _advice(last.node),
        since_us,
        *partition,
        last.group,
        client.client_id,
        client.host,
        last.node,
    )


def _empty_verdict(client: TracedClient, partition: Partition, run: list[FetchAnswered]) -> Verdict:
    first, last = run[0], run[-1]
    name = f"{partition[0]}:{partition[1]}"
    return Verdict(
        Cause.FETCH_HANGS,
        f"{client} asks node {last.node} for {name} from {last.offset:,} on and gets nothing since "
        f"{clock(first.at_us)} ({seconds(last.at_us - first.at_us)}), although there is more",
        (
            f"{counted(len(run), 'answer')} from {clock(first.at_us)} to {clock(last.at_us)} held nothing of it",
            f"in the last, the watermark was {last.watermark:,}, the last stable offset {last.last_stable_offset:,}, "
            f"the next offset {last.next_offset:,}; it may read below {bound(last):,}",
            f"it allows {last.max_bytes:,} bytes, and the first batch is given even when it is larger",
        ),
        _advice(last.node),
        first.at_us,
        *partition,
        last.group,
        client.client_id,
        client.host,
        last.node,
    )


def _advice(node: int) -> str:
    return (
        f"look at node {node}: its log for faults, its disk for reads that do not end; move the partition's leadership "
        f"away from it, or restart it; then the client asks again by itself"
    )
