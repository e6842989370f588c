"""A connection that has to log in: what it may ask before, and how it ends when it cannot."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from kio.schema.request_header.v2.header import RequestHeader as FlexibleHeader
from kio.static.primitive import i16, i32

from chronik.api.call import Peer
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.access.sasl import PLAIN, SaslLogin, SaslServer
from chronik.core.errors import Code
from chronik.node.net.connection import Slot
from chronik.node.routing.dispatch import Dispatch
from chronik.wire.errors import Malformed
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE, node_name, node_name_for
from tests.unit.node.routing.test_dispatch import CORRELATION_ID, METADATA, RequestContext, frame_of, read_answer
from tests.unit.wire.messages import request_type, write

RIGHT, WRONG = b"\x00alice\x00hers", b"\x00alice\x00his"
BEFORE = (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE)


class Waiting:
    """A connection that waits for one answer."""

    def __init__(self) -> None:
        self.is_answered = asyncio.Event()

    def slot_filled(self, slot: Slot) -> None:
        self.is_answered.set()


class Stranger(RequestContext):
    """A connection on a listener where clients log in."""

    def __init__(self) -> None:
        super().__init__()
        self.peer = Peer(1, "10.0.0.7", "CLIENTS")
        server = SaslServer((PLAIN,), lambda: "n", b"k", {"alice": "hers"})
        self.peer.login = SaslLogin(server, lambda: 0, self.peer.authenticate_as)

    async def say(self, frame: bytes) -> Any:
        waiting = Waiting()
        slot = Slot(cast(Any, waiting))
        self.dispatch.start(memoryview(bytearray(frame)), self.peer, slot)
        await asyncio.wait_for(waiting.is_answered.wait(), 5)
        return slot.buffers

    async def handshake(self, mechanism: str = PLAIN, version: int = 1) -> Any:
        body = write(request_type(SASL_HANDSHAKE, version)(mechanism=mechanism))
        answer = await self.say(frame_of(SASL_HANDSHAKE, version, body))
        return read_answer(SASL_HANDSHAKE, version, answer)

    async def authenticate(self, message: bytes, version: int = 2) -> Any:
        body = write(request_type(SASL_AUTHENTICATE, version)(auth_bytes=message))
        answer = await self.say(frame_of(SASL_AUTHENTICATE, version, body))
        return read_answer(SASL_AUTHENTICATE, version, answer)


@pytest.mark.parametrize("api_key", [key for key in APIS if key not in BEFORE], ids=lambda key: APIS[key].name)
def test_nothing_else_may_be_asked_before(api_key: int) -> None:
    version = APIS[api_key].highest
    frame = frame_of(api_key, version)
    with pytest.raises(Malformed, match="has not logged in"):
        asyncio.run(Stranger().say(frame))


@pytest.mark.parametrize("version", [0, 1, 2])
def test_a_login_opens_the_connection(version: int) -> None:
    async def inside() -> None:
        stranger = Stranger()
        assert (await stranger.handshake()).error_code == Code.NONE
        assert (await stranger.authenticate(RIGHT, version)).error_code == Code.NONE
        assert stranger.peer.principal == KafkaPrincipal("User", "alice")
        assert await stranger.say(frame_of(METADATA, 1)) is not None

    asyncio.run(inside())


def test_messages_without_headers_follow_the_first_version_of_the_handshake() -> None:
    async def inside() -> None:
        stranger = Stranger()
        assert (await stranger.handshake(version=0)).error_code == Code.NONE
        assert await stranger.say(RIGHT) == (bytes(4),)
        assert await stranger.say(frame_of(METADATA, 1)) is not None
        other = Stranger()
        await other.handshake(version=0)
        assert await other.say(WRONG) is None, "the connection is closed"

    asyncio.run(inside())


def test_a_refused_login_ends_the_connection_and_is_counted() -> None:
    async def inside() -> None:
        stranger = Stranger()
        await stranger.handshake()
        refused = await stranger.authenticate(WRONG)
        assert refused.error_code == Code.SASL_AUTHENTICATION_FAILED
        assert stranger.peer.is_refused
        assert stranger.metrics.refusals == {(SASL_AUTHENTICATE, Code.SASL_AUTHENTICATION_FAILED): 1}

    asyncio.run(inside())


def test_a_mechanism_that_is_not_offered_is_answered_with_those_that_are() -> None:
    async def inside() -> None:
        answer = await Stranger().handshake("GSSAPI")
        assert (answer.error_code, answer.mechanisms) == (Code.UNSUPPORTED_SASL_MECHANISM, (PLAIN,))

    asyncio.run(inside())


def test_what_a_node_asks_for_a_client_is_asked_as_that_client() -> None:
    """F66"""

    async def inside() -> None:
        house = RequestContext()
        peer, alice = Peer(1, "10.0.0.2", "NODES"), KafkaPrincipal("User", "alice\nUser:root")
        version = 3
        body = write(request_type(API_VERSIONS, version)(client_software_name="chronik", client_software_version="1"))
        head = FlexibleHeader(
            request_api_key=i16(API_VERSIONS),
            request_api_version=i16(version),
            correlation_id=i32(1),
            client_id=node_name_for(2, str(alice), "10.9.9.9"),
        )
        house.dispatch.start(memoryview(bytearray(write(head) + body)), peer, house.answers.slot())
        caller = peer.caller_for(RequestHeader(METADATA, 1, 1, "c", 0))
        assert (caller.is_node, caller.node_id, caller.is_forwarded) == (True, -1, True)
        assert (caller.principal, caller.client_host) == (alice, "10.9.9.9")

    asyncio.run(inside())


def test_a_node_id_of_another_principal_is_refused_and_the_connection_ends() -> None:
    """F64"""

    async def inside() -> None:
        house = RequestContext()
        node, thief = KafkaPrincipal("User", "node2"), KafkaPrincipal("User", "node3")
        house.dispatch = Dispatch(
            house.context, house.metrics, may_be=lambda node_id, principal: principal == {2: node, 3: thief}[node_id]
        )

        def connected(principal: KafkaPrincipal) -> Peer:
            peer = Peer(1, "10.0.0.2", "NODES")
            peer.authenticate_as(principal)
            return peer

        def introduced(peer: Peer, client_id: str) -> Peer:
            version = 3
            body = write(
                request_type(API_VERSIONS, version)(client_software_name="chronik", client_software_version="1")
            )
            head = FlexibleHeader(
                request_api_key=i16(API_VERSIONS),
                request_api_version=i16(version),
                correlation_id=i32(CORRELATION_ID),
                client_id=client_id,
            )
            house.dispatch.start(memoryview(bytearray(write(head) + body)), peer, house.answers.slot())
            return peer

        assert introduced(connected(node), node_name(2)).node_id == 2
        refused = introduced(connected(thief), node_name(2))
        assert (refused.is_node, refused.is_refused) == (False, True)
        answer = read_answer(API_VERSIONS, 3, house.answers.slots[-1].buffers)
        assert answer.error_code == Code.CLUSTER_AUTHORIZATION_FAILED
        # Nor by way of a client's principal, which any node may say.
        posing = introduced(connected(thief), node_name_for(3, str(node), "10.9.9.9"))
        assert (posing.principal, posing.is_refused) == (node, False)
        assert introduced(posing, node_name(2)).is_refused

    asyncio.run(inside())
