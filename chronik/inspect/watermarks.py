"""The watermark monitor of a topic: what the leaders know of their partitions, where they are chronik's.

Any other Kafka does not tell, and then there is nothing here: the commands show what Kafka's own requests say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from chronik.client.request import Address

if TYPE_CHECKING:
    from chronik.trace.events import FollowerSeen, PartitionSeen

LOOK_TIMEOUT_S = 3.0
UNKNOWN = -1


@dataclass(frozen=True)
class Monitor:
    """What the leaders say, by partition; and which nodes did not answer, with the reason."""

    partitions: dict[int, PartitionSeen]
    silent: dict[int, str]
    unsure: tuple[int, ...] = ()
    """Partitions of which a node says that it leads, and may have been cut off since: nothing of it is shown."""


def monitor(addresses: Sequence[Address], topic: str) -> Monitor | None:
    """None where it is not known: it is no chronik, or it does not answer looks."""
    from chronik.client.inspect_request import states
    from chronik.client.request import NoAnswer
    from chronik.trace.leading import newest_leaders, sure_leaders

    try:
        found = states(addresses, LOOK_TIMEOUT_S, [topic], is_sure=True)
    except NoAnswer:
        return None
    partitions = {seen.partition: seen for seen in sure_leaders(found, found.silent).values()}
    unsure = sorted(
        seen.partition for place, seen in newest_leaders(found.values()).items() if place[1] not in partitions
    )
    return Monitor(partitions, found.silent, tuple(unsure))


def offsets_row(seen: PartitionSeen | None) -> dict[str, Any]:
    """A partition's offsets under the names that `--json` has; None where its leader did not tell."""
    return {
        "log_start_offset": None if seen is None else seen.log_start,
        "last_stable_offset": None if seen is None else seen.last_stable_offset,
        "high_watermark": None if seen is None else seen.watermark,
        "next_offset": None if seen is None else seen.next_offset,
        "gap": None if seen is None else seen.next_offset - seen.watermark,
        "followers": [] if seen is None else [_follower_row(follower) for follower in seen.followers],
    }


def _follower_row(follower: FollowerSeen) -> dict[str, Any]:
    return {
        "node": follower.node,
        "in_sync": follower.is_in_sync,
        "safe_offset": _known(follower.durable_end_offset),
        "lag_records": follower.lag_records,
        "lag_ms": _known(follower.lag_ms),
    }


def _known(number: int) -> int | None:
    return None if number == UNKNOWN else number
