"""What all nodes have traced and how things stand on them, look after look: the history that the stall rules read."""

from __future__ import annotations

from collections.abc import Sequence

from chronik.shell.asking import Address
from chronik.trace.events import AnyEvent
from chronik.trace.looks import StateLook

WINDOW_S = 120.0
EVENTS_MAX = 200_000


class Gathering:
    """Keeps a window of events of all nodes, in the order of their times."""

    def __init__(
        self,
        addresses: Sequence[Address],
        topics: Sequence[str] | None = None,
        window_s: float = WINDOW_S,
        events_max: int = EVENTS_MAX,
    ) -> None:
        self.addresses = addresses
        self.topics = topics
        self.silent: dict[int, str] = {}
        """Nodes that did not answer the last look, with the reason."""
        self.states: dict[int, StateLook] = {}
        """What each node answered to the last look: `chronik watch` shows it, and need not ask a second time."""
        self.untraced: list[str] = []
        """Topics of which no client's doings are known, as of the last look: they are not traced."""

    def look(self, timeout_s: float = 5.0) -> tuple[list[AnyEvent], int]:
        """One look at every node: the window as it now is, and the time, both fit for `find`. Raises NoAnswer."""
        raise NotImplementedError
