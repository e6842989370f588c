"""SASL on the links to other nodes: this node logs in before its first request there."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from chronik.core.access.jaas import JaasLogin
from chronik.core.access.principal import USER_TYPE, KafkaPrincipal
from chronik.core.access.sasl import PLAIN
from chronik.core.access.scram import SCRAM_MECHANISMS, AuthenticationFailed, ScramClient
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.core.ports import Chance
from chronik.wire.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 2

# Sends a request in this version and gives the response.
AskOnce = Callable[[int, int, Any], Awaitable[Any]]


class LinkLogin:
    """Name, password and mechanism. Its text hides the password."""

    def __init__(self, mechanism: str, login: JaasLogin, nonce: Callable[[], str]) -> None:
        assert login.username is not None  # or the config would not have been taken
        self._mechanism = mechanism
        self._username, self._password = login.username, login.password
        self._nonce = nonce

    async def log_in(self, ask: AskOnce) -> None:
        """Raises AuthenticationFailed."""
        from kio.schema.sasl_handshake.v1.request import SaslHandshakeRequest  # a node without SASL starts without it

        answer = await ask(SASL_HANDSHAKE, HANDSHAKE_VERSION, SaslHandshakeRequest(mechanism=self._mechanism))
        if answer.error_code != Code.NONE:
            raise AuthenticationFailed(f"it does not take {self._mechanism}: {Code(answer.error_code).name}")
        if self._mechanism == PLAIN:
            await self._step(ask, b"\x00".join((b"", self._username.encode(), self._password.encode())))
            return
        scram = ScramClient(SCRAM_MECHANISMS[self._mechanism], self._username, self._password, self._nonce())
        final = scram.final(await self._step(ask, scram.first()))
        scram.check(await self._step(ask, final))

    async def _step(self, ask: AskOnce, message: bytes) -> bytes:
        from kio.schema.sasl_authenticate.v2.request import SaslAuthenticateRequest

        request = SaslAuthenticateRequest(auth_bytes=message)
        answer = await ask(SASL_AUTHENTICATE, AUTHENTICATE_VERSION, request)
        if answer.error_code != Code.NONE:
            name = Code(answer.error_code).name
            raise AuthenticationFailed(f"it does not let {self._username} in: {answer.error_message or name}")
        return bytes(answer.auth_bytes)


def node_login(config: NodeConfig, chance: Chance) -> LinkLogin | None:
    """What the config says of it; None where nodes do not log in to each other."""
    login = config.node_login
    if login is None or login.username is None:
        return None
    mechanism = config.sasl.sasl_mechanism_inter_broker_protocol
    return LinkLogin(mechanism, login, lambda: (chance.uuid() + chance.uuid()).hex())


def node_principal(config: NodeConfig, by_certificate: KafkaPrincipal) -> KafkaPrincipal:
    """As what other nodes see this one."""
    login = config.node_login
    if login is None or login.username is None:
        return by_certificate
    return KafkaPrincipal(USER_TYPE, login.username)
