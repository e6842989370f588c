"""From a frame to its handler and back: a refusal is an answer, a fault is never a success."""

from __future__ import annotations

import asyncio
import dataclasses
import logging
import struct
from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any, cast

import pytest
from kio.schema.request_header.v1.header import RequestHeader as ClassicHeader
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader

from chronik.api.call import Peer
from chronik.core.errors import Code, Refused
from chronik.node.net.connection import Slot
from chronik.node.routing.dispatch import Dispatch
from chronik.trace.metrics import Metrics
from chronik.wire.errors import Malformed
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import API_VERSIONS, APIS, INSPECT, NODE_SOFTWARE
from tests.unit.api.fake_context import fake_context, groups_of, metadata_of
from tests.unit.wire.messages import filled, read, request_type, response_type, write

METADATA, HEARTBEAT, INIT_PRODUCER_ID, PRODUCE, FETCH = 3, 12, 22, 0, 1
CORRELATION_ID = 4711


class Answers:
    """A connection that keeps its answers."""

    def __init__(self) -> None:
        self.slots: list[Slot] = []

    def slot(self) -> Slot:
        made = Slot(cast(Any, self))
        self.slots.append(made)
        return made

    def slot_filled(self, slot: Slot) -> None:
        pass


class RequestContext:
    """A dispatch over a fake desk, and the way to ask it."""

    def __init__(self) -> None:
        self.context = fake_context(topics={"orders": 1})
        self.metrics = Metrics()
        self.dispatch = Dispatch(self.context, self.metrics)
        self.answers = Answers()
        self.overlaps: bool | None = None

    def start(self, frame: bytes) -> Slot:
        slot = self.answers.slot()
        self.overlaps = self.dispatch.start(memoryview(bytearray(frame)), Peer(1, "10.0.0.7"), slot)
        return slot

    async def ask(self, api_key: int, version: int, body: bytes | None = None) -> Any:
        """The response kio reads in what was answered; None for a hang-up."""
        slot = self.start(frame_of(api_key, version, body))
        for _ in range(10):
            if not slot.is_filled:
                await asyncio.sleep(0)
        assert slot.is_filled
        return read_answer(api_key, version, slot.buffers)


def frame_of(api_key: int, version: int, body: bytes | None = None) -> bytes:
    header_type: Any = FlexibleHeader if APIS[api_key].is_flexible(version) else ClassicHeader
    head = header_type(
        request_api_key=api_key, request_api_version=version, correlation_id=CORRELATION_ID, client_id="test"
    )
    return write(head) + (write(filled(request_type(api_key, version), "full")) if body is None else body)


def read_answer(api_key: int, version: int, buffers: Any) -> Any:
    if buffers is None:
        return None
    frame = b"".join(bytes(buffer) for buffer in buffers)
    kind = response_type(api_key, version)
    head = write(kind.__header_schema__(correlation_id=CORRELATION_ID))
    assert frame[:4] == struct.pack(">i", len(frame) - 4)
    assert frame[4 : 4 + len(head)] == head
    return read(kind, frame[4 + len(head) :])


@pytest.fixture(autouse=True)
def _quiet() -> Iterator[None]:
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)


def run(test: Any) -> Any:
    async def with_desk() -> None:
        await test(RequestContext())

    def wrapped() -> None:
        asyncio.run(with_desk())

    wrapped.__name__ = test.__name__
    return wrapped


@pytest.mark.parametrize("version", range(14))
def test_a_request_of_any_version_gets_an_answer_of_that_version(version: int) -> None:
    async def ask() -> None:
        context = RequestContext()
        response = await context.ask(METADATA, version, write(filled(request_type(METADATA, version), "null")))
        assert [broker.node_id for broker in response.brokers] == [1]
        assert context.metrics.requests[METADATA] == 1

    asyncio.run(ask())


@run
async def test_a_refusal_is_a_code_in_the_response(context: RequestContext) -> None:
    def refuse(group_id: str, command: Any) -> Any:
        raise Refused(Code.NOT_COORDINATOR)

    groups_of(context.context).answer = refuse

    response = await context.ask(HEARTBEAT, 4)

    assert response.error_code == Code.NOT_COORDINATOR
    assert context.metrics.refusals == {(HEARTBEAT, Code.NOT_COORDINATOR): 1}
    assert context.metrics.faults == 0


@pytest.mark.parametrize("api_key", [HEARTBEAT, INIT_PRODUCER_ID])
def test_a_fault_in_a_handler_is_unknown_server_error_and_never_success(api_key: int) -> None:
    async def ask() -> None:
        context = RequestContext()

        def fail(*arguments: Any) -> Any:
            raise RuntimeError("a bug")

        groups_of(context.context).answer = fail
        metadata_of(context.context).refusing = cast(Any, RuntimeError("a bug"))
        response = await context.ask(api_key, 4, write(filled(request_type(api_key, 4), "null")))
        assert response.error_code == Code.UNKNOWN_SERVER_ERROR
        assert context.metrics.faults == 1

    asyncio.run(ask())


