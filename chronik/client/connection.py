"""One connection to one node: frames, versions, encryption and a name and password where the cluster wants them."""

from __future__ import annotations

import io
import socket
import struct
import time
from collections.abc import Callable
from functools import cache
from typing import Any

from chronik.client.errors import ChronikError
from chronik.client.login import LoginRefused, log_in
from chronik.client.options import ClientOptions
from chronik.client.request import NotLetIn, encrypted
from chronik.client.security import Security
from chronik.core.errors import Code
from chronik.wire.errors import Malformed
from chronik.wire.light import without_hypothesis
from chronik.wire.reader import decode, skip_tags
from chronik.wire.versions import API_VERSIONS, APIS

CONNECT_TIMEOUT_S = 10.0
FRAME_BYTES_MAX = 1024 * 1024 * 1024
_SIZE_AND_HEADER = struct.Struct(">ihhih")
_INT32 = struct.Struct(">i")


class ConnectionFailed(Exception):
    """Nothing there, no answer in time, or one that makes no sense; the message says where and which."""


def zeroed(count: int) -> memoryview:
    """Room for the bytes of an answer."""
    return memoryview(bytearray(count))


class ClientConnection:
    """Requests and their answers, in turn. It is connected when it exists, and of no use after an Unreachable."""

    def __init__(
        self, address: tuple[str, int], options: ClientOptions, allocate: Callable[[int], memoryview] = zeroed
    ) -> None:
        self.address = address
        self._allocate = allocate
        self._client_id = options.client_id.encode()
        self._timeout_s = options.timeout_ms / 1000
        self._correlation_id = 0
        self._awaited: list[tuple[int, type]] = []
        self._versions: dict[int, tuple[int, int]] = {}
        try:
            self._socket = socket.create_connection(address, timeout=min(CONNECT_TIMEOUT_S, self._timeout_s))
        except OSError as problem:
            raise ConnectionFailed(f"{self}: {problem.strerror or problem}") from problem
        try:
            self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
            self._be_let_in(options.security)
            self._learn_versions()
        except ConnectionFailed:
            self.close()
            raise
        except (NotLetIn, ChronikError) as problem:  # their words name what was reached
            self.close()
            raise ConnectionFailed(str(problem)) from problem
        except (OSError, LoginRefused) as problem:
            self.close()
            raise ConnectionFailed(f"{self}: {problem}") from problem

    def __str__(self) -> str:
        return f"{self.address[0]}:{self.address[1]}"

    def close(self) -> None:
        self._socket.close()

    def version_of(self, api_key: int) -> int:
        """The newest version of a request that both sides know."""
        ours = APIS[api_key]
        lowest, highest = self._versions.get(api_key, (0, -1))
        version = min(ours.highest, highest)
        if version < max(lowest, ours.supported):
            raise ConnectionFailed(f"{self} speaks no version of {ours.name} that is known here")
        return version

    @staticmethod
    def request_type(api_key: int, version: int) -> type:
        kind: type = _kio().index.load_request_schema(api_key, version)
        return kind

    def ask(self, api_key: int, request: Any) -> Any:
        self.send(api_key, request)
        return self.receive()

    def send(self, api_key: int, request: Any) -> None:
        """Raises ConnectionFailed. The answer must be received before another one is asked for."""
        kind: Any = type(request)
        out = io.BytesIO()
        out.write(bytes(_SIZE_AND_HEADER.size))
        out.write(self._client_id)
        if kind.__flexible__:
            out.write(b"\x00")  # no tagged fields in the header
        _kio().serial.entity_writer(kind)(out, request)
        self._awaited.append((self._send(api_key, kind.__version__, out.getbuffer()), kind))

    def _send(self, api_key: int, version: int, frame: memoryview) -> int:
        self._correlation_id = (self._correlation_id + 1) & 0x7FFFFFFF
        _SIZE_AND_HEADER.pack_into(
            frame, 0, len(frame) - 4, api_key, version, self._correlation_id, len(self._client_id)
        )
        try:
            self._socket.settimeout(self._timeout_s)
            self._socket.sendall(frame)
        except OSError as problem:
            raise ConnectionFailed(f"{self}: {problem.strerror or problem}") from problem
        return self._correlation_id

    def receive(self) -> Any:
        """The answer to the request sent first of those that wait. Raises ConnectionFailed."""
        correlation_id, request = self._awaited.pop(0)
        kind: Any = request
        frame = self._receive_frame(correlation_id)
        try:
            # The answer to ApiVersions has the old header in every version.
            has_tags = kind.__flexible__ and kind.__api_key__ != API_VERSIONS
            position = skip_tags(frame, 4) if has_tags else 4
            return decode(_kio().index.load_response_schema(kind.__api_key__, kind.__version__), frame, position)
        except (Malformed, IndexError) as problem:
            raise ConnectionFailed(f"{self} answered what cannot be read: {problem}") from problem

    def _receive_frame(self, correlation_id: int) -> memoryview:
        deadline = time.monotonic() + self._timeout_s
        (size,) = _INT32.unpack(self._receive_bytes(4, deadline))
        if not 4 <= size <= FRAME_BYTES_MAX:
            raise ConnectionFailed(f"{self} does not speak Kafka's protocol")
        frame = self._receive_bytes(size, deadline)
        if _INT32.unpack_from(frame)[0] != correlation_id:
            raise ConnectionFailed(f"{self} answered another question")
        return frame

    def _receive_bytes(self, count: int, deadline: float) -> memoryview:
        view = self._allocate(count)
        filled = 0
        try:
            while filled < count:
                self._socket.settimeout(max(deadline - time.monotonic(), 0.001))
                received = self._socket.recv_into(view[filled:])
                if not received:
                    raise ConnectionFailed(f"{self} hung up")
                filled += received
        except TimeoutError as problem:
            raise ConnectionFailed(f"{self} does not answer in {self._timeout_s:g} s") from problem
        except OSError as problem:
            raise ConnectionFailed(f"{self}: {problem.strerror or problem}") from problem
        return view

    def _be_let_in(self, security: Security) -> None:
        if security.is_encrypted:
            self._socket = encrypted(self._socket, self.address, security)
        if security.is_login_needed:
            log_in(security, self._plain_ask)

    def _learn_versions(self) -> None:
        answer = self.ask(API_VERSIONS, self.request_type(API_VERSIONS, 0)())  # every Kafka knows version 0
        if answer.error_code != Code.NONE:
            raise ConnectionFailed(f"{self} does not say what it speaks: {answer.error_code}")
        self._versions = {api.api_key: (api.min_version, api.max_version) for api in answer.api_keys}

    def _plain_ask(self, api_key: int, version: int, body: bytes) -> bytes:
        frame = memoryview(bytearray(bytes(_SIZE_AND_HEADER.size) + self._client_id + body))
        return bytes(self._receive_frame(self._send(api_key, version, frame)))[4:]


@cache
def _kio() -> Any:
    """Imported when it is needed."""
    with without_hypothesis():
        import kio
        import kio.index
        import kio.serial
    return kio
