"""The nodes that this one is to be in company with, looked at before and while it waits for them.

A node of a cluster starts when a majority is there, so it waits for those that are not. Some will never come, and then
it is better to say so: an address that leads to this node itself, or to something that is no node it could talk to.

A node that joins a running cluster asks it who its voters are, and keeps the answer: when all nodes are started again,
there may be no node yet to ask. From then on the metadata log says which nodes vote.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from chronik import __version__
from chronik.client.cluster_view import view_of
from chronik.client.request import Address, NoAnswer, NotKafka, ask, written
from chronik.client.security import PemStore, Security
from chronik.core.config.addresses import VOTERS
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.core.ports import Files
from chronik.shell.errors import StartError
from chronik.wire.versions import APIS, FETCH

log = logging.getLogger(__name__)

FOUND_VOTERS = "found-voters"  # a file beside meta.properties
FIND_EVERY_S = 0.2
STRANGERS_EVERY = 10  # rounds

# What nodes ask of each other.
NODE_REQUESTS = (
    "vote", "begin_quorum_epoch", "end_quorum_epoch", "fetch_snapshot", "broker_registration", "broker_heartbeat",
    "alter_partition",
)  # fmt: skip
EVERYWHERE = ("", "0.0.0.0", "::")
LOOK_TIMEOUT_S = 1.0
OPEN = Security()


def as_a_node(config: NodeConfig) -> Security:
    """How this node is let in by others before it is one of them: with its certificate, or by the nodes' user."""
    inter_node, tls = config.listeners.inter_node, config.security
    login = config.node_login
    stores: dict[str, Any] = {}
    if inter_node.is_encrypted:
        stores = {
            "authorities": _store(tls.ssl_truststore_location, config.pem.authorities),
            "certificate": _store(tls.ssl_keystore_location, config.pem.chain),
            "key": _store(tls.ssl_keystore_location, config.pem.key),
            "key_password": config.pem.key_password,
            "is_name_checked": tls.ssl_endpoint_identification_algorithm == "https",
        }
    if login is not None:
        stores |= {
            "mechanism": config.sasl.sasl_mechanism_inter_broker_protocol,
            "username": login.username,
            "password": login.password,
        }
    return Security(inter_node.protocol, **stores)


def _store(path: str | None, text: str | None) -> PemStore | None:
    return None if path is None and text is None else PemStore(path, text)


def refuse_own_address(config: NodeConfig) -> None:
    """Another voter's address must not lead back here: then the file was copied, and node.id forgotten. Raises
    StartError."""
    for node_id, (host, port) in config.voters.items():
        if node_id != config.node_id and _is_of_this_node(host, port, config):
            raise StartError(
                f"{VOTERS} says that node {node_id} is at {host}:{port}, but that is this node, which is"
                f" node {config.node_id}: one of the two, or node.id, is wrong",
                "every node has its own node.id and address, see docs/running-a-cluster.md",
            )


def _is_of_this_node(host: str, port: int, config: NodeConfig) -> bool:
    return any(_is_here(host, port, (point.host, point.port)) for point in config.listeners.all)


def _is_here(host: str, port: int, listening: Address) -> bool:
    own_host, own_port = listening
    if port != own_port or port == 0:
        return False
    theirs = _resolved(host)
    if own_host in EVERYWHERE:
        return any(map(_is_of_this_machine, theirs))
    return bool(theirs & _resolved(own_host))


def _resolved(host: str) -> set[str]:
    try:
        return {str(found[4][0]) for found in socket.getaddrinfo(host, None, type=socket.SOCK_STREAM)}
    except OSError:  # not known now; it may be when it is needed
        return set()


def _is_of_this_machine(host: str) -> bool:
    with socket.socket(socket.AF_INET6 if ":" in host else socket.AF_INET, socket.SOCK_DGRAM) as tried:
        try:
            tried.bind((host, 0))
        except OSError:
            return False
    return True


def _voting(config: NodeConfig, voters: str) -> NodeConfig:
    return replace(config, quorum=replace(config.quorum, controller_quorum_voters=voters))


