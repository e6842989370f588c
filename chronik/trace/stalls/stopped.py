"""Consumer stopped asking: a member of a stable group asks for none of its partitions, and there is more in them.

It has not left and was not thrown out. Readers without a group are not judged: one that has gone says no good-bye.
"""

from __future__ import annotations

from collections.abc import Iterator

from chronik.trace.stalls.behind import told
from chronik.trace.stalls.history import Client, History
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.members import Reading, readings
from chronik.trace.stalls.words import clock, counted, seconds
from chronik.trace.verdicts import Cause, Verdict


def find(history: History, limits: Limits) -> Iterator[Verdict]:
    for reading in readings(history, limits):
        if reading.unasked and not reading.asked:
            yield _verdict(reading, history)


def _verdict(reading: Reading, history: History) -> Verdict:
    member, worst = reading.member, min(reading.unasked, key=lambda each: each.since_us)
    client = Client(member.client_id, member.host)
    return Verdict(
        Cause.CONSUMER_STOPPED,
        f"{client}, in group {reading.group!r}, has asked for nothing since {clock(worst.since_us)} "
        f"({seconds(history.now_us - worst.since_us)}), and there is more in "
        f"{counted(len(reading.unasked), 'partition')}",
        (
            *(line for unasked in reading.unasked[:5] for line in told(unasked)),
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
