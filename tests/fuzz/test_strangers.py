"""Connections that never log in: they take little memory, disturb no other, and are closed when their time is up.

CHRONIK_STRANGERS sets how many there are.
"""

from __future__ import annotations

import os
import resource
import socket
from contextlib import ExitStack

import confluent_kafka
import psutil

from chronik.testing import node

STRANGERS = int(os.environ.get("CHRONIK_STRANGERS", "400"))
BYTES_EACH_MAX = 32 * 1024  # of the node's memory, whatever each has begun to send
SETTINGS = {
    "listener.security.protocol.map": "PLAINTEXT:SASL_PLAINTEXT",
    "sasl.enabled.mechanisms": "PLAIN",
    "sasl.jaas.config": 'org.apache.kafka.common.security.plain.PlainLoginModule required user_alice="hers";',
    "chronik.authentication.timeout.ms": "5000",
}


def test_connections_that_never_log_in_are_bounded_and_disturb_no_other() -> None:
    wanted = 2 * STRANGERS + 200
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(max(soft, wanted), hard), hard))
    with node(SETTINGS) as served, ExitStack() as held:
        process = psutil.Process(served.pid)
        before = process.memory_info().rss
        strangers = []
        for number in range(STRANGERS):
            stranger = held.enter_context(socket.create_connection((served.host, served.port), timeout=60))
            # Nothing; the size of a frame and no frame; or most of one.
            stranger.sendall((b"", b"\x00\x07\xff\xff", b"\x00\x00\x10\x00" + bytes(4000))[number % 3])
            strangers.append(stranger)

        # A client that knows its password writes meanwhile.
        failed: list[object] = []
        producer = confluent_kafka.Producer(
            {
                "bootstrap.servers": served.bootstrap,
                "security.protocol": "SASL_PLAINTEXT",
                "sasl.mechanism": "PLAIN",
                "sasl.username": "alice",
                "sasl.password": "hers",
            },
            logger=None,
        )
        for _ in range(100):
            producer.produce("t", b"x", on_delivery=lambda error, _: failed.append(error))
        assert producer.flush(60) == 0
        assert failed == [None] * 100
        assert process.memory_info().rss - before < STRANGERS * BYTES_EACH_MAX + 64 * 1024 * 1024

        # Then all of them are closed.
        for stranger in strangers:
            assert stranger.recv(1) == b""
