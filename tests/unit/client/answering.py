"""Something that listens on a port and answers one request, in whatever way a test wants."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

Answer = Callable[[bytes], bytes]


@contextlib.contextmanager
def answering(answer: Answer | None) -> Iterator[tuple[str, int]]:
    """Something that listens, and answers a connection's first request with these bytes; with None it says nothing."""
    over = threading.Event()
    with socket.create_server(("127.0.0.1", 0)) as server:

        def serve() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                with connection:
                    request = connection.recv(65_536)
                    if answer is None:
                        over.wait(10)
                    elif request:  # and not just a knock at the door
                        connection.sendall(answer(request))

        thread = threading.Thread(target=serve)
        thread.start()
        try:
            yield server.getsockname()[:2]
        finally:
            over.set()
            server.shutdown(socket.SHUT_RDWR)
            thread.join()


def another_kafka(request: bytes) -> bytes:
    """It hangs up on what it does not know, and its ApiVersions (18) names no request of ours."""
    return _spoken(request, "01")


def a_chronik_that_hangs_up(request: bytes) -> bytes:
    """On every look, and answers ApiVersions: 31000, version 0, is a look."""
    return _spoken(request, "02 7918 0000 0000 00")


def _spoken(request: bytes, apis: str) -> bytes:
    """ApiVersions, version 3: correlation id, no error, these requests, no throttling."""
    if request[4:6] != bytes((0, 18)):
        return b""
    body = bytes.fromhex(f"00000001 0000 {apis} 00000000 00")
    return len(body).to_bytes(4, "big") + body
