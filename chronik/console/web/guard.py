"""What a browser may ask: only by our own names, and what changes anything only from our own pages.

There are no logins yet, so all that stands between a web page elsewhere and a cluster is here. A page can have its own
name resolve to our address (DNS rebinding): the Host is checked. It can post a form to us: a form without the token of
this process, which only our own pages can be read for, is refused, and so is one that a browser says comes from
elsewhere. And should a name of a topic ever get past the escaping, the policy below allows no script that is not a file
of ours.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Mapping
from typing import TYPE_CHECKING

from starlette.datastructures import Headers, MutableHeaders
from starlette.responses import PlainTextResponse

from chronik.http.hosts import is_answered

if TYPE_CHECKING:
    from starlette.types import ASGIApp, Message, Receive, Scope, Send

MISDIRECTED = 421
FORM_BYTES_MAX = 64 * 1024
CONTENT_SECURITY_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; "
    "form-action 'self'; base-uri 'none'; frame-ancestors 'none'"
)
SECURITY_HEADERS: Mapping[str, str] = {
    "content-security-policy": CONTENT_SECURITY_POLICY,
    "x-content-type-options": "nosniff",
    "x-frame-options": "DENY",
    # Not `no-referrer`: browsers would then send our own forms with the origin `null`, as a hostile page's frame does.
    "referrer-policy": "same-origin",
    "cross-origin-opener-policy": "same-origin",
    "cross-origin-resource-policy": "same-origin",
}


class Token:
    """Of this process. It is in every form that changes something."""

    def __init__(self) -> None:
        self.value = secrets.token_urlsafe(32)

    def fits(self, given: str) -> bool:
        return hmac.compare_digest(self.value.encode(), given.encode())


def refusal(headers: Mapping[str, str], token: Token, given: str, is_read_only: bool) -> str | None:
    """Why a request to change something is refused; None where it may go on."""
    if is_read_only:
        return "this console is read-only"
    site = headers.get("sec-fetch-site", "same-origin")
    if site not in ("same-origin", "none"):
        return "this was sent by a page of another site"
    origin = headers.get("origin")
    if origin is not None and origin.partition("://")[2] != headers.get("host", ""):
        return "this was sent by a page of another site"
    if not token.fits(given):
        return "the form is of an earlier run of the console: load the page again"
    return None


class ConsoleGuard:
    """Stands before the application: checks the Host, and adds the headers that limit what a page may do."""

    def __init__(self, app: ASGIApp, names: frozenset[str]) -> None:
        self._app = app
        self._names = names

    async def __call__(self, scope: Scope, receive: Receive, send: Send) -> None:
        if scope["type"] != "http":
            await self._app(scope, receive, send)
            return

        async def send_guarded(message: Message) -> None:
            if message["type"] == "http.response.start":
                headers = MutableHeaders(scope=message)
                for name, value in SECURITY_HEADERS.items():
                    headers.setdefault(name, value)
                headers.setdefault("cache-control", "no-store")
            await send(message)

        host = Headers(scope=scope).get("host", "")
        if not is_answered(host, self._names):
            words = f"the console does not go by the name in Host ({host[:100]!r}); --allow-host adds names\n"
            await PlainTextResponse(words, MISDIRECTED)(scope, receive, send_guarded)
            return
        await self._app(scope, receive, send_guarded)
