"""Links to other nodes: requests in order, each with its own answer, in a version both know."""

from __future__ import annotations

import asyncio
import datetime
import logging
import struct
from typing import Any

import pytest

from chronik.core.errors import Code
from chronik.node.net.peers import NotSent, Unreachable
from chronik.wire.codec import decode_request, encode_request, encode_response
from chronik.wire.framing import RequestHeader
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
from tests.unit.wire.messages import request_type, response_type

NO_TIME = datetime.timedelta(0)


@in_world
async def test_a_request_is_answered_in_the_newest_types(world: World) -> None:
    world.two.hear = echo

    answer = await world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=1000)

    assert answer == a_response()
    ((header, _),) = world.two.heard
    assert (header.api_key, header.version, header.client_id) == (HEARTBEAT, 4, "node-1")


@in_world
async def test_requests_arrive_in_the_order_in_which_they_were_asked(world: World) -> None:
    """Requests arrive in the order in which they were asked and each gets its own answer. Also those asked before there
    was a connection, and while the versions were still being asked for."""

    def answer_by_name(other: Other, header: RequestHeader, frame: bytes) -> None:
        response = response_type(LIST_GROUPS, 5)(
            throttle_time=NO_TIME, error_code=Code(len(world.two.heard) % 2), groups=()
        )
        other.say(encode_response(LIST_GROUPS, 5, header.correlation_id, response))

    world.two.hear = answer_by_name
    link = world.peers.link(2, "quorum")
    answers = []
    for number in range(40):
        if number % 3 == 0:
            await pass_time(0.0005)
        request = request_type(LIST_GROUPS, 5)(states_filter=(str(number),), types_filter=())
        answers.append(link.ask(LIST_GROUPS, request, timeout_ms=1000))

    codes = [(await answer).error_code for answer in answers]

    assert codes == [number % 2 for number in range(1, 41)]
    asked = [decode_request(LIST_GROUPS, 5, f, h.body, request_type(LIST_GROUPS, 5)) for h, f in world.two.heard]
    assert [request.states_filter for request in asked] == [(str(number),) for number in range(40)]
    assert len(world.two.connections) == 1


@in_world
async def test_a_whole_frame_is_sent_as_it_is_and_comes_back(world: World) -> None:
    """A whole frame is sent as it is and comes back with the askers correlation id."""
    world.two.hear = echo
    link = world.peers.new_link(2)
    frame = encode_request(HEARTBEAT, 3, 4711, "a client", a_request())[4:]
    in_pieces = (memoryview(frame)[:20], frame[20:25], bytearray(frame[25:]))
    in_tiny_pieces = tuple(frame[at : at + 1] for at in range(len(frame)))

    answers = [link.ask_frame(pieces, timeout_ms=1000) for pieces in ((frame,), in_pieces, in_tiny_pieces)]

    for answer in answers:
        got = await answer
        assert bytes(got) == encode_response(HEARTBEAT, 3, 4711, a_response())[4:]
    for header, heard in world.two.heard:
        assert heard[:4] + struct.pack(">i", 4711) + heard[8:] == frame
        assert header.client_id == "a client"
    assert len({header.correlation_id for header, _ in world.two.heard}) == 3  # the link's own ids


@in_world
async def test_a_frame_may_have_the_same_correlation_id_as_one_before(world: World) -> None:
    world.two.hear = echo
    link = world.peers.new_link(2)
    frame = encode_request(HEARTBEAT, 4, -1, "", a_request())[4:]

    first, second = link.ask_frame((frame,), timeout_ms=-1), link.ask_frame((frame,), timeout_ms=-1)

    assert bytes(await first) == bytes(await second)


@in_world
async def test_a_large_answer_comes_as_a_whole(world: World) -> None:
    content = bytes(range(256)) * 2000

    def answer_with_bytes(other: Other, header: RequestHeader, frame: bytes) -> None:
        other.say(struct.pack(">ii", 4 + len(content), header.correlation_id) + content)

    world.two.hear = answer_with_bytes
    frame = encode_request(HEARTBEAT, 4, 99, "", a_request())[4:]

    answers = [world.peers.link(2, "replicas").ask_frame((frame,), timeout_ms=1000) for _ in range(3)]

    for answer in answers:
        assert bytes(await answer) == struct.pack(">i", 99) + content


