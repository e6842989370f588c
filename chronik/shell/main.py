"""Builds the house with real doors and runs it until it is asked to stop."""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable
from typing import TYPE_CHECKING, Any

from chronik.core.access.principal import ANONYMOUS, USER_TYPE, KafkaPrincipal
from chronik.core.access.ssl_principal import NoMatchingRule, distinguished_name, mapper_of
from chronik.core.config.addresses import PLAINTEXT
from chronik.core.config.definitions import BadConfig
from chronik.core.config.node import NodeConfig, passed_over
from chronik.core.errors import Corrupt, Refused
from chronik.core.ports import Doors
from chronik.node.cluster.identity import CannotStart, WrongDirectory, proposed, settle
from chronik.node.node import Node
from chronik.shell import join_checks
from chronik.shell.chance import RealChance
from chronik.shell.clock import RealClock
from chronik.shell.data_dir import DataDirLock
from chronik.shell.descriptors import raise_limit, shared_out
from chronik.shell.errors import StartError
from chronik.shell.files import RealFiles
from chronik.shell.first_start import FirstStart
from chronik.shell.first_users import make_first_users
from chronik.shell.jwks import JwksKeys
from chronik.shell.memory import memory_bytes, request_bytes_max
from chronik.shell.network import RealNetwork
from chronik.shell.settings import read_config_file
from chronik.shell.tls import TlsContexts

if TYPE_CHECKING:
    from chronik.core.machines.metadata.access_changes import ScramUpsertion
    from chronik.shell.http_server import HttpServer

log = logging.getLogger(__name__)

LOOK_AT_OTHERS_EVERY_S = 2.0
LOOK_AT_CERTIFICATES_EVERY_S = 1.0
THIS_MACHINE = ("localhost", "127.0.0.1", "::1")
LOOK_AT_THE_DISK = "see that the disk has room and can be written to"


def run(values: dict[str, str], config_path: str | None = None, first_users: tuple[ScramUpsertion, ...] = ()) -> int:
    """Run a node in the foreground until SIGINT or SIGTERM; at its first start it makes these users. Raises StartError
    when it cannot start."""
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s", stream=sys.stderr)
    config = load_config(values, config_path)
    # Requests make no cycles; what is collected is mostly what the imports left. Rarely is often enough.
    gc.collect()
    gc.freeze()
    gc.set_threshold(50_000, 20, 50)
    runner = asyncio.Runner(loop_factory=_loop_factory())
    with runner:
        return runner.run(_serve(config, first_users))


def _loop_factory() -> Callable[[], asyncio.AbstractEventLoop] | None:
    if sys.platform == "win32":
        return None
    import uvloop

    return uvloop.new_event_loop


def load_config(values: dict[str, str], config_path: str | None) -> NodeConfig:
    """The settings of file and command line; the command line wins. Raises StartError."""
    try:
        given = {**(read_config_file(config_path) if config_path else {}), **values}
        for key in passed_over(given):
            log.info("%s has no meaning here and is passed over", key)
        return NodeConfig.from_settings(given)
    except BadConfig as problem:
        hint = f"did you mean {problem.nearest}?" if problem.nearest else "see docs/configuration.md for the settings"
        raise StartError(str(problem), hint) from problem


