"""Who holds which partition in the groups of KIP-848: no two members one partition at one time.

A member holds a partition from the answer that assigns it until it lets go of it, which is before it says so to its
coordinator. The coordinator may give it to another when it has heard that, or has ended the member's session. Of the
latter the member may not know yet: that is no broken promise, as long as nothing it commits then counts.

One more case is no fault. A heartbeat that was given up may arrive late, and says what its member held when it
was sent. For the coordinator that is as good as letting go of whatever came later, while the epoch is the same.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

from chronik.core.types import TopicPartition
from chronik.sim.story import WorldStory

NEVER = -1


class Claim(NamedTuple):
    """What a heartbeat said its member holds."""

    epoch: int
    names: frozenset[TopicPartition]


class Grant(NamedTuple):
    """The newest that is known of who got a partition. Epochs order them: a partition passes on only with a new
    target, and is given only at the epoch of that."""

    epoch: int
    member_id: str


@dataclass(slots=True)
class Session:
    """One member, as far as it knows itself, and when its coordinator ended it."""

    epoch: int = 0
    held: dict[TopicPartition, int] = field(default_factory=dict)  # with the epoch at which it was given
    heard_ms: int = NEVER  # when the last request that was answered had been sent
    ended_ms: int = NEVER
    given_up: list[Claim] = field(default_factory=list)  # that may arrive yet, and count

    @property
    def is_alive(self) -> bool:
        """Whether its coordinator still counts on it, as far as is known."""
        return self.heard_ms > self.ended_ms

    def may_have_let_go(self, name: TopicPartition) -> bool:
        """Whether the coordinator may have heard so by a heartbeat that came late."""
        return any(name not in claim.names for claim in self.given_up)


class Holders:
    """Members report what they hear and do, and the checker of coordinators which sessions have ended."""

    def __init__(self, story: WorldStory) -> None:
        self._story = story
        self._sessions: dict[str, dict[str, Session]] = {}  # by group and member id
        self._grants: dict[tuple[str, TopicPartition], Grant] = {}

    def session(self, group: str, member_id: str) -> Session:
        return self._sessions.setdefault(group, {}).setdefault(member_id, Session())

    def answered(self, group: str, member_id: str, epoch: int, sent_ms: int) -> None:
        """A heartbeat that was sent then had an answer with this epoch. Raises Violation."""
        session = self.session(group, member_id)
        if epoch < session.epoch or epoch <= 0:
            raise self._story.break_promise(f"{member_id} of {group} was at epoch {session.epoch}, now at {epoch}")
        if epoch > session.epoch:  # one that is a step behind is listened to, none that is further
            session.given_up = [claim for claim in session.given_up if claim.epoch >= session.epoch]
        session.epoch, session.heard_ms = epoch, sent_ms

    def gained(self, group: str, member_id: str, names: Iterable[TopicPartition]) -> None:
        """The answer has partitions that are new to this member. Raises Violation."""
        session = self.session(group, member_id)
        for name in names:
            session.held[name] = session.epoch
            newest = self._grants.get((group, name))
            if newest is None or newest.epoch <= session.epoch:
                self._grants[group, name] = Grant(session.epoch, member_id)
            if session.is_alive:  # or the answer was late, and others have it by right
                self._check_alone(group, member_id, name)

    def _check_alone(self, group: str, member_id: str, name: TopicPartition) -> None:
        for other_id, other in self._sessions[group].items():
            if other_id != member_id and name in other.held and other.is_alive and not other.may_have_let_go(name):
                raise self._story.break_promise(
                    f"{name} belongs to {other_id} since epoch {other.held[name]} of {group},"
                    f" and to {member_id} at epoch {self.session(group, member_id).epoch}"
                )

    def let_go(self, group: str, member_id: str, names: Iterable[TopicPartition]) -> None:
        """It does not use them any more. Its coordinator is yet to hear of it."""
        held = self.session(group, member_id).held
        for name in names:
            held.pop(name, None)

    def dropped_all(self, group: str, member_id: str) -> None:
        """It holds nothing: it is about to join again, or gone."""
        self.session(group, member_id).held.clear()

    def gave_up(self, group: str, member_id: str, epoch: int, names: Iterable[TopicPartition]) -> None:
        """A heartbeat that named these had no answer."""
        self.session(group, member_id).given_up.append(Claim(epoch, frozenset(names)))

    def ended(self, group: str, member_id: str, now_ms: int) -> None:
        """A coordinator does not count on this member any more. Should that never become safe, the member's next
        heartbeat is answered as if nothing had happened, and it is alive again."""
        self.session(group, member_id).ended_ms = now_ms

    def is_overtaken(self, group: str, member_id: str, name: TopicPartition) -> bool:
        """Whether the partition was assigned to another member after this one."""
        newest = self._grants.get((group, name))
        mine = self.session(group, member_id).held.get(name, 0)
        return newest is not None and newest.member_id != member_id and newest.epoch > mine

    def are_all_held(self, group: str, names: Iterable[TopicPartition]) -> bool:
        """Whether each of them is held by a member that the coordinator counts on."""
        held = {name for session in self._sessions.get(group, {}).values() if session.is_alive for name in session.held}
        return held.issuperset(names)
