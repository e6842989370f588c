"""The shape of every state machine in the house: decide reads, apply writes.

A machine is asked a command. It *decides*: from its state and the time it is given, it returns facts and
answers, and changes nothing. The host appends the durable facts to the machine's log as one batch (or as several, if
the decision allows it), *applies* all facts (the only thing that changes state), and lets the answers go when those
facts are safe. Replaying the log through `apply` gives the durable state again.

A fact that need not survive (a heartbeat, a join under way) is volatile: applied, never logged.
An answer is addressed by the ticket of the command it belongs to, because one command may answer others: the
last member to join answers all that were waiting.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Generic, NamedTuple, Protocol, TypeVar

from chronik.core.types import NO_PRODUCER_ID

AnswerT_co = TypeVar("AnswerT_co", covariant=True)
CommandT_contra = TypeVar("CommandT_contra", contravariant=True)
FactT = TypeVar("FactT", bound="Fact")


class Command(Generic[AnswerT_co]):
    """Something a machine can be asked. Its type says what the answer is: `ask(command: Command[A]) -> A`."""

    __slots__ = ()


class LogRecord(NamedTuple):
    """A durable fact in the bytes of its log: key and value. A null value takes the key's fact back."""

    key: bytes | None
    value: bytes | None
    producer_id: int = NO_PRODUCER_ID  # of the transaction that it is part of: true when a marker says so


class LogMarker(NamedTuple):
    """A producer's transaction ended at this place of the log."""

    producer_id: int
    is_commit: bool


class Fact(Protocol):
    """Something that has become true. `durable` facts go to the log; the others live as long as the machine."""

    @property
    def durable(self) -> bool: ...


class Reply(NamedTuple):
    """An answer (or a refusal) for the command that was given this ticket."""

    ticket: int
    answer: object  # as its command's type says; or a Refused


@dataclass(slots=True)
class Decision(Generic[FactT]):
    """What follows from a command: facts to apply, in order, and answers to let go once they are safe. Where
    `is_atomic` is False each fact stands for itself: if the log takes only the first of them, those are true."""

    facts: list[FactT] = field(default_factory=list)
    replies: list[Reply] = field(default_factory=list)
    is_atomic: bool = True


class Machine(Protocol[CommandT_contra, FactT]):
    """What a host needs of a machine: the union of its commands and that of its facts are its type."""

    def decide(self, ticket: int, command: CommandT_contra, now_ms: int, wall_ms: int) -> Decision[FactT]:
        """What follows from `command`. Changes nothing. Raises Refused when the answer is no.

        `now_ms` never jumps: timers are set in it. `wall_ms` may; it is for times that outlive the process.
        """

    def expire(self, now_ms: int, wall_ms: int) -> Decision[FactT]:
        """What follows from time having passed, or a part of it: the rest is due still. Changes nothing."""

    def next_deadline_ms(self) -> int | None:
        """When `expire` is next worth calling; None when nothing waits for time."""

    def apply(self, fact: FactT) -> None:
        """Make the fact true here. Must not fail for a fact that `decide` returned."""

    def encode(self, fact: FactT) -> LogRecord:
        """A durable fact as it stands in the log."""

    def replay(self, record: LogRecord) -> None:
        """Apply what `encode` wrote. Unknown keys are passed over: a newer version may have written them."""

    def decided(self, marker: LogMarker) -> list[FactT]:
        """What follows from a marker that is in its log now. Changes nothing. None of it is durable: the marker is."""
