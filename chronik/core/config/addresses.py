"""Addresses in settings: where a node listens, and where the voters of its cluster are."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache

from chronik.core.config.definitions import Allowed, BadConfig

VOTERS = "controller.quorum.voters"
BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"
LABEL_CHARS_MAX = 63
LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "::1")


def client_listener(key: str, text: str) -> tuple[str, int]:
    """The one listener for clients in `PLAINTEXT://host:port,CONTROLLER://...`, or just `host:port`."""
    found: list[tuple[str, int]] = []
    for item in text.split(","):
        protocol, separator, rest = item.strip().rpartition("://")
        if protocol.upper() in ("SSL", "SASL_PLAINTEXT", "SASL_SSL"):
            raise BadConfig(key, f"Invalid value '{text}' for {key}: only PLAINTEXT is supported, not {protocol}")
        if separator and protocol.upper() == "CONTROLLER":
            continue  # the quorum speaks over the same port
        found.append(host_and_port(key, rest))
    if len(found) != 1:
        raise BadConfig(key, f"Invalid value '{text}' for {key}: exactly one listener for clients is wanted")
    return found[0]


def all_listeners(key: str, text: str) -> list[tuple[str, int]]:
    """Every listener of a Kafka broker's list, also the ones that are not opened here."""
    return [host_and_port(key, item.strip().rpartition("://")[2]) for item in text.split(",")]


def host_and_port(key: str, text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadConfig(key, f"Invalid value '{text}' for {key}: must be HOST:PORT with a port below 65536")
    host = host.removeprefix("[").removesuffix("]")
    if not _can_be_looked_up(host):
        raise BadConfig(key, f"Invalid value '{text}' for {key}: '{host}' is not the name of a host")
    return host, int(port)


def _can_be_looked_up(host: str) -> bool:
    """Python refuses others, such as `a..b`, before it asks anybody; and not as an OSError."""
    if host.isascii():  # nearly always, and the codec below is slow to load
        return not host or all(0 < len(label) <= LABEL_CHARS_MAX for label in host.removesuffix(".").split("."))
    try:
        host.encode("idna")
    except UnicodeError:
        return False
    return True


@lru_cache(maxsize=4)  # a node asks for them whenever it looks for another
def parse_voters(text: str) -> Mapping[int, tuple[str, int]]:
    """`1@host:9092,2@host:9093` by node id, in the order of the ids. Raises BadConfig."""
    voters: dict[int, tuple[str, int]] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        node_id, separator, address = item.partition("@")
        if not separator or not node_id.isascii() or not node_id.isdigit():
            raise BadConfig(VOTERS, f"Invalid value '{text}' for {VOTERS}: '{item}' is not ID@HOST:PORT")
        if int(node_id) in voters:
            raise BadConfig(VOTERS, f"Invalid value '{text}' for {VOTERS}: node {node_id} is named twice")
        voters[int(node_id)] = host_and_port(VOTERS, address)
    addresses = list(voters.values())
    if len(dict.fromkeys(addresses)) < len(addresses):
        raise BadConfig(VOTERS, f"Invalid value '{text}' for {VOTERS}: two nodes have the same address")
    return dict(sorted(voters.items()))


@lru_cache(maxsize=4)
def parse_overrides(text: str) -> Mapping[str, int]:
    """`10.0.0.1:5,::1:100` by address, as a connection shows it. Raises ValueError."""
    overrides: dict[str, int] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        address, separator, count = item.rpartition(":")
        if not separator or not count.isascii() or not count.isdigit():
            raise ValueError(f"'{item}' is not ADDRESS:NUMBER")
        overrides[str(ipaddress.ip_address(address.removeprefix("[").removesuffix("]")))] = int(count)
    return overrides


def are_overrides() -> Allowed:
    """Addresses, not names as Kafka takes them too: a name would have to be looked up, and may change."""

    def accepts(text: str) -> bool:
        try:
            parse_overrides(text)
        except ValueError:
            return False
        return True

    return Allowed(accepts, "ADDRESS:NUMBER,... with IP addresses")
