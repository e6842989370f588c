"""TLS by the standard library: what a node's settings say of it, as contexts for connections in and out.

The key store is read again when its file has changed, also where a symbolic link was swapped; connections that are open
stay. One that cannot be read is said, and the last good one stays. Authorities that were added to the trust store are
trusted from then on; one that was taken out is trusted until the node is started again.
"""

from __future__ import annotations

import contextlib
import logging
import os
import ssl
from typing import Any

from chronik.core.config.sections.security import SecurityConfig
from chronik.shell.errors import StartError

log = logging.getLogger(__name__)

_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}
_CLIENT_AUTH = {"required": ssl.CERT_REQUIRED, "requested": ssl.CERT_OPTIONAL, "none": ssl.CERT_NONE}

HANDSHAKE_TURNS_MAX = 4

Subject = tuple[tuple[tuple[str, str], ...], ...]
FileMark = tuple[int, int, int] | None


class TlsContexts:
    """For the connections that others open here, and those that this node opens to others."""

    def __init__(self, config: SecurityConfig) -> None:
        """Raises StartError."""
        self._config = config
        try:
            self.server = _server_context(config)
            self.sasl_server = _server_context(config, asks_for_certificates=False)
            self.client = _client_context(config)
        except (OSError, ValueError) as problem:  # an SSLError is an OSError
            raise StartError(
                f"TLS cannot be set up: {problem}",
                "see that ssl.keystore.location has the key, not encrypted, and its certificates, and"
                " ssl.truststore.location those of the authorities, all as PEM",
            ) from problem
        self._marks = self._look()

    def server_for(self, protocol: str) -> ssl.SSLContext:
        """Where clients log in, their certificates are not asked for, as in Kafka."""
        return self.sasl_server if protocol == "SASL_SSL" else self.server

    def own_subject(self) -> Subject | None:
        """The name in this node's own certificate, as others see it; None where this node itself would not trust it."""
        certificate = shown_certificate(self._config)
        return None if certificate is None else certificate["subject"]

    def reload_if_changed(self) -> bool:
        """Whether new files were taken. Others than before that are no good are said once."""
        marks = self._look()
        if marks == self._marks:
            return False
        self._marks = marks
        try:
            # Into contexts of their own first: a key without its certificate would spoil those in use.
            _server_context(self._config)
            _client_context(self._config)
            for context in (self.server, self.sasl_server, self.client):
                _load_stores(context, self._config)
        except (OSError, ValueError) as problem:
            log.error("the key store or trust store has changed and cannot be used, the old one stays: %s", problem)
            return False
        log.info("the key store or trust store has changed: new connections have it")
        return True

    def _look(self) -> list[FileMark]:
        return [_mark(path) for path in (self._config.ssl_keystore_location, self._config.ssl_truststore_location)]


def shown_certificate(config: SecurityConfig) -> Any:
    """What a node with these settings would see of the certificate in its own key store; None if it would see none.
    The standard library shows certificates in handshakes only, so there is one in memory. Raises OSError, ValueError.
    """
    if config.ssl_truststore_location is None:
        return None
    server, client = _server_context(config), _client_context(config)
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


def _server_context(config: SecurityConfig, *, asks_for_certificates: bool = True) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    _apply(context, config)
    context.verify_mode = _CLIENT_AUTH[config.ssl_client_auth] if asks_for_certificates else ssl.CERT_NONE
    return context


def _client_context(config: SecurityConfig) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = config.ssl_endpoint_identification_algorithm == "https"
    _apply(context, config)
    return context


def _apply(context: ssl.SSLContext, config: SecurityConfig) -> None:
    spoken = sorted(_VERSIONS[name] for name in config.ssl_enabled_protocols)
    context.minimum_version, context.maximum_version = spoken[0], spoken[-1]
    context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
    if config.ssl_cipher_suites:
        context.set_ciphers(":".join(config.ssl_cipher_suites))
    _load_stores(context, config)


def _load_stores(context: ssl.SSLContext, config: SecurityConfig) -> None:
    if config.ssl_keystore_location is not None:
        # Without a word for an encrypted key OpenSSL would ask at the terminal, and wait.
        context.load_cert_chain(config.ssl_keystore_location, password=_refuse_encrypted)
    if config.ssl_truststore_location is not None:
        context.load_verify_locations(config.ssl_truststore_location)


def _refuse_encrypted() -> str:
    raise ValueError("the private key is encrypted, and there is no setting for its password")


PLAIN_HTTP = HttpTls(None)
