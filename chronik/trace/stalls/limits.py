"""How long something may take before it is called a stall. Every figure is a promise not to cry wolf below it."""

from __future__ import annotations

from dataclasses import dataclass

# How far back, and how much of it (window.py), those look who ask the rules again and again: live or in a stored trace.
WINDOW_MS = 120_000
EVENTS_MAX = 200_000


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """In milliseconds, and how often. The defaults fit clients with Kafka's default settings."""

    stand_still_ms: int = 5_000
    """A watermark that does not move although there is more; a fetch with data there that is not answered; a partition
    that is asked for and given nothing; a client that is refused and never served."""
    fresh_ms: int = 5_000
    """How old the last sight of a partition, a group or a client may be to say anything of now."""
    hang_ms: int = 5_000
    """How far past its own max_wait_ms a fetch may wait."""
    empty_answers: int = 3
    """How many empty answers in a row, although there is something to give, are no accident."""
    refusals: int = 3
    """How many refusals in a row, with nothing accepted in between, are no accident."""
    hang_up_grace_ms: int = 1_000
    """How far past max_wait_ms a client should wait for an answer before it hangs up."""
    unasked_ms: int = 20_000
    """How long a consumer that has worked off what it was given may go without asking for more. Also the least for one
    that may have records left to work off, but used to commit at least ten times as often."""
    unworked_ms: int = 60_000
    """How long one that may have records left to work off may go without asking and without a commit. Also how long one
    that is behind in all its partitions may leave one of them out."""
    rebalance_ms: int = 10_000
    """How long a group may be anything but stable."""
    rebalances: int = 5
    """How many new generations of a group within `churn_ms`, over at least a third of it, are too many."""
    churn_ms: int = 60_000
    repeats: int = 3
    """How often a client may hang up, expire or ask for the same again before that is more than an accident."""
    reconnect_ms: int = 5_000
    """A client that comes back within this time has not gone, it has hung up."""
    min_bytes_ms: int = 10_000
    """How long a client may let records wait because they are fewer bytes than it asked for."""

    transaction_idle_ms: int = 10_000
    """How long a producer may write nothing to its open transaction while a reader waits for it."""

    @property
    def longest_ms(self) -> int:
        """What clients did for so long shows any stall of theirs."""
        return max(self.stand_still_ms, self.hang_ms, self.unasked_ms, self.unworked_ms, self.churn_ms)
