"""Links to nodes that are gone, silent, unwilling or talk nonsense."""

from __future__ import annotations

import asyncio
import itertools
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.node.net.peers import Unreachable
from chronik.wire.codec import encode_response
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import APIS
from tests.unit.node.peer_world import (
    HEARTBEAT,
    LIST_GROUPS,
    Other,
    World,
    a_request,
    a_response,
    echo,
    in_world,
    pass_time,
    problem_of,
)
from tests.unit.wire.messages import response_type


@in_world
async def test_a_request_that_is_not_answered_in_time_ends_the_connection(world: World) -> None:
    """A request that is not answered in time ends the connection and all under way on it."""
    link = world.peers.link(2, "quorum")
    patient = link.ask(HEARTBEAT, a_request(), timeout_ms=60_000)
    impatient = link.ask(LIST_GROUPS, a_request(LIST_GROUPS), timeout_ms=300)

    problem = await problem_of(impatient)

    assert problem == "node 2 at node2:9092: no answer to list_groups in 300 ms"
    assert await problem_of(patient) == problem
    assert 0.3 <= world.loop.time() < 0.31
    await pass_time(1)
    assert world.two.last.transport is not None
    assert world.two.last.transport.is_closing()


@in_world
async def test_an_answer_that_comes_after_its_time_is_nobody_elses(world: World) -> None:
    link = world.peers.link(2, "quorum")
    await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=50))
    header, frame = world.two.heard[0]
    world.two.hear = echo
    next_answer = link.ask(LIST_GROUPS, a_request(LIST_GROUPS), timeout_ms=500)

    echo(world.two.connections[0], header, frame)

    assert await next_answer == a_response(LIST_GROUPS)
    assert len(world.two.connections) == 2


@in_world
async def test_a_request_that_waits_for_a_connection_times_out_alone(world: World) -> None:
    world.wires.mood("node1", "node2").is_cut = True
    link = world.peers.link(2, "quorum")
    patient = link.ask(HEARTBEAT, a_request(), timeout_ms=5000)

    assert "no answer to heartbeat in 100 ms" in await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=100))

    assert not patient.done()
    await problem_of(patient)
    assert 1.0 <= world.loop.time() < 1.1  # when connecting was given up


@in_world
async def test_a_hang_up_fails_everything_under_way_and_the_next_request_connects_again(world: World) -> None:
    link = world.peers.link(2, "quorum")
    answers = [link.ask(HEARTBEAT, a_request(), timeout_ms=5000) for _ in range(3)]
    await pass_time(0.1)
    hung_up_at = world.loop.time()

    world.two.last.hang_up()

    for answer in answers:
        assert await problem_of(answer) == "node 2 at node2:9092: it hung up"
    assert world.loop.time() - hung_up_at < 0.01
    world.two.hear = echo
    assert await link.ask(HEARTBEAT, a_request(), timeout_ms=5000) == a_response()
    assert world.loop.time() - hung_up_at < 0.05
    assert world.metrics.faults == 0


@in_world
async def test_a_connection_that_was_given_up_is_not_lost_a_second_time(world: World) -> None:
    link = world.peers.link(2, "quorum")
    await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=50))
    await asyncio.sleep(0)
    world.two.hear = echo
    begun_at = world.loop.time()

    await link.ask(HEARTBEAT, a_request(), timeout_ms=500)

    assert 0.02 <= world.loop.time() - begun_at < 0.035  # the first pause, not the second


@in_world
async def test_a_loss_that_nobody_waits_to_hear_of_is_no_fault(world: World) -> None:
    link = world.peers.link(2, "quorum")
    link.ask(HEARTBEAT, a_request(), timeout_ms=5000)
    await pass_time(0.1)

    world.two.last.hang_up()
    await pass_time(0.1)

    assert world.metrics.faults == 0  # and the event loop had nothing to complain about, as the end of the world checks


@in_world
async def test_a_reset_is_told_as_what_it_is(world: World) -> None:
    link = world.peers.link(2, "quorum")
    answer = link.ask(HEARTBEAT, a_request(), timeout_ms=5000)
    await pass_time(0.1)

    world.wires.connections[0][0].reset()

    assert "reset" in await problem_of(answer)


