"""Client limit or timeout: the cluster is well, and a client's own settings keep it from getting anything.

It hangs up on fetches before it lets the node answer, and asks the same again. Or it is given something, and asks for
the same again, as if it had never come. Or it asks for so many bytes at once that records wait. Or it is thrown out of
its group (or leaves it, having polled too late), comes back, and gets nowhere.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise

from chronik.trace.events import FetchAnswered, FetchDropped, FetchWaits, GroupLeft
from chronik.trace.stalls.fetching import is_given_up_late
from chronik.trace.stalls.history import EventHistory, Fetch, GroupPast, Partition, TracedClient, bound
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.words import clock, counted, seconds, times
from chronik.trace.verdicts import Cause, Verdict

EXPIRED = "expired"


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    told: set[TracedClient] = set()  # one verdict a client and kind is enough, however many partitions it reads
    for (client, partition), fetches in history.fetches.items():
        if client not in told:
            found = _hangs_up(client, partition, fetches, history, limits) or _asks_again(
                client, partition, fetches, history, limits
            )
            if found is not None:
                told.add(client)
                yield found
    for waits in history.waiting.values():
        wants_more = _wants_more(list(waits.values()), history, limits)
        if wants_more is not None:
            yield wants_more
    for group, past in history.groups.items():
        yield from _thrown_out(group, past, history, limits)


# --- fetches


def _hangs_up(
    client: TracedClient, partition: Partition, fetches: list[Fetch], history: EventHistory, limits: Limits
) -> Verdict | None:
    dropped: list[FetchDropped] = []
    for fetch in reversed([each for each in fetches if not isinstance(each, FetchWaits)]):
        is_next = (
            isinstance(fetch, FetchDropped)
            and not is_given_up_late(fetch, limits)
            and (not dropped or _is_same_again(fetch, dropped[-1], limits))
        )
        if not is_next or not isinstance(fetch, FetchDropped):
            break
        dropped.append(fetch)
    dropped.reverse()
    if len(dropped) < limits.repeats or not history.is_within(dropped[-1].at_us, limits.reconnect_ms):
        return None
    first, last = dropped[0], dropped[-1]
    # Programs that look at the end of a topic for a moment hang up, too.
    is_long = last.at_us - first.at_us >= limits.stand_still_ms * 1000
    if not is_long or _has_left(client, first.at_us, history):
        return None
    longest_us = max(each.waited_us for each in dropped)
    return Verdict(
        Cause.CLIENT_LIMIT,
        f"{client} hangs up before it is answered, and asks for {partition[0]}:{partition[1]} from {last.offset:,} on "
        f"again: {times(len(dropped))} since {clock(first.at_us)}",
        (
            f"it lets the node wait for up to {last.max_wait_ms:,} ms (max_wait_ms), and waits itself for "
            f"{seconds(longest_us)} at most",
            *(
                f"at {clock(each.at_us)} it hung up on node {each.node} (connection {each.connection}) after "
                f"{seconds(each.waited_us)}"
                for each in dropped[-4:]
            ),
        ),
        "raise the client's request timeout (request.timeout.ms, socket.timeout.ms) well above its fetch.max.wait.ms, "
        "or lower that; and its fetch.min.bytes, if that is large",
        first.at_us - first.waited_us,
        *partition,
        last.group,
        client.client_id,
        client.host,
        last.node,
    )


def _is_same_again(earlier: Fetch, later: Fetch, limits: Limits) -> bool:
    """Whether the later of two fetches is the earlier one once more, on a new connection, by one that has not gone."""
    is_other = (earlier.node, earlier.connection) != (later.node, later.connection)
    return (
        is_other and earlier.offset == later.offset and _asked_us(later) - earlier.at_us <= limits.reconnect_ms * 1000
    )


def _asked_us(fetch: Fetch) -> int:
    return fetch.at_us - (fetch.took_us if isinstance(fetch, FetchAnswered) else fetch.waited_us)


def _has_left(client: TracedClient, from_us: int, history: EventHistory) -> bool:
    """Whether it said good-bye to a group: then it hangs up because it ends."""
    return any(
        event.at_us >= from_us and event.reason != EXPIRED and (event.client_id, event.host) == client
        for past in history.groups.values()
        for event in past.left
    )


def _asks_again(
    client: TracedClient, partition: Partition, fetches: list[Fetch], history: EventHistory, limits: Limits
) -> Verdict | None:
    given: list[FetchAnswered] = []
    for fetch in reversed(fetches):
        if not isinstance(fetch, FetchAnswered):
            continue
        is_same = fetch.to_offset > fetch.offset and (not given or _is_same_again(fetch, given[-1], limits))
        if not is_same:
            break
        given.append(fetch)
    given.reverse()
    # A probe that reads the first record over and over does the same on purpose: it takes many, in quick succession.
    if len(given) < 2 * limits.repeats or not history.is_within(given[-1].at_us, limits.fresh_ms):
        return None
    first, last = given[0], given[-1]
    is_long = last.at_us - first.at_us >= limits.stand_still_ms * 1000
    if not is_long or _has_left(client, first.at_us, history):
        return None
    return Verdict(
        Cause.CLIENT_LIMIT,
        f"{client} was given {partition[0]}:{partition[1]} from {last.offset:,} on {times(len(given))} since "
        f"{clock(first.at_us)}, hangs up, and asks for the same again",
        (
            f"each answer held up to {max(each.size_bytes for each in given):,} bytes; the client allows "
            f"{last.max_bytes:,} a partition",
            f"they took up to {seconds(max(each.took_us for each in given))} to make, and came over "
            f"{counted(len({(each.node, each.connection) for each in given}), 'connection')}",
        ),
        "the answers do not get through to the application: raise its receive limit (receive.message.max.bytes) above "
        "fetch.max.bytes, raise its request timeout, or lower max.partition.fetch.bytes",
        first.at_us,
        *partition,
        last.group,
        client.client_id,
        client.host,
        last.node,
    )


def _wants_more(waits: list[FetchWaits], history: EventHistory, limits: Limits) -> Verdict | None:
    """A fetch that rightly waits, although there are records: it asked for more bytes than there are."""
    first = waits[0]
    heard_us = history.heard_us[first.node]
    asked_us = first.at_us - first.waited_us
    there = [wait for wait in waits if bound(wait) > wait.offset]
    is_due = heard_us >= asked_us + first.max_wait_ms * 1000
    if first.min_bytes <= 1 or is_due or not there or heard_us - asked_us < limits.min_bytes_ms * 1000:
        return None
    client, worst = TracedClient(first.client_id, first.host), there[0]
    return Verdict(
        Cause.CLIENT_LIMIT,
        f"{client} lets records of {worst.topic}:{worst.partition} wait since {clock(asked_us)} "
        f"({seconds(heard_us - asked_us)}): it asked for at least {first.min_bytes:,} bytes",
        (
            f"it reads from {worst.offset:,} on, and could read below {bound(worst):,}",
            f"its fetch waits for min_bytes {first.min_bytes:,} or max_wait_ms {first.max_wait_ms:,}",
        ),
        "lower the client's fetch.min.bytes or fetch.max.wait.ms",
        asked_us,
        worst.topic,
        worst.partition,
        first.group,
        client.client_id,
        client.host,
        first.node,
    )


# --- groups


def _thrown_out(group: str, past: GroupPast, history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    if not past.seen:
        return
    left: defaultdict[TracedClient, list[GroupLeft]] = defaultdict(list)
    joined: defaultdict[TracedClient, list[int]] = defaultdict(list)
    for event in past.left:
        if history.is_within(event.at_us, 2 * limits.churn_ms):
            left[TracedClient(event.client_id, event.host)].append(event)
    for join in past.joined:
        joined[TracedClient(join.client_id, join.host)].append(join.at_us)
    for client, events in left.items():
        back = _came_back(events, joined[client])
        expired = sum(event.reason == EXPIRED for event in back)
        is_stuck = _is_stuck(group, back, history)
        is_often = expired >= limits.repeats or (is_stuck and expired >= limits.repeats - 1)
        if is_often or (is_stuck and len(back) >= limits.repeats):
            yield _thrown_out_verdict(group, client, back, is_stuck, past.seen[-1].node)


def _came_back(left: list[GroupLeft], joined: list[int]) -> list[GroupLeft]:
    """Those of its leavings after which it came, before it left again: several of one name that leave together have
    left once."""
    ends = [event.at_us for event in left[1:]] + [math.inf]
    return [event for event, end_us in zip(left, ends, strict=True) if any(event.at_us <= at < end_us for at in joined)]


def _is_stuck(group: str, left: list[GroupLeft], history: EventHistory) -> bool:
    """Whether the group has committed nothing since it left first, although there is more. One that never commits is
    not known to be."""
    commits = {partition: commits for (name, partition), commits in history.commits.items() if name == group}
    if not left or not commits or any(each[-1].at_us > left[0].at_us for each in commits.values()):
        return False
    return any(
        past.seen and each[-1].offset < past.seen[-1].last_stable_offset
        for partition, each in commits.items()
        if (past := history.partitions.get(partition)) is not None
    )


def _thrown_out_verdict(
    group: str, client: TracedClient, left: list[GroupLeft], is_stuck: bool, coordinator: int
) -> Verdict:
    gaps = [later.at_us - earlier.at_us for earlier, later in pairwise(left)]
    pace = f", every {seconds(sum(gaps) // len(gaps))} or so" if gaps else ""
    evidence = [
        *(
            f"at {clock(event.at_us)} it {'was not heard of in time' if event.reason == EXPIRED else 'left'} "
            f"(member {event.member_id}), and came back"
            for event in left[-4:]
        ),
    ]
    if is_stuck:
        evidence.append(f"the group has committed nothing since {clock(left[0].at_us)}, and there is more to read")
    return Verdict(
        Cause.CLIENT_LIMIT,
        f"{client} drops out of group {group!r} and comes back: {times(len(left))} since {clock(left[0].at_us)}{pace}",
        tuple(evidence),
        "give it more time: raise session.timeout.ms, if it is not heard of in time; raise max.poll.interval.ms or "
        "lower max.poll.records, if its work between two polls takes longer than that",
        left[0].at_us,
        group=group,
        client_id=client.client_id,
        host=client.host,
        node=coordinator,
    )
