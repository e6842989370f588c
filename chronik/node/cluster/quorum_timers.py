"""When this node's Raft machine is next to be called, and when it may fetch again."""

from __future__ import annotations

from collections.abc import Callable

from chronik.node.replication.purgatory import Purgatory
from chronik.node.runtime.deadlines import Deadline
from chronik.node.runtime.steady_time import SteadyTime


class QuorumTimer:
    """One deadline, moved as the machine says. After a disk that refused it is held off for a moment."""

    def __init__(self, purgatory: Purgatory, time: SteadyTime, tick: Callable[[], None]) -> None:
        self._purgatory = purgatory
        self._time = time
        self._tick = tick
        self._deadline: Deadline | None = None
        self._not_before_ms = 0
        self.due_ms: int | None = None

    def set(self, due_ms: int | None) -> None:
        """None: there is nothing to be done by itself."""
        if due_ms is not None:
            due_ms = max(due_ms, self._not_before_ms)
        if due_ms == self.due_ms:
            return
        self.cancel()
        self.due_ms = due_ms
        if due_ms is not None:
            self._deadline = self._purgatory.after_ms(due_ms - self._time.now_ms(), self._due)

    def hold_off(self, pause_ms: int) -> None:
        self._not_before_ms = self._time.now_ms() + pause_ms

    def cancel(self) -> None:
        if self._deadline is not None:
            self._purgatory.cancel(self._deadline)
        self._deadline = self.due_ms = None

    def _due(self) -> None:
        self._deadline = self.due_ms = None
        self._tick()


class FetchTurn:
    """One fetch of the metadata log at a time; after one that came to nothing, none for a moment."""

    def __init__(self, purgatory: Purgatory, resume: Callable[[], None]) -> None:
        self._purgatory = purgatory
        self._resume = resume
        self._token: object | None = None  # of the fetch under way
        self._source: tuple[int | None, int] = (None, -1)  # the leader and epoch it was sent to
        self._pause: Deadline | None = None

    @property
    def is_paused(self) -> bool:
        return self._pause is not None

    def is_under_way(self, source: tuple[int | None, int]) -> bool:
        return self._token is not None and self._source == source

    def begin(self, source: tuple[int | None, int]) -> object:
        """A token by which its answer is known. What was asked of another leader does not count any more."""
        self._token, self._source = object(), source
        return self._token

    def end(self, token: object) -> bool:
        """False when it is not the fetch under way."""
        if token is not self._token:
            return False
        self._token = None
        return True

    def pause(self, pause_ms: int) -> None:
        if self._pause is None:
            self._pause = self._purgatory.after_ms(pause_ms, self._pause_over)

    def _pause_over(self) -> None:
        self._pause = None
        self._resume()

    def cancel(self) -> None:
        if self._pause is not None:
            self._purgatory.cancel(self._pause)
            self._pause = None
