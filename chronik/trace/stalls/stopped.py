"""Consumer stopped asking: a member of a stable group asks for none of its partitions, and there is more in them.

It has not left and was not thrown out. When all that it was given is committed, it should ask soon. When not, it may
still work: it is given more time, by the pace at which it used to commit, and each commit counts as a sign of life. One
that never commits is not judged; nor are readers without a group: one that has gone says no good-bye.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import pairwise

from chronik.trace.stalls.behind import told
from chronik.trace.stalls.history import EventHistory, TracedClient
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.members import MemberReading, Unasked, readings
from chronik.trace.stalls.words import clock, counted, seconds
from chronik.trace.verdicts import Cause, Verdict

PACE_COMMITS = 5  # so many make a pace
PACE_FACTOR = 10


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    for reading in readings(history, limits):
        if not reading.asked:
            stopped = _too_long(reading, limits)
            if stopped:
                yield _verdict(reading, stopped, history)


def _too_long(reading: MemberReading, limits: Limits) -> list[Unasked]:
    allowed_ms, alive_us = limits.unasked_ms, 0
    if not reading.is_done:
        if not reading.commits_us:
            return []  # it keeps its own offsets: whether it still works is not known
        allowed_ms, alive_us = _patience_ms(reading.commits_us, limits), reading.commits_us[-1]
    return [each for each in reading.unasked if each.until_us - max(each.since_us, alive_us) >= allowed_ms * 1000]


def _patience_ms(commits_us: list[int], limits: Limits) -> int:
    """One that committed every half second and stops is gone sooner than one that takes its time."""
    if len(commits_us) < PACE_COMMITS:
        return limits.unworked_ms
    longest_ms = max(later - earlier for earlier, later in pairwise(commits_us)) // 1000
    return min(max(PACE_FACTOR * longest_ms, limits.unasked_ms), limits.unworked_ms)


def _verdict(reading: MemberReading, stopped: list[Unasked], history: EventHistory) -> Verdict:
    member, worst = reading.member, min(stopped, key=lambda each: each.since_us)
    client = TracedClient(member.client_id, member.host)
    return Verdict(
        Cause.CONSUMER_STOPPED,
        f"{client}, in group {reading.group!r}, has asked for nothing since {clock(worst.since_us)} "
        f"({seconds(history.now_us - worst.since_us)}), and there is more in "
        f"{counted(len(stopped), 'partition')}",
        (
            *(line for unasked in stopped[:5] for line in told(unasked)),
            f"member {member.member_id} is still in the group, which is stable",
        ),
        "look at the application: it does not poll. It may hang in its own work, or have paused its partitions; after "
        "max.poll.interval.ms its client gives the partitions back",
        worst.since_us,
        *worst.partition,
        reading.group,
        client.client_id,
        client.host,
        worst.leader,
    )
