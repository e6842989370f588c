"""All rules over one history, and which of their verdicts remain: what another verdict explains is not told twice."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from chronik.trace.events import AnyEvent
from chronik.trace.stalls.limits import Limits
from chronik.trace.verdicts import Verdict

DEFAULT_LIMITS = Limits()


def find(
    events: Sequence[AnyEvent],
    now_us: int,
    limits: Limits = DEFAULT_LIMITS,
    expected: Mapping[str, int] | None = None,
) -> list[Verdict]:
    """What stalls at `now_us`, worst first; nothing where nothing does.

    `events` are those of all nodes, sorted by `at_us`, with a PartitionSeen of each partition and a GroupSeen of each
    group every second or so: what came before the first of them is not known, and nothing follows from its absence.
    `expected` is for callers who know what producers have sent: for a topic, where the sum of its partitions' next
    offsets should be. Without it nothing is called 'never produced': a topic may well be idle.
    """
    return []
