"""The nodes that this one is to be in company with, looked at before and while it waits for them.

A node of a cluster starts when a majority is there, so it waits for those that are not. Some will never come, and then
it is better to say so: an address that leads to this node itself, or to something that is no node it could talk to.

A node that joins a running cluster asks it who its voters are, and keeps the answer: when all nodes are started again,
there may be nobody yet to ask. From then on the metadata log says who votes.
"""

from __future__ import annotations

import asyncio
import logging
import socket
from collections.abc import Iterable
from dataclasses import replace

from chronik import __version__
from chronik.core.config.addresses import VOTERS
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.core.ports import Files
from chronik.shell.asking import Address, NoAnswer, NotKafka, ask, written
from chronik.shell.errors import StartError
from chronik.wire.versions import API_VERSIONS, APIS, FETCH

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


def refuse_own_address(config: NodeConfig) -> None:
    """Another voter's address must not lead back here: then the file was copied, and node.id forgotten. Raises
    StartError."""
    for node_id, (host, port) in config.voters.items():
        if node_id != config.node_id and _is_here(host, port, config.address):
            raise StartError(
                f"{VOTERS} says that node {node_id} is at {host}:{port}, but that is this node, which is"
                f" node {config.node_id}: one of the two, or node.id, is wrong",
                "every node has its own node.id and address, see docs/running-a-cluster.md",
            )


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


async def with_voters(config: NodeConfig, files: Files) -> NodeConfig:
    """The config with the voters of the cluster that is joined; waits until it tells them. Raises StartError."""
    if config.voters or not config.bootstrap_servers:
        return config
    if files.exists(FOUND_VOTERS):
        return replace(config, controller_quorum_voters=files.read_all(FOUND_VOTERS).decode())
    log.info("asking %s for the voters of the cluster", config.controller_quorum_bootstrap_servers)
    rounds = 0
    while True:
        for address in config.bootstrap_servers:
            found = await asyncio.to_thread(_voters_told_at, address)
            if found:
                files.replace(FOUND_VOTERS, found.encode())
                return replace(config, controller_quorum_voters=found)
        if rounds % STRANGERS_EVERY == 0:
            await refuse_strangers(config)
        rounds += 1
        await asyncio.sleep(FIND_EVERY_S)


def _voters_told_at(address: Address) -> str:
    """As `controller.quorum.voters` has them; empty when there is no answer now."""
    from kio.schema.describe_quorum.v2.request import DescribeQuorumRequest, PartitionData, TopicData

    topic = TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),))
    try:
        answer = ask(address, DescribeQuorumRequest(topics=(topic,)), LOOK_TIMEOUT_S)
    except NoAnswer:
        return ""
    parts = [part for each in answer.topics for part in each.partitions if part.error_code == Code.NONE]
    voters = {state.replica_id for part in parts for state in part.current_voters}
    reached = {node.node_id: node.listeners[0] for node in answer.nodes if node.listeners}
    if not voters or not voters <= reached.keys():
        return ""
    addresses = {voter: written((reached[voter].host, reached[voter].port)) for voter in sorted(voters)}
    return ",".join(f"{voter}@{address}" for voter, address in addresses.items())


async def refuse_strangers(config: NodeConfig) -> None:
    """Ask the others what they speak; those that do not answer may come yet. Raises StartError."""
    await asyncio.gather(*(asyncio.to_thread(_refuse_stranger, address) for address in _others(config)))


def _others(config: NodeConfig) -> Iterable[Address]:
    voters = [address for node_id, address in config.voters.items() if node_id != config.node_id]
    return voters or config.bootstrap_servers


def _refuse_stranger(address: Address) -> None:
    from kio.schema.api_versions.v3.request import ApiVersionsRequest

    host, port = address
    asked = ApiVersionsRequest(client_software_name="chronik", client_software_version=__version__)
    what_to_do = "see that its address is right, and that it has this version of chronik"
    try:
        answer = ask(address, asked, LOOK_TIMEOUT_S)
    except NotKafka as problem:
        raise StartError(f"there is no node of this cluster at {host}:{port}: {problem}", what_to_do) from problem
    except NoAnswer:
        return
    ranges = {each.api_key: (each.min_version, each.max_version) for each in answer.api_keys}
    for api in APIS.values():
        if api.name not in NODE_REQUESTS and api.key not in (API_VERSIONS, FETCH):
            continue
        lowest, highest = ranges.get(api.key, (0, -1))
        if max(lowest, api.supported) > min(highest, api.highest):
            spoken = f"knows {lowest} to {highest}" if api.key in ranges else "does not know it"
            raise StartError(
                f"the node at {host}:{port} speaks another version: of {api.name} this node knows {api.supported} to"
                f" {api.highest}, and it {spoken}",
                what_to_do,
            )