@in_world
async def test_a_node_that_hangs_up_at_once_is_unreachable(world: World) -> None:
    """As one does that has too many connections."""

    class Unfriendly(asyncio.Protocol):
        def connection_made(self, transport: Any) -> None:
            transport.close()

    await world.two.stop()
    await world.two.network.listen("node2", 9092, Unfriendly)

    assert "hung up" in await problem_of(world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=-1))


@in_world
async def test_a_node_without_an_address_is_unreachable(world: World) -> None:
    problem = await problem_of(world.peers.link(9, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=-1))

    assert problem == "node 9: its address is not known"


@in_world
async def test_a_node_that_moved_is_found_at_its_new_address(world: World) -> None:
    world.addresses[2] = ("node4", 9092)
    link = world.peers.link(2, "quorum")
    await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=-1))
    world.addresses[2] = ("node2", 9092)
    world.two.hear = echo

    assert await link.ask(HEARTBEAT, a_request(), timeout_ms=-1) == a_response()


@in_world
async def test_a_node_that_refuses_connections_is_told_of_at_once(world: World) -> None:
    await world.two.stop()

    problem = await problem_of(world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=5000))

    assert "refused" in problem
    assert world.refused == [2]
    assert world.loop.time() < 0.01


@pytest.mark.usefixtures("quiet")
@in_world
async def test_a_fault_of_one_that_is_told_is_counted_and_the_others_are_told_as_well(world: World) -> None:
    def faulty(node_id: int) -> None:
        raise ZeroDivisionError

    await world.two.stop()
    told: list[int] = []
    world.peers.listen_for_refusals(faulty)
    world.peers.listen_for_refusals(told.append)

    await problem_of(world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=5000))

    assert told == [2]
    assert world.metrics.faults == 1


@in_world
async def test_only_a_refusal_says_that_a_node_is_gone(world: World) -> None:
    world.wires.mood("node1", "node2").is_cut = True

    await problem_of(world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=5000))

    assert world.refused == []


@in_world
async def test_whoever_asks_again_and_again_is_held_back_longer_and_longer(world: World) -> None:
    await world.two.stop()
    link = world.peers.link(2, "quorum")
    at = []
    for _ in range(9):
        await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=5000))
        at.append(world.loop.time())

    pauses = [round((after - before) * 1000) for before, after in itertools.pairwise(at)]

    assert [any(pause in range(low, low + 10) for low in (20, 40, 80, 160, 320, 500)) for pause in pauses] == [True] * 8
    assert pauses == sorted(pauses[:5]) + pauses[5:]
    assert all(500 <= pause < 510 for pause in pauses[5:])


@in_world
async def test_a_link_that_was_reached_begins_with_short_pauses_again(world: World) -> None:
    await world.two.stop()
    link = world.peers.link(2, "quorum")
    for _ in range(6):
        await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=5000))
    await world.two.start()
    world.two.hear = echo
    await link.ask(HEARTBEAT, a_request(), timeout_ms=5000)
    world.two.last.hang_up()
    await pass_time(0.01)
    begun_at = world.loop.time()

    await link.ask(HEARTBEAT, a_request(), timeout_ms=5000)

    assert world.loop.time() - begun_at < 0.04


@in_world
async def test_one_links_trouble_is_not_anothers(world: World) -> None:
    world.two.hear = lambda other, header, frame: (
        echo(other, header, frame) if header.api_key == LIST_GROUPS else other.hang_up()
    )
    good, bad = world.peers.link(2, "replicas"), world.peers.link(2, "quorum")
    await good.ask(LIST_GROUPS, a_request(LIST_GROUPS), timeout_ms=100)

    answer = bad.ask(HEARTBEAT, a_request(), timeout_ms=100)

    assert await good.ask(LIST_GROUPS, a_request(LIST_GROUPS), timeout_ms=100) == a_response(LIST_GROUPS)
    await problem_of(answer)
    assert await good.ask(LIST_GROUPS, a_request(LIST_GROUPS), timeout_ms=100) == a_response(LIST_GROUPS)
    assert len(world.two.connections) == 2


# --- answers are input too


