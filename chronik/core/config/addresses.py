"""Addresses in settings: where a node listens, and where the voters of its cluster are."""

from __future__ import annotations

import ipaddress
from collections.abc import Mapping
from functools import lru_cache
from typing import NamedTuple

from chronik.core.config.definitions import Allowed, BadConfig

VOTERS = "controller.quorum.voters"
PROTOCOL_MAP = "listener.security.protocol.map"
BOOTSTRAP_SERVERS = "controller.quorum.bootstrap.servers"
LABEL_CHARS_MAX = 63
PLAINTEXT = "PLAINTEXT"
SECURITY_PROTOCOLS = {PLAINTEXT: 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}  # in Kafka's numbers
LOCAL_HOSTS = ("", "localhost", "127.0.0.1", "::1")


class EndPoint(NamedTuple):
    """A listener: its name, what is spoken there (Kafka's SecurityProtocol), and where."""

    name: str
    protocol: str
    host: str
    port: int

    @property
    def is_encrypted(self) -> bool:
        return self.protocol.endswith("SSL")

    @property
    def is_sasl(self) -> bool:
        return self.protocol.startswith("SASL_")


def parse_listeners(key: str, text: str, protocols: Mapping[str, str]) -> tuple[EndPoint, ...]:
    """`PLAINTEXT://host:port,CLIENTS://...`, or just `host:port`. Raises BadConfig."""
    found: dict[str, EndPoint] = {}
    for item in text.split(","):
        name, _, rest = item.strip().rpartition("://")
        name = name.upper() or PLAINTEXT
        protocol = protocols.get(name, name if name in SECURITY_PROTOCOLS else PLAINTEXT)
        if name in found:
            raise BadConfig(key, f"Invalid value '{text}' for {key}: two listeners have the name {name}")
        found[name] = EndPoint(name, protocol, *host_and_port(key, rest))
    ports = [point.port for point in found.values() if point.port]
    if key == "listeners" and len(set(ports)) < len(ports):
        raise BadConfig(key, f"Invalid value '{text}' for {key}: two listeners have the same port")
    return tuple(found.values())


def parse_protocol_map(text: str) -> Mapping[str, str]:
    """`CLIENTS:SSL,...` by the listener's name. Raises BadConfig."""
    mapped: dict[str, str] = {}
    for item in filter(None, (part.strip() for part in text.split(","))):
        listener, colon, protocol = item.partition(":")
        if not colon or protocol.upper() not in SECURITY_PROTOCOLS:
            raise BadConfig(PROTOCOL_MAP, f"Invalid value '{text}' for {PROTOCOL_MAP}: '{item}' is not NAME:PROTOCOL")
        mapped[listener.upper()] = protocol.upper()
    return mapped


def host_and_port(key: str, text: str) -> tuple[str, int]:
    host, separator, port = text.rpartition(":")
    if not separator or not port.isascii() or not port.isdigit() or int(port) > 65_535:
        raise BadConfig(key, f"Invalid value '{text}' for {key}: must be HOST:PORT with a port below 65536")
    host = host.removeprefix("[").removesuffix("]")
    if not _can_be_looked_up(host):
        raise BadConfig(key, f"Invalid value '{text}' for {key}: '{host}' is not the name of a host")
    return host, int(port)


def _can_be_looked_up(host: str) -> bool:
    """Python refuses others, such as `a..b`, before it asks a resolver; and not as an OSError."""
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
