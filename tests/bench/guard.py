"""What a request costs the node, in units of a fixed piece of Python: a number that hardly depends on the machine.

Both are CPU time, measured in turn in the same run, so a slow or busy machine makes both larger. What is left over
changes when the code does. How much, a person reads here; a test only fails when it is far off.
"""

from __future__ import annotations

import statistics
import struct
import tempfile
import time
import zlib
from pathlib import Path

from tests.bench.client_link import Client
from tests.bench.systems.chronik import Chronik
from tests.bench.systems.system import bootstrap

KNOWN_COST = 9.0
"""Turns a request, as last measured. Whoever makes a request cheaper lowers it."""
FACTOR_MAX = 1.75
"""Noise does not come near: at loads of 8 to 15 on two cores, seven runs gave 8.2 to 9.3."""

ROUNDS = 5
REQUESTS = 4_000
LOOPS = 4_000
TOPIC = "guard"
_HEADER = struct.Struct(">hhih")


def reference_loop(count: int) -> float:
    """CPU seconds for so many turns of what a request is made of: bytes, structs, calls, dictionaries."""
    body = bytes(range(256)) * 4
    seen: dict[int, tuple[int, int]] = {}
    started = time.process_time()
    for number in range(count):
        frame = _HEADER.pack(0, 9, number, 5) + body
        key, version, correlation_id, _ = _HEADER.unpack_from(frame)
        view = memoryview(frame)[_HEADER.size :]
        checksum = zlib.crc32(view)
        for place in range(20):
            seen[(number + place) & 1023] = (checksum, place + key + version)
        b"".join((correlation_id.to_bytes(4, "big"), view[:64]))
    return time.process_time() - started


def cost_of_a_request(directory: Path, rounds: int = ROUNDS, requests: int = REQUESTS) -> float:
    """Node CPU of a one-record request, in turns of the reference loop: the median of rounds in turn."""
    server = Chronik().server(directory, {"durability": "os"})
    costs = []
    try:
        server.spawn()
        server.wait_until_ready()
        with Client() as client:
            client.ask("create_topics", bootstrap=bootstrap(server), topics={TOPIC: 1})
            load = {"port": server.port, "node_pid": server.pid, "topic": TOPIC, "count": requests}
            for _ in range(rounds):
                node_s = client.ask("requests", **load, connections=1, in_flight_each=100)["node_cpu_s"]
                costs.append(node_s / requests / (reference_loop(LOOPS) / LOOPS))
        server.stop()
    finally:
        server.kill()
    return statistics.median(costs)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as folder:
        print(f"{cost_of_a_request(Path(folder)):.2f} turns of the reference loop a request (known: {KNOWN_COST})")