async def with_voters(config: NodeConfig, files: Files, security: Security = OPEN) -> NodeConfig:
    """The config with the voters of the cluster that is joined; waits until it tells them. Raises StartError."""
    if config.voters or not config.bootstrap_servers:
        return config
    if files.exists(FOUND_VOTERS):
        return _voting(config, files.read_all(FOUND_VOTERS).decode())
    log.info("asking %s for the voters of the cluster", config.quorum.controller_quorum_bootstrap_servers)
    rounds = 0
    while True:
        for address in config.bootstrap_servers:
            found = await asyncio.to_thread(_voters_known_at, address, security)
            if found:
                joining = _voting(config, found)
                if set(joining.voters) == {config.node_id}:  # that is another: this one has to ask where it is
                    raise StartError(
                        f"cannot join: {written(address)} is a cluster whose one voter is node {config.node_id} too",
                        "give this node an id of its own (node.id)",
                    )
                await refuse_strangers(config, security)
                files.replace(FOUND_VOTERS, found.encode())
                return joining
        if rounds % STRANGERS_EVERY == 0:
            await refuse_strangers(config, security)
        rounds += 1
        await asyncio.sleep(FIND_EVERY_S)


def _voters_known_at(address: Address, security: Security) -> str:
    """As `controller.quorum.voters` has them; empty when there is no answer now."""
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData

    topic = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),))
    try:
        answer = ask(address, DescribeQuorumRequest(topics=(topic,)), LOOK_TIMEOUT_S, security=security)
    except NoAnswer:
        return ""
    parts = [part for each in answer.topics for part in each.partitions if part.error_code == Code.NONE]
    voters = {state.replica_id for part in parts for state in part.current_voters}
    reached = {node.node_id: node.listeners[0] for node in answer.nodes if node.listeners}
    if not voters or not voters <= reached.keys():
        return ""
    addresses = {voter: written((reached[voter].host, reached[voter].port)) for voter in sorted(voters)}
    return ",".join(f"{voter}@{address}" for voter, address in addresses.items())


async def refuse_twin(config: NodeConfig, security: Security = OPEN) -> None:
    """A node of this number that lives already. Asked before this one listens, and only where it will not: a port that
    is taken here is found by listening. Raises StartError."""
    own = config.voters.get(config.node_id)
    if own is None or _is_of_this_node(*own, config):
        return
    try:
        await asyncio.to_thread(ask, own, _what_is_spoken(), LOOK_TIMEOUT_S, security=security)
    except NoAnswer:
        return
    raise StartError(
        f"another node with id {config.node_id} is alive at {written(own)}",
        "give this one an id and address of its own (node.id, controller.quorum.voters)",
    )


async def refuse_strangers(config: NodeConfig, security: Security = OPEN) -> None:
    """Ask the others what they speak and where they belong; who does not answer may come yet. Raises StartError."""
    others = [address for node_id, address in config.voters.items() if node_id != config.node_id]
    looks = (
        asyncio.to_thread(_refuse_stranger, at, config.server.cluster_id, security)
        for at in others or config.bootstrap_servers
    )
    await asyncio.gather(*looks)


def _refuse_stranger(address: Address, cluster_id: str | None, security: Security) -> None:
    what_to_do = "see that its address is right, and that it has this version of chronik"
    try:
        answer = ask(address, _what_is_spoken(), LOOK_TIMEOUT_S, security=security)
    except NotKafka as problem:
        raise StartError(f"there is no node of this cluster at {written(address)}: {problem}", what_to_do) from problem
    except NoAnswer:
        return
    if words := _difference({each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}):
        raise StartError(f"the node at {written(address)} speaks another version: {words}", what_to_do)
    try:
        found = view_of(address, LOOK_TIMEOUT_S, security=security).cluster_id
    except NoAnswer:
        return
    if cluster_id is not None and found and found != cluster_id:
        raise StartError(
            f"the node at {written(address)} belongs to the cluster {found}, this one to {cluster_id}",
            "see that cluster.id is the same on all nodes, and the addresses those of this cluster",
        )


def _what_is_spoken() -> Any:
    from kio.schema.api_versions.v3.request import ApiVersionsRequest

    return ApiVersionsRequest(client_software_name="chronik", client_software_version=__version__)


def _difference(ranges: Mapping[int, tuple[int, int]]) -> str | None:
    """The first request of those between nodes for which there is no common version."""
    for api in APIS.values():
        if api.name not in NODE_REQUESTS and api.key != FETCH:
            continue
        lowest, highest = ranges.get(api.key, (0, -1))
        if max(lowest, api.supported) > min(highest, api.highest):
            spoken = f"knows {lowest} to {highest}" if api.key in ranges else "does not know it"
            return f"of {api.name} this node knows {api.supported} to {api.highest}, and it {spoken}"
    return None
