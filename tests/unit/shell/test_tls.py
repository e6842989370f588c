"""TLS through the Network door: what is on the wire, which certificates are taken, and what changes while it runs."""

from __future__ import annotations

import asyncio
import os
import ssl
import time
from collections.abc import Callable, Coroutine
from dataclasses import replace
from pathlib import Path

import pytest
import uvloop

from chronik.core.config.sections.security import PemSettings, SecurityConfig
from chronik.core.ports import FileSlice, Outgoing
from chronik.shell.errors import StartError
from chronik.shell.files import RealFiles
from chronik.shell.network import RealNetwork
from chronik.shell.tls import TlsContexts
from tests.certificates import Authority, needs_openssl

pytestmark = needs_openssl

SECRET = b"nobody but the client may read this. "
LOOPS: list[Callable[[], asyncio.AbstractEventLoop]] = [uvloop.new_event_loop, asyncio.new_event_loop]
EACH_LOOP = pytest.mark.parametrize("loop_factory", LOOPS, ids=["uvloop", "asyncio"])


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


def config_of(authority: Authority, name: str = "node", **change: object) -> SecurityConfig:
    made = SecurityConfig(
        ssl_keystore_type="PEM",
        ssl_keystore_location=str(authority.key_store(name)),
        ssl_truststore_type="PEM",
        ssl_truststore_location=str(authority.certificate),
        ssl_client_auth="required",
    )
    return replace(made, **change)  # type: ignore[arg-type]  # of a test


class Speaker(asyncio.Protocol):
    """Sends a file and more, the way a connection of the node does, as soon as it can."""

    def __init__(self, network: RealNetwork, pieces: list[Outgoing]) -> None:
        self._network = network
        self._pieces = pieces
        self.certificate: object = None

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self.certificate = transport.get_extra_info("peercert")
        left = self._network.send_now(transport, self._pieces)  # type: ignore[arg-type]  # it is two-way
        transport.writelines([bytes(piece) for piece in left])  # type: ignore[attr-defined]
        transport.close()


