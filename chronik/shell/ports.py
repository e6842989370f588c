"""TCP ports that nothing uses."""

from __future__ import annotations

import contextlib
import random
import socket

# Below what operating systems hand out for outgoing connections: a port of that range may be taken by any client while
# its node is down, and then the node cannot come back.
LOWEST, HIGHEST = 15_000, 32_000
TRIES_MAX = 5_000


def free_ports(count: int, host: str = "127.0.0.1") -> list[int]:
    """As many different ports that can be listened on. Raises OSError when there are none."""
    found: list[int] = []
    with contextlib.ExitStack() as held:
        for _ in range(TRIES_MAX):
            if len(found) == count:
                break
            port = random.randrange(LOWEST, HIGHEST)
            taken = held.enter_context(contextlib.closing(socket.socket(_family(host))))
            with contextlib.suppress(OSError):  # in use: the next one
                taken.bind((host, port))
                found.append(port)
        else:
            raise OSError(f"no {count} free ports on {host}")
    return found


def is_taken(host: str, port: int) -> bool:
    """Whether something listens there already. A port that a dead connection still lingers on is free."""
    with socket.socket(_family(host)) as tried:
        tried.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            tried.bind((host, port))
        except OSError:
            return True
    return False


def _family(host: str) -> socket.AddressFamily:
    return socket.AF_INET6 if ":" in host else socket.AF_INET
