"""Clients that do not take their answers: what of these is in memory is bounded, of each and of all of them."""

from __future__ import annotations

import logging

import pytest

from chronik.core.ports import FileSlice
from chronik.node.net.connection import FLUSH_BYTES, HELD_ALL_BYTES, HELD_BYTES, SMALL_PIECE_BYTES
from tests.unit.core.fakes import MemoryFiles
from tests.unit.node.connected import OVERLAPPING, Client, with_client

CONNECTION_ID = 1


@with_client()
async def test_small_answers_for_a_client_that_does_not_read_are_not_handed_on(client: Client) -> None:
    """One at a time they were, and the transport kept all of them."""
    names = [OVERLAPPING + b"%d" % number for number in range(5)]
    client.send(*names)
    client.connection.pause_writing()

    for name in names:
        client.requests.slots[name]((bytes(FLUSH_BYTES // 2),))
        assert await client.received() == b""
    assert client.all.held_bytes == 5 * (FLUSH_BYTES // 2)

    client.connection.resume_writing()
    assert len(await client.received()) == 5 * (FLUSH_BYTES // 2)
    assert client.all.held_bytes == 0


@with_client()
async def test_behind_answers_that_wait_for_an_earlier_one_no_more_is_begun(client: Client) -> None:
    names = [OVERLAPPING + b"%d" % number for number in range(4)]
    client.send(*names[:3])
    client.requests.slots[names[1]]((bytes(HELD_BYTES // 2),))
    assert not client.all.is_slow(CONNECTION_ID)
    client.requests.slots[names[2]]((bytes(HELD_BYTES // 2),))
    assert client.all.is_slow(CONNECTION_ID)

    client.send(names[3])
    assert client.requests.begun == names[:3]
    client.requests.answer(names[0])
    await client.received()
    await client.received()

    assert client.requests.begun == names
    assert client.all.held_bytes == 0
    assert client.transport.is_reading()


@with_client()
async def test_what_waits_in_files_is_not_held(client: Client) -> None:
    file = MemoryFiles().open("a-file")
    file.append((bytes(2 * HELD_BYTES),))
    client.send(b"o1", b"o2")

    client.requests.slots[b"o2"]((b"head", FileSlice(file, 0, 2 * HELD_BYTES)))

    assert client.all.held_bytes == len(b"head")


@pytest.mark.parametrize(("loss", "level"), [("retired", logging.INFO), ("broken", logging.ERROR)])
def test_a_connection_ends_when_what_it_was_promised_is_gone(
    loss: str, level: int, caplog: pytest.LogCaptureFixture
) -> None:
    """A connection ends when what it was promised is gone and only a broken disk is a fault. A topic may be deleted
    while a slow client takes its time."""
    caplog.set_level(logging.INFO)

    @with_client()
    async def test(client: Client) -> None:
        files = MemoryFiles()
        file = files.open("a-file")
        file.append((bytes(2 * FLUSH_BYTES),))
        client.send(b"o1")
        client.connection.pause_writing()
        client.requests.slots[b"o1"]((b"head", FileSlice(file, 0, 2 * FLUSH_BYTES)))
        await client.received()
        if loss == "retired":
            file.retire()
        else:
            file.truncate(FLUSH_BYTES)

        client.connection.resume_writing()

        assert client.transport.is_closing()

    test()
    told = [record for record in caplog.records if "closing the connection" in record.message]
    assert [record.levelno for record in told] == [level]


@with_client()
async def test_with_much_held_for_all_everybody_is_slow_and_gets_small_pieces(client: Client) -> None:
    file = MemoryFiles().open("a-file")
    file.append((bytes(4 * FLUSH_BYTES),))
    client.all.held_bytes = HELD_ALL_BYTES
    assert client.all.is_slow(CONNECTION_ID)
    client.send(b"o1")
    write = client.transport.write

    def write_and_pause(content: bytes) -> None:
        write(content)
        client.connection.pause_writing()

    client.transport.write = write_and_pause  # type: ignore[assignment, method-assign]  # as above the high-water mark
    client.requests.slots[b"o1"]((FileSlice(file, 0, 4 * FLUSH_BYTES),))
    await client.received()

    assert len(client.transport.written) == SMALL_PIECE_BYTES
    assert client.transport.high_bytes == 1  # at 0 a transport over TLS is paused before it has anything


@with_client()
async def test_what_was_held_for_a_client_is_let_go_when_it_leaves(client: Client) -> None:
    client.transport.unsent_bytes = 1000
    client.send(b"o1", b"o2", b"o3")
    client.requests.answer(b"o2")
    client.connection.pause_writing()
    client.requests.answer(b"o1")
    assert client.all.held_bytes == 1000 + 4

    client.connection.connection_lost(None)

    assert client.all.held_bytes == 0