@run
async def test_a_response_that_cannot_be_written_is_unknown_server_error(context: RequestContext) -> None:
    broker = metadata_of(context.context).image.brokers[1]
    metadata_of(context.context).image.brokers[1] = dataclasses.replace(broker, port=cast(Any, "no number"))

    response = await context.ask(METADATA, 13, write(filled(request_type(METADATA, 13), "null")))

    assert response.error_code == Code.UNKNOWN_SERVER_ERROR
    assert context.metrics.faults == 1


@pytest.mark.parametrize("api_key", [PRODUCE, FETCH])
def test_a_fault_in_produce_or_fetch_hangs_up(api_key: int) -> None:
    """Parts of it may have happened: neither success nor an error would be true of all of it."""

    async def ask() -> None:
        context = RequestContext()
        broken = Dispatch(cast(Any, SimpleNamespace()), context.metrics)  # a desk with nothing on it
        slot = context.answers.slot()
        broken.start(memoryview(bytearray(frame_of(api_key, 9 if api_key == PRODUCE else 12))), Peer(1, ""), slot)
        assert (slot.is_filled, slot.buffers) == (True, None)
        assert context.metrics.faults == 1

    asyncio.run(ask())


@pytest.mark.parametrize("version", [6, 99, 32_767, -1])
def test_an_unknown_version_of_api_versions_gets_the_table_in_version_0(version: int) -> None:
    async def ask() -> None:
        context = RequestContext()
        slot = context.start(struct.pack(">hhih", API_VERSIONS, version, CORRELATION_ID, 2) + b"me" + b"\xff\xff")
        response = read_answer(API_VERSIONS, 0, slot.buffers)
        assert response.error_code == Code.UNSUPPORTED_VERSION
        assert {entry.api_key for entry in response.api_keys} == set(APIS)

    asyncio.run(ask())


@pytest.mark.parametrize(
    ("api_key", "version"), [(4, 0), (999, 0), (-1, 0), (METADATA, 14), (METADATA, -1), (FETCH, 3)]
)
def test_a_request_or_version_that_is_not_spoken_ends_the_connection(api_key: int, version: int) -> None:
    async def ask() -> None:
        context = RequestContext()
        with pytest.raises(Malformed):
            context.start(struct.pack(">hhih", api_key, version, CORRELATION_ID, -1))
        assert context.metrics.faults == 0

    asyncio.run(ask())


@pytest.mark.parametrize("api_key", [METADATA, PRODUCE, FETCH, HEARTBEAT])
def test_bytes_that_are_no_request_end_the_connection(api_key: int) -> None:
    async def ask() -> None:
        context = RequestContext()
        version = APIS[api_key].highest
        with pytest.raises(Malformed):
            context.start(frame_of(api_key, version, b"\xff"))
        assert context.metrics.faults == 0

    asyncio.run(ask())


@run
async def test_behind_which_requests_the_next_may_start_is_as_the_table_says(context: RequestContext) -> None:
    await context.ask(METADATA, 4, write(filled(request_type(METADATA, 4), "null")))
    assert context.overlaps is False

    await context.ask(HEARTBEAT, 4)

    assert context.overlaps is True


@run
async def test_a_handler_that_waits_is_answered_when_it_is_done(context: RequestContext) -> None:
    gate = asyncio.Event()

    async def ask_slowly(group_id: str, command: Any) -> Any:
        await gate.wait()
        raise Refused(Code.REBALANCE_IN_PROGRESS)

    cast(Any, groups_of(context.context)).ask = ask_slowly
    slot = context.start(frame_of(HEARTBEAT, 4))
    await asyncio.sleep(0)
    assert not slot.is_filled

    gate.set()
    for _ in range(5):
        await asyncio.sleep(0)

    assert read_answer(HEARTBEAT, 4, slot.buffers).error_code == Code.REBALANCE_IN_PROGRESS


@run
async def test_clients_that_come_too_early_are_hung_up_on_but_not_by_a_node_that_is_alone(
    context: RequestContext,
) -> None:
    context.dispatch.serves_clients = False
    hung_up = context.start(frame_of(HEARTBEAT, 4))
    context.dispatch.lets_clients_wait = True
    waiting = context.start(frame_of(HEARTBEAT, 4))
    assert (hung_up.is_filled, hung_up.buffers, waiting.is_filled) == (True, None, False)

    context.dispatch.serve_clients()
    for _ in range(5):
        await asyncio.sleep(0)

    assert waiting.is_filled
    assert waiting.buffers is not None


