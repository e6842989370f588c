"""The nodes that this one is to be in company with, looked at before and while it waits for them.

A node of a cluster starts when a majority is there, so it waits for those that are not. Some will never come, and then
it is better to say so: an address that leads to this node itself, or to something that is no node it could talk to.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Iterable

from chronik import __version__
from chronik.core.config.addresses import VOTERS
from chronik.core.config.node import NodeConfig
from chronik.shell.asking import Address, NoAnswer, NotKafka, ask
from chronik.shell.errors import StartError
from chronik.wire.versions import API_VERSIONS, APIS, FETCH

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