# --- versions


@in_world
async def test_the_newest_version_that_both_know_is_spoken(world: World) -> None:
    world.two.hear = echo
    world.two.ranges[HEARTBEAT] = (1, 2)

    await world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=1000)

    assert [header.version for header, _ in world.two.heard] == [2]


@pytest.mark.parametrize(("spoken", "why"), [((90, 99), "knows 90 to 99"), (None, "does not know that request")])
def test_a_node_that_speaks_another_version_is_said_to_and_the_link_stays(
    spoken: tuple[int, int] | None, why: str
) -> None:
    @in_world
    async def test(world: World) -> None:
        world.two.hear = echo
        del world.two.ranges[HEARTBEAT]
        if spoken is not None:
            world.two.ranges[HEARTBEAT] = spoken
        link = world.peers.link(2, "quorum")
        frame = encode_request(HEARTBEAT, 4, 1, "", a_request())[4:]

        for answer in (link.ask(HEARTBEAT, a_request(), timeout_ms=500), link.ask_frame((frame,), timeout_ms=500)):
            problem = await problem_of(answer)
            assert problem.startswith("node 2 at node2:9092 speaks another version: of heartbeat we need ")
            assert problem.endswith(why)

        assert await link.ask(LIST_GROUPS, a_request(LIST_GROUPS), timeout_ms=500) == a_response(LIST_GROUPS)
        assert len(world.two.connections) == 1

    test()


@in_world
async def test_a_frame_of_a_request_that_nobody_knows_is_not_sent(world: World) -> None:
    frame = struct.pack(">hhih", 999, 0, 1, -1)

    assert "request 999" in await problem_of(world.peers.new_link(2).ask_frame((frame,), timeout_ms=500))
    assert world.two.heard == []


@in_world
async def test_a_node_that_does_not_tell_its_versions_is_unreachable(world: World) -> None:
    world.two.code = Code.UNSUPPORTED_VERSION

    problem = await problem_of(world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=500))

    assert "UNSUPPORTED_VERSION" in problem


@in_world
async def test_a_node_that_accepts_and_says_nothing_is_unreachable(world: World) -> None:
    world.two.greets = False

    problem = await problem_of(world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=-1))

    assert "does not answer within 1000 ms" in problem
    assert world.loop.time() < 1.1


# --- ends


@in_world
async def test_a_cancelled_request_keeps_its_place_and_its_answer_is_nobodys(world: World) -> None:
    link = world.peers.link(2, "quorum")
    first, second = (link.ask(key, a_request(key), timeout_ms=500) for key in (HEARTBEAT, LIST_GROUPS))
    await pass_time(0.1)
    first.cancel()

    for header, frame in world.two.heard:
        echo(world.two.last, header, frame)

    assert await second == a_response(LIST_GROUPS)


@in_world
async def test_a_request_cancelled_before_it_could_be_sent_is_not_sent(world: World) -> None:
    world.two.hear = echo
    link = world.peers.link(2, "quorum")
    first, second = (link.ask(key, a_request(key), timeout_ms=500) for key in (HEARTBEAT, LIST_GROUPS))

    first.cancel()

    assert await second == a_response(LIST_GROUPS)
    assert [header.api_key for header, _ in world.two.heard] == [LIST_GROUPS]


