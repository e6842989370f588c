"""Switching the trace on and off: a setting of the cluster or of a topic, and waiting until every node goes by it."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TypeAlias

from chronik.client.admin import ClusterAdmin
from chronik.client.connecting import no_answer, not_let_in
from chronik.client.errors import ChronikError, RefusedByNode
from chronik.client.inspect_request import Inspections, InspectRefused, NotChronik, inspect_everywhere
from chronik.client.request import Address, NoAnswer, NotLetIn, ask
from chronik.core.errors import Code
from chronik.trace.inspections import CLUSTER, ClusterStateView, Traces

SETTING = "chronik.trace"
TOPIC, BROKER = 2, 4  # kinds of resources, by Kafka's numbers
ALL_NODES = ""
SET, DELETE = 0, 1
ANSWER_TIMEOUT_S = 30.0
APPLY_TIMEOUT_S = 5.0
FOLLOW_TIMEOUT_S = 1.0  # nodes that follow the metadata need a few milliseconds
POLL_S = 0.05

ByNode: TypeAlias = Inspections[ClusterStateView]


@contextmanager
def plain_looks(bootstrap: str) -> Iterator[None]:
    """Turns what goes wrong with a look inside the block into ChronikError."""
    try:
        yield
    except NotChronik as problem:
        raise ChronikError(f"there is no trace: {problem}", "only a chronik cluster traces") from None
    except InspectRefused as problem:
        raise ChronikError(str(problem)) from None
    except NotLetIn as problem:
        raise not_let_in(problem) from None
    except NoAnswer:
        raise no_answer(bootstrap) from None


def how_it_is(addresses: Sequence[Address], timeout_s: float = APPLY_TIMEOUT_S) -> ByNode:
    """Who traces what. Raises NoAnswer."""
    return inspect_everywhere(ClusterStateView, addresses, CLUSTER, timeout_s, lambda node_id: {})


def is_traced(traces: Traces, topic: str) -> bool:
    return (topic in traces.exceptions) != traces.is_all


def switch_topic(addresses: Sequence[Address], bootstrap: str, topic: str, *, is_on: bool) -> ByNode:
    """Have this topic traced, or not. Raises NoAnswer, ChronikError."""
    if topic.startswith("__"):
        raise ChronikError(f"{topic} is the cluster's own, and never traced", "name one of yours")
    try:
        _alter(addresses, TOPIC, topic, "true" if is_on else "false")
    except RefusedByNode as refused:
        if refused.code != Code.UNKNOWN_TOPIC_OR_PARTITION:
            raise
        raise ClusterAdmin(bootstrap).unknown_topic(topic, "create it first") from None
    return _wait_until(addresses, lambda traces: is_traced(traces, topic) == is_on)


def switch_all(addresses: Sequence[Address], *, is_on: bool) -> tuple[ByNode, list[str]]:
    """Have every topic traced, or none, whatever was said of single ones: those of which something else was said are
    named. Raises NoAnswer, ChronikError."""
    _alter(addresses, BROKER, ALL_NODES, "true" if is_on else None)
    if not is_on and not _comes_true(addresses, lambda traces: not traces.is_all):
        _alter(addresses, BROKER, ALL_NODES, "false")  # nodes were started with it: what is set here goes first
    by_node = _wait_until(addresses, lambda traces: traces.is_all == is_on)
    otherwise = sorted({topic for seen in by_node.values() for topic in seen.traces.exceptions})
    for topic in otherwise:
        _alter(addresses, TOPIC, topic, None)
    if otherwise:
        by_node = _wait_until(addresses, lambda traces: traces.is_all == is_on and not traces.exceptions)
    return by_node, otherwise


def _wait_until(addresses: Sequence[Address], is_so: Callable[[Traces], bool]) -> ByNode:
    """Until it is so on every node that answers."""
    by_node, late = _look_until(addresses, is_so, APPLY_TIMEOUT_S)
    if late:
        raise ChronikError(
            f"{SETTING} is set, but node {', '.join(map(str, late))} does not go by it yet",
            "see how it is with `chronik trace status`",
        )
    return by_node


def _comes_true(addresses: Sequence[Address], is_so: Callable[[Traces], bool]) -> bool:
    return not _look_until(addresses, is_so, FOLLOW_TIMEOUT_S)[1]


def _look_until(
    addresses: Sequence[Address], is_so: Callable[[Traces], bool], timeout_s: float
) -> tuple[ByNode, list[int]]:
    """How it is when it is so on every node that answers, or the time is over; and on which nodes it is not."""
    deadline = time.monotonic() + timeout_s
    while True:
        by_node = how_it_is(addresses)
        late = [node_id for node_id, seen in by_node.items() if not is_so(seen.traces)]
        if not late or time.monotonic() > deadline:
            return by_node, late
        time.sleep(POLL_S)


def _alter(addresses: Sequence[Address], kind: int, name: str, value: str | None) -> None:
    """Set it, or (None) take back what was set. Any node brings it to the controller."""
    from kio.schema.incremental_alter_configs.v1.request import (
        AlterableConfig,
        AlterConfigsResource,
        IncrementalAlterConfigsRequest,
    )
    from kio.static.primitive import i8

    config = AlterableConfig(name=SETTING, config_operation=i8(DELETE if value is None else SET), value=value)
    resource = AlterConfigsResource(resource_type=i8(kind), resource_name=name, configs=(config,))
    request = IncrementalAlterConfigsRequest(resources=(resource,), validate_only=False)
    problem = NoAnswer("there is no address to ask")
    for address in addresses:
        try:
            (answer,) = ask(address, request, ANSWER_TIMEOUT_S).responses
        except NoAnswer as met:
            problem = met
            continue
        if answer.error_code:
            code = Code(answer.error_code)
            raise RefusedByNode(code, f"{answer.error_message or 'refused'} ({code.name})")
        return
    raise problem
