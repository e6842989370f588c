"""Lists of throttled replicas: `PARTITION:BROKER,...`, `*` for all of a topic, empty for none."""

from __future__ import annotations

import re
from collections.abc import Sequence

from chronik.core.config.definitions import Allowed

ALL_REPLICAS = None
_EVERY = ("*",)
_REPLICA = re.compile(r"[0-9]{1,10}:[0-9]{1,10}")

THROTTLED_REPLICAS = Allowed(
    lambda listed: listed == _EVERY or all(_REPLICA.fullmatch(replica) for replica in listed),
    "the literal '*' or a list of replicas as [partitionId]:[brokerId],[partitionId]:[brokerId],...",
)


def partitions_of(listed: Sequence[str], node_id: int) -> frozenset[int] | None:
    """The partitions whose replica on this node is in the list; ALL_REPLICAS for any."""
    if tuple(listed) == _EVERY:
        return ALL_REPLICAS
    pairs = (replica.split(":") for replica in listed)
    return frozenset(int(partition) for partition, broker in pairs if int(broker) == node_id)
