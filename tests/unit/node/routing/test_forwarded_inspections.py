"""Looks at other nodes, sent on over a link of the client's own."""

from __future__ import annotations

import json
import struct
from typing import Any

from chronik.api.call import Peer
from chronik.node.net.connection import Slot
from chronik.node.net.peers import Unreachable
from chronik.wire.versions import INSPECT
from tests.unit.node.town import CORRELATION_ID, THIRD, Town, in_town


def look_at(town: Town, node_id: int, peer: Peer | None = None) -> Slot:
    text = json.dumps({"view": "state", "node": node_id}).encode()
    return town.start(struct.pack(">hhihi", INSPECT, 0, CORRELATION_ID, -1, len(text)) + text, peer)


def told_in(slot: Slot) -> Any:
    assert slot.buffers is not None
    frame = b"".join(map(bytes, slot.buffers))
    assert struct.unpack_from(">ii", frame) == (len(frame) - 4, CORRELATION_ID)
    return json.loads(frame[12:])


def with_work_watched(town: Town) -> None:
    """What a handler leaves to be done is done by the dispatch of the town."""
    object.__setattr__(town.context, "start", town.dispatch.watch)


@in_town()
async def test_a_look_goes_to_the_node_it_names_and_the_answer_comes_back(town: Town) -> None:
    with_work_watched(town)

    slot = look_at(town, THIRD)
    (sent,) = town.peers.to(THIRD)
    sent.reply(struct.pack(">iii", 18, CORRELATION_ID, 10) + b'{"node":3}')
    await town.settle()

    assert sent.header.api_key == INSPECT
    assert told_in(slot) == {"node": 3}


@in_town()
async def test_a_node_that_does_not_answer_is_named(town: Town) -> None:
    with_work_watched(town)

    slot = look_at(town, THIRD)
    town.peers.to(THIRD)[0].fail(Unreachable("node 3: it hung up"))
    await town.settle()

    assert told_in(slot) == {"error": "node 3: it hung up"}


@in_town()
async def test_a_node_that_nobody_knows_is_not_looked_for(town: Town) -> None:
    slot = look_at(town, 77)

    assert told_in(slot) == {"error": "node 77 is not known here"}
    assert town.peers.links == []


@in_town()
async def test_who_hangs_up_takes_his_link_with_him(town: Town) -> None:
    with_work_watched(town)
    slot = look_at(town, THIRD, Peer(5, "10.0.0.7"))

    town.forwarding.connection_closed(5)
    town.peers.to(THIRD)[0].fail(Unreachable("the link is closed"))
    await town.settle()

    assert town.peers.links[0].is_closed
    assert "error" in told_in(slot)
