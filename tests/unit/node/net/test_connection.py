"""Requests in, answers out in the order of the requests, whatever order they are ready in."""

from __future__ import annotations

import asyncio
import itertools
import logging
import struct
from functools import partial
from typing import Any, cast

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.core.ports import FileSlice
from chronik.node.net.connection import FLUSH_BYTES
from chronik.node.net.request_memory import UNFINISHED_BYTES
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.connected import OVERLAPPING, Client, with_client
from tests.unit.node.fakes import FakeTransport


@with_client()
async def test_answers_leave_in_the_order_of_the_requests(client: Client) -> None:
    client.send(b"o1", b"o2", b"o3")
    assert client.requests.begun == [b"o1", b"o2", b"o3"]

    client.requests.answer(b"o3")
    client.requests.answer(b"o2")
    assert await client.received() == b""
    client.requests.answer(b"o1")

    assert await client.received() == b"o1o2o3"


@settings(max_examples=50)
@given(order=st.permutations(range(6)), turns=st.lists(st.booleans(), min_size=6, max_size=6))
def test_in_whatever_order_they_are_filled_answers_leave_in_order(order: list[int], turns: list[bool]) -> None:
    async def run() -> None:
        client = Client()
        names = [b"o%d" % number for number in range(6)]
        client.send(*names)
        for number, turn in zip(order, turns, strict=True):
            client.requests.answer(names[number])
            if turn:
                written = await client.received()
                assert b"".join(names).startswith(written)
        assert await client.received() == b"".join(names)

    asyncio.run(run())


@with_client()
async def test_behind_a_request_that_does_not_overlap_the_next_waits_for_its_answer(client: Client) -> None:
    client.send(b"b1", b"o2", b"b3", b"o4")
    assert client.requests.begun == [b"b1"]

    client.requests.answer(b"b1")
    assert client.requests.begun == [b"b1", b"o2", b"b3"]
    client.requests.answer(b"b3")
    assert client.requests.begun == [b"b1", b"o2", b"b3", b"o4"]
    client.requests.answer(b"o4", b"o2")

    assert await client.received() == b"b1o2b3o4"


@with_client()
async def test_a_request_that_comes_later_waits_as_well(client: Client) -> None:
    client.send(b"b1")
    client.send(b"o2")
    assert client.requests.begun == [b"b1"]

    client.requests.answer(b"b1")

    assert client.requests.begun == [b"b1", b"o2"]


@with_client()
async def test_a_request_answered_at_once_holds_nobody_up(client: Client) -> None:
    client.send(*(b"n%d" % number for number in range(2000)))

    assert len(client.requests.begun) == 2000
    assert await client.received() == b"".join(b"n%d" % number for number in range(2000))


@with_client()
async def test_answers_of_one_turn_leave_in_one_write(client: Client) -> None:
    client.send(*(b"o%d" % number for number in range(50)))
    client.requests.answer(*(b"o%d" % number for number in range(50)))

    await client.received()

    assert client.transport.writes == 1


@with_client()
async def test_an_answer_of_no_buffers_sends_nothing_and_lets_the_next_go(client: Client) -> None:
    """acks=0."""
    client.send(b"o1", b"o2")

    client.requests.slots[b"o1"](())
    client.requests.answer(b"o2")

    assert await client.received() == b"o2"


@with_client()
async def test_an_answer_of_several_buffers_is_sent_whole(client: Client) -> None:
    client.send(b"o1")

    client.requests.slots[b"o1"]((b"head", memoryview(b"records" * 100_000), bytearray(b"tail")))

    assert await client.received() == b"head" + b"records" * 100_000 + b"tail"


@with_client()
async def test_only_the_first_answer_to_a_request_counts(client: Client) -> None:
    client.send(b"o1", b"o2")

    client.requests.slots[b"o1"]((b"first",))
    client.requests.slots[b"o1"]((b"second",))
    client.requests.answer(b"o2")

    assert await client.received() == b"firsto2"


@with_client()
async def test_none_hangs_up_after_the_answers_before_it(client: Client) -> None:
    client.send(b"o1", b"o2", b"o3")

    client.requests.slots[b"o2"](None)
    assert not client.transport.is_closing()
    client.requests.answer(b"o3")
    client.requests.answer(b"o1")

    assert client.transport.is_closing()
    assert await client.received() == b"o1"


@with_client()
async def test_after_hanging_up_no_further_request_begins_and_nothing_is_written(client: Client) -> None:
    client.send(b"o1", b"h2", b"o3")
    assert client.requests.begun == [b"o1", b"h2", b"o3"]  # its turn has not come: o1 is not answered yet

    client.requests.answer(b"o1")
    client.requests.answer(b"o3")

    assert client.transport.is_closing()
    assert await client.received() == b"o1"


@with_client()
async def test_a_request_read_together_with_one_that_hangs_up_is_not_begun(client: Client) -> None:
    client.send(b"h1", b"o2")

    assert client.requests.begun == [b"h1"]
    assert client.transport.is_closing()


