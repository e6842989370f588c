"""How a connection begins, and what it says when the other side is not what it should be."""

from __future__ import annotations

import contextlib
import socket
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator

import pytest

from chronik.pipeline.topics.connection import Connection, Unreachable
from chronik.pipeline.topics.options import ClientOptions

Answer = Callable[[int, bytes], bytes]
"""From the request's key and its bytes behind the header to the answer's bytes behind the correlation id."""

NOTHING_SPOKEN = struct.pack(">hi", 0, 0)
CLIENT_ID = "me"


@contextlib.contextmanager
def someone(answer: Answer) -> Iterator[tuple[str, int]]:
    """A listener that takes one connection, and answers until it is closed."""

    def serve() -> None:
        connection, _ = listener.accept()
        with connection, connection.makefile("rb") as stream:
            while size := stream.read(4):
                frame = stream.read(int.from_bytes(size, "big"))
                key, _, correlation_id, name_size = struct.unpack_from(">hhih", frame)
                body = struct.pack(">i", correlation_id) + answer(key, frame[10 + name_size :])
                connection.sendall(struct.pack(">i", len(body)) + body)

    with socket.create_server(("127.0.0.1", 0)) as listener:
        thread = threading.Thread(target=serve)
        thread.start()
        yield listener.getsockname()[:2]
        thread.join(10)


def options(**more: str) -> ClientOptions:
    return ClientOptions((("nowhere", 1),), client_id=CLIENT_ID, timeout_ms=5_000, **more)  # type: ignore[arg-type]


def test_a_name_and_a_password_are_said_before_anything_else() -> None:
    said: list[tuple[int, bytes]] = []

    def answer(key: int, body: bytes) -> bytes:
        said.append((key, body))
        return {17: struct.pack(">hi", 0, 0), 36: struct.pack(">hhi", 0, -1, 0), 18: NOTHING_SPOKEN}[key]

    with someone(answer) as address:
        Connection(address, options(username="ann", password="s3cret")).close()

    assert said == [(17, b"\x00\x05PLAIN"), (36, b"\x00\x00\x00\x0b\x00ann\x00s3cret"), (18, b"")]


def test_a_wrong_password_is_told_without_the_password() -> None:
    answers = {17: struct.pack(">hi", 0, 0), 36: struct.pack(">hhi", 58, -1, 0)}

    with (
        someone(lambda key, _: answers[key]) as address,
        pytest.raises(Unreachable, match="does not let 'ann' in: SASL_AUTHENTICATION_FAILED") as refused,
    ):
        Connection(address, options(username="ann", password="s3cret"))

    assert "s3cret" not in str(refused.value)


def test_a_request_that_the_other_side_does_not_speak_is_named() -> None:
    with someone(lambda key, _: NOTHING_SPOKEN) as address:
        connection = Connection(address, options())
        with pytest.raises(Unreachable, match="speaks no version of fetch that is known here"):
            connection.version_of(1)
        connection.close()


def test_what_is_no_kafka_is_told_from_one() -> None:
    with (
        someone(lambda key, _: b"HTTP") as address,
        pytest.raises(Unreachable, match="answered what cannot be read"),
    ):
        Connection(address, options())


def test_nobody_there_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()[:2]

    with pytest.raises(Unreachable, match=f"127.0.0.1:{address[1]}: Connection refused"):
        Connection(address, options())


def test_what_only_tests_need_is_not_imported_into_tasks() -> None:
    program = """
import sys
from chronik.pipeline.topics.connection import Connection

kind = Connection.request_type(3, 12)
assert kind.__module__.startswith("kio.schema.metadata.v12"), kind
assert "hypothesis" not in sys.modules, "kio brought Hypothesis along"
import hypothesis.strategies  # it can still be had
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert not done.returncode, done.stderr
