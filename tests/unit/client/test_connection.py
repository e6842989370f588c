"""How a connection begins, and what it says when the other side is not what it should be."""

from __future__ import annotations

import contextlib
import socket
import ssl
import struct
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from chronik.client.connection import ClientConnection, ConnectionFailed
from chronik.client.options import ClientOptions
from chronik.client.security import PLAIN_CONNECTION, PemStore, Security
from chronik.pipeline.topics.options import cluster_options
from tests.clients.support import needs

Answer = Callable[[int, bytes], bytes]
"""From the request's key and its bytes behind the header to the answer's bytes behind the correlation id."""

NOTHING_SPOKEN = struct.pack(">hi", 0, 0)
CLIENT_ID = "me"


@contextlib.contextmanager
def someone(answer: Answer, tls: ssl.SSLContext | None = None) -> Iterator[tuple[str, int]]:
    """A listener that takes one connection, and answers until it is closed."""

    def serve() -> None:
        connection, _ = listener.accept()
        if tls is not None:
            try:
                connection = tls.wrap_socket(connection, server_side=True)
            except OSError:  # the other side will have none of it
                return connection.close()
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


def options(security: Security = PLAIN_CONNECTION) -> ClientOptions:
    return ClientOptions((("nowhere", 1),), security, client_id=CLIENT_ID, timeout_ms=5_000)


def test_a_name_and_a_password_are_said_before_anything_else() -> None:
    said: list[tuple[int, bytes]] = []

    def answer(key: int, body: bytes) -> bytes:
        said.append((key, body))
        return {17: struct.pack(">hi", 0, 0), 36: struct.pack(">hhi", 0, -1, 0), 18: NOTHING_SPOKEN}[key]

    with someone(answer) as address:
        ClientConnection(
            address, options(Security("SASL_PLAINTEXT", mechanism="PLAIN", username="ann", password="s3cret"))
        ).close()

    assert said == [(17, b"\x00\x05PLAIN"), (36, b"\x00\x00\x00\x0b\x00ann\x00s3cret"), (18, b"")]


def test_a_wrong_password_is_told_without_the_password() -> None:
    answers = {17: struct.pack(">hi", 0, 0), 36: struct.pack(">hhi", 58, -1, 0)}

    with (
        someone(lambda key, _: answers[key]) as address,
        pytest.raises(ConnectionFailed, match="does not let ann in: SASL_AUTHENTICATION_FAILED") as refused,
    ):
        ClientConnection(
            address, options(Security("SASL_PLAINTEXT", mechanism="PLAIN", username="ann", password="s3cret"))
        )

    assert "s3cret" not in str(refused.value)


def test_a_request_that_the_other_side_does_not_speak_is_named() -> None:
    with someone(lambda key, _: NOTHING_SPOKEN) as address:
        connection = ClientConnection(address, options())
        with pytest.raises(ConnectionFailed, match="speaks no version of fetch that is known here"):
            connection.version_of(1)
        connection.close()


def test_what_is_no_kafka_is_told_from_one() -> None:
    with (
        someone(lambda key, _: b"HTTP") as address,
        pytest.raises(ConnectionFailed, match="answered what cannot be read"),
    ):
        ClientConnection(address, options())


def test_nobody_there_is_said_with_the_address() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        address = listener.getsockname()[:2]

    with pytest.raises(ConnectionFailed, match=f"127.0.0.1:{address[1]}: Connection refused"):
        ClientConnection(address, options())


def test_what_only_tests_need_is_not_imported_into_tasks() -> None:
    program = """
import sys
from chronik.client.connection import ClientConnection

kind = ClientConnection.request_type(3, 12)
assert kind.__module__.startswith("kio.schema.metadata.v12"), kind
assert "hypothesis" not in sys.modules, "kio brought Hypothesis along"
import hypothesis.strategies  # it can still be had
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert not done.returncode, done.stderr


def certified(folder: Path, name: str) -> tuple[str, str]:
    """A certificate that vouches for itself, for 127.0.0.1, and its key: PEM files."""
    certificate, key = str(folder / f"{name}.pem"), str(folder / f"{name}.key")
    made = [
        "openssl",
        "req",
        "-x509",
        "-newkey",
        "ec",
        "-pkeyopt",
        "ec_paramgen_curve:prime256v1",
        "-nodes",
        "-days",
        "2",
    ]
    made += ["-subj", f"/CN={name}", "-addext", "subjectAltName=IP:127.0.0.1"]
    made += ["-addext", "keyUsage=critical,keyCertSign,digitalSignature", "-out", certificate, "-keyout", key]
    subprocess.run(made, check=True, capture_output=True)
    return certificate, key


@pytest.fixture
def node(tmp_path: Path) -> tuple[str, str]:
    needs("openssl")  # makes the certificates
    return certified(tmp_path, "node")


def tls_of(node: tuple[str, str], lets_in: str | None = None) -> ssl.SSLContext:
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH, cafile=lets_in)
    context.load_cert_chain(*node)
    if lets_in is not None:
        context.verify_mode = ssl.CERT_REQUIRED
    return context


def test_an_encrypted_connection_shows_its_certificate_and_is_asked_for_its_name(
    node: tuple[str, str], tmp_path: Path
) -> None:
    said: list[int] = []

    def answer(key: int, _: bytes) -> bytes:
        said.append(key)
        return {17: struct.pack(">hi", 0, 0), 36: struct.pack(">hhi", 0, -1, 0), 18: NOTHING_SPOKEN}[key]

    mine, my_key = certified(tmp_path, "me")
    pem = {
        "kafka.security.protocol": "SASL_SSL",
        "kafka.ssl.truststore.type": "PEM",
        "kafka.ssl.truststore.location": node[0],
        "kafka.ssl.certificate.location": mine,
        "kafka.ssl.key.location": my_key,
        "kafka.sasl.mechanism": "PLAIN",
        "kafka.sasl.username": "ann",
        "kafka.sasl.password": "s3cret",
    }

    with someone(answer, tls_of(node, lets_in=mine)) as (host, port):
        connection = ClientConnection(
            (host, port), cluster_options({"kafka.bootstrap.servers": f"{host}:{port}", **pem})
        )
        connection.close()

    assert said == [17, 36, 18]


def test_a_certificate_that_nobody_known_vouches_for_is_refused(node: tuple[str, str], tmp_path: Path) -> None:
    other, _ = certified(tmp_path, "other")

    with (
        someone(lambda key, _: NOTHING_SPOKEN, tls_of(node)) as (host, port),
        pytest.raises(
            ConnectionFailed, match=f"^{host}:{port}: its certificate is not trusted: self.signed certificate"
        ),
    ):
        ClientConnection((host, port), options(Security("SSL", PemStore(other))))


def test_certificates_that_cannot_be_read_are_named(tmp_path: Path) -> None:
    (tmp_path / "empty").touch()

    for name, why in (("missing", "No such file"), ("empty", "")):
        with (
            socket.create_server(("127.0.0.1", 0)) as listener,
            pytest.raises(ConnectionFailed, match=f"the trust store {tmp_path / name} cannot be used: {why}"),
        ):
            ClientConnection(listener.getsockname()[:2], options(Security("SSL", PemStore(str(tmp_path / name)))))