@with_client()
async def test_malformed_bytes_close_the_connection_and_are_counted(client: Client) -> None:
    logging.disable(logging.WARNING)
    client.send(b"n1", b"x2", b"o3")
    logging.disable(logging.NOTSET)

    assert client.requests.begun == [b"n1"]
    assert client.transport.is_closing()
    assert client.all.malformed_total == 1
    assert await client.received() == b"n1"


@pytest.mark.parametrize("size", [-1, 1001, 2**31 - 1])
def test_an_impossible_size_closes_the_connection(size: int) -> None:
    async def run() -> None:
        client = Client(frame_bytes_max=1000)
        client.send_raw(struct.pack(">i", size))
        assert client.transport.is_closing()
        assert client.all.malformed_total == 1

    asyncio.run(run())


@with_client()
async def test_a_request_malformed_behind_a_barrier_closes_the_connection(client: Client) -> None:
    """A request malformed behind a barrier closes the connection when its turn comes."""
    client.send(b"b1", b"x2")
    assert not client.transport.is_closing()

    client.requests.answer(b"b1")

    assert client.transport.is_closing()
    assert await client.received() == b"b1"


# --- a client that does not keep up


@with_client()
async def test_a_client_that_does_not_read_is_read_no_further(client: Client) -> None:
    client.connection.pause_writing()
    assert not client.transport.is_reading()
    client.send(b"o1")
    assert client.requests.begun == []

    client.connection.resume_writing()

    assert client.requests.begun == [b"o1"]
    assert client.transport.is_reading()


@with_client()
async def test_requests_read_before_the_client_stopped_reading_do_not_begin(client: Client) -> None:
    """A thousand fetches in one packet must not fill memory with answers that nothing takes."""
    big = memoryview(bytes(FLUSH_BYTES))
    write = client.transport.write

    def write_and_pause(content: Any) -> None:
        write(content)
        client.connection.pause_writing()

    client.transport.write = write_and_pause  # type: ignore[method-assign]  # as above the high-water mark
    client.send(*(b"o%d" % number for number in range(3)))
    client.requests.slots[b"o0"]((big,))

    client.send(b"o3", b"o4")
    assert client.requests.begun == [b"o0", b"o1", b"o2"]
    client.connection.resume_writing()

    assert client.requests.begun == [b"o0", b"o1", b"o2", b"o3", b"o4"]


@with_client(under_way_max=3)
async def test_with_too_many_under_way_reading_stops_until_one_is_answered(client: Client) -> None:
    client.send(b"o1", b"o2", b"o3")
    assert not client.transport.is_reading()

    client.requests.answer(b"o1")
    await client.received()

    assert client.transport.is_reading()


@with_client()
async def test_behind_a_barrier_reading_stops(client: Client) -> None:
    client.send(b"b1", b"o2")
    assert not client.transport.is_reading()

    client.requests.answer(b"b1")

    assert client.transport.is_reading()


# --- all of them


@with_client()
async def test_the_other_end_is_known_by_address(client: Client) -> None:
    client.send(b"o1")

    assert client.requests.peers[0].host == "10.0.0.7"
    assert client.all.open == {client.requests.peers[0].connection_id: client.connection}


@with_client()
async def test_a_connection_that_is_lost_is_forgotten_and_late_answers_go_nowhere(client: Client) -> None:
    client.send(b"o1", b"b2", b"o3")

    client.connection.connection_lost(None)
    client.requests.answer(b"b2", b"o1")

    assert client.all.open == {}
    assert await client.received() == b""
    assert client.requests.begun == [b"o1", b"b2"]


@with_client()
async def test_what_waits_for_a_client_that_is_gone_is_told(client: Client) -> None:
    client.send(OVERLAPPING + b"1", OVERLAPPING + b"2", OVERLAPPING + b"3")
    told: list[int] = []
    for number in (1, 2):
        client.requests.slots[OVERLAPPING + b"%d" % number].on_abandoned = partial(told.append, number)
    client.requests.answer(OVERLAPPING + b"1")

    client.connection.connection_lost(None)

    assert told == [2]


@with_client()
async def test_large_answers_for_a_client_that_does_not_read_wait_until_it_does(client: Client) -> None:
    large = OVERLAPPING + bytes(FLUSH_BYTES)
    client.send(OVERLAPPING + b"1")
    client.connection.pause_writing()

    client.requests.slots[OVERLAPPING + b"1"]((large,))
    assert await client.received() == b""

    client.connection.resume_writing()
    assert await client.received() == large


@with_client()
async def test_of_a_large_answer_only_a_part_at_a_time_is_read_from_its_file(client: Client) -> None:
    file = MemoryFiles().open("a-file")
    file.append((bytes(range(256)) * 8192,))
    answer = (b"head", FileSlice(file, 5, 2_000_000), b"tail")
    client.send(OVERLAPPING + b"1")
    write = client.transport.write

    def write_and_pause(content: Any) -> None:
        write(content)
        client.connection.pause_writing()

    client.transport.write = write_and_pause  # type: ignore[method-assign]  # as above the high-water mark
    client.requests.slots[OVERLAPPING + b"1"](answer)
    await client.received()
    assert len(client.transport.written) == FLUSH_BYTES

    while (before := len(client.transport.written)) < 2_000_008:
        client.connection.resume_writing()
        await client.received()
        assert 0 < len(client.transport.written) - before <= FLUSH_BYTES
    assert bytes(client.transport.written) == b"head" + file.read(5, 2_000_000) + b"tail"


