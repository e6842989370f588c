"""TLS by the standard library: what a node's settings say of it, as contexts for connections in and out.

The stores are read again when their files have changed, also where a symbolic link was swapped. Then there are new
contexts, and listeners go on with them (`network`): connections that are open stay, and an authority that was taken out
of the trust store is trusted no more. What cannot be read is said, and the last good ones stay.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
import tempfile
from collections.abc import Iterator
from typing import Any

from chronik.core.config.sections.security import PemSettings, SecurityConfig
from chronik.shell.errors import StartError

log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}

HANDSHAKE_TURNS_MAX = 4
NO_PEM = PemSettings()

Subject = tuple[tuple[tuple[str, str], ...], ...]
FileMark = tuple[int, int, int] | None


class TlsContexts:
    """For the connections that others open here, and those that this node opens to others."""

    def __init__(self, config: SecurityConfig, pem: PemSettings = NO_PEM) -> None:
        """Raises StartError."""
        self._config = config
        self._pem = pem
        try:
            self._make()
        except (OSError, ValueError) as problem:  # an SSLError is an OSError
            raise StartError(
                f"TLS cannot be set up: {problem}",
                "see that ssl.keystore.location has the key (ssl.key.password, if it is encrypted) and its"
                " certificates, and ssl.truststore.location those of the authorities, all as PEM",
            ) from problem
        self._marks = self._look()

    def _make(self) -> None:
        """All or none. Raises OSError, ValueError."""
        config, pem = self._config, self._pem
        made = (
            _server_context(config, pem),
            _server_context(config, pem, asks_for_certificates=False),
            _client_context(config, pem),
        )
        certificate = shown_certificate(config, pem)
        self.server, self.sasl_server, self.client = made
        self._certificate = certificate

    @property
    def expires_s(self) -> float | None:
        """When this node's own certificate expires, by the wall clock; None where that is not known."""
        return None if self._certificate is None else float(ssl.cert_time_to_seconds(self._certificate["notAfter"]))

    def server_for(self, protocol: str) -> ssl.SSLContext:
        """Where clients log in, their certificates are not asked for, as in Kafka."""
        return self.sasl_server if protocol == "SASL_SSL" else self.server

    def own_subject(self) -> Subject | None:
        """The name in this node's own certificate, as others see it; None where this node itself would not trust it."""
        return None if self._certificate is None else self._certificate["subject"]

    def reload_if_changed(self) -> bool:
        """Whether new files were taken, and so there are other contexts. What is no good is said once."""
        marks = self._look()
        if marks == self._marks:
            return False
        self._marks = marks
        try:
            self._make()
        except (OSError, ValueError) as problem:
            log.error("the key store or trust store has changed and cannot be used, the old one stays: %s", problem)
            return False
        log.info("the key store or trust store has changed: new connections have it")
        return True

    def _look(self) -> list[FileMark]:
        return [_mark(path) for path in (self._config.ssl_keystore_location, self._config.ssl_truststore_location)]


def shown_certificate(config: SecurityConfig, pem: PemSettings = NO_PEM) -> Any:
    """What a node with these settings would see of the certificate in its own key store; None if it would see none.
    The standard library shows certificates in handshakes only, so there is one in memory. Raises OSError, ValueError.
    """
    if config.ssl_truststore_location is None and pem.authorities is None:
        return None
    server, client = _server_context(config, pem), _client_context(config, pem)
    server.verify_mode, client.check_hostname, client.verify_mode = ssl.CERT_REQUIRED, False, ssl.CERT_NONE
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        client.wrap_bio(to_client, to_server, server_side=False),
        server.wrap_bio(to_server, to_client, server_side=True),
    ]
    try:
        for _ in range(HANDSHAKE_TURNS_MAX):
            for end in ends:
                with contextlib.suppress(ssl.SSLWantReadError):
                    end.do_handshake()
        return ends[1].getpeercert()
    except (ssl.SSLError, ValueError):  # not trusted here: then other nodes will not trust it either, and say so
        return None


class HttpTls:
    """The same for the HTTP port, which has a key store of its own; without one it is plain."""

    def __init__(self, key_store: str | None) -> None:
        """Raises OSError, ValueError."""
        self._key_store = key_store
        self._mark = _mark(key_store)
        self.context: ssl.SSLContext | None = None
        if key_store is not None:
            self.context = self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))

    def _loaded(self, context: ssl.SSLContext) -> ssl.SSLContext:
        context.minimum_version = ssl.TLSVersion.TLSv1_2
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        assert self._key_store is not None
        context.load_cert_chain(self._key_store, password=_refuse_encrypted)
        return context

    def reload_if_changed(self) -> None:
        """Before a connection: one that cannot be used is said, and the last good one stays."""
        mark = _mark(self._key_store)
        if self.context is None or mark == self._mark:
            return
        self._mark = mark
        try:
            self._loaded(ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER))  # a key without its certificate would spoil the other
            self._loaded(self.context)
        except (OSError, ValueError) as problem:
            log.error("the key store of the HTTP port has changed and cannot be used, the old one stays: %s", problem)


def _mark(path: str | None) -> FileMark:
    if path is None:
        return None
    try:
        found = os.stat(path)  # of what a link points to
    except OSError:
        return None
    return found.st_ino, found.st_mtime_ns, found.st_size


def _server_context(config: SecurityConfig, pem: PemSettings, *, asks_for_certificates: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _apply(context, config, pem)
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth] if asks_for_certificates else ssl.CERT_NONE
    return context


def _client_context(config: SecurityConfig, pem: PemSettings) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    _apply(context, config, pem)
    return context


def _apply(context: ssl.SSLContext, config: SecurityConfig, pem: PemSettings) -> None:
    spoken = sorted(_VERSIONS[name] for name in config.ssl_enabled_protocols)
    context.minimum_version, context.maximum_version = spoken[0], spoken[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if config.ssl_cipher_suites:
        context.set_ciphers(":".join(config.ssl_cipher_suites))
    with _key_store(config, pem) as path:
        if path is not None:
            # Without a word for an encrypted key OpenSSL would ask at the terminal, and wait.
            context.load_cert_chain(path, password=pem.key_password or _refuse_encrypted)
    if config.ssl_truststore_location is not None or pem.authorities is not None:
        context.load_verify_locations(config.ssl_truststore_location, cadata=pem.authorities)


@contextlib.contextmanager
def _key_store(config: SecurityConfig, pem: PemSettings) -> Iterator[str | None]:
    """The file with the key and its certificates. The standard library takes them from a file only: what stands in
    settings is in one for a moment, which only this user may read."""
    if pem.key is None or pem.chain is None:
        yield config.ssl_keystore_location
        return
    with tempfile.NamedTemporaryFile("w", suffix=".pem") as file:
        file.write(f"{pem.key}\n{pem.chain}\n")
        file.flush()
        yield file.name


def _refuse_encrypted() -> str:
    raise ValueError("the private key is encrypted, and there is no password for it")


PLAIN_HTTP = HttpTls(None)
