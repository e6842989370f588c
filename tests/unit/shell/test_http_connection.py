"""Callers of the HTTP port that never finish, or are too many: none of them is waited for."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable

import pytest

from chronik.shell.http_server import HttpBounds, HttpServer
from tests.unit.http.fake_node import FakeNode

QUICK = HttpBounds(connections_max=2, request_s=0.2, answer_s=0.2)
PATIENT = HttpBounds(connections_max=2)
REQUEST = b"GET /ready HTTP/1.1\r\nHost: localhost\r\n\r\n"


def serve(check: Callable[[tuple[str, int]], Awaitable[None]], bounds: HttpBounds) -> None:
    async def run() -> None:
        server = await HttpServer.open(FakeNode().as_node, "127.0.0.1", 0, bounds)
        try:
            async with asyncio.timeout(10):
                await check(server.address)
        finally:
            await server.close()

    asyncio.run(run())


async def rest_of(reader: asyncio.StreamReader) -> bytes:
    """Until it is closed, in whatever way."""
    try:
        return await reader.read()
    except ConnectionResetError:
        return b""


@pytest.mark.parametrize(
    "begun", [b"", b"GET", b"GET /ready HTTP/1.1\r\nHost: local"], ids=["silent", "half a line", "half the headers"]
)
def test_a_request_that_does_not_come_is_given_up(begun: bytes) -> None:
    async def check(address: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(begun)
        assert await rest_of(reader) == b""
        writer.close()

    serve(check, QUICK)


def test_a_caller_whose_body_never_ends_is_hung_up_on() -> None:
    async def check(address: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(REQUEST.replace(b"\r\n\r\n", b"\r\nContent-Length: 1000000000\r\n\r\n") + bytes(1000))
        assert b" 200 " in await rest_of(reader)
        writer.close()

    serve(check, QUICK)


def test_headers_without_end_are_refused() -> None:
    async def check(address: tuple[str, int]) -> None:
        reader, writer = await asyncio.open_connection(*address)
        writer.write(REQUEST[:-2] + b"".join(b"X-%d: %s\r\n" % (number, b"x" * 100) for number in range(1000)))
        answer = await rest_of(reader)
        assert b" 400 " in answer or not answer
        writer.close()

    logging.disable(logging.WARNING)
    serve(check, PATIENT)
    logging.disable(logging.NOTSET)


def test_one_caller_too_many_is_turned_away_and_told_once(caplog: pytest.LogCaptureFixture) -> None:
    async def check(address: tuple[str, int]) -> None:
        there = [await asyncio.open_connection(*address) for _ in range(2)]
        for reader, writer in there:
            writer.write(REQUEST)
            assert b" 200 " in await reader.readuntil(b"\r\n\r\n")
        for _ in range(3):
            reader, writer = await asyncio.open_connection(*address)
            assert await rest_of(reader) == b""
            writer.close()
        for _, writer in there:
            writer.close()

    serve(check, PATIENT)

    assert sum("http.max.connections" in record.getMessage() for record in caplog.records) == 1