@with_client()
async def test_a_connection_that_nothing_came_from_or_went_to_is_closed(client: Client) -> None:
    client.send(b"o1")
    client.requests.answer(b"o1")
    client.all.close_idle(-1, 30)
    client.all.close_idle(1000, 30)
    assert not client.transport.is_closing()

    client.connection.used_at -= 1001
    client.all.close_idle(1000, 30)

    assert client.transport.is_closing()
    assert await client.received() == b"o1"
    assert client.all.idle_total == 1


@with_client()
async def test_a_client_whose_answer_has_just_left_is_not_idle(client: Client) -> None:
    client.send(b"o1")
    client.connection.used_at -= 1001
    client.requests.answer(b"o1")
    await client.received()

    client.all.close_idle(1000, 30)

    assert not client.transport.is_closing()


@with_client()
async def test_what_an_idle_connection_waits_for_is_given_up(client: Client) -> None:
    """As in Kafka: a fetch that waits for weeks does not keep a connection open whose client may be long gone."""
    left: list[int] = []
    client.send(b"o1")
    client.requests.slots[b"o1"].on_abandoned = lambda: left.append(1)
    client.connection.used_at -= 1001

    client.all.close_idle(1000, 30)

    assert client.transport.is_closing()
    assert left == [1]


@with_client()
async def test_an_idle_client_that_does_not_take_its_answers_is_not_waited_for(client: Client) -> None:
    aborted: list[bool] = []
    client.transport.abort = lambda: aborted.append(True)  # type: ignore[method-assign]
    client.transport.unsent_bytes = 1
    client.connection.used_at -= 1001

    client.all.close_idle(1000, 30)

    assert aborted == [True]


# --- requests that do not become whole


@with_client()
async def test_a_request_that_does_not_go_on_is_given_up(client: Client) -> None:
    logging.disable(logging.WARNING)
    client.send_raw(struct.pack(">i", 100) + b"o1")
    client.all.close_idle(1000, 0.0)  # seen for the first time
    assert not client.transport.is_closing()

    client.send_raw(b"x")  # a byte now and then is not going on
    client.all.close_idle(1000, 0.0)
    logging.disable(logging.NOTSET)

    assert client.transport.is_closing()
    assert client.all.unfinished_total == 1
    assert client.all.memory.used_bytes == 0


@with_client()
async def test_a_slow_request_that_goes_on_becomes_whole(client: Client) -> None:
    body = OVERLAPPING + bytes(9_999)
    stream = struct.pack(">i", len(body)) + body
    for start in range(0, len(stream), UNFINISHED_BYTES):
        client.send_raw(stream[start : start + UNFINISHED_BYTES])
        client.all.close_idle(1000, 0.0)

    assert client.requests.begun == [body]
    assert not client.transport.is_closing()


@with_client()
async def test_a_client_that_is_not_read_is_not_to_blame_for_half_a_request(client: Client) -> None:
    client.send_raw(struct.pack(">i", 2) + b"b1" + struct.pack(">i", 100) + b"o2")
    client.connection.pause_writing()

    for _ in range(3):
        client.all.close_idle(1000, 0.0)

    assert not client.transport.is_closing()


@with_client()
async def test_closing_all_sends_what_is_due(client: Client) -> None:
    client.send(b"o1", b"o2")
    client.requests.answer(b"o1")

    await client.all.close_all()

    assert client.transport.is_closing()
    assert bytes(client.transport.written) == b"o1"


@with_client()
async def test_what_waits_for_a_client_that_left_is_told_so(client: Client) -> None:
    left: list[str] = []
    client.send(b"o1", b"o2", b"o3")
    for name in (b"o1", b"o2", b"o3"):
        client.requests.slots[name].on_abandoned = lambda name=name: left.append(name.decode())
    client.requests.answer(b"o1")

    client.connection.connection_lost(None)

    assert left == ["o2", "o3"]


@with_client()
async def test_every_connection_has_a_number_of_its_own(client: Client) -> None:
    others = [client.all.accept() for _ in range(3)]
    for other in others:
        other.connection_made(cast(Any, FakeTransport()))

    assert len(client.all.open) == 4
    assert list(itertools.islice(client.all.open.values(), 1, None)) == others


@with_client()
async def test_the_house_is_told_of_each_connection_that_ends(client: Client) -> None:
    ended: list[int] = []
    client.all.on_closed = ended.append
    client.send(b"o1")
    client.connection.close()
    assert ended == []

    client.connection.connection_lost(None)

    assert ended == [client.requests.peers[0].connection_id]


@with_client()
async def test_what_may_not_go_on_is_closed_at_once(client: Client) -> None:
    client.send(b"o1")

    client.all.end_where(lambda peer: peer.node_id == 7, "it is another's")
    assert not client.transport.is_closing()
    client.all.end_where(lambda peer: peer.node_id == -1, "it is another's")

    assert client.transport.is_closing()
