"""The keys that sign tokens of OAUTHBEARER (KIP-768): a JSON Web Key Set, from a file or an address.

They are fetched in the background, again and again: keys change. A token of a key that is not known makes the next
fetch come sooner. What cannot be fetched or read is said, and the last good keys stay. Nothing here waits on the loop:
addresses are fetched on a thread, in bounded time and size, without redirections and proxies.
"""

from __future__ import annotations

import asyncio
import json
import logging
import time
import urllib.request
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

from chronik.core.access.oauth import InvalidToken
from chronik.core.access.sasl import NotReady
from chronik.core.config.sections.sasl import SaslConfig
from chronik.shell.errors import StartError

if TYPE_CHECKING:
    from joserfc.jwk import Key

log = logging.getLogger(__name__)

SET_BYTES_MAX = 1024 * 1024
PIECE_BYTES = 64 * 1024
KEYS_MAX = 100
FETCH_S = 10.0
SOONER_S = 10.0  # at most so often because of tokens with keys that are not known
# Only what is signed with a key that its owner alone has: with HS256 a public key would do.
ALGORITHMS = ("RS256", "RS384", "RS512", "PS256", "PS384", "PS512", "ES256", "ES384", "ES512")
_PREFIXES = {"RSA": ("RS", "PS"), "EC": ("ES",)}  # the algorithms of a kind of key begin so


class JwksKeys:
    """The keys as they were last fetched."""

    def __init__(self, config: SaslConfig) -> None:
        """Raises StartError."""
        try:
            import joserfc  # noqa: F401
        except ImportError as problem:
            raise StartError(
                "sasl.enabled.mechanisms has OAUTHBEARER, which needs the package joserfc",
                "install it with: pip install 'chronik[oauth]'",
            ) from problem
        assert config.sasl_oauthbearer_jwks_endpoint_url is not None  # or the config would not have been taken
        self._url = config.sasl_oauthbearer_jwks_endpoint_url
        self._refresh_s = config.sasl_oauthbearer_jwks_endpoint_refresh_ms / 1000
        self._backoff_s = config.sasl_oauthbearer_jwks_endpoint_retry_backoff_ms / 1000
        self._backoff_max_s = config.sasl_oauthbearer_jwks_endpoint_retry_backoff_max_ms / 1000
        self._keys: list[Key] | None = None
        self._is_missed = asyncio.Event()  # a token came with a key that is not known
        self._task: asyncio.Task[None] | None = None
        self._thread = ThreadPoolExecutor(1, "jwks")  # one, however long an address takes

    def claims(self, token: str) -> Mapping[str, Any]:
        from joserfc import jws
        from joserfc.errors import JoseError

        if self._keys is None:
            raise NotReady
        try:
            header = jws.extract_compact(token.encode()).headers()
        except (JoseError, ValueError) as problem:
            raise InvalidToken("it is no JSON Web Token") from problem
        algorithm, key_id = header.get("alg"), header.get("kid")
        if algorithm not in ALGORITHMS:
            raise InvalidToken("its algorithm is not taken (alg)")
        fitting = [
            key
            for key in self._keys
            if algorithm.startswith(_PREFIXES[key.key_type]) and (key_id is None or key.kid == key_id)
        ]
        if not fitting:
            self._is_missed.set()
            raise InvalidToken("its key is not known (kid)")
        for key in fitting:
            try:
                content = jws.deserialize_compact(token, key, algorithms=[algorithm]).payload
                found = json.loads(content)
            except (JoseError, ValueError, RecursionError):
                continue
            if isinstance(found, dict):
                return found
        raise InvalidToken("its signature is wrong")

    # --- the keys

    def start(self) -> None:
        self._task = asyncio.get_running_loop().create_task(self._run(), name="jwks")

    def stop(self) -> None:
        if self._task is not None:
            self._task.cancel()
        self._thread.shutdown(wait=False, cancel_futures=True)

    async def _run(self) -> None:
        pause_s = self._backoff_s
        while True:
            if await self.refresh():
                pause_s = self._backoff_s
                await self._wait_until_due()
            else:
                await asyncio.sleep(pause_s)
                pause_s = min(2 * pause_s, self._backoff_max_s)

    async def _wait_until_due(self) -> None:
        await asyncio.sleep(min(SOONER_S, self._refresh_s))
        if self._refresh_s > SOONER_S:
            try:
                async with asyncio.timeout(self._refresh_s - SOONER_S):
                    await self._is_missed.wait()
            except TimeoutError:
                return

    async def refresh(self) -> bool:
        """Whether there are keys as of now."""
        self._is_missed.clear()
        try:
            async with asyncio.timeout(FETCH_S):
                content = await asyncio.get_running_loop().run_in_executor(self._thread, fetch, self._url)
            keys = parsed(content)
        except (OSError, ValueError, TimeoutError) as problem:
            log.error("the keys that sign tokens cannot be had from %s: %s", self._url, problem)
            return False
        if self._keys is None or len(keys) != len(self._keys):
            log.info("%d keys that sign tokens, from %s", len(keys), self._url)
        self._keys = keys
        return True


class _NoRedirect(urllib.request.HTTPRedirectHandler):
    """Another address than the one that was configured is not gone to."""

    def redirect_request(self, *arguments: Any) -> None:
        return None


def fetch(url: str) -> bytes:
    """Raises OSError, ValueError."""
    if url.startswith("file://"):
        with open(urllib.request.url2pathname(url.removeprefix("file://")), "rb") as file:
            return _bounded(file.read(SET_BYTES_MAX + 1))
    opener = urllib.request.build_opener(urllib.request.ProxyHandler({}), _NoRedirect())
    request = urllib.request.Request(url, headers={"Accept": "application/json"})
    content, give_up_at = b"", time.monotonic() + FETCH_S
    with opener.open(request, timeout=FETCH_S / 2) as response:
        while len(content) <= SET_BYTES_MAX and (more := response.read1(PIECE_BYTES)):
            content += more
            if time.monotonic() > give_up_at:  # each piece in time, and all of them not
                raise TimeoutError(f"it takes more than {FETCH_S:g} s")
    return _bounded(content)


def _bounded(content: bytes) -> bytes:
    if len(content) > SET_BYTES_MAX:
        raise ValueError(f"it has more than {SET_BYTES_MAX} bytes")
    return content


def parsed(content: bytes) -> list[Key]:
    """The keys of a set that can verify a signature. Raises ValueError when there is none."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    try:
        listed = json.loads(content)["keys"]
    except (ValueError, KeyError, TypeError, RecursionError) as problem:
        raise ValueError("it is no JSON Web Key Set") from problem
    if not isinstance(listed, list) or len(listed) > KEYS_MAX:
        raise ValueError(f"a JSON Web Key Set has a list of at most {KEYS_MAX} keys")
    keys: list[Key] = []
    for each in listed:
        if not isinstance(each, dict) or each.get("kty") not in _PREFIXES or each.get("use", "sig") != "sig":
            continue  # for something else, or a secret, which has no place here
        try:
            keys.append(import_key(each))
        except (JoseError, ValueError, TypeError, KeyError) as problem:
            log.warning("a key that signs tokens cannot be read: %s", problem)
    if not keys:
        raise ValueError("it has no key of RSA or EC that signs")
    return keys
