"""Telling the trace of a refusal, with the leader of the partition as this node knows it."""

from __future__ import annotations

from typing import Any

from chronik.api.context import Caller, RequestContext


def trace_refusal(
    context: RequestContext,
    api: str,
    caller: Caller,
    code: int,
    reason: str | None,
    topic: str | bytes | None = None,
    partition: int = -1,
) -> None:
    """A request, or one partition of it, got this code. A topic's id that no node knows is no topic."""
    observer = context.observation.observer
    if not observer.is_observing or not code:
        return
    image = context.metadata.image
    placed = None if topic is None else image.partition(topic, partition)
    if isinstance(topic, bytes):
        known = image.topic_by_id(topic)
        topic = None if known is None else known.name
    leader, leader_epoch = (-1, -1) if placed is None else (placed.leader, placed.leader_epoch)
    observer.refused(api, caller, code, reason, topic, partition, leader, leader_epoch)


def trace_refused_request(
    context: RequestContext, api: str, caller: Caller, code: int, reason: str | None, request: Any
) -> None:
    """A whole request was refused, whatever it is: said of each topic that it names, or once if it names none."""
    if not context.observation.observer.is_observing:
        return
    topics: list[str] | list[None] = _topics(request) or [None]
    for topic in topics:
        trace_refusal(context, api, caller, code, reason, topic)


def _topics(request: Any) -> list[str]:
    """Messages differ in what they call it, but their topics are `topics`: names, or things with a `name`."""
    named = getattr(request, "topics", None) or ()
    names = [topic if isinstance(topic, str) else getattr(topic, "name", None) for topic in named]
    return [name for name in names if isinstance(name, str) and name]
