"""Whatever a connection sends before it has logged in, it is not let in, and nothing breaks.

CHRONIK_FUZZ_LOGINS sets how many inputs there are.
"""

from __future__ import annotations

import asyncio
import logging
import os
import random
import struct
from typing import Any, cast

import pytest

from chronik.core.access.oauth import InvalidToken, OAuthToken, client_first
from chronik.core.access.sasl import SASL_MECHANISMS, SaslServer
from chronik.core.access.scram import ScramMechanism, credential_of
from chronik.core.config.node import NodeConfig
from chronik.node.net.authentication import Authentication
from chronik.node.net.connection import Connections
from chronik.node.routing.dispatch import Dispatch
from chronik.trace.metrics import Metrics
from chronik.wire.versions import API_VERSIONS, APIS, SASL_AUTHENTICATE, SASL_HANDSHAKE
from tests.unit.api.fake_context import fake_context
from tests.unit.node.fakes import FakeChance, FakeClock, FakeTransport
from tests.unit.node.routing.test_dispatch import frame_of
from tests.unit.wire.messages import request_type, write

INPUTS = int(os.environ.get("CHRONIK_FUZZ_LOGINS", "3000"))
HERS = credential_of(ScramMechanism.SHA_256, b"hers", b"salt", 4096)
FIRST_BYTES_MAX = 10_000


def refused(token: str) -> OAuthToken:
    raise InvalidToken("it is none")


class FuzzedLogins(Authentication):
    """With every mechanism there is."""

    def __init__(self) -> None:
        config = NodeConfig.from_settings(
            {"listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT", "sasl.enabled.mechanisms": "SCRAM-SHA-256"}
        )
        super().__init__(config, FakeClock(), FakeChance(), lambda user, mechanism: None)
        self._servers = {
            "PLAINTEXT": SaslServer(
                SASL_MECHANISMS,
                lambda: "nonce",
                b"k" * 32,
                {"alice": "hers"},
                lambda user, mechanism: HERS if user == "alice" else None,
                validate=refused,
            )
        }


def _said(chance: random.Random) -> bytes:
    """A frame: sound, nearly sound, or no frame at all."""
    messages = [
        b"\x00alice\x00his", b"n,,n=alice,r=abc", b"n,,n=eve,r=abc,tokenauth=true", b"c=biws,r=abcnonce,p=AAAA",
        client_first("a.b.c"), b"\x01", b"", chance.randbytes(chance.randrange(200)),
    ]  # fmt: skip
    kind = chance.randrange(6)
    if kind == 0:
        content = chance.randbytes(chance.randrange(300))
    elif kind == 1:
        mechanism = chance.choice((*SASL_MECHANISMS, "GSSAPI", "\u0000", "x" * 500))
        version = chance.randrange(2)
        content = frame_of(SASL_HANDSHAKE, version, write(request_type(SASL_HANDSHAKE, version)(mechanism=mechanism)))
    elif kind == 2:
        version = chance.randrange(3)
        body = request_type(SASL_AUTHENTICATE, version)(auth_bytes=chance.choice(messages))
        content = frame_of(SASL_AUTHENTICATE, version, write(body))
    elif kind == 3:
        content = chance.choice(messages)  # as after version 0 of the handshake
    elif kind == 4:
        api = chance.choice([*APIS.values()])
        content = frame_of(api.key, chance.randint(api.supported, api.highest))
    else:
        content = frame_of(API_VERSIONS, 3)
    if chance.random() < 0.3 and content:
        broken = bytearray(content)
        for _ in range(chance.randrange(1, 4)):
            broken[chance.randrange(len(broken))] = chance.randrange(256)
        content = bytes(broken)
    size = len(content) if chance.random() < 0.95 else chance.choice((-1, 0, 2**31 - 1, FIRST_BYTES_MAX + 1))
    return struct.pack(">i", size) + content


async def _converse(everyone: Connections, chance: random.Random) -> Any:
    connection = everyone.accept()
    transport = FakeTransport("10.0.0.7")
    connection.connection_made(cast(Any, transport))
    for _ in range(chance.randrange(1, 6)):
        view = memoryview(_said(chance))
        while view and not transport.is_closing():
            space = connection.get_buffer(-1)
            count = min(len(space), len(view))
            space[:count] = view[:count]
            connection.buffer_updated(count)
            view = view[count:]
        await asyncio.sleep(0)
    login = connection._peer.login
    connection.connection_lost(None)
    return login


@pytest.mark.parametrize("seed", range(3))
def test_nothing_is_let_in_that_does_not_know_the_password(seed: int) -> None:
    async def inside() -> tuple[Metrics, list[Any], Connections]:
        context, metrics = fake_context(), Metrics()
        dispatch = Dispatch(context, metrics)
        everyone = Connections(
            dispatch,
            frame_bytes_max=100_000_000,
            under_way_max=100,
            authentication=FuzzedLogins(),
            frame_bytes_max_before_login=FIRST_BYTES_MAX,
        )
        chance = random.Random(seed)
        logins = [await _converse(everyone, chance) for _ in range(INPUTS // 9)]  # three inputs each, three seeds
        await dispatch.close()
        return metrics, logins, everyone

    logging.disable(logging.CRITICAL)
    try:
        metrics, logins, everyone = asyncio.run(inside())
    finally:
        logging.disable(logging.NOTSET)
    assert metrics.faults == 0
    assert [login for login in logins if login is None or login.principal is not None] == []
    assert (everyone.open, everyone.held_bytes, everyone.memory.used_bytes) == ({}, 0, 0)
