"""A node's settings, in sections by the part of the node that needs them. A setting's name is Kafka's with
underscores, in its section too: `replica.fetch.max.bytes` is `config.replication.replica_fetch_max_bytes`. Ours are
`durability`, `http.*` and `chronik.*`.

A part of a node is given its section, not the config. Only what places a node in its cluster (building it, joining,
registering, voting) needs several, and has the config whole.

To add a section: write `sections/<name>.py` with a frozen dataclass that derives from `Section` and has a field
`setting(...)` for each setting; `check` says what must go together. Then add one line to `NodeConfig`. Parsing,
DescribeConfigs, AlterConfigs (`dynamic=True`) and docs/configuration.md (`python tools/reference_pages.py`) follow from
the fields. A setting of Kafka's that was `WITHOUT_EFFECT` leaves that table.

`NodeConfig.from_settings` reads what a file or the command line says; `with_dynamic` lays on top what AlterConfigs
set while the cluster runs. The three layers are kept, because DescribeConfigs tells where each value comes from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

from chronik.core.access.jaas import JaasLogin
from chronik.core.access.oauth import ClaimRules
from chronik.core.access.principal import USER_TYPE, KafkaPrincipal
from chronik.core.access.sasl import PLAIN
from chronik.core.config.addresses import VOTERS
from chronik.core.config.definitions import BadConfig, Section, Setting, parse_known, settings_of, unknown_key
from chronik.core.config.sections.audit import AuditConfig
from chronik.core.config.sections.connections import ConnectionsConfig
from chronik.core.config.sections.delegation import SECRET_KEY, DelegationConfig
from chronik.core.config.sections.fetch import FetchConfig
from chronik.core.config.sections.groups import GroupsConfig
from chronik.core.config.sections.http import HttpConfig
from chronik.core.config.sections.listeners import ListenersConfig
from chronik.core.config.sections.liveness import LivenessConfig
from chronik.core.config.sections.log import LogConfig
from chronik.core.config.sections.offsets import OffsetsConfig
from chronik.core.config.sections.quorum import QuorumConfig
from chronik.core.config.sections.quotas import QuotasConfig
from chronik.core.config.sections.replication import ReplicationConfig
from chronik.core.config.sections.sasl import JAAS, JWKS_URL, SaslConfig, is_jaas, login_of, unsecured_rules
from chronik.core.config.sections.security import PEM_SETTINGS, PemSettings, SecurityConfig
from chronik.core.config.sections.server import ServerConfig
from chronik.core.config.sections.topics import TopicsConfig
from chronik.core.config.sections.trace import TraceConfig
from chronik.core.config.sections.transactions import TransactionsConfig
from chronik.core.config.sections.upkeep import UpkeepConfig
from chronik.core.config.topic import TOPIC_SETTINGS
from chronik.core.config.without_effect import WITHOUT_EFFECT

LISTENER_PREFIX = "listener.name."
LISTENER_SETTINGS = ("max.connections", "max.connection.creation.rate")  # that a listener can have of its own
# Names that mean the same.
ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings in force on one node."""

    server: ServerConfig = field(default_factory=ServerConfig)
    listeners: ListenersConfig = field(default_factory=ListenersConfig)
    security: SecurityConfig = field(default_factory=SecurityConfig)
    sasl: SaslConfig = field(default_factory=SaslConfig)
    connections: ConnectionsConfig = field(default_factory=ConnectionsConfig)
    quotas: QuotasConfig = field(default_factory=QuotasConfig)
    http: HttpConfig = field(default_factory=HttpConfig)
    quorum: QuorumConfig = field(default_factory=QuorumConfig)
    liveness: LivenessConfig = field(default_factory=LivenessConfig)
    replication: ReplicationConfig = field(default_factory=ReplicationConfig)
    fetch: FetchConfig = field(default_factory=FetchConfig)
    topics: TopicsConfig = field(default_factory=TopicsConfig)
    log: LogConfig = field(default_factory=LogConfig)
    upkeep: UpkeepConfig = field(default_factory=UpkeepConfig)
    groups: GroupsConfig = field(default_factory=GroupsConfig)
    offsets: OffsetsConfig = field(default_factory=OffsetsConfig)
    delegation: DelegationConfig = field(default_factory=DelegationConfig)
    transactions: TransactionsConfig = field(default_factory=TransactionsConfig)
    trace: TraceConfig = field(default_factory=TraceConfig)
    audit: AuditConfig = field(default_factory=AuditConfig)

    # The layers these values come from, as text by Kafka's name
    given: Mapping[str, str] = field(default_factory=dict)
    of_listeners: Mapping[str, int] = field(default_factory=dict)  # `LISTENER_SETTINGS`, by key in lower case
    cluster_wide: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)
    jaas: Mapping[str, str] = field(default_factory=dict, repr=False)  # lines with passwords by key: never shown

    @classmethod
    def from_settings(cls, values: Mapping[str, str]) -> NodeConfig:
        """The config a file or command line describes. Raises BadConfig."""
        given: dict[str, str] = {}
        jaas: dict[str, str] = {}
        of_listeners: dict[str, int] = {}
        for key, text in values.items():
            name = ALIASES.get(key, key)
            if is_jaas(key) or key == SECRET_KEY or key in PEM_SETTINGS:
                jaas[key.lower()] = text
                continue
            if (limit := listener_limit(key)) is not None:
                of_listeners[key.lower()] = NODE_SETTINGS[limit].parse(text)
                continue
            if name not in NODE_SETTINGS and name not in WITHOUT_EFFECT:
                raise unknown_key(key, [*NODE_SETTINGS, *ALIASES], "node")
            if name in NODE_SETTINGS:
                given[name] = text
        return dataclasses.replace(cls()._with(given), given=given, jaas=jaas, of_listeners=of_listeners).checked()

    def with_dynamic(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> NodeConfig:
        """This node, as it was started, with what AlterConfigs set for all nodes and, before that, for this one.
        Raises BadConfig."""
        layers = {**self.given, **cluster_wide, **own}
        changed = self._with({key: text for key, text in layers.items() if key not in WITHOUT_EFFECT})
        return dataclasses.replace(changed, cluster_wide=dict(cluster_wide), own=dict(own))

    def login_of(self, listener: str, mechanism: str) -> JaasLogin:
        """The users of a listener and mechanism, and what a node logs in with. Raises BadConfig."""
        return login_of(self.jaas, listener, mechanism)

    def unsecured_rules(self, listener: str) -> ClaimRules | None:
        """What a token that nothing has signed must say, where such are taken. Raises BadConfig."""
        return unsecured_rules(self.jaas, listener)

    @property
    def pem(self) -> PemSettings:
        """Key and certificates that stand in settings."""
        return PemSettings.of(self.jaas)

    @property
    def token_key(self) -> str | None:
        """Of which the secrets of delegation tokens are made; None where there are none."""
        return self.jaas.get(SECRET_KEY) or None

    @property
    def needs_token_keys(self) -> bool:
        """Whether some listener takes signed tokens. Raises BadConfig."""
        return self.sasl.takes_tokens and any(
            self.unsecured_rules(point.name) is None for point in self.listeners.all if point.is_sasl
        )

    def limit_of(self, listener: str, key: str) -> int | None:
        """What `listener.name.<listener>.<key>` says; None: nothing."""
        return self.of_listeners.get(f"{LISTENER_PREFIX}{listener}.{key}".lower())

    @property
    def node_login(self) -> JaasLogin | None:
        """With what nodes log in to each other; None where they do not. Raises BadConfig."""
        inter_node = self.listeners.inter_node
        if not inter_node.is_sasl:
            return None
        return self.login_of(inter_node.name, self.sasl.sasl_mechanism_inter_broker_protocol)

    def _with(self, texts: Mapping[str, str]) -> NodeConfig:
        """With these settings, by Kafka's names, in their sections."""
        values: dict[str, dict[str, Any]] = {}
        for key, text in texts.items():
            value = parse_known(NODE_SETTINGS, key, text, "node")
            values.setdefault(SECTION_OF[key], {})[NODE_SETTINGS[key].attribute] = value
        changed: dict[str, Any] = {
            name: dataclasses.replace(getattr(self, name), **fields) for name, fields in values.items()
        }
        return dataclasses.replace(self, **changed)

    def sections(self) -> Iterator[Section]:
        return (getattr(self, name) for name in SECTIONS)

    def value_of(self, key: str) -> Any:
        """The value in force of a setting, by Kafka's name."""
        return getattr(getattr(self, SECTION_OF[key]), NODE_SETTINGS[key].attribute)

    def overruled(self) -> dict[str, tuple[str, str]]:
        """What this node was started with and does not hold: by key, that and what was set for all nodes instead."""
        return {
            key: (self.given[key], text)
            for key, text in self.cluster_wide.items()
            if key in self.given and key not in self.own and self.given[key] != text
        }

    def topic_default(self, topic_key: str) -> Any:
        """What a topic has that does not set `topic_key` itself: the first of Kafka's synonyms that has a value."""
        known = TOPIC_SETTINGS[topic_key]
        for synonym in known.synonyms:
            value = self.value_of(synonym.name)
            if value is not None:
                # A negative number of hours is still 'for ever', not so many milliseconds.
                return value if synonym.factor == 1 else max(value * synonym.factor, -1)
        return known.default

    @property
    def node_id(self) -> int:
        return self.server.node_id

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return self.listeners.address

    @property
    def advertised_address(self) -> tuple[str, int]:
        """The host and port that clients are given."""
        return self.listeners.advertised_address

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """The configured voters by id, with their addresses; empty for a node that is alone or joins a cluster."""
        return self.quorum.voters

    @property
    def bootstrap_servers(self) -> list[tuple[str, int]]:
        """Where a running cluster is asked to take this node in; a node that names only itself is alone."""
        return self.quorum.bootstrap_servers(self.listeners.ports)

    @property
    def is_alone(self) -> bool:
        """Whether this node was set up as a cluster of its own."""
        return not self.bootstrap_servers and set(self.voters) <= {self.node_id}

    def checked(self) -> NodeConfig:
        """Itself, when its settings go together. Raises BadConfig."""
        for section in self.sections():
            section.check()
        if self.listeners.is_encrypted:
            self.security.check_ssl(is_alone=self.is_alone, pem=self.pem)
        for point in self.listeners.all:
            if point.is_sasl:
                self._check_sasl(point.name)
        if not self.is_alone:
            self._check_cluster()
        return self

    def _check_sasl(self, listener: str) -> None:
        for mechanism in self.sasl.sasl_enabled_mechanisms:
            login = self.login_of(listener, mechanism)
            if mechanism == PLAIN and not login.users:
                raise BadConfig(
                    JAAS,
                    f'sasl.jaas.config has no user for PLAIN on {listener}: each is an option user_NAME="PASSWORD"',
                )
        if self.needs_token_keys and self.sasl.sasl_oauthbearer_jwks_endpoint_url is None:
            raise BadConfig(JWKS_URL, f"{JWKS_URL} is missing: OAUTHBEARER needs the keys that sign tokens")

    def _check_node_login(self, login: JaasLogin) -> None:
        mechanism = self.sasl.sasl_mechanism_inter_broker_protocol
        if mechanism not in self.sasl.sasl_enabled_mechanisms:
            raise BadConfig(
                "sasl.mechanism.inter.broker.protocol",
                f"sasl.mechanism.inter.broker.protocol: {mechanism} is not one of sasl.enabled.mechanisms",
            )
        if login.username is None:
            raise BadConfig(JAAS, "sasl.jaas.config has no username: nodes need one to log in to each other")
        if KafkaPrincipal(USER_TYPE, login.username) not in self.security.super_principals:
            raise BadConfig(
                "super.users",
                f"super.users does not have User:{login.username}, with which nodes log in to each other: no node would"
                " take another for one",
            )
        if mechanism == PLAIN and login.users.get(login.username) != login.password:
            raise BadConfig(
                JAAS,
                f"sasl.jaas.config: the password of {login.username} is not the one that the nodes log in with:"
                f" user_{login.username} and password must be the same",
            )

    def _check_cluster(self) -> None:
        self.listeners.check_between_nodes()
        login = self.node_login
        if login is not None:
            self._check_node_login(login)
        own = self.voters.get(self.node_id)
        ports = {point.port for point in self.listeners.all if point.name in self.listeners.node_listeners}
        if own is not None and not ports & {0, own[1]}:
            raise BadConfig(
                VOTERS,
                f"{VOTERS} says that node {self.node_id} is at {own[0]}:{own[1]}, but it listens on port"
                f" {' and '.join(map(str, sorted(ports)))} (listeners): one of the two, or node.id, is wrong",
            )
        if not self.server.cluster_id:
            raise BadConfig(
                "cluster.id", "cluster.id is missing: give all nodes of the cluster the same, any 22 letters will do"
            )
        beat_ms, session_ms = self.liveness.broker_heartbeat_interval_ms, self.liveness.broker_session_timeout_ms
        if beat_ms * 2 > session_ms:
            raise BadConfig(
                "broker.heartbeat.interval.ms",
                f"broker.heartbeat.interval.ms ({beat_ms}) must be at most half of"
                f" broker.session.timeout.ms ({session_ms})",
            )


def listener_limit(key: str) -> str | None:
    """Which setting a key sets for one listener (`listener.name.clients.max.connections`); None: it does not."""
    if not key.startswith(LISTENER_PREFIX):
        return None
    return next((name for name in LISTENER_SETTINGS if key.endswith(f".{name}")), None)


def passed_over(values: Mapping[str, str]) -> list[str]:
    """Keys of a Kafka broker that have no meaning here: worth a line in the log, no reason to stop."""
    return sorted(key for key in values if key in WITHOUT_EFFECT)


_DEFAULTS = NodeConfig()
# By the name of its field in NodeConfig, the settings of each section.
SECTIONS: dict[str, dict[str, Setting]] = {
    each.name: settings_of(type(section))
    for each in dataclasses.fields(NodeConfig)
    if isinstance(section := getattr(_DEFAULTS, each.name), Section)
}
SECTION_OF: dict[str, str] = {key: name for name, settings in SECTIONS.items() for key in settings}
NODE_SETTINGS: dict[str, Setting] = dict(sorted(item for settings in SECTIONS.values() for item in settings.items()))
