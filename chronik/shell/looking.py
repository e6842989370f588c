"""Looks at nodes: what each of them sees, asked over the Kafka port with a request of our own (decision 0017).

Any one address is enough: the node there passes a look on to the others. So it works where all nodes have one single
address, and where only one of them can be reached. Like `asking`, it blocks: for programs around a node.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

from chronik.shell.asking import Address, NoAnswer
from chronik.trace.looks import ClusterLook, EventsLook, StateLook

TIMEOUT_S = 5.0

T = TypeVar("T")


class NotChronik(NoAnswer):
    """There is some other Kafka there, or a chronik that does not know looks yet."""


class LookRefused(NoAnswer):
    """The node says why it cannot answer: an unknown view, a bad argument, a node it cannot reach."""


class Looks(dict[int, T]):
    """Answers by node, in the order of their ids. `silent` names the others of the cluster, each with the reason."""

    def __init__(self, answers: Mapping[int, T], silent: Mapping[int, str]) -> None:
        super().__init__(answers)
        self.silent = dict(silent)


def look(address: Address, view: str, timeout_s: float = TIMEOUT_S, **arguments: Any) -> dict[str, Any]:
    """What the node at this address answers; with `node=N`, what node N answers, by way of this one. Raises NoAnswer,
    NotChronik, LookRefused."""
    raise NotImplementedError


def look_everywhere(
    addresses: Sequence[Address], view: str, timeout_s: float = TIMEOUT_S, **arguments: Any
) -> Looks[dict[str, Any]]:
    """What every node answers that can be reached at or by way of one of these. Raises NoAnswer when none of them
    answers at all, NotChronik when what is there is no chronik."""
    raise NotImplementedError


def cluster(addresses: Sequence[Address], timeout_s: float = TIMEOUT_S) -> ClusterLook:
    """Who is there, as the first of these knows that answers. Raises as `look_everywhere`."""
    raise NotImplementedError


def states(
    addresses: Sequence[Address], timeout_s: float = TIMEOUT_S, topics: Sequence[str] | None = None
) -> Looks[StateLook]:
    """How things stand on every node; of these topics only, if any are given. Raises as `look_everywhere`."""
    raise NotImplementedError


def events(
    addresses: Sequence[Address],
    timeout_s: float = TIMEOUT_S,
    topics: Sequence[str] | None = None,
    cursors: Mapping[int, int] | None = None,
) -> Looks[EventsLook]:
    """What every node has traced since its own cursor (of the look before). Raises as `look_everywhere`."""
    raise NotImplementedError
