"""Who may ask the HTTP port: with a token of `http.token.file`, or as a user of the cluster (`http.basic.auth.enable`).

A user logs in with its SCRAM password (RFC 7617) and, where ACLs count, needs ALTER on the cluster: what is shown here
is everything, as with a look over the Kafka port. The file is read at each request, so tokens change without a restart.
What a caller sent is never logged.
"""

from __future__ import annotations

import asyncio
import base64
import binascii
import hmac
import json
import logging
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from chronik.core.access.authorizer import Authorizer
from chronik.core.access.operations import AclOperation, AclResourceType
from chronik.core.access.principal import USER_TYPE, KafkaPrincipal
from chronik.core.access.scram import ScramCredential, ScramMechanism, check_password, credential_of

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Receive, Scope, Send

    from chronik.node.node import Node

log = logging.getLogger(__name__)

UNAUTHORIZED, FORBIDDEN = 401, 403
CREDENTIALS_BYTES_MAX = 4096
TOKENS_BYTES_MAX = 64 * 1024
TOKEN_BYTES_MIN = 16
CLUSTER_NAME = "kafka-cluster"
_DECOY = credential_of(ScramMechanism.SHA_512, b"", b"decoy", 4096)

Credentials = Callable[[str, ScramMechanism], ScramCredential | None]


class HttpAccess:
    """Stands before the application. Paths that are open are answered to all."""

    def __init__(
        self,
        app: ASGIApp,
        *,
        open_paths: frozenset[str] = frozenset(),
        token_file: str | None = None,
        credentials: Credentials | None = None,
        authorizer: Authorizer | None = None,
        delay_s: float = 0.0,
    ) -> None:
        self._app = app
        self._open_paths = open_paths
        self._token_file = token_file
        self._credentials = credentials
        self._authorizer = authorizer
        self._delay_s = delay_s

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        refusal = None if scope.get("path") in self._open_paths else await self._refusal(scope)
        if refusal is None:
            await self._app(scope, receive, send)
            return
        status, reason = refusal
        if self._delay_s:
            await asyncio.sleep(self._delay_s)
        body = json.dumps({"error": reason}).encode() + b"\n"
        headers = [(b"content-type", b"application/json"), (b"content-length", str(len(body)).encode())]
        if status == UNAUTHORIZED:
            wanted = "Bearer" if self._credentials is None else 'Basic realm="chronik", charset="UTF-8"'
            headers.append((b"www-authenticate", wanted.encode()))
        start: dict[str, Any] = {"type": "http.response.start", "status": status, "headers": headers}
        await send(start)
        await send({"type": "http.response.body", "body": body})

    async def _refusal(self, scope: Scope) -> tuple[int, str] | None:
        """Status and reason; None where it may ask."""
        given = next((value for name, value in scope.get("headers", ()) if name == b"authorization"), b"")
        scheme, _, word = given[:CREDENTIALS_BYTES_MAX].partition(b" ")
        if scheme.lower() == b"bearer" and self._token_file is not None:
            is_known = await asyncio.to_thread(_is_token, self._token_file, word.strip())
            return None if is_known else (UNAUTHORIZED, "this token is not known")
        if scheme.lower() == b"basic" and self._credentials is not None:
            return await self._refusal_of_user(word, scope)
        return UNAUTHORIZED, "a login is wanted: a token (http.token.file), or a user of the cluster with its password"

    async def _refusal_of_user(self, word: bytes, scope: Scope) -> tuple[int, str] | None:
        assert self._credentials is not None
        try:
            user, colon, password = base64.b64decode(word.strip(), validate=True).decode().partition(":")
        except (binascii.Error, ValueError):
            return UNAUTHORIZED, "what was sent as a login cannot be read"
        mechanism, credential = ScramMechanism.SHA_512, self._credentials(user, ScramMechanism.SHA_512)
        if credential is None:
            mechanism, credential = ScramMechanism.SHA_256, self._credentials(user, ScramMechanism.SHA_256)
        # A name that is not known takes as long as one that is.
        is_right = await asyncio.to_thread(
            check_password, mechanism if credential else ScramMechanism.SHA_512, credential or _DECOY, password.encode()
        )
        if credential is None or not colon or not is_right:
            return UNAUTHORIZED, "invalid credentials"
        principal, (host, _) = KafkaPrincipal(USER_TYPE, user), scope.get("client") or ("", 0)
        asked = principal, host, AclOperation.ALTER, AclResourceType.CLUSTER, CLUSTER_NAME
        if self._authorizer is not None and not self._authorizer.is_allowed(*asked):
            return FORBIDDEN, f"{principal} needs ALTER on the cluster"
        return None


def _is_token(path: str, given: bytes) -> bool:
    try:
        with open(path, "rb") as file:
            lines = file.read(TOKENS_BYTES_MAX).split()
    except OSError as problem:
        log.error("http.token.file cannot be read, so that nothing is let in: %s", problem.strerror)
        return False
    # All are compared: how long it takes does not say which one was near. A short one could be guessed.
    found = [hmac.compare_digest(each, given) for each in lines if len(each) >= TOKEN_BYTES_MIN]
    return any(found)


def with_access(app: ASGIApp, node: Node) -> ASGIApp:
    """As the node's settings say; the application itself where nothing is asked for."""
    config = node.config.http
    if not config.is_login_needed:
        return app

    def credential(user: str, mechanism: ScramMechanism) -> ScramCredential | None:
        return node.image.access.scram.get((user, mechanism))

    return HttpAccess(
        app,
        open_paths=frozenset(config.http_open_paths),
        token_file=config.http_token_file,
        credentials=credential if config.http_basic_auth_enable else None,
        authorizer=node.make_authorizer(),
        delay_s=node.config.sasl.connection_failed_authentication_delay_ms / 1000,
    )