NONSENSE = {
    "of another request": struct.pack(">ii", 4, 77) + bytes(4),
    "of no request": struct.pack(">i", 3) + b"abc",
    "of impossible size": struct.pack(">i", 2**31 - 1),
    "of negative size": struct.pack(">i", -1),
    "http": b"HTTP/1.1 400 Bad Request\r\n\r\n",
}


@pytest.mark.parametrize("content", NONSENSE.values(), ids=NONSENSE)
def test_nonsense_ends_the_connection_and_fails_what_is_under_way(content: bytes) -> None:
    @in_world
    async def test(world: World) -> None:
        link = world.peers.link(2, "quorum")
        world.two.hear = lambda other, header, frame: other.say(content)
        answers = [link.ask(HEARTBEAT, a_request(), timeout_ms=5000) for _ in range(2)]

        for answer in answers:
            assert "it answered nonsense" in await problem_of(answer)

        assert world.loop.time() < 0.1
        world.two.hear = echo
        assert await link.ask(HEARTBEAT, a_request(), timeout_ms=5000) == a_response()

    test()


@in_world
async def test_answers_in_another_order_end_the_connection(world: World) -> None:
    link = world.peers.link(2, "quorum")
    answers = [link.ask(HEARTBEAT, a_request(), timeout_ms=5000) for _ in range(2)]
    await pass_time(0.1)

    for header, frame in reversed(world.two.heard):
        echo(world.two.last, header, frame)

    for answer in answers:
        assert "an answer to request 3, and that is not the one it is due" in await problem_of(answer)


@in_world
async def test_an_answer_that_cannot_be_read_ends_the_connection(world: World) -> None:
    def answer_cut_short(other: Other, header: RequestHeader, frame: bytes) -> None:
        whole = encode_response(HEARTBEAT, 4, header.correlation_id, a_response())[4:-2]
        other.say(struct.pack(">i", len(whole)) + whole)

    world.two.hear = answer_cut_short
    link = world.peers.link(2, "quorum")

    assert "it answered nonsense" in await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=5000))
    assert world.metrics.faults == 0


@in_world
async def test_an_answer_nobody_asked_for_ends_the_connection(world: World) -> None:
    world.two.hear = echo
    link = world.peers.link(2, "quorum")
    await link.ask(HEARTBEAT, a_request(), timeout_ms=5000)

    world.two.last.say(struct.pack(">ii", 4, 2))
    await pass_time(0.1)

    assert world.two.last.transport is not None
    assert world.two.last.transport.is_closing()


@in_world
async def test_a_message_that_cannot_be_written_is_its_askers_fault_alone(world: World) -> None:
    world.two.hear = echo
    link = world.peers.link(2, "quorum")

    wrong, right = (link.ask(HEARTBEAT, message, timeout_ms=500) for message in (object(), a_request()))

    with pytest.raises(TypeError):
        await wrong
    assert await right == a_response()


RESPONSES = tuple(response_type(key, APIS[key].highest) for key in (HEARTBEAT, LIST_GROUPS))


@settings(max_examples=60, deadline=None)
@given(content=st.binary(min_size=1, max_size=60), greets=st.booleans(), is_sized=st.booleans())
def test_whatever_another_node_says_a_request_fails_or_is_answered(
    content: bytes, greets: bool, is_sized: bool
) -> None:
    """Whatever another node says a request fails or is answered and nothing is left. Also instead of its versions. The
    end of the world looks for faults and for what is left."""

    def babble(other: Other, header: RequestHeader, frame: bytes) -> None:
        answer = struct.pack(">ii", 4 + len(content), header.correlation_id) + content
        other.say(answer if is_sized else content)

    @in_world
    async def test(world: World) -> None:
        world.two.hear, world.two.greets = babble, greets
        link = world.peers.link(2, "quorum")
        answers = [link.ask(key, a_request(key), timeout_ms=2000) for key in (HEARTBEAT, LIST_GROUPS)]

        outcomes = await asyncio.gather(*answers, return_exceptions=True)

        assert all(isinstance(outcome, (Unreachable, *RESPONSES)) for outcome in outcomes)
        assert world.metrics.faults == 0

    test()
