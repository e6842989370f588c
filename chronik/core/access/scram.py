"""SCRAM (RFC 5802, RFC 7677), the server's side: a client shows that it knows a password, and neither side sends it.

    client: n,,n=alice,r=<nonce>                    its name
    server: r=<nonce and ours>,s=<salt>,i=4096      how the password is salted
    client: c=biws,r=<both>,p=<proof>               that it knows the password
    server: v=<signature>                           that we know what was stored of it

What is stored of a password cannot be used to log in. For a name that does not exist the exchange goes on with a salt
made up from that name, always the same, so that no client learns which names exist.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import IntEnum
from typing import NamedTuple

from chronik.core.errors import Code, Refused

ITERATIONS_MIN, ITERATIONS_MAX = 4096, 16384
MESSAGE_BYTES_MAX = 4096
_NO_CHANNEL_BINDING = b"biws"  # base64 of 'n,,'


class ScramMechanism(IntEnum):
    """In Kafka's numbers."""

    UNKNOWN = 0
    SHA_256 = 1
    SHA_512 = 2

    @property
    def sasl_name(self) -> str:
        return {1: "SCRAM-SHA-256", 2: "SCRAM-SHA-512"}.get(self, "UNKNOWN")

    @property
    def hash_name(self) -> str:
        return "sha256" if self is ScramMechanism.SHA_256 else "sha512"


SCRAM_MECHANISMS: Mapping[str, ScramMechanism] = {
    known.sasl_name: known for known in (ScramMechanism.SHA_256, ScramMechanism.SHA_512)
}


@dataclass(frozen=True, slots=True)
class ScramCredential:
    """What is stored of a password. Its text hides what could be used to guess it."""

    salt: bytes
    stored_key: bytes
    server_key: bytes
    iterations: int

    def __repr__(self) -> str:
        return f"ScramCredential(iterations={self.iterations})"


class TokenCredential(NamedTuple):
    """Of the holder of a delegation token, which is its owner until it expires."""

    credential: ScramCredential
    owner: str
    expires_ms: int  # by the wall clock


class AuthenticationFailed(Exception):
    """The message may be sent to the client: it does not say what was wrong."""