class Listener(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = bytearray()
        self.is_over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_over.done():
            self.is_over.set_result(None)


async def heard_and_seen(network: RealNetwork, pieces: list[Outgoing], *, is_encrypted: bool) -> tuple[bytes, bytes]:
    """What a client receives, and what went over the wire to it."""
    listener = await network.listen(
        "127.0.0.1", 0, lambda: Speaker(network, pieces), protocol="SSL" if is_encrypted else "PLAINTEXT"
    )
    seen = bytearray()

    async def relay(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        up_reader, up_writer = await asyncio.open_connection(*listener.address)

        async def pump(source: asyncio.StreamReader, sink: asyncio.StreamWriter, *, is_seen: bool) -> None:
            while data := await source.read(65536):
                if is_seen:
                    seen.extend(data)
                sink.write(data)
                await sink.drain()
            sink.close()

        await asyncio.gather(pump(reader, up_writer, is_seen=False), pump(up_reader, writer, is_seen=True))

    wire = await asyncio.start_server(relay, "127.0.0.1", 0)
    heard = Listener()
    try:
        transport = await network.connect("127.0.0.1", wire.sockets[0].getsockname()[1], heard)
        await heard.is_over
        transport.close()
    finally:
        wire.close()
        await listener.close()
    return bytes(heard.received), bytes(seen)


async def in_time(work: Coroutine[None, None, tuple[bytes, bytes]]) -> tuple[bytes, bytes]:
    """Plain bytes within TLS may leave both sides waiting."""
    async with asyncio.timeout(10):
        return await work


@EACH_LOOP
def test_files_and_answers_never_go_past_tls(
    loop_factory: Callable[[], asyncio.AbstractEventLoop], authority: Authority, tmp_path: Path
) -> None:
    """F63: the quick ways write to the socket, which is below TLS."""
    files = RealFiles(str(tmp_path), 8)
    files.replace("log", SECRET * 10_000)
    pieces: list[Outgoing] = [SECRET, FileSlice(files.open("log"), 0, len(SECRET) * 10_000), SECRET]
    with asyncio.Runner(loop_factory=loop_factory) as runner:
        network = RealNetwork(TlsContexts(config_of(authority)))
        heard, seen = runner.run(in_time(heard_and_seen(network, pieces, is_encrypted=True)))
        plain, plainly_seen = runner.run(heard_and_seen(RealNetwork(), pieces, is_encrypted=False))
    files.close()
    assert heard == plain == SECRET * 10_002
    assert SECRET in plainly_seen
    assert len(seen) > len(heard)
    assert SECRET not in seen


async def shake_hands(server: RealNetwork, client: RealNetwork, host: str = "127.0.0.1") -> bytes:
    listener = await server.listen("127.0.0.1", 0, lambda: Speaker(server, [b"welcome"]), protocol="SSL")
    heard = Listener()
    try:
        await client.connect(host, listener.address[1], heard)
        await asyncio.wait_for(heard.is_over, 10)
        return bytes(heard.received)
    finally:
        await listener.close()


def handshake(server: SecurityConfig, client: SecurityConfig, host: str = "127.0.0.1") -> bytes:
    return asyncio.run(shake_hands(RealNetwork(TlsContexts(server)), RealNetwork(TlsContexts(client)), host))


def test_nodes_of_one_authority_understand_each_other_by_name_and_address(authority: Authority) -> None:
    config = config_of(authority)
    assert handshake(config, config) == b"welcome"
    assert handshake(config, config, "localhost") == b"welcome"


def test_a_certificate_of_another_authority_is_refused_on_both_sides(authority: Authority, tmp_path: Path) -> None:
    stranger = config_of(Authority(tmp_path, "stranger"))
    ours = config_of(authority)
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(stranger, ours)
    # TLS 1.3: the server finds out after the client believes to be connected, so what counts is that nothing is heard.
    trusting = replace(stranger, ssl_truststore_location=str(authority.certificate))
    assert handshake(ours, trusting) == b""


def test_without_a_certificate_there_is_no_connection_where_one_is_required(authority: Authority) -> None:
    nameless = config_of(authority, ssl_keystore_location=None)
    assert handshake(config_of(authority), nameless) == b""
    assert handshake(config_of(authority, ssl_client_auth="none"), nameless) == b"welcome"
    assert handshake(config_of(authority, ssl_client_auth="requested"), nameless) == b"welcome"


def test_a_certificate_without_the_name_is_refused_unless_names_do_not_matter(authority: Authority) -> None:
    named = config_of(authority, ssl_keystore_location=str(authority.key_store("x", "subjectAltName=DNS:elsewhere")))
    with pytest.raises(ssl.SSLCertVerificationError):
        handshake(named, config_of(authority))
    assert handshake(named, config_of(authority, ssl_endpoint_identification_algorithm="")) == b"welcome"


def test_peers_that_share_no_tls_version_do_not_connect(authority: Authority) -> None:
    old, new = (config_of(authority, ssl_enabled_protocols=(version,)) for version in ("TLSv1.2", "TLSv1.3"))
    assert handshake(old, old) == handshake(new, new) == b"welcome"
    with pytest.raises(OSError):  # an SSLError, or the other side has hung up
        handshake(new, old)


def test_stores_that_cannot_be_read_are_said_at_the_start(authority: Authority, tmp_path: Path) -> None:
    nonsense = tmp_path / "nonsense.pem"
    nonsense.write_text("no certificate")
    for bad in (
        config_of(authority, ssl_keystore_location=str(tmp_path / "missing.pem")),
        config_of(authority, ssl_keystore_location=str(nonsense)),
        config_of(authority, ssl_truststore_location=str(nonsense)),
        config_of(authority, ssl_cipher_suites=("NO-SUCH-SUITE",)),
        config_of(authority, ssl_keystore_location=str(authority.certificate)),
    ):
        with pytest.raises(StartError, match="TLS cannot be set up"):
            TlsContexts(bad)


def test_an_encrypted_key_is_refused_and_never_asked_for_at_the_terminal(authority: Authority, tmp_path: Path) -> None:
    import subprocess

    store = authority.key_store("node")
    encrypted = tmp_path / "encrypted.pem"
    subprocess.run(
        ["openssl", "ec", "-in", str(store), "-aes128", "-passout", "pass:secret", "-out", str(encrypted)],
        check=True,
        capture_output=True,
    )
    certificate = store.read_text()[store.read_text().index("-----BEGIN CERTIFICATE") :]
    encrypted.write_text(encrypted.read_text() + certificate)
    with pytest.raises(StartError, match="encrypted"):
        TlsContexts(config_of(authority, ssl_keystore_location=str(encrypted)))


def test_keys_may_be_encrypted_and_stand_in_settings(authority: Authority, tmp_path: Path) -> None:
    """`ssl.key.password`, `ssl.keystore.key`, `ssl.keystore.certificate.chain` and `ssl.truststore.certificates`."""
    import subprocess

    store = authority.key_store("settings").read_text()
    encrypted = tmp_path / "encrypted.key"
    subprocess.run(
        ["openssl", "ec", "-aes128", "-passout", "pass:secret", "-out", str(encrypted)],
        input=store.encode(),
        check=True,
        capture_output=True,
    )
    config = replace(config_of(authority), ssl_keystore_location=None, ssl_truststore_location=None)
    chain = store[store.index("-----BEGIN CERTIFICATE") :]
    pem = PemSettings(encrypted.read_text(), chain, authority.certificate.read_text(), "secret")
    tls = TlsContexts(config, pem)

    name = asyncio.run(_server_name(RealNetwork(tls), RealNetwork(TlsContexts(config_of(authority)))))
    assert name == "settings"
    assert tls.expires_s is not None
    assert 1 < (tls.expires_s - time.time()) / 86_400 <= 2, "the certificates of tests last two days"
    for wrong in ("other", None):
        with pytest.raises(StartError, match="TLS cannot be set up"):
            TlsContexts(config, replace(pem, key_password=wrong))
    assert "BEGIN" not in repr(pem)


@EACH_LOOP
def test_an_authority_that_is_taken_out_is_trusted_no_more(
    authority: Authority, tmp_path: Path, loop_factory: Callable[[], asyncio.AbstractEventLoop]
) -> None:
    """By the listener that is open; what is connected stays."""
    other = Authority(tmp_path, "other")
    trusted = tmp_path / "trusted.pem"
    trusted.write_text(authority.certificate.read_text() + other.certificate.read_text())
    tls = TlsContexts(config_of(authority, ssl_truststore_location=str(trusted)))
    client = TlsContexts(config_of(other, ssl_truststore_location=str(authority.certificate)))
    friend = TlsContexts(config_of(authority))

    async def inside() -> None:
        network = RealNetwork(tls)
        listener = await network.listen("127.0.0.1", 0, Echo, protocol="SSL")
        assert await echoed(RealNetwork(client), listener.address) == b"x"
        held = Echoed()
        transport = await RealNetwork(client).connect(*listener.address, held)

        trusted.write_text(authority.certificate.read_text())
        assert tls.reload_if_changed()
        await network.use_new_certificates()

        assert await echoed(RealNetwork(client), listener.address) is None
        assert await echoed(RealNetwork(friend), listener.address) == b"x"
        transport.write(b"y")  # type: ignore[attr-defined]  # it is two-way
        assert await held.answer == b"y"
        transport.close()
        await listener.close()

    with asyncio.Runner(loop_factory=loop_factory) as runner:
        runner.run(asyncio.wait_for(inside(), 30))


class Echo(asyncio.Protocol):
    """Says what it heard."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._transport = transport

    def data_received(self, data: bytes) -> None:
        self._transport.write(data)  # type: ignore[attr-defined]  # it is two-way


class Echoed(asyncio.Protocol):
    """Waits for an answer: None when it is hung up on."""

    def __init__(self) -> None:
        self.answer: asyncio.Future[bytes | None] = asyncio.get_running_loop().create_future()

    def data_received(self, data: bytes) -> None:
        if not self.answer.done():
            self.answer.set_result(data)

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.answer.done():
            self.answer.set_result(None)


async def echoed(network: RealNetwork, address: tuple[str, int]) -> bytes | None:
    """None: it was not let in."""
    heard = Echoed()
    try:
        transport = await network.connect(*address, heard)
    except OSError:
        return None
    transport.write(b"x")  # type: ignore[attr-defined]  # it is two-way
    answer = await heard.answer
    transport.close()
    return answer


def test_a_new_key_store_behind_a_link_is_taken_and_a_bad_one_is_not(authority: Authority, tmp_path: Path) -> None:
    link = tmp_path / "current.pem"
    link.symlink_to(authority.key_store("old"))
    config = config_of(authority, ssl_keystore_location=str(link))
    tls, client = TlsContexts(config), TlsContexts(config_of(authority))
    assert not tls.reload_if_changed()

    def name() -> str:
        return asyncio.run(_server_name(RealNetwork(tls), RealNetwork(client)))

    def swap(target: Path) -> None:
        beside = tmp_path / "beside.pem"
        beside.symlink_to(target)
        os.replace(beside, link)

    assert name() == "old"
    swap(authority.key_store("new"))
    assert tls.reload_if_changed()
    assert name() == "new"
    bad = tmp_path / "bad.pem"
    bad.write_text("half a file")
    swap(bad)
    assert not tls.reload_if_changed()
    assert name() == "new"
    swap(authority.key_store("newest"))
    assert tls.reload_if_changed()
    assert name() == "newest"


async def _server_name(server: RealNetwork, client: RealNetwork) -> str:
    listener = await server.listen("127.0.0.1", 0, lambda: Speaker(server, [b"welcome"]), protocol="SSL")
    heard = Listener()
    try:
        transport = await client.connect(*listener.address, heard)
        subject = transport.get_extra_info("peercert")["subject"]
        await heard.is_over
    finally:
        await listener.close()
    return str(dict(part[0] for part in subject)["commonName"])
