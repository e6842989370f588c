"""The HTTP port on a real socket, in front of a fake node."""

from __future__ import annotations

import asyncio
import errno
import json
import logging
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Awaitable, Callable

import pytest

from chronik.shell.http_server import HttpServer
from tests.unit.http.fake_node import FakeNode


async def get(address: tuple[str, int], path: str, method: str = "GET") -> tuple[int, bytes]:
    """Status and body of one request."""
    reader, writer = await asyncio.open_connection(*address)
    writer.write(f"{method} {path} HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n".encode())
    head, _, body = (await reader.read()).partition(b"\r\n\r\n")
    writer.close()
    await writer.wait_closed()
    return int(head.split()[1]), body


def serve(check: Callable[[HttpServer], Awaitable[None]], node: FakeNode | None = None) -> None:
    """Run the check against a server on a free port."""

    async def run() -> None:
        server = await HttpServer.open((node or FakeNode()).as_node, "127.0.0.1", 0)
        try:
            await check(server)
        finally:
            await server.close()

    asyncio.run(run())


def test_port_0_gives_a_free_port_and_the_address_names_it() -> None:
    async def check(server: HttpServer) -> None:
        host, port = server.address
        assert host == "127.0.0.1"
        assert port > 0
        status, body = await get(server.address, "/health")
        assert status == 200
        assert json.loads(body)["status"] == "ok"

    serve(check)


def test_a_port_in_use_is_told_at_once() -> None:
    async def check(server: HttpServer) -> None:
        with pytest.raises(OSError) as caught:
            await HttpServer.open(FakeNode().as_node, *server.address)
        assert caught.value.errno == errno.EADDRINUSE

    serve(check)


def test_a_name_that_is_no_host_is_told_at_once() -> None:
    async def run() -> None:
        with pytest.raises(OSError):
            await HttpServer.open(FakeNode().as_node, "no-such-host.invalid", 0)

    asyncio.run(run())


def test_several_callers_at_once_are_all_answered_though_nothing_was_loaded_before() -> None:
    async def check(server: HttpServer) -> None:
        paths = ["/health", "/ready", "/metrics", "/nothing"] * 5
        answers = await asyncio.gather(*(get(server.address, path) for path in paths))
        assert [status for status, _ in answers] == [200, 200, 200, 404] * 5

    serve(check)


def test_a_connection_can_be_used_for_several_requests() -> None:
    async def check(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        for _ in range(3):
            writer.write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200 ")
            assert b"\r\ndate: " in head
            await reader.readline()
        writer.close()

    serve(check)


def test_head_has_the_headers_and_no_body() -> None:
    async def check(server: HttpServer) -> None:
        assert await get(server.address, "/health", "HEAD") == (200, b"")

    serve(check)


def test_what_is_no_http_is_answered_400_and_the_next_caller_is_served() -> None:
    async def check(server: HttpServer) -> None:
        reader, writer = await asyncio.open_connection(*server.address)
        writer.write(b"\x00\x00\x00\x10not a request\r\n\r\n")
        assert (await reader.read()).startswith(b"HTTP/1.1 400 ")
        writer.close()
        assert (await get(server.address, "/ready"))[0] == 200

    serve(check)


def test_a_fault_is_answered_500_and_logged_and_the_next_caller_is_served(caplog: pytest.LogCaptureFixture) -> None:
    node = FakeNode()
    replicas = node.replicas

    async def check(server: HttpServer) -> None:
        del node.replicas
        status, _ = await get(server.address, "/metrics")
        assert status == 500
        node.replicas = replicas
        assert (await get(server.address, "/metrics"))[0] == 200

    with caplog.at_level(logging.ERROR):
        serve(check, node)

    assert any("has no attribute 'replicas'" in str(record.exc_info) for record in caplog.records if record.exc_info)


def test_requests_leave_no_line_in_the_log(caplog: pytest.LogCaptureFixture) -> None:
    async def check(server: HttpServer) -> None:
        await get(server.address, "/health")

    with caplog.at_level(logging.INFO):
        serve(check)

    assert [record for record in caplog.records if record.name.startswith("uvicorn")] == []


def test_the_process_keeps_its_own_signal_handlers() -> None:
    before = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]

    async def check(server: HttpServer) -> None:
        in_loop = [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)]
        await get(server.address, "/health")
        assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == in_loop

    serve(check)

    assert [signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)] == before


def test_a_server_nobody_asked_closes_and_its_port_is_free_again() -> None:
    async def run() -> None:
        first = await HttpServer.open(FakeNode().as_node, "127.0.0.1", 0)
        await first.close()
        second = await HttpServer.open(FakeNode().as_node, *first.address)
        assert second.address == first.address
        await second.close()

    asyncio.run(run())


CLOSES_WHILE_LOADING = """
import asyncio, sys
from chronik.shell.http_server import HttpServer

async def run():
    server = await HttpServer.open(None, "127.0.0.1", 0)
    assert "uvicorn" not in sys.modules and "starlette" not in sys.modules, "loaded before anyone came"
    _, writer = await asyncio.open_connection(*server.address)
    while not any(task.get_name() == "http-start" for task in asyncio.all_tasks()):
        await asyncio.sleep(0)
    await server.close()
    assert server._loaded is None, "waited for the imports"
    assert not any(task.get_name() == "http-start" for task in asyncio.all_tasks())
    writer.close()

asyncio.run(run())
"""


def test_nothing_is_loaded_before_a_caller_comes() -> None:
    """Nothing is loaded before someone comes and closing while it loads does not wait."""
    done = subprocess.run([sys.executable, "-W", "error", "-c", CLOSES_WHILE_LOADING], capture_output=True, text=True)

    assert (done.returncode, done.stderr) == (0, "")


def test_closing_stops_listening() -> None:
    async def run() -> None:
        server = await HttpServer.open(FakeNode().as_node, "127.0.0.1", 0)
        await get(server.address, "/ready")
        await server.close()
        with pytest.raises(ConnectionError):
            await asyncio.open_connection(*server.address)

    asyncio.run(run())


def test_closing_hangs_up_on_idle_callers_and_does_not_wait_for_them() -> None:
    async def run() -> None:
        server = await HttpServer.open(FakeNode().as_node, "127.0.0.1", 0)
        assert (await get(server.address, "/ready"))[0] == 200
        idle_reader, idle_writer = await asyncio.open_connection(*server.address)
        idle_writer.write(b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n")
        await idle_reader.readuntil(b"ready")
        silent_reader, silent_writer = await asyncio.open_connection(*server.address)
        await get(server.address, "/ready")  # by now the silent one has been accepted as well
        began = time.monotonic()
        await server.close()
        assert time.monotonic() - began < 5
        async with asyncio.timeout(10):
            assert await silent_reader.read() == b""
            await idle_reader.read()
        for writer in (idle_writer, silent_writer):
            writer.close()

    asyncio.run(run())


def test_closing_twice_does_no_harm() -> None:
    async def run() -> None:
        server = await HttpServer.open(FakeNode().as_node, "127.0.0.1", 0)
        await get(server.address, "/ready")
        await server.close()
        await server.close()

    asyncio.run(run())


@pytest.mark.skipif(not socket.has_ipv6, reason="no IPv6 on this machine")
def test_a_port_can_be_bound_on_ipv6() -> None:
    async def run() -> None:
        try:
            server = await HttpServer.open(FakeNode().as_node, "::1", 0)
        except OSError as problem:
            pytest.skip(f"no IPv6 loopback on this machine: {problem}")
        assert (await get(server.address, "/ready"))[0] == 200
        await server.close()

    asyncio.run(run())
