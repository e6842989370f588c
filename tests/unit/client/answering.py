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