def credential_of(mechanism: ScramMechanism, password: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """From a password. It takes milliseconds, on purpose."""
    salted = hashlib.pbkdf2_hmac(mechanism.hash_name, password, salt, iterations)
    return credential_of_salted(mechanism, salted, salt, iterations)


def credential_of_salted(mechanism: ScramMechanism, salted: bytes, salt: bytes, iterations: int) -> ScramCredential:
    """From a salted password, which is what AlterUserScramCredentials carries."""
    client_key = hmac.digest(salted, b"Client Key", mechanism.hash_name)
    stored_key = hashlib.new(mechanism.hash_name, client_key).digest()
    return ScramCredential(salt, stored_key, hmac.digest(salted, b"Server Key", mechanism.hash_name), iterations)


def check_password(mechanism: ScramMechanism, credential: ScramCredential, password: bytes) -> bool:
    """Whether a password that was sent is the one that this was stored of."""
    given = credential_of(mechanism, password, credential.salt, credential.iterations)
    return hmac.compare_digest(given.stored_key, credential.stored_key)


def check_iterations(iterations: int) -> None:
    """Raises Refused."""
    if iterations < ITERATIONS_MIN:
        raise Refused(Code.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
    if iterations > ITERATIONS_MAX:
        raise Refused(Code.UNACCEPTABLE_CREDENTIAL, "Too many iterations")


class ScramExchange:
    """One client's exchange. Every step is taken once: a message that comes again is refused."""

    def __init__(
        self,
        mechanism: ScramMechanism,
        credentials: Callable[[str], ScramCredential | None],
        server_nonce: str,
        decoy_key: bytes,
        tokens: Callable[[str], TokenCredential | None] | None = None,
    ) -> None:
        self._tokens = tokens  # None: no tokens are taken
        self._name = ""  # of the user or token
        self.is_token = False  # it says that it logs in with a token
        self.expires_ms: int | None = None
        self._mechanism = mechanism
        self._credentials = credentials
        self._server_nonce = server_nonce
        self._decoy_key = decoy_key
        self.credential: ScramCredential | None = None  # what the client logs in with
        self._nonce = ""
        self._signed = b""  # what both sides have said so far
        self._step = 0
        self.user = ""
        self.is_complete = False

    def step(self, message: bytes) -> bytes:
        """The answer to a client's message. Raises AuthenticationFailed."""
        self._step += 1
        if len(message) > MESSAGE_BYTES_MAX:
            raise AuthenticationFailed("a SCRAM message is too long")
        if self._step == 1:
            return self._begin(message)
        if self._step == 2:
            return self._finish(message)
        raise AuthenticationFailed("the SCRAM exchange is over")

    def _begin(self, message: bytes) -> bytes:
        try:
            text = message.decode()
        except UnicodeDecodeError as problem:
            raise AuthenticationFailed("a SCRAM message is not UTF-8") from problem
        binding, _, rest = text.partition(",")
        authorization_id, comma, bare = rest.partition(",")
        if binding != "n" or not comma:  # 'y' and 'p' are for channel binding, which Kafka does not have either
            raise AuthenticationFailed("the first SCRAM message is malformed")
        attributes = _attributes(bare)
        nonce, name = attributes.get("r", ""), attributes.get("n", "")
        if not bare.startswith("n=") or not nonce or not name:
            raise AuthenticationFailed("the first SCRAM message is malformed")
        self.is_token = attributes.get("tokenauth", "").lower() == "true"
        if self.is_token and self._tokens is None:
            raise AuthenticationFailed("delegation tokens are not taken here")
        self._name = self.user = _unescaped(name)
        if authorization_id and _unescaped(authorization_id.removeprefix("a=")) != self.user:
            raise AuthenticationFailed(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        self.credential = self.current()
        shown = self.credential or self._decoy()
        self._nonce = nonce + self._server_nonce
        salt = base64.b64encode(shown.salt).decode()
        answer = f"r={self._nonce},s={salt},i={shown.iterations}"
        self._signed = f"{bare},{answer}".encode()
        return answer.encode()

    def current(self) -> ScramCredential | None:
        """What is known of the user, or of the token, now."""
        if not self.is_token:
            return self._credentials(self._name)
        assert self._tokens is not None
        token = self._tokens(self._name)
        if token is None:
            return None
        self.user, self.expires_ms = token.owner, token.expires_ms
        return token.credential

    def _decoy(self) -> ScramCredential:
        salt = hmac.digest(self._decoy_key, self._name.encode(), "sha256")[:20]
        return ScramCredential(salt, bytes(32), bytes(32), ITERATIONS_MIN)

    def _finish(self, message: bytes) -> bytes:
        unsigned, comma, proof_text = message.rpartition(b",p=")
        parts = unsigned.split(b",")
        if not comma or len(parts) < 2 or parts[0] != b"c=" + _NO_CHANNEL_BINDING:
            raise AuthenticationFailed("the final SCRAM message is malformed")
        # All of it, as Kafka since 4.0 (CVE-2024-56128): librdkafka before 2.6.1 has its own part in it twice.
        if not hmac.compare_digest(parts[1], f"r={self._nonce}".encode()):
            raise AuthenticationFailed("the final SCRAM message has another nonce")
        try:
            proof = base64.b64decode(proof_text, validate=True)
        except (binascii.Error, ValueError) as problem:
            raise AuthenticationFailed("the final SCRAM message is malformed") from problem
        signed = self._signed + b"," + unsigned
        name = self._mechanism.hash_name
        credential = self.credential or ScramCredential(b"", bytes(hashlib.new(name).digest_size), b"", 0)
        client_signature = hmac.digest(credential.stored_key, signed, name)
        if len(proof) != len(client_signature):
            raise AuthenticationFailed("invalid credentials")
        client_key = bytes(a ^ b for a, b in zip(proof, client_signature, strict=True))
        is_right = hmac.compare_digest(hashlib.new(name, client_key).digest(), credential.stored_key)
        # Nor is it right any more if the user was removed, or has another password, since the exchange began.
        if not is_right or self.credential is None or self.current() != self.credential:
            raise AuthenticationFailed("invalid credentials")
        self.is_complete = True
        return b"v=" + base64.b64encode(hmac.digest(credential.server_key, signed, name))


def _attributes(bare: str) -> dict[str, str]:
    found: dict[str, str] = {}
    for part in bare.split(","):
        key, equals, value = part.partition("=")
        if not equals or key in found:
            raise AuthenticationFailed("a SCRAM message is malformed")
        found[key] = value
    return found


def _unescaped(name: str) -> str:
    plain = name.replace("=2C", ",")
    if "=" in plain.replace("=3D", ""):
        raise AuthenticationFailed("the user name in a SCRAM message is malformed")
    return plain.replace("=3D", "=")


def escaped(name: str) -> str:
    """A user name as SCRAM messages have it."""
    return name.replace("=", "=3D").replace(",", "=2C")


class ScramClient:
    """The client's side of one exchange: how nodes log in to each other, and programs to a cluster."""

    def __init__(self, mechanism: ScramMechanism, user: str, password: str, nonce: str, extensions: str = "") -> None:
        """`extensions`: `,tokenauth=true` for the id and secret of a delegation token."""
        self._mechanism = mechanism
        self._password = password
        self._nonce = nonce
        self._bare = f"n={escaped(user)},r={nonce}{extensions}"
        self._server_signature = b""

    def first(self) -> bytes:
        return f"n,,{self._bare}".encode()

    def final(self, answer: bytes) -> bytes:
        """Raises AuthenticationFailed."""
        attributes = _attributes(answer.decode("utf-8", "replace"))
        nonce, iterations = attributes.get("r", ""), attributes.get("i", "")
        if not nonce.startswith(self._nonce) or len(nonce) <= len(self._nonce):
            raise AuthenticationFailed("the server's nonce does not begin with ours")
        if not iterations.isdecimal() or not ITERATIONS_MIN <= int(iterations) <= 10**6:
            raise AuthenticationFailed(f"the server wants {iterations} iterations: at least {ITERATIONS_MIN} are safe")
        try:
            salt = base64.b64decode(attributes.get("s", ""), validate=True)
        except (binascii.Error, ValueError) as problem:
            raise AuthenticationFailed("the server's salt is malformed") from problem
        name = self._mechanism.hash_name
        salted = hashlib.pbkdf2_hmac(name, self._password.encode(), salt, int(iterations))
        unsigned = f"c={_NO_CHANNEL_BINDING.decode()},r={nonce}".encode()
        signed = self._bare.encode() + b"," + answer + b"," + unsigned
        client_key = hmac.digest(salted, b"Client Key", name)
        signature = hmac.digest(hashlib.new(name, client_key).digest(), signed, name)
        self._server_signature = hmac.digest(hmac.digest(salted, b"Server Key", name), signed, name)
        proof = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        return unsigned + b",p=" + base64.b64encode(proof)

    def check(self, answer: bytes) -> None:
        """Whether the server knows the password too. Raises AuthenticationFailed."""
        expected = b"v=" + base64.b64encode(self._server_signature)
        if not hmac.compare_digest(answer, expected):
            raise AuthenticationFailed("the server does not know the password")
