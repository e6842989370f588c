"""Where clients and other nodes reach this node."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from chronik.core.config.addresses import (
    PLAINTEXT,
    SECURITY_PROTOCOLS,
    EndPoint,
    parse_listeners,
    parse_protocol_map,
)
from chronik.core.config.definitions import LIST, STRING, BadConfig, Section, one_of, setting

LISTENERS, ADVERTISED = "listeners", "advertised.listeners"
INTER_BROKER = "inter.broker.listener.name"
CONTROLLER = "CONTROLLER"  # what Kafka's own files call a controller's listener
EVERYWHERE = ("", "0.0.0.0", "::")  # no address to go to


@dataclass(frozen=True, slots=True)
class ListenersConfig(Section):
    """Where clients and other nodes reach this node."""

    listeners: str = setting(
        STRING,
        "PLAINTEXT://127.0.0.1:9092",
        "Where this node listens: NAME://HOST:PORT, several with commas.",
        shown=LIST,
    )
    advertised_listeners: str | None = setting(
        STRING, None, "The addresses that clients are given, by listener; those of listeners if not set.", shown=LIST
    )

    listener_security_protocol_map: str = setting(
        STRING,
        "SASL_SSL:SASL_SSL,PLAINTEXT:PLAINTEXT,SSL:SSL,SASL_PLAINTEXT:SASL_PLAINTEXT",
        "What is spoken on a listener of which name: PLAINTEXT, SSL, SASL_PLAINTEXT or SASL_SSL.",
    )
    inter_broker_listener_name: str | None = setting(
        STRING,
        None,
        "The listener over which nodes reach this one; if not set, the one of security.inter.broker.protocol.",
    )
    security_inter_broker_protocol: str = setting(
        STRING,
        PLAINTEXT,
        "The name of the listener over which nodes reach this one, where there are several.",
        one_of(*SECURITY_PROTOCOLS),
    )
    controller_listener_names: tuple[str, ...] = setting(
        LIST, (), "Listeners for other nodes alone, which clients are not given."
    )

    @property
    def all(self) -> tuple[EndPoint, ...]:
        """Everything that is listened on."""
        mapped = parse_protocol_map(self.listener_security_protocol_map)
        points = parse_listeners(LISTENERS, self.listeners, mapped)
        clients = [point for point in points if not self._is_for_controllers(point.name)]
        if not clients:
            raise BadConfig(LISTENERS, f"Invalid value '{self.listeners}' for listeners: there is none for clients")
        for point in clients:  # a slip of the pen must not open a listener in plain text
            if point.name not in mapped and point.name not in SECURITY_PROTOCOLS:
                raise BadConfig(LISTENERS, f"listeners: no security protocol defined for listener {point.name}")
        if len(clients) == len(points):
            return points
        spoken = self._inter_node_of(clients).protocol  # between nodes, where the map says nothing else
        return tuple(
            point if point in clients or point.name in mapped else point._replace(protocol=spoken) for point in points
        )

    @property
    def for_clients(self) -> tuple[EndPoint, ...]:
        return tuple(point for point in self.all if not self._is_for_controllers(point.name))

    def _is_for_controllers(self, name: str) -> bool:
        names = tuple(each.upper() for each in self.controller_listener_names)
        return name in (names or (CONTROLLER,))

    @property
    def inter_node(self) -> EndPoint:
        """The one over which other nodes reach this one. Raises BadConfig."""
        return self._inter_node_of(self.for_clients)

    def _inter_node_of(self, clients: Sequence[EndPoint]) -> EndPoint:
        found = {point.name: point for point in clients}
        if self.inter_broker_listener_name:
            wanted = self.inter_broker_listener_name.upper()
        elif len(found) == 1:
            return next(iter(found.values()))
        else:
            wanted = self.security_inter_broker_protocol
        if wanted not in found:
            raise BadConfig(
                INTER_BROKER, f"{INTER_BROKER}: {wanted} is not one of the listeners for clients ({', '.join(found)})"
            )
        return found[wanted]

    @property
    def node_listeners(self) -> frozenset[str]:
        """The names of those on which another node is taken for one."""
        controllers = (point.name for point in self.all if self._is_for_controllers(point.name))
        return frozenset((self.inter_node.name, *controllers))

    @property
    def advertised(self) -> tuple[EndPoint, ...]:
        """The addresses that clients are given, by listener. 0.0.0.0 is no address to go to, so it becomes localhost. A
        port of 0 is the one that is listened on."""
        given = (
            {}
            if not self.advertised_listeners
            else {point.name: point for point in parse_listeners(ADVERTISED, self.advertised_listeners, {})}
        )
        points = self.for_clients
        if len(points) == 1 and len(given) == 1:  # whatever it is called
            given = {points[0].name: next(iter(given.values()))}
        endpoints: list[EndPoint] = []
        for point in points:
            host = "localhost" if point.host in EVERYWHERE else point.host
            where = given.pop(point.name, None)
            endpoints.append(
                point._replace(host=host) if where is None else where._replace(name=point.name, protocol=point.protocol)
            )
        unknown = [name for name in given if not self._is_for_controllers(name)]
        if unknown:
            raise BadConfig(ADVERTISED, f"{ADVERTISED}: there is no listener {unknown[0]}")
        return tuple(endpoints)

    @property
    def is_encrypted(self) -> bool:
        """Whether any listener speaks TLS."""
        return any(point.is_encrypted for point in self.all)

    @property
    def address(self) -> tuple[str, int]:
        """Host and port that are listened on, of the first listener for clients."""
        first = self.for_clients[0]
        return first.host, first.port

    @property
    def advertised_address(self) -> tuple[str, int]:
        """The host and port that clients are given, of the first listener for clients."""
        first = self.advertised[0]
        return first.host, first.port

    @property
    def ports(self) -> list[int]:
        """All ports that are listened on."""
        return [point.port for point in self.all]

    def check(self) -> None:
        _ = self.inter_node, self.advertised

    def check_between_nodes(self) -> None:
        """What a node of a cluster must have. Raises BadConfig."""
        spoken = {point.protocol for point in self.all if point.name in self.node_listeners}
        if len(spoken) > 1:
            raise BadConfig(
                "controller.listener.names",
                f"controller.listener.names: nodes speak one protocol, not {' and '.join(sorted(spoken))}",
            )
