"""SASL, the client's side, over a connection that blocks: PLAIN, SCRAM and OAUTHBEARER.

The requests are in the versions that every Kafka knows, and written by hand: kio is not needed to log in.
"""

from __future__ import annotations

import secrets
import struct
from collections.abc import Callable

from chronik.client.security import OAUTHBEARER, PLAIN, Security
from chronik.core.access.scram import SCRAM_MECHANISMS, AuthenticationFailed, ScramClient
from chronik.core.errors import Code
from chronik.wire.versions import SASL_AUTHENTICATE, SASL_HANDSHAKE

HANDSHAKE_VERSION, AUTHENTICATE_VERSION = 1, 0
_INT16, _INT32 = struct.Struct(">h"), struct.Struct(">i")

# A request by its number, version and body, to its response without its header.
AskPlainly = Callable[[int, int, bytes], bytes]


class LoginRefused(Exception):
    """The node does not let this one in; the message says why, and has no secret in it."""


def log_in(security: Security, ask: AskPlainly) -> None:
    """Raises LoginRefused, and whatever `ask` raises."""
    mechanism = security.mechanism or ""
    name = mechanism.encode()
    answer = ask(SASL_HANDSHAKE, HANDSHAKE_VERSION, _INT16.pack(len(name)) + name)
    try:
        if (code := _INT16.unpack_from(answer)[0]) != Code.NONE:
            offered = ", ".join(_offered(answer))
            raise LoginRefused(
                f"it does not take {mechanism}" + (f", but {offered}" if offered else f" ({_name(code)})")
            )
        if mechanism == OAUTHBEARER:
            assert security.token is not None
            bearer = b"n,,\x01auth=Bearer " + security.token.token().text.encode() + b"\x01\x01"
            if _authenticate(ask, bearer, "the token"):  # why it is refused (RFC 7628); the node says so once more
                _authenticate(ask, b"\x01", "the token")
                raise LoginRefused("it does not let the token in")
            return
        user, password = security.username or "", security.password or ""
        if mechanism == PLAIN:
            _authenticate(ask, b"\x00".join((b"", user.encode(), password.encode())), user)
            return
        scram = ScramClient(SCRAM_MECHANISMS[mechanism], user, password, secrets.token_hex(16))
        final = scram.final(_authenticate(ask, scram.first(), user))
        scram.check(_authenticate(ask, final, user))
    except AuthenticationFailed as problem:
        raise LoginRefused(str(problem)) from problem
    except struct.error:
        raise LoginRefused("its answer to a login cannot be read") from None


def _offered(answer: bytes) -> list[str]:
    (count,) = _INT32.unpack_from(answer, 2)
    position, found = 6, []
    for _ in range(min(count, 100)):
        (length,) = _INT16.unpack_from(answer, position)
        found.append(answer[position + 2 : position + 2 + length].decode(errors="replace"))
        position += 2 + length
    return found


def _authenticate(ask: AskPlainly, message: bytes, user: str) -> bytes:
    answer = ask(SASL_AUTHENTICATE, AUTHENTICATE_VERSION, _INT32.pack(len(message)) + message)
    (code,) = _INT16.unpack_from(answer)
    (length,) = _INT16.unpack_from(answer, 2)
    position = 4 + max(length, 0)
    if code != Code.NONE:
        words = answer[4:position].decode(errors="replace")
        raise LoginRefused(f"it does not let {user} in: {words or _name(code)}")
    (size,) = _INT32.unpack_from(answer, position)
    return bytes(answer[position + 4 : position + 4 + size]) if size > 0 else b""


def _name(code: int) -> str:
    try:
        return Code(code).name
    except ValueError:
        return f"error {code}"
