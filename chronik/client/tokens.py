"""Tokens for SASL OAUTHBEARER: read from a file, or asked for with client credentials (RFC 6749, 4.4).

A token is fetched when a connection needs one and the last is about to end. The text of one is never in an error.
"""

from __future__ import annotations

import base64
import json
import ssl
import threading
import time
import urllib.error
import urllib.parse
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path

from chronik.client.errors import ChronikError

ENDPOINT_TIMEOUT_S = 10.0
ANSWER_BYTES_MAX = 1024 * 1024
EARLY_S = 10.0
"""A token that ends within this time is not used any more."""
UNKNOWN_LIFE_S = 300.0
"""How long one is used that does not say when it ends."""


@dataclass(frozen=True)
class BearerToken:
    text: str = field(repr=False)
    expires_s: float
    """By the wall clock, in seconds since 1970."""


@dataclass(frozen=True)
class TokenSource:
    """Where tokens come from: `file`, or an endpoint that gives one for an id and a secret."""

    file: str | None = None
    endpoint: str | None = None
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str | None = None
    ca_file: str | None = None
    """Whose certificates are believed of the endpoint."""

    def token(self) -> BearerToken:
        """One that can be used now. Raises ChronikError."""
        with _lock:
            known = _kept.get(self)
            if known is None or known.expires_s - time.time() < EARLY_S:
                known = _kept[self] = self._from_file() if self.file is not None else self._from_endpoint()
            return known

    def _from_file(self) -> BearerToken:
        assert self.file is not None
        try:
            text = Path(self.file).read_text(encoding="ascii").strip()
        except OSError as problem:
            raise ChronikError(f"the token in {self.file} cannot be read: {problem.strerror}") from problem
        except UnicodeDecodeError:
            raise ChronikError(f"{self.file} has no token in it", "it must have a JWT and nothing else") from None
        if not text:
            raise ChronikError(f"{self.file} is empty", "it must have a token (a JWT) in it")
        return BearerToken(text, _end_of(text))

    def _from_endpoint(self) -> BearerToken:
        assert self.endpoint is not None
        body = {"grant_type": "client_credentials"} | ({} if self.scope is None else {"scope": self.scope})
        login = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        request = urllib.request.Request(
            self.endpoint,
            urllib.parse.urlencode(body).encode(),
            {"Authorization": f"Basic {login}", "Accept": "application/json"},
        )
        try:
            with urllib.request.urlopen(request, timeout=ENDPOINT_TIMEOUT_S, context=self._tls()) as answer:
                told = json.loads(answer.read(ANSWER_BYTES_MAX))
            text = told["access_token"]
            lives_s = float(told.get("expires_in", UNKNOWN_LIFE_S))
        except urllib.error.HTTPError as refused:
            refused.close()
            raise ChronikError(
                f"{self.endpoint} gives no token: {refused.code} {refused.reason}",
                "check clientId, clientSecret and scope",
            ) from None
        except OSError as problem:
            why = getattr(problem, "reason", None) or problem
            raise ChronikError(f"{self.endpoint} gives no token: {why}") from None
        except (ValueError, KeyError, TypeError):  # whatever it says may hold a secret: it is not shown
            raise ChronikError(f"{self.endpoint} gives no token: its answer has no access_token") from None
        if not isinstance(text, str) or not text.isascii() or not text:
            raise ChronikError(f"{self.endpoint} gives no token: its access_token is not text")
        return BearerToken(text, time.time() + lives_s)

    def _tls(self) -> ssl.SSLContext | None:
        if self.endpoint is None or not self.endpoint.startswith("https:"):
            return None
        return ssl.create_default_context(cafile=self.ca_file)


def _end_of(token: str) -> float:
    """What a JWT says of its end. Nothing is checked: that is for the node to do."""
    try:
        payload = token.split(".")[1]
        said = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
        return float(said["exp"])
    except (ValueError, KeyError, IndexError, TypeError):
        return time.time() + UNKNOWN_LIFE_S


_lock = threading.Lock()
_kept: dict[TokenSource, BearerToken] = {}
