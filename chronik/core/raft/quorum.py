"""Who may vote, and what a majority of them is. Voters change one at a time, so any two majorities share a voter."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import NamedTuple

NOT_IN_THE_LOG = -1


@dataclass(frozen=True, slots=True)
class Voters:
    """The voters by id, in order."""

    ids: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ids or list(self.ids) != sorted(frozenset(self.ids)):
            raise ValueError(f"voters {self.ids}: each once, in order, and at least one")

    @property
    def majority(self) -> int:
        return len(self.ids) // 2 + 1

    def __contains__(self, node_id: int) -> bool:
        return node_id in self.ids

    def others(self, node_id: int) -> tuple[int, ...]:
        return tuple(voter for voter in self.ids if voter != node_id)

    def with_voter(self, node_id: int) -> Voters:
        return Voters(tuple(sorted((*self.ids, node_id))))

    def without_voter(self, node_id: int) -> Voters:
        return Voters(self.others(node_id))

    def reached_by_majority(self, values: Mapping[int, int]) -> int:
        """The largest value that a majority of the voters has reached; who is missing has reached -1."""
        reached = sorted((values.get(voter, -1) for voter in self.ids), reverse=True)
        return reached[self.majority - 1]

    def outcome(self, granted: Mapping[int, bool]) -> bool | None:
        """Whether these votes decide it: elected, not any more to be elected, or open (None)."""
        if sum(granted.get(voter, False) for voter in self.ids) >= self.majority:
            return True
        refused = sum(not granted.get(voter, True) for voter in self.ids)
        return False if len(self.ids) - refused < self.majority else None


class VotersAt(NamedTuple):
    """The voters in force, the offset of the record that made them so (-1: the configuration did), and those before."""

    offset: int
    voters: Voters
    before: Voters | None = None


class VoterHistory:
    """The voters records of a log, as the keeper of the log finds them.

    The last one counts, whether it is safe or not (KIP-853). One that is cut off the log was never in force.
    """

    def __init__(self, configured: Voters) -> None:
        self._configured = VotersAt(NOT_IN_THE_LOG, configured)
        self._entries = [self._configured]

    @property
    def latest(self) -> VotersAt:
        return self._entries[-1]

    def add(self, offset: int, voters: Voters) -> None:
        """The record at `offset` says so."""
        if offset <= self.latest.offset:
            raise ValueError(f"voters at {offset}, after those at {self.latest.offset}")
        self._entries.append(VotersAt(offset, voters, self.latest.voters))

    def truncate(self, end_offset: int) -> None:
        """The log was cut here."""
        while self.latest.offset >= end_offset:
            self._entries.pop()

    def restart(self, end_offset: int, voters: Voters | None) -> None:
        """A snapshot that ends here took the place of all that was; None: up to there the configured ones held."""
        self._entries = [self._configured if voters is None else VotersAt(end_offset - 1, voters)]
