"""Where `chronik watch` gets its snapshots from: looks at all nodes, and the stall rules over what they tell."""

from __future__ import annotations

import time
from collections.abc import Sequence

from msgspec.structs import replace

from chronik.cli.watch_model import Snapshot
from chronik.shell import looking
from chronik.shell.asking import Address, NoAnswer
from chronik.trace.events import GroupSeen
from chronik.trace.looks import CLUSTER, ClusterLook, StateLook

# A node that hangs must not hide the others for long.
LOOK_TIMEOUT_S = 2.0


class Looker:
    """Asks the nodes that were named and all that they name: watching goes on when the one that was named dies."""

    def __init__(self, addresses: Sequence[Address], topics: Sequence[str] = ()) -> None:
        self._addresses = list(addresses)
        self._topics = list(topics) or None

    def __call__(self) -> Snapshot:
        """Raises NoAnswer, NotChronik."""
        self._find_nodes()
        states = looking.states(self._addresses, LOOK_TIMEOUT_S, self._topics)
        kept = {node: self._of_topics(state) for node, state in states.items()}
        return Snapshot(time.monotonic(), kept, states.silent)

    def _find_nodes(self) -> None:
        """Puts the address that answers first, so that nobody waits for one that does not again and again."""
        problem = NoAnswer("there is no address to look at")
        for address in self._addresses:
            try:
                found = looking.look_as(ClusterLook, address, CLUSTER, LOOK_TIMEOUT_S)
            except NoAnswer as met:
                problem = met
                continue
            others = [(node.host, node.port) for node in found.nodes]
            self._addresses = list(dict.fromkeys([address, *self._addresses, *others]))
            return
        raise problem

    def _of_topics(self, state: StateLook) -> StateLook:
        """Nodes tell of all their groups."""
        if self._topics is None:
            return state
        return replace(state, groups=tuple(group for group in state.groups if self._is_about_topics(group)))

    def _is_about_topics(self, group: GroupSeen) -> bool:
        topics = {each.topic for each in group.offsets}
        topics.update(topic for member in group.members for topic, _ in member.assigned)
        return not topics.isdisjoint(self._topics or ())
