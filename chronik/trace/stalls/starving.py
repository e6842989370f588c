"""Partitions that a client asks for, and is given nothing of, although there is something."""

from __future__ import annotations

from collections.abc import Iterator

from chronik.trace.events import FetchAnswered, FetchWaits
from chronik.trace.stalls.history import EventHistory, Fetch, Partition, TracedClient, bound
from chronik.trace.stalls.limits import Limits


def starving(history: EventHistory, limits: Limits) -> Iterator[tuple[TracedClient, Partition, list[FetchAnswered]]]:
    """With the empty answers in a row, up to the last. One or two of them are nothing: others had their turn."""
    for (client, partition), fetches in history.fetches.items():
        run = _empty_run(fetches)
        if (
            len(run) >= limits.empty_answers
            and run[-1].at_us - run[0].at_us >= limits.stand_still_ms * 1000
            and history.is_within(run[-1].at_us, limits.fresh_ms)
        ):
            yield client, partition, run


def _empty_run(fetches: list[Fetch]) -> list[FetchAnswered]:
    run: list[FetchAnswered] = []
    for fetch in reversed(fetches):
        if not isinstance(fetch, FetchAnswered):
            continue
        is_empty = fetch.to_offset <= fetch.offset < bound(fetch)
        if not is_empty or (run and fetch.offset != run[-1].offset):
            break
        run.append(fetch)
    run.reverse()
    return run


def is_served_elsewhere(
    history: EventHistory, client: TracedClient, partition: Partition, run: list[FetchAnswered]
) -> bool:
    """Whether the client had its due of another partition of the same topic meanwhile: records, or their end."""
    topic, number = partition
    from_us = run[0].at_us
    return any(
        _is_served(fetch)
        for (who, (other_topic, other)), fetches in history.fetches.items()
        if who == client and other_topic == topic and other != number
        for fetch in fetches
        if fetch.at_us >= from_us
    )


def _is_served(fetch: Fetch) -> bool:
    if isinstance(fetch, FetchAnswered):
        return fetch.to_offset > fetch.offset or fetch.offset >= bound(fetch)
    return isinstance(fetch, FetchWaits) and fetch.offset >= bound(fetch)