class House:
    """A node with its doors, its lock and its HTTP port."""

    def __init__(self, config: NodeConfig, first_users: tuple[ScramUpsertion, ...] = ()) -> None:
        self._config = config
        self._first_users = first_users
        self._tls = TlsContexts(config.security, config.pem) if config.listeners.is_encrypted else None
        is_encrypted_between_nodes = config.listeners.inter_node.is_encrypted
        self._client_tls = self._tls.client if self._tls is not None and is_encrypted_between_nodes else None
        self._let_in_by = join_checks.as_a_node(config)
        self._token_keys = JwksKeys(config.sasl) if config.needs_token_keys else None
        self._lock = DataDirLock(config.server.log_dirs)
        self._descriptors = shared_out(raise_limit())
        self._files = RealFiles(config.server.log_dirs, self._descriptors.files)
        self._first_start = FirstStart(self._files)
        self._watching: asyncio.Task[None] | None = None
        self._http: HttpServer | None = None
        self.node: Node | None = None
        self.address = ("", 0)

    async def open(self) -> Node:
        """Raises StartError."""
        try:
            return await self._open()
        except StartError:
            if self._first_start.can_be_undone(self._config.node_id in self._config.voters):
                await self._undo_first_start()
            raise

    async def _undo_first_start(self) -> None:
        if self.node is not None:
            await self.node.give_up()
        try:
            self._first_start.undo()
        except OSError as problem:  # why it cannot start is the more important news
            log.warning("the data directory %s is not as it was before: %s", self._config.server.log_dirs, problem)

    async def _open(self) -> Node:
        config = self._config
        chance = RealChance()
        try:
            # All that can be refused before anything is written: a node that waits for others here may be stopped.
            proposed(self._files, config.node_id, chance, config.server.cluster_id)
            self._config = config = await join_checks.with_voters(config, self._files, self._let_in_by)
            await join_checks.refuse_twin(config, self._let_in_by)
            identity = settle(self._files, config.node_id, chance, config.server.cluster_id)
            log.info("%s", self._descriptors)
            network = RealNetwork(self._tls, connects_encrypted=self._client_tls is not None)
            self.node = Node(
                config,
                identity,
                Doors(
                    self._files,
                    RealClock(),
                    network,
                    chance,
                ),
                os.path.abspath(config.server.log_dirs),
                connections_max=max(self._descriptors.connections - self._http_connections_max, 1),
                request_bytes_max=request_bytes_max(memory_bytes()),
                inspect=_inspect,
                token_keys=self._token_keys,
                principal=self._own_principal(),
            )
            if self._token_keys is not None:
                self._token_keys.start()
            if self._tls is not None:
                self.node.metrics.certificate_expires_s = self._tls.expires_s
                self._watching = asyncio.get_running_loop().create_task(
                    _reload_when_changed(self._tls, network, self.node)
                )
            # Before the start, which in a cluster may wait for others: what it waits for can be looked at.
            await self._open_http()
            self.address = await self._start(self.node)
            await make_first_users(self.node, self._first_users)
        except WrongDirectory as problem:
            raise StartError(
                f"the data directory {config.server.log_dirs} cannot be used: {problem}",
                "give another one with --data-dir",
            ) from problem
        except CannotStart as problem:
            raise StartError(f"cannot start: {problem}", "see docs/running-a-cluster.md") from problem
        except Corrupt as problem:
            raise StartError(
                f"the data directory {config.server.log_dirs} is damaged: {problem}",
                "restore it, or move it aside and start anew",
            ) from problem
        except OSError as problem:
            raise _listen_error(config.address, problem, "--listen") from problem
        except Refused as problem:  # it could not write that it is here
            raise StartError(f"cannot start: {problem}", LOOK_AT_THE_DISK) from problem
        return self.node

    def _own_principal(self) -> KafkaPrincipal:
        """As what other nodes see this one, where that is by its certificate. Raises StartError."""
        security = self._config.security
        if self._tls is None or self._client_tls is None or not security.identifies_clients:
            return ANONYMOUS
        subject = self._tls.own_subject()
        if subject is None:
            log.warning("the trust store does not vouch for this node's own certificate: no other node may trust it")
            return ANONYMOUS
        try:
            return KafkaPrincipal(
                USER_TYPE, mapper_of(security.ssl_principal_mapping_rules)(distinguished_name(subject))
            )
        except NoMatchingRule as problem:
            raise StartError(
                f"this node's own certificate is none of a node: {problem}", "see ssl.principal.mapping.rules"
            ) from problem

    async def _start(self, node: Node) -> tuple[str, int]:
        """In a cluster it waits for others. If that takes long, they are looked at: some never come."""
        starting = asyncio.get_running_loop().create_task(node.start(), name="start")
        try:
            while not self._config.is_alone:
                await asyncio.wait((starting,), timeout=LOOK_AT_OTHERS_EVERY_S)
                if starting.done():
                    break
                await join_checks.refuse_strangers(self._config, self._let_in_by)
            return await starting
        finally:
            starting.cancel()

    async def _open_http(self) -> None:
        where = self._config.http.http_host_and_port
        if where is None or self.node is None:
            return
        from chronik.shell.http_server import HttpBounds, HttpServer
        from chronik.shell.tls import HttpTls

        try:
            tls = HttpTls(self._config.http.http_ssl_keystore_location)
        except (OSError, ValueError) as problem:
            raise StartError(
                f"http.ssl.keystore.location cannot be used: {problem}",
                "it must have a key, not encrypted, and its certificates, as PEM",
            ) from problem
        try:
            self._http = await HttpServer.open(self.node, *where, HttpBounds(self._http_connections_max), tls)
        except OSError as problem:
            raise _listen_error(where, problem, "--http") from problem

    @property
    def _http_connections_max(self) -> int:
        """The HTTP port's part of the connections that there are descriptors for."""
        if self._config.http.http_host_and_port is None:
            return 0
        return min(self._config.http.http_max_connections, max(self._descriptors.connections // 8, 1))

    @property
    def http_address(self) -> tuple[str, int] | None:
        return None if self._http is None else self._http.address

    async def close(self) -> None:
        if self._token_keys is not None:
            self._token_keys.stop()
        if self._watching is not None:
            self._watching.cancel()
        if self._http is not None:
            await self._http.close()
        if self.node is not None and self.node.is_ready:
            await self.node.stop()
        self._files.close()
        self._lock.release()


async def _reload_when_changed(tls: TlsContexts, network: RealNetwork, node: Node) -> None:
    while True:
        await asyncio.sleep(LOOK_AT_CERTIFICATES_EVERY_S)
        if tls.reload_if_changed():
            await network.use_new_certificates()
            node.metrics.certificate_expires_s = tls.expires_s


def _warn_of_open_doors(config: NodeConfig) -> None:
    for point in config.listeners.all:
        if point.protocol == PLAINTEXT and point.host not in THIS_MACHINE:
            log.warning(
                "PLAINTEXT on %s: all who can reach it may read and change everything; see docs/security.md",
                point.host,
            )
    where = config.http.http_host_and_port
    if where is not None and where[0] not in THIS_MACHINE and not config.http.is_login_needed:
        log.warning(
            "the HTTP port on %s: all who can reach it see topics, clients and the trace; see http.token.file and"
            " http.basic.auth.enable",
            where[0] or "every address",
        )


def _inspect(node: Node, view: str, arguments: dict[str, Any]) -> Awaitable[bytes]:
    from chronik.http import inspect_views  # a node that nothing looks at starts without it

    return inspect_views.answer(node, view, arguments)


def _listen_error(where: tuple[str, int], problem: OSError, option: str) -> StartError:
    host, port = where
    if problem.errno == errno.EADDRINUSE:
        return StartError(
            f"port {port} on {host} is in use", f"stop what uses it, or give another address with {option} HOST:PORT"
        )
    if problem.errno in (errno.EADDRNOTAVAIL, errno.EACCES) or problem.errno is None or problem.errno < 0:
        return StartError(
            f"cannot listen on {written(where)}: {problem}", f"give another address with {option} HOST:PORT"
        )
    return StartError(f"cannot start: {problem}", LOOK_AT_THE_DISK)


def written(address: tuple[str, int]) -> str:
    """Host and port as clients and browsers take them."""
    host, port = address
    return f"[{host}]:{port}" if ":" in host else f"{host}:{port}"


async def stay(node: Node, stop: asyncio.Event) -> None:
    """Until the node is asked to stop. Raises StartError when another has taken its place."""
    loop = asyncio.get_running_loop()
    waits = [loop.create_task(event.wait()) for event in (stop, node.cluster.liveness.has_to_end)]
    try:
        await asyncio.wait(waits, return_when=asyncio.FIRST_COMPLETED)
    finally:
        for wait in waits:
            wait.cancel()
    if not stop.is_set():
        raise StartError(
            f"this node cannot go on: {node.cluster.liveness.same_id()}",
            "see that no two nodes have copies of one data directory",
        )


async def _serve(config: NodeConfig, first_users: tuple[ScramUpsertion, ...]) -> int:
    join_checks.refuse_own_address(config)
    _warn_of_open_doors(config)
    house = House(config, first_users)
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGINT, signal.SIGTERM):
        with contextlib.suppress(NotImplementedError):
            loop.add_signal_handler(number, stop.set)
    try:
        opening = loop.create_task(house.open())
        stopping = loop.create_task(stop.wait())
        await asyncio.wait((opening, stopping), return_when=asyncio.FIRST_COMPLETED)
        stopping.cancel()
        if not opening.done():  # asked to stop while still recovering: what is not open need not be closed in order
            opening.cancel()
            await asyncio.gather(opening, return_exceptions=True)
            return 0
        node = await opening
        http = house.http_address
        where = f", metrics at {config.http.http_scheme}://{written(http)}/metrics" if http else ""
        for key, (given, instead) in node.cluster.metadata.image.node_config.overruled().items():
            log.warning(
                "%s = %s has no effect: for all nodes it is %s (kafka-configs.sh alters it)", key, given, instead
            )
        log.info("ready: Kafka clients at %s%s", written(house.address), where)
        await stay(node, stop)
        log.info("stopping")
    finally:
        await house.close()
    return 0