@run
async def test_nonsense_that_came_early_ends_its_connection_and_no_other(context: RequestContext) -> None:
    context.dispatch.serves_clients, context.dispatch.lets_clients_wait = False, True
    nonsense = context.start(frame_of(HEARTBEAT, 4, b"\xff"))
    sound = context.start(frame_of(HEARTBEAT, 4))

    context.dispatch.serve_clients()
    for _ in range(5):
        await asyncio.sleep(0)

    assert (nonsense.is_filled, nonsense.buffers) == (True, None)
    assert sound.buffers is not None


@run
async def test_background_work_that_fails_is_counted_and_closing_ends_the_rest(context: RequestContext) -> None:
    async def fail() -> None:
        raise RuntimeError("a bug")

    async def wait_for_ever() -> None:
        await asyncio.Event().wait()

    context.dispatch.watch(fail())
    context.dispatch.watch(wait_for_ever())
    for _ in range(3):
        await asyncio.sleep(0)
    assert context.metrics.faults == 1

    await context.dispatch.close()

    assert asyncio.all_tasks() == {asyncio.current_task()}
    assert context.metrics.faults == 1


@run
async def test_every_request_with_hostile_bytes_is_answered_or_ends_the_connection(context: RequestContext) -> None:
    """The same bytes at every request and version: no fault, and what is answered is readable."""
    hostile = [b"", b"\x00", b"\xff" * 8, b"\x7f" * 40, bytes(64), b"\x01" * 30]
    for api in APIS.values():
        if api.key in (PRODUCE, FETCH):
            continue  # they need replicas: tests/unit/api
        for version in range(api.supported, api.highest + 1):
            for body in hostile:
                try:
                    slot = context.start(frame_of(api.key, version, body))
                except Malformed:
                    continue
                for _ in range(10):
                    if not slot.is_filled:
                        await asyncio.sleep(0)
                if slot.is_filled:
                    read_answer(api.key, version, slot.buffers)


def look_frame(version: int = 0) -> bytes:
    return struct.pack(">hhihi", INSPECT, version, CORRELATION_ID, -1, 16) + b'{"view":"state"}'


@run
async def test_a_look_is_answered_at_any_time_even_while_the_node_starts(context: RequestContext) -> None:
    async def look(view: str, arguments: dict[str, Any]) -> bytes:
        return b'{"node":1}'

    seen = dataclasses.replace(context.context, look=look, start=lambda work: context.dispatch.watch(work))
    context.dispatch = Dispatch(seen, context.metrics)
    context.dispatch.serves_clients = False

    slot = context.start(look_frame())
    await asyncio.sleep(0.0)
    await asyncio.sleep(0.0)

    assert slot.buffers is not None
    assert b"".join(map(bytes, slot.buffers)) == struct.pack(">iii", 18, CORRELATION_ID, 10) + b'{"node":1}'
    assert (context.metrics.requests[INSPECT], context.metrics.faults) == (1, 0)


@run
async def test_a_look_of_another_version_ends_the_connection(context: RequestContext) -> None:
    with pytest.raises(Malformed):
        context.start(look_frame(version=1))


def test_who_asks_again_is_the_same_caller_until_anything_of_it_changes() -> None:
    peer = Peer(1, "10.0.0.7")
    header = RequestHeader(PRODUCE, 9, CORRELATION_ID, "app", 0)

    first = peer.caller_for(header)

    assert (first.client_id, first.client_host, first.version, first.connection_id) == ("app", "10.0.0.7", 9, 1)
    assert peer.caller_for(header._replace(correlation_id=7)) is first
    assert peer.caller_for(header._replace(client_id="other")).client_id == "other"
    assert peer.caller_for(header._replace(version=10)).version == 10
    assert Peer(2, "10.0.0.8").caller_for(header).connection_id == 2


def test_a_caller_that_says_it_is_a_node_is_one_from_then_on() -> None:
    context, peer = RequestContext(), Peer(1, "10.0.0.7")
    before = peer.caller_for(RequestHeader(API_VERSIONS, 4, CORRELATION_ID, "test", 0))
    body = dataclasses.replace(filled(request_type(API_VERSIONS, 4), "full"), client_software_name=NODE_SOFTWARE)

    context.dispatch.start(memoryview(frame_of(API_VERSIONS, 4, write(body))), peer, context.answers.slot())

    after = peer.caller_for(RequestHeader(API_VERSIONS, 4, CORRELATION_ID, "test", 0))
    assert (before.is_node, after.is_node) == (False, True)
