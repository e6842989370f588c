"""Transaction hangs: it is open and its producer is silent, or it is decided and a marker does not get to a partition.

Readers of what is committed wait for it: nothing above its first record is given to them. There are three kinds.
Decided, and a partition has no marker for 5 s: the coordinator says which, and why. Open for longer than its own
timeout: the coordinator should have aborted it. Open, its producer has written nothing for 10 s, and a reader waits for
it. One that no reader waits for, or that is written to, is as it should be. What its producer wrote is known only where
all partitions of the transaction are traced: else nothing is said.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from chronik.trace.events import FetchDropped, OpenTransactionSeen, PartitionSeen, TransactionSeen
from chronik.trace.stalls.history import EventHistory, PartitionPast, TracedClient
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.words import clock, counted, listed, seconds
from chronik.trace.verdicts import Cause, Verdict

ONGOING = "Ongoing"
NAMED_MAX = 5
UNTOLD_MS = 2_500  # its coordinator reports it once a second: if it reported only others since, it is over


class Held(NamedTuple):
    """A partition whose last stable offset a transaction holds back."""

    past: PartitionPast
    seen: PartitionSeen
    transaction: OpenTransactionSeen

    @property
    def hidden(self) -> int:
        return self.seen.watermark - self.seen.last_stable_offset


class Reader(NamedTuple):
    """A client that waits at the last stable offset, and is known to since then."""

    client: TracedClient
    since_us: int


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    held = _held(history, limits)
    for seen in _unfinished(history, limits):
        own = [one for one in held if one.transaction.producer_id == seen.producer_id]
        if seen.state != ONGOING:
            if seen.missing and seen.state_ms >= limits.stand_still_ms:
                yield _undelivered(seen, own)
        elif seen.open_ms >= seen.timeout_ms + limits.stand_still_ms:
            yield _overdue(seen, own)
        else:
            silent = _silent_since_us(seen, own, history)
            readers = _readers(own, history, limits)
            if silent is not None and readers and seen.at_us - silent >= limits.transaction_idle_ms * 1000:
                yield _abandoned(seen, own, silent, readers)


# --- what is known


def _unfinished(history: EventHistory, limits: Limits) -> Iterator[TransactionSeen]:
    for name, sights in history.transactions.items():
        seen = sights[-1]
        is_told_of = history.heard_us[seen.node] - seen.at_us <= UNTOLD_MS * 1000
        is_over = history.completed_us.get(name, -1) >= seen.at_us
        if history.is_within(seen.at_us, limits.fresh_ms) and is_told_of and not is_over:
            yield seen


def _held(history: EventHistory, limits: Limits) -> list[Held]:
    return [
        Held(past, seen, seen.open_transactions[0])
        for past, seen in history.sights(limits.fresh_ms)
        if seen.open_transactions and seen.last_stable_offset < seen.watermark
    ]


def _silent_since_us(seen: TransactionSeen, held: list[Held], history: EventHistory) -> int | None:
    """Since when its producer has neither written nor added a partition; None where that is not known."""
    since_us = seen.at_us - seen.state_ms * 1000
    for topic, partition in seen.partitions:
        if topic.startswith("__"):
            continue  # offsets of a group: they are brought at the end
        past = history.partitions.get((topic, partition))
        known_us = None if past is None else history.known_since_us(past)
        if known_us is None:
            return None
        since_us = max(since_us, known_us)
    for one in held:
        for sight in reversed(one.past.seen):
            if one.transaction not in sight.open_transactions:
                since_us = max(since_us, sight.at_us)
                break
    return max(since_us, history.produced_us.get(seen.producer_id, 0))


def _readers(held: list[Held], history: EventHistory, limits: Limits) -> list[Reader]:
    """Clients that read only what is committed, and wait where it holds them."""
    readers: dict[TracedClient, int] = {}
    for one in held:
        place = (one.past.topic, one.past.partition)
        for (client, partition), fetches in history.fetches.items():
            if partition != place or not history.is_within(fetches[-1].at_us, limits.fresh_ms):
                continue
            for fetch in reversed(fetches):
                if isinstance(fetch, FetchDropped):
                    continue
                if not fetch.is_committed_only or fetch.offset < one.seen.last_stable_offset:
                    break
                readers[client] = min(readers.get(client, fetch.at_us), fetch.at_us)
    return [Reader(client, since_us) for client, since_us in sorted(readers.items())]


# --- what is said of it


def _undelivered(seen: TransactionSeen, held: list[Held]) -> Verdict:
    first = seen.missing[0]
    end = "committed" if "Commit" in seen.state else "aborted"
    decided_us = seen.at_us - seen.state_ms * 1000
    place = f"{first.topic}:{first.partition}"
    if first.leader < 0:
        advice = f"no node leads {place}: start one that has a copy of it (`chronik topic describe {first.topic}`)"
    else:
        advice = (
            f"see whether node {first.leader} runs, and whether node {seen.node}, which coordinates the transaction, "
            "reaches it. The marker is sent again and again: nothing is lost, and nothing has to be aborted"
        )
    return _verdict(
        seen,
        f"{place} does not hear that transaction {seen.transactional_id!r} was {end} at {clock(decided_us)} "
        f"({seconds(seen.state_ms * 1000)}): {first.reason or 'its leader has not answered yet'}",
        (
            f"at {clock(seen.at_us)} its coordinator, node {seen.node}, has it as {seen.state}, since "
            f"{clock(decided_us)}",
            *(
                f"{one.topic}:{one.partition}, led by {f'node {one.leader}' if one.leader >= 0 else 'no node'}, has no "
                f"marker: {one.reason or 'the answer is still to come'}"
                for one in seen.missing[:NAMED_MAX]
            ),
            *_held_back(held),
        ),
        advice,
        decided_us,
        (first.topic, first.partition),
        first.leader,
    )


def _overdue(seen: TransactionSeen, held: list[Held]) -> Verdict:
    return _verdict(
        seen,
        f"transaction {seen.transactional_id!r} is open for {seconds(seen.open_ms * 1000)}, and should have been "
        f"aborted after {seconds(seen.timeout_ms * 1000)}: its coordinator, node {seen.node}, does not do it",
        (*_told(seen), *_held_back(held)),
        f"`chronik transaction abort {seen.transactional_id}`; if that fails, restart node {seen.node}, and report it",
        seen.at_us - seen.open_ms * 1000,
        _place(seen, held),
        seen.node,
    )


def _abandoned(seen: TransactionSeen, held: list[Held], silent_us: int, readers: list[Reader]) -> Verdict:
    first = held[0]
    left_ms = max(seen.timeout_ms - seen.open_ms, 0)
    waiting = listed(f"{reader.client} since {clock(reader.since_us)} at the latest" for reader in readers[:NAMED_MAX])
    return _verdict(
        seen,
        f"{first.past.name} holds back {counted(first.hidden, 'offset')} from {first.seen.last_stable_offset:,} on "
        f"from readers of what is committed: transaction {seen.transactional_id!r} is open, and its producer "
        f"{seen.producer_id}.{seen.producer_epoch} has written nothing since {clock(silent_us)} "
        f"({seconds(seen.at_us - silent_us)})",
        (*_told(seen), *_held_back(held), f"it is waited for by {waiting}"),
        f"see whether its producer still runs. If not, `chronik transaction abort {seen.transactional_id}`; its "
        f"coordinator aborts it by itself in {seconds(left_ms * 1000)}, when transaction.timeout.ms is over",
        silent_us,
        (first.past.topic, first.past.partition),
        first.seen.node,
    )


def _told(seen: TransactionSeen) -> Iterator[str]:
    yield (
        f"at {clock(seen.at_us)} its coordinator, node {seen.node}, has it as {seen.state}, of producer "
        f"{seen.producer_id}.{seen.producer_epoch}, since {clock(seen.at_us - seen.open_ms * 1000)}; its timeout is "
        f"{seconds(seen.timeout_ms * 1000)}, and {counted(len(seen.partitions), 'partition')} are part of it"
    )


def _held_back(held: list[Held]) -> Iterator[str]:
    for one in held[:NAMED_MAX]:
        yield (
            f"{one.past.name}, led by node {one.seen.node}: the last stable offset is "
            f"{one.seen.last_stable_offset:,}, the watermark {one.seen.watermark:,}; its records there are "
            f"{one.transaction.first_offset:,} to {one.transaction.last_offset:,}"
        )
    if len(held) > NAMED_MAX:
        yield f"so it is with {counted(len(held) - NAMED_MAX, 'more partition')}"


def _place(seen: TransactionSeen, held: list[Held]) -> tuple[str | None, int]:
    if held:
        return held[0].past.topic, held[0].past.partition
    return seen.partitions[0] if seen.partitions else (None, -1)


def _verdict(
    seen: TransactionSeen,
    summary: str,
    evidence: tuple[str, ...],
    advice: str,
    since_us: int,
    place: tuple[str | None, int],
    node: int,
) -> Verdict:
    return Verdict(
        Cause.TRANSACTION_HANGS,
        summary,
        evidence,
        advice,
        since_us,
        *place,
        node=node,
        transactional_id=seen.transactional_id,
        producer_id=seen.producer_id,
    )
