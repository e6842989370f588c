"""Which topics there surely are (of groups: current_groups). A node that was cut off does not know of those that came
since: that it does not name one says nothing, unless a majority of the voters was in touch with the cluster's
controller meanwhile.

At another Kafka that cannot be known, and what a node answers has to do.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.client import suggest
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import CANNOT_LOOK, inspect_everywhere
from chronik.client.request import Address, NoAnswer
from chronik.client.security import Security
from chronik.trace.inspections import TOPICS, TopicsView

TIMEOUT_S = 4.0  # a node takes a moment to make sure


class Unsure(ChronikError):
    """Whether there is such a topic or group is not known, or the node that was asked did not know of it."""


def current_topics(addresses: Sequence[Address], security: Security | None = None) -> TopicsView:
    """What a node says that is in touch with the others. Raises NoAnswer where none is, NotChronik."""
    seen = inspect_everywhere(TopicsView, addresses, TOPICS, TIMEOUT_S, lambda node_id: {}, security)
    for view in seen.values():
        if view.is_current:
            return view
    raise NoAnswer("no node answers that is in touch with a majority of the cluster")


def partitions_now(addresses: Sequence[Address], topic: str, security: Security | None = None) -> int | None:
    """How many partitions the topic surely has now, 0 where there is no such topic; None at another Kafka, which does
    not tell. Raises Unsure."""
    try:
        return current_topics(addresses, security).partitions.get(topic, 0)
    except CANNOT_LOOK:
        return None
    except NoAnswer as problem:
        raise Unsure(
            f"whether there is a topic {topic} is not known: the node that was asked does not know it, and {problem}",
            "check that the nodes are up and reach each other",
        ) from None


def unknown_topic(addresses: Sequence[Address], topic: str, names: Sequence[str], otherwise: str) -> ChronikError:
    """The error for a topic that a node does not know: it is not there, or that is not sure."""
    try:
        count = partitions_now(addresses, topic)
    except Unsure as unsure:
        return unsure
    if count:
        return behind(f"topic {topic}")
    return suggest.unknown("topic", topic, names, otherwise)


def behind(what: str) -> Unsure:
    return Unsure(
        f"{what} is there, but not known to the node that was asked, which is behind the others",
        "ask again, or give another node with --bootstrap",
    )
