"""A port on this machine whose connections go to a node: all that a client behind a tunnel can reach."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from chronik.shell.ports import free_ports

Address = tuple[str, int]


class PortForward:
    """Connections to its port are connected to whatever `target` names at that moment."""

    def __init__(self, target: Callable[[], Address]) -> None:
        self.port = free_ports(1)[0]
        self._target = target
        self._listener = socket.create_server(("127.0.0.1", self.port))
        self._open: list[socket.socket] = []
        self._thread = threading.Thread(target=self._accept, daemon=True)
        self._thread.start()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return  # closed
            try:
                far = socket.create_connection(self._target(), timeout=5)
            except OSError:
                near.close()
                continue
            far.settimeout(None)
            self._open += [near, far]
            for source, drain in ((near, far), (far, near)):
                threading.Thread(target=_pass_on, args=(source, drain), daemon=True).start()

    def close(self) -> None:
        # A thread that waits in accept hears of it only this way.
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self._thread.join()
        for each in self._open:
            with contextlib.suppress(OSError):
                each.shutdown(socket.SHUT_RDWR)
            each.close()


def _pass_on(source: socket.socket, drain: socket.socket) -> None:
    with contextlib.suppress(OSError):  # either side may go at any time
        while content := source.recv(1 << 16):
            drain.sendall(content)
    with contextlib.suppress(OSError):
        drain.shutdown(socket.SHUT_WR)


@contextlib.contextmanager
def port_forward(target: Callable[[], Address]) -> Iterator[PortForward]:
    forward = PortForward(target)
    try:
        yield forward
    finally:
        forward.close()