@pytest.mark.parametrize("after_s", [0.0, 0.0003, 0.001, 0.003, 0.006, 0.5])
def test_closing_fails_what_is_under_way_and_leaves_nothing_behind(after_s: float) -> None:
    """However far the connection has come; the end of the world looks for what is left."""

    @in_world
    async def test(world: World) -> None:
        link = world.peers.link(2, "quorum")
        answers = [link.ask(HEARTBEAT, a_request(), timeout_ms=60_000) for _ in range(3)]
        await pass_time(after_s)

        link.close()

        assert all(answer.done() for answer in answers)
        for answer in (*answers, link.ask(HEARTBEAT, a_request(), timeout_ms=60_000)):
            assert await problem_of(answer) == "the link to node 2 at node2:9092 is closed"
        assert world.peers.link(2, "quorum") is not link

    test()


@in_world
async def test_closing_while_it_is_held_back_leaves_nothing_behind(world: World) -> None:
    await world.two.stop()
    link = world.peers.link(2, "quorum")
    for _ in range(5):
        await problem_of(link.ask(HEARTBEAT, a_request(), timeout_ms=5000))
    answer = link.ask(HEARTBEAT, a_request(), timeout_ms=5000)
    await pass_time(0.01)

    world.peers.close()

    await problem_of(answer)
    assert await _other_tasks() == []


async def _other_tasks() -> list[asyncio.Task[Any]]:
    await asyncio.sleep(0)
    await asyncio.sleep(0)
    return [task for task in asyncio.all_tasks() if task is not asyncio.current_task()]


@in_world
async def test_what_was_written_before_a_link_is_closed_still_arrives(world: World) -> None:
    link = world.peers.new_link(2)
    frame = encode_request(HEARTBEAT, 4, 1, "", a_request())[4:]
    world.two.hear = echo
    await link.ask(HEARTBEAT, a_request(), timeout_ms=1000)
    under_way = link.ask_frame((frame,), timeout_ms=500)

    link.close()
    await problem_of(under_way)
    await pass_time(0.1)

    assert len(world.two.heard) == 2


@in_world
async def test_a_link_is_kept_for_each_purpose_and_a_new_one_is_nobody_elses(world: World) -> None:
    peers = world.peers

    assert peers.link(2, "quorum") is peers.link(2, "quorum")
    links = [peers.link(2, "quorum"), peers.link(2, "replicas"), peers.link(3, "quorum"), peers.new_link(2)]
    assert len(set(links)) == 4
    assert [link.node_id for link in links] == [2, 2, 3, 2]


class Lines(logging.Handler):
    """Keeps what the log says."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[str] = []

    def emit(self, record: logging.LogRecord) -> None:
        self.lines.append(record.getMessage())


@in_world
async def test_the_log_says_once_that_a_node_is_not_reached_and_once_that_it_is_again(world: World) -> None:
    watcher = Lines()
    log = logging.getLogger("chronik.node.net.peers")
    log.addHandler(watcher)
    log.setLevel(logging.INFO)
    try:
        await world.two.stop()
        for _ in range(3):
            await problem_of(world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=5000))
            await problem_of(world.peers.link(2, "replicas").ask(HEARTBEAT, a_request(), timeout_ms=5000))
        await world.two.start()
        world.two.hear = echo
        await world.peers.link(2, "replicas").ask(HEARTBEAT, a_request(), timeout_ms=5000)
        await world.peers.link(2, "quorum").ask(HEARTBEAT, a_request(), timeout_ms=5000)
    finally:
        log.removeHandler(watcher)
        log.setLevel(logging.NOTSET)

    assert len(watcher.lines) == 2
    assert watcher.lines[0].startswith("node 2 at node2:9092 cannot be reached: ")
    assert watcher.lines[1] == "node 2 at node2:9092 is reached again"


@in_world
async def test_whoever_asks_is_told_whether_the_request_left_at_all(world: World) -> None:
    link = world.peers.link(2, "quorum")
    await world.two.stop()
    asked = link.ask(HEARTBEAT, a_request(), timeout_ms=900)
    with pytest.raises(NotSent):
        await asked
    await world.two.start()

    asked = link.ask(HEARTBEAT, a_request(), timeout_ms=-1)
    await pass_time(1)
    world.two.last.hang_up()

    with pytest.raises(Unreachable) as caught:
        await asked
    assert caught.type is Unreachable
