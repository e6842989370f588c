"""How a program is let in: encryption, certificates, a name and password or a token, under Kafka's names for clients.

One `Security` says it for every client that we use: our own blocking one, librdkafka, kafka-python, aiokafka and the
pipeline. A program is one principal: the command line says which, once (`use`), and what connects asks for it
(`in_force`). What speaks to two clusters at once, as a job of Spark may, hands its own over instead.

Its text and its errors never have a secret in them.
"""

from __future__ import annotations

import asyncio
import ssl
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from chronik.client.errors import ChronikError
from chronik.client.tokens import TokenSource

PLAIN, OAUTHBEARER = "PLAIN", "OAUTHBEARER"
SCRAM_256, SCRAM_512 = "SCRAM-SHA-256", "SCRAM-SHA-512"
MECHANISMS = (PLAIN, SCRAM_256, SCRAM_512, OAUTHBEARER)
PROTOCOLS = ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")


@dataclass(frozen=True)
class PemStore:
    """Certificates, or a key: in a file, or as text. One of the two is there."""

    file: str | None = None
    text: str | None = field(default=None, repr=False)


@dataclass(frozen=True)
class Security:
    """How to be let in. The default is a plain connection without a name."""

    protocol: str = "PLAINTEXT"
    authorities: PemStore | None = None
    """Whose certificates are believed; None for those that the machine believes."""
    certificate: PemStore | None = None
    key: PemStore | None = None
    """None where it is in the same file as the certificate."""
    key_password: str | None = field(default=None, repr=False)
    is_name_checked: bool = True
    """Whether the node's certificate must have the name by which it was reached."""
    mechanism: str | None = None
    username: str | None = None
    password: str | None = field(default=None, repr=False)
    token: TokenSource | None = None

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_login_needed(self) -> bool:
        return self.protocol.startswith("SASL")

    def tls(self) -> ssl.SSLContext:
        """Raises ChronikError, which names the file."""
        store, what = self.authorities, "the trust store"
        try:
            file, text = (None, None) if store is None else (store.file, store.text)
            context = ssl.create_default_context(cafile=file, cadata=text)
            context.check_hostname = self.is_name_checked
            context.minimum_version = ssl.TLSVersion.TLSv1_2
            store, what = self.certificate, "the key store"
            if store is not None:
                with _as_file(store) as certificate, _as_file(self.key or store) as key:
                    # Without a word for an encrypted key OpenSSL would ask at the terminal, and wait.
                    context.load_cert_chain(certificate, key, password=self._word_for_key)
        except (OSError, ValueError) as problem:  # an SSLError is an OSError, and says neither which file nor what
            named = what if store is None or store.file is None else f"{what} {store.file}"
            why = problem.strerror if isinstance(problem, OSError) and problem.strerror else problem
            raise ChronikError(f"{named} cannot be used: {why}", "it must be PEM; see docs/security.md") from problem
        return context

    def _word_for_key(self) -> str:
        if self.key_password is None:
            raise ValueError("its key is encrypted, and ssl.key.password is not given")
        return self.key_password

    # --- the same for other clients

    def for_librdkafka(self) -> dict[str, Any]:
        """Settings of librdkafka, and so of confluent-kafka and kcat."""
        if self.protocol == "PLAINTEXT":
            return {}
        settings: dict[str, Any] = {"security.protocol": self.protocol}
        if self.is_encrypted:
            if not self.is_name_checked:
                settings["ssl.endpoint.identification.algorithm"] = "none"
            key = self.key or self.certificate
            for name, store in (("ca", self.authorities), ("certificate", self.certificate), ("key", key)):
                if store is not None and store.file is not None:
                    settings[f"ssl.{name}.location"] = store.file
                elif store is not None:
                    settings[f"ssl.{name}.pem"] = store.text
            if self.key_password is not None and self.certificate is not None:
                settings["ssl.key.password"] = self.key_password
        if self.is_login_needed:
            settings["sasl.mechanism"] = self.mechanism
            if self.token is not None:
                settings["oauth_cb"] = _given_token(self.token)
            else:
                settings |= {"sasl.username": self.username, "sasl.password": self.password}
        return settings

    def for_kafka_python(self) -> dict[str, Any]:
        """Arguments of kafka-python's clients."""
        settings = self._for_python()
        if self.is_encrypted:
            settings["ssl_check_hostname"] = self.is_name_checked  # though the context has it already
        if self.token is not None:
            from kafka.net.sasl.oauth import AbstractTokenProvider

            source = self.token
            provider = type("TokenProvider", (AbstractTokenProvider,), {"token": lambda _: source.token().text})
            settings["sasl_oauth_token_provider"] = provider()
        return settings

    def for_aiokafka(self) -> dict[str, Any]:
        """Arguments of aiokafka's clients."""
        settings = self._for_python()
        if self.token is not None:
            from aiokafka.abc import AbstractTokenProvider

            source = self.token

            async def token(_: object) -> str:
                return await asyncio.to_thread(lambda: source.token().text)

            settings["sasl_oauth_token_provider"] = type("TokenProvider", (AbstractTokenProvider,), {"token": token})()
        return settings

    def _for_python(self) -> dict[str, Any]:
        if self.protocol == "PLAINTEXT":
            return {}
        settings: dict[str, Any] = {"security_protocol": self.protocol}
        if self.is_encrypted:
            settings["ssl_context"] = self.tls()
        if self.is_login_needed:
            settings["sasl_mechanism"] = self.mechanism
            if self.token is None:
                settings |= {"sasl_plain_username": self.username, "sasl_plain_password": self.password}
        return settings


def _given_token(source: TokenSource) -> Callable[[str], tuple[str, float]]:
    def oauth_cb(_: str) -> tuple[str, float]:
        token = source.token()
        return token.text, token.expires_s

    return oauth_cb


class _as_file:
    """The name of a file with this in it, while it is needed: OpenSSL takes keys from files only."""

    def __init__(self, store: PemStore) -> None:
        self._store = store

    def __enter__(self) -> str:
        if self._store.file is not None:
            return self._store.file
        self._temporary = tempfile.NamedTemporaryFile("w", suffix=".pem", encoding="utf-8")  # for its owner only
        self._temporary.write(self._store.text or "")
        self._temporary.flush()
        return self._temporary.name

    def __exit__(self, *_: object) -> None:
        if self._store.file is None:
            self._temporary.close()


PLAIN_CONNECTION = Security()
_of_this_program = PLAIN_CONNECTION


def use(security: Security) -> None:
    """From now on this program connects so, wherever nothing else is said."""
    global _of_this_program
    _of_this_program = security


def in_force() -> Security:
    return _of_this_program
