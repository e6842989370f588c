"""One question to one node, without a Kafka client: for requests that clients do not have, and for quick looks.

It blocks, so it is for programs around a node, never for the node itself. kio takes a fifth of a second to import, so
it is imported where it is used.
"""

from __future__ import annotations

import io
import socket
import ssl
import struct
import time
from typing import Any

from chronik.client.errors import ChronikError
from chronik.client.login import LoginRefused, log_in
from chronik.client.security import Security, in_force
from chronik.wire.errors import Malformed
from chronik.wire.versions import API_VERSIONS

CORRELATION_ID = 1
CLIENT_ID = b"chronik-cli"
ANSWER_BYTES_MAX = 256 * 1024 * 1024
LOGIN_BYTES_MAX = 1024 * 1024

Address = tuple[str, int]


class NoAnswer(Exception):
    """Nothing there, no answer in time, or one that makes no sense; the message says which."""


class NotKafka(NoAnswer):
    """Something else listens there."""


class NotLetIn(NoAnswer):
    """There is a node, and it refused the login, or its certificate is not trusted here; the message says which."""


def ask(
    address: Address,
    request: Any,
    timeout_s: float = 5.0,
    client_id: bytes = CLIENT_ID,
    tls: ssl.SSLContext | None = None,
    security: Security | None = None,
) -> Any:
    """The response to a kio request, in the request's own version; as this program connects, or as `security` says, or
    (a node, before it is one) encrypted by `tls`. Raises NoAnswer."""
    deadline = time.monotonic() + timeout_s
    try:
        with connect(address, timeout_s, security, tls) as connection:
            connection.sendall(_frame(request, client_id))
            (size,) = struct.unpack(">i", receive(connection, 4, deadline))
            if not 4 <= size <= ANSWER_BYTES_MAX:
                raise NotKafka(f"{written(address)} does not speak Kafka's protocol")
            return _response(request, receive(connection, size, deadline))
    except Malformed as problem:
        raise NotKafka(f"{written(address)} answered what cannot be read: {problem}") from problem
    except TimeoutError as problem:
        raise NoAnswer(f"{written(address)} does not answer in {timeout_s:g} s") from problem
    except OSError as problem:
        raise NoAnswer(f"{written(address)} does not answer: {problem.strerror or problem}") from problem


def connect(
    address: Address, timeout_s: float, security: Security | None = None, tls: ssl.SSLContext | None = None
) -> socket.socket:
    """Encrypted and logged in, where that is wanted. Raises OSError, NotLetIn. A node may have been given a
    name that cannot be one, such as `a..b`."""
    try:
        connection = socket.create_connection(address, timeout=timeout_s)
    except UnicodeError as problem:  # as Python has it
        raise OSError(f"{address[0]} cannot be a host name") from problem
    try:
        if tls is not None:
            return tls.wrap_socket(connection, server_hostname=address[0])
        return _let_in(connection, address, timeout_s, security or in_force())
    except BaseException:
        connection.close()
        raise


def _let_in(connection: socket.socket, address: Address, timeout_s: float, security: Security) -> socket.socket:
    if security.is_encrypted:
        connection = encrypted(connection, address, security)
    if security.is_login_needed:
        deadline = time.monotonic() + timeout_s
        try:
            log_in(security, lambda key, version, body: _ask_plainly(connection, deadline, key, version, body))
        except LoginRefused as refused:
            raise NotLetIn(f"{written(address)}: {refused}") from refused
        except ChronikError as problem:  # there is no token
            raise NotLetIn(str(problem)) from problem
    return connection


def encrypted(connection: socket.socket, address: Address, security: Security) -> socket.socket:
    """Raises OSError, NotLetIn."""
    try:
        return security.tls().wrap_socket(connection, server_hostname=address[0])
    except ssl.SSLCertVerificationError as problem:
        raise NotLetIn(f"{written(address)}: its certificate is not trusted: {problem.verify_message}") from problem
    except ssl.SSLError as problem:
        why = (problem.reason or str(problem)).replace("_", " ").lower()
        raise NotLetIn(f"{written(address)}: no encrypted connection comes about: {why}") from problem
    except ChronikError as problem:
        raise NotLetIn(str(problem)) from problem


def _ask_plainly(connection: socket.socket, deadline: float, api_key: int, version: int, body: bytes) -> bytes:
    """Of a request with the old header. Raises OSError, NotKafka."""
    head = struct.pack(">hhih", api_key, version, CORRELATION_ID, len(CLIENT_ID)) + CLIENT_ID
    connection.sendall(struct.pack(">i", len(head) + len(body)) + head + body)
    (size,) = struct.unpack(">i", receive(connection, 4, deadline))
    if not 4 <= size <= LOGIN_BYTES_MAX:
        raise NotKafka("it does not speak Kafka's protocol")
    return receive(connection, size, deadline)[4:]


def _frame(request: Any, client_id: bytes) -> bytes:
    from kio.serial import entity_writer

    kind = type(request)
    out = io.BytesIO()
    out.write(struct.pack(">ihhih", 0, kind.__api_key__, kind.__version__, CORRELATION_ID, len(client_id)))
    out.write(client_id)
    if kind.__flexible__:
        out.write(b"\x00")  # no tagged fields in the header
    entity_writer(kind)(out, request)
    frame = out.getbuffer()
    frame[0:4] = (len(frame) - 4).to_bytes(4, "big")
    return bytes(frame)


def receive(connection: socket.socket, count: int, deadline: float) -> bytes:
    """So many bytes. Raises OSError: TimeoutError, or ConnectionResetError when it hung up."""
    received = bytearray()
    while len(received) < count:
        connection.settimeout(max(deadline - time.monotonic(), 0.001))
        piece = connection.recv(count - len(received))
        if not piece:
            raise ConnectionResetError("it hung up")
        received += piece
    return bytes(received)


def _response(request: Any, frame: bytes) -> Any:
    from kio.index import load_response_schema

    from chronik.wire.reader import decode, skip_tags

    kind = type(request)
    if int.from_bytes(frame[:4], "big", signed=True) != CORRELATION_ID:
        raise Malformed("it is the answer to another question")
    # The answer to ApiVersions has the old header in every version: who asks does not know yet what is spoken.
    has_tags = kind.__flexible__ and kind.__api_key__ != API_VERSIONS
    position = skip_tags(frame, 4) if has_tags else 4
    return decode(load_response_schema(kind.__api_key__, kind.__version__), frame, position)


def written(address: Address) -> str:
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"
