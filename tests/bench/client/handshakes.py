"""How many clients a second are let in: connect, TLS, a login, one request, and close; some at a time."""

from __future__ import annotations

import os
import time
from concurrent.futures import ThreadPoolExecutor

from kio.schema.api_versions.v0.request import ApiVersionsRequest

from chronik.client.request import ask
from chronik.client.security_settings import security_of
from tests.bench.systems.system import cpu_seconds

AT_ONCE = 8
TIMEOUT_S = 30.0


def handshakes(port: int, node_pid: int, count: int, security: dict[str, str]) -> dict[str, float]:
    """`security` are Kafka's client properties."""
    secured = security_of(security)

    def be_let_in(_: int) -> None:
        ask(("127.0.0.1", port), ApiVersionsRequest(), TIMEOUT_S, security=secured)

    with ThreadPoolExecutor(AT_ONCE) as threads:
        list(threads.map(be_let_in, range(AT_ONCE)))
        node_before_s, client_before_s = cpu_seconds(node_pid), cpu_seconds(os.getpid())
        started = time.monotonic()
        list(threads.map(be_let_in, range(count)))
        seconds = time.monotonic() - started
    return {
        "handshakes_s": count / seconds,
        "node_cpu_s": cpu_seconds(node_pid) - node_before_s,
        "client_cpu_s": cpu_seconds(os.getpid()) - client_before_s,
    }
