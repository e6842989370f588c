"""Links to other nodes: ordered, patient, and honest about what was lost."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from chronik.node.peers import Unreachable
from chronik.wire.codec import encode_response
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import APIS
from tests.unit.node.peer_world import Other, World, in_world
from tests.unit.wire.messages import filled, request_type, response_type

HEARTBEAT = 12
LIST_GROUPS = 16


def a_request(api_key: int = HEARTBEAT) -> Any:
    return filled(request_type(api_key, APIS[api_key].highest), "full")


def a_response(api_key: int = HEARTBEAT) -> Any:
    return filled(response_type(api_key, APIS[api_key].highest), "full")


def echo(other: Other, header: RequestHeader, frame: bytes) -> None:
    """Answers anything with a response full of values."""
    other.say(encode_response(header.api_key, header.version, header.correlation_id, a_response(header.api_key)))


async def problem_of(answer: asyncio.Future[Any]) -> str:
    with pytest.raises(Unreachable) as caught:
        await answer
    return str(caught.value)


@in_world
async def test_a_request_is_answered_in_the_newest_types(world: World) -> None:
    world.two.hear = echo

    answer = await world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=1000)

    assert answer == a_response()
    ((header, _),) = world.two.heard
    assert (header.api_key, header.version, header.client_id) == (HEARTBEAT, 4, "node-1")
