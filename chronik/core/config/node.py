"""A node's settings. Names are Kafka's with underscores where Kafka has them; ours are `durability`,
`http.*` and `chronik.*`.

`NodeConfig.from_settings` reads what a file or the command line says; `with_dynamic` lays on top what AlterConfigs
set while the cluster runs. The three layers are kept, because DescribeConfigs tells where each value comes from.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from chronik.core.config.addresses import (
    BOOTSTRAP_SERVERS,
    LOCAL_HOSTS,
    VOTERS,
    all_listeners,
    are_overrides,
    client_listener,
    host_and_port,
    parse_overrides,
    parse_voters,
)
from chronik.core.config.definitions import (
    BOOLEAN,
    DAY_MS,
    DOUBLE,
    HOUR_MS,
    INT,
    INT_MAX,
    LIST,
    LONG,
    LONG_MAX,
    SHORT,
    STRING,
    BadConfig,
    Setting,
    any_of,
    at_least,
    between,
    one_of,
    parse_known,
    setting,
    settings_of,
    some_of,
    unknown_key,
)
from chronik.core.config.topic import COMPRESSION_TYPES, GZIP_LEVELS, LZ4_LEVELS, TOPIC_SETTINGS, ZSTD_LEVELS
from chronik.core.config.without_effect import WITHOUT_EFFECT

# Names that mean the same.
ALIASES = {"broker.id": "node.id", "log.dir": "log.dirs"}


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """The settings in force on one node."""

    # Who and where
    node_id: int = setting(INT, 1, "This node's number in the cluster.", at_least(0))
    listeners: str = setting(STRING, "PLAINTEXT://127.0.0.1:9092", "Where clients are listened for.", shown=LIST)
    advertised_listeners: str | None = setting(
        STRING, None, "The address clients are told; that of listeners if not set.", shown=LIST
    )
    log_dirs: str = setting(STRING, "chronik-data", "The data directory.", shown=LIST)
    http_address: str = setting(STRING, "127.0.0.1:9644", "Where metrics and health are served; empty for nowhere.")
    http_max_connections: int = setting(INT, 64, "Connections to the HTTP port at the same time.", at_least(1))
    http_allowed_hosts: tuple[str, ...] = setting(
        LIST,
        (),
        "Further names that callers of the HTTP port may use as Host; * for any. Its own and addresses are allowed.",
    )
    broker_rack: str | None = setting(STRING, None, "The rack of this node: replicas are spread over racks.")
    inter_broker_protocol_version: str = setting(
        STRING, "4.1-IV1", "The Kafka version whose protocol this node speaks.", one_of("4.1-IV1")
    )
    durability: str = setting(
        STRING, "sync", "When a write counts as safe: once synced to disk, or once the operating system has it.",
        one_of("sync", "os"),
    )  # fmt: skip

    # The cluster. Kafka's timeouts are two to four times as long; decision 0013 says why ours are not.
    cluster_id: str | None = setting(
        STRING, None, "The cluster this node belongs to; all its nodes have the same. A node alone makes its own."
    )
    controller_quorum_voters: str = setting(
        STRING,
        "",
        "The nodes that vote on the metadata, as ID@HOST:PORT,...; empty for a node that is alone.",
        shown=LIST,
    )
    controller_quorum_bootstrap_servers: str = setting(
        STRING,
        "",
        "HOST:PORT,... of nodes of a running cluster that this node joins, without a vote at first.",
        shown=LIST,
    )
    controller_quorum_election_timeout_ms: int = setting(
        INT,
        500,
        "A voter that knows no leader waits this long, up to twice, before it wants to be elected.",
        at_least(1),
    )
    controller_quorum_fetch_timeout_ms: int = setting(
        INT, 2_000, "A voter that cannot reach its leader for this long looks for another.", at_least(1)
    )
    controller_quorum_election_backoff_max_ms: int = setting(
        INT, 500, "The longest wait after a lost election.", at_least(1)
    )
    broker_heartbeat_interval_ms: int = setting(INT, 500, "How often a node reports to the controller.", at_least(1))
    broker_session_timeout_ms: int = setting(
        INT, 6_000, "A node that has not reported for this long leads nothing any more.", at_least(1)
    )
    auto_leader_rebalance_enable: bool = setting(
        BOOLEAN, True, "Whether leadership goes back to the preferred replicas by itself."
    )
    leader_imbalance_check_interval_seconds: int = setting(LONG, 300, "How often leadership is balanced.", at_least(1))
    replica_fetch_wait_max_ms: int = setting(
        INT, 500, "How long a follower's fetch waits for something new.", at_least(1)
    )
    replica_fetch_max_bytes: int = setting(INT, 1024**2, "Bytes a follower asks of one partition.", at_least(1))
    replica_fetch_response_max_bytes: int = setting(
        INT, 10 * 1024**2, "Bytes a follower asks of all partitions together.", at_least(1)
    )
    leader_replication_throttled_rate: int = setting(
        LONG, LONG_MAX,
        "Bytes a second that this node gives as a leader to throttled replicas that are not in sync.",
        at_least(0), dynamic=True,
    )  # fmt: skip
    follower_replication_throttled_rate: int = setting(
        LONG, LONG_MAX,
        "Bytes a second that this node fetches as a follower for throttled replicas that are not in sync.",
        at_least(0), dynamic=True,
    )  # fmt: skip
    replication_quota_window_num: int = setting(
        INT, 11, "Windows that the rates of throttled replicas are measured over.", at_least(1)
    )
    replication_quota_window_size_seconds: int = setting(INT, 1, "The length of one of those windows.", at_least(1))
    replica_selector_class: str | None = setting(
        STRING,
        None,
        "With org.apache.kafka.common.replica.RackAwareReplicaSelector consumers read from their own rack.",
    )

    # Connections
    socket_request_max_bytes: int = setting(INT, 100 * 1024**2, "The largest request that is read.", at_least(1))
    connections_max_idle_ms: int = setting(LONG, 600_000, "An idle connection is closed after this time; -1 for never.")
    max_connections: int = setting(
        INT,
        INT_MAX,
        "Connections of clients at the same time; never more than there are file descriptors for.",
        at_least(0),
        dynamic=True,
    )
    max_connections_per_ip: int = setting(
        INT, INT_MAX, "Connections of clients at the same time from one address.", at_least(0), dynamic=True
    )
    max_connections_per_ip_overrides: str = setting(
        STRING, "", "ADDRESS:NUMBER,... that stand before max.connections.per.ip.", are_overrides(), dynamic=True
    )
    chronik_unfinished_request_timeout_ms: int = setting(
        LONG, 30_000, "A connection is closed when a request has begun and less than 1 kB of it came in this time.",
        at_least(1),
    )  # fmt: skip
    queued_max_request_bytes: int = setting(
        LONG,
        -1,
        "Bytes of clients' requests that were read and not answered yet; -1 for an eighth of the memory, at least"
        " socket.request.max.bytes and at most 1 GiB.",
        at_least(-1),
    )
    queued_max_requests: int = setting(
        INT, 500, "Requests of one connection under way before it is read no further.", at_least(1)
    )
    fetch_max_bytes: int = setting(INT, 55 * 1024**2, "The most bytes one fetch is answered with.", at_least(1024))
    max_incremental_fetch_session_cache_slots: int = setting(INT, 1000, "Incremental fetch sessions kept.", at_least(0))

    # The trace
    chronik_trace: bool = setting(
        BOOLEAN, False, "Default of a topic's chronik.trace: whether what happens to it is recorded.", dynamic=True
    )
    chronik_trace_store: bool = setting(
        BOOLEAN, True, "Whether what is recorded goes to the topic __chronik_trace as well.", dynamic=True
    )
    chronik_trace_retention_ms: int = setting(
        LONG, DAY_MS, "How long __chronik_trace keeps it; read when that topic is created.", at_least(-1)
    )
    chronik_trace_ring_events: int = setting(
        INT, 50_000, "Events each node keeps in memory for those who look now.", at_least(1)
    )

    # Topics
    num_partitions: int = setting(INT, 1, "Partitions of a topic created without a number.", at_least(1))
    default_replication_factor: int = setting(INT, 1, "Replicas of a topic created without a number.", at_least(1))
    auto_create_topics_enable: bool = setting(BOOLEAN, True, "Whether asking for a topic creates it.")
    delete_topic_enable: bool = setting(BOOLEAN, True, "Whether topics can be deleted.")
    replica_lag_time_max_ms: int = setting(
        LONG, 30_000, "A replica that lags longer than this is not in sync.", at_least(1)
    )
    producer_id_expiration_ms: int = setting(
        INT, DAY_MS, "An idempotent producer silent for this long is forgotten.", at_least(1), dynamic=True
    )
    transaction_max_timeout_ms: int = setting(
        INT, 900_000, "The longest timeout a transaction may ask for.", at_least(1)
    )
    log_retention_check_interval_ms: int = setting(LONG, 300_000, "How often old segments are looked for.", at_least(1))
    log_cleaner_enable: bool = setting(BOOLEAN, True, "Whether compacted topics are compacted.")
    log_cleaner_backoff_ms: int = setting(
        LONG, 15_000, "How long the log cleaner rests between two looks at the compacted logs; 100 ms at least.",
        at_least(0), dynamic=True,
    )  # fmt: skip

    # Groups
    group_initial_rebalance_delay_ms: int = setting(
        INT, 3_000, "How long a new group waits for more members.", at_least(0)
    )
    group_min_session_timeout_ms: int = setting(INT, 6_000, "The shortest session timeout of a member.", at_least(0))
    group_max_session_timeout_ms: int = setting(INT, 1_800_000, "The longest session timeout of a member.", at_least(0))
    group_max_size: int = setting(INT, 10_000, "The most members of a group.", at_least(1))
    group_consumer_assignors: tuple[str, ...] = setting(
        LIST, ("uniform", "range"), "Server-side assignors; the first is the default.", some_of("uniform", "range")
    )
    group_consumer_heartbeat_interval_ms: int = setting(
        INT, 5_000, "How often a consumer is told to report.", at_least(1)
    )
    group_consumer_min_heartbeat_interval_ms: int = setting(INT, 5_000, "Least heartbeat interval.", at_least(1))
    group_consumer_max_heartbeat_interval_ms: int = setting(INT, 15_000, "Largest heartbeat interval.", at_least(1))
    group_consumer_session_timeout_ms: int = setting(
        INT, 45_000, "A consumer silent for this long is out.", at_least(1)
    )
    group_consumer_min_session_timeout_ms: int = setting(INT, 45_000, "Least session timeout.", at_least(1))
    group_consumer_max_session_timeout_ms: int = setting(INT, 60_000, "Largest session timeout.", at_least(1))
    group_consumer_max_size: int = setting(INT, 10_000, "The most members of a consumer group.", at_least(1))
    group_consumer_migration_policy: str = setting(
        STRING,
        "bidirectional",
        "Which way a group with members may move between the classic and the consumer protocol.",
        one_of("bidirectional", "disabled", "downgrade", "upgrade"),
    )
    offset_metadata_max_bytes: int = setting(INT, 4_096, "The longest note on a committed offset.")
    offsets_commit_timeout_ms: int = setting(
        INT, 5_000, "How long a group's request waits for the log of its coordinator to be safe.", at_least(1)
    )
    offsets_retention_minutes: int = setting(INT, 10_080, "How long offsets of an empty group are kept.", at_least(1))
    offsets_retention_check_interval_ms: int = setting(
        LONG, 600_000, "How often old offsets are looked for.", at_least(1)
    )
    offsets_topic_num_partitions: int = setting(INT, 50, "Partitions of __consumer_offsets.", between(1, 10_000))
    # Kafka refuses to make the topic with fewer nodes than this; here it gets as many replicas as there are nodes, so
    # that a single node works without any setting.
    offsets_topic_replication_factor: int = setting(SHORT, 3, "Replicas of __consumer_offsets, at most.", at_least(1))
    offsets_topic_segment_bytes: int = setting(INT, 100 * 1024**2, "Segment size of __consumer_offsets.", at_least(1))

    # Defaults of topics: TOPIC_SETTINGS says which of these stands behind which topic setting
    compression_type: str = setting(
        STRING, "producer", "Default of compression.type.", one_of(*COMPRESSION_TYPES), dynamic=True
    )
    compression_gzip_level: int = setting(INT, -1, "Default of compression.gzip.level.", GZIP_LEVELS, dynamic=True)
    compression_lz4_level: int = setting(INT, 9, "Default of compression.lz4.level.", LZ4_LEVELS, dynamic=True)
    compression_zstd_level: int = setting(INT, 3, "Default of compression.zstd.level.", ZSTD_LEVELS, dynamic=True)
    log_cleaner_delete_retention_ms: int = setting(
        LONG, DAY_MS, "Default of delete.retention.ms.", at_least(0), dynamic=True
    )
    log_cleaner_max_compaction_lag_ms: int = setting(
        LONG, LONG_MAX, "Default of max.compaction.lag.ms.", at_least(1), dynamic=True
    )
    log_cleaner_min_cleanable_ratio: float = setting(
        DOUBLE, 0.5, "Default of min.cleanable.dirty.ratio.", between(0, 1), dynamic=True
    )
    log_cleaner_min_compaction_lag_ms: int = setting(
        LONG, 0, "Default of min.compaction.lag.ms.", at_least(0), dynamic=True
    )
    log_cleanup_policy: tuple[str, ...] = setting(
        LIST, ("delete",), "Default of cleanup.policy.", any_of("compact", "delete"), dynamic=True
    )
    log_flush_interval_messages: int = setting(LONG, LONG_MAX, "Default of flush.messages.", at_least(1), dynamic=True)
    log_flush_interval_ms: int | None = setting(LONG, None, "Default of flush.ms.", dynamic=True)
    log_flush_scheduler_interval_ms: int = setting(
        LONG, LONG_MAX, "Default of flush.ms, if log.flush.interval.ms is not set."
    )
    log_index_interval_bytes: int = setting(INT, 4_096, "Default of index.interval.bytes.", at_least(0), dynamic=True)
    log_index_size_max_bytes: int = setting(
        INT, 10 * 1024**2, "Default of segment.index.bytes.", at_least(4), dynamic=True
    )
    log_local_retention_bytes: int = setting(LONG, -2, "Default of local.retention.bytes.", at_least(-2), dynamic=True)
    log_local_retention_ms: int = setting(LONG, -2, "Default of local.retention.ms.", at_least(-2), dynamic=True)
    log_message_timestamp_after_max_ms: int = setting(
        LONG, HOUR_MS, "Default of message.timestamp.after.max.ms.", at_least(0), dynamic=True
    )
    log_message_timestamp_before_max_ms: int = setting(
        LONG, LONG_MAX, "Default of message.timestamp.before.max.ms.", at_least(0), dynamic=True
    )
    log_message_timestamp_type: str = setting(
        STRING, "CreateTime", "Default of message.timestamp.type.", one_of("CreateTime", "LogAppendTime"), dynamic=True
    )
    log_preallocate: bool = setting(BOOLEAN, False, "Default of preallocate.", dynamic=True)
    log_retention_bytes: int = setting(LONG, -1, "Default of retention.bytes.", dynamic=True)
    log_retention_hours: int = setting(INT, 168, "Default of retention.ms, in hours, if no finer one is set.")
    log_retention_minutes: int | None = setting(
        INT, None, "Default of retention.ms, in minutes, before log.retention.hours."
    )
    log_retention_ms: int | None = setting(LONG, None, "Default of retention.ms, before the two others.", dynamic=True)
    log_roll_hours: int = setting(INT, 168, "Default of segment.ms, in hours, if log.roll.ms is not set.", at_least(1))
    log_roll_jitter_hours: int = setting(INT, 0, "Default of segment.jitter.ms, in hours.", at_least(0))
    log_roll_jitter_ms: int | None = setting(LONG, None, "Default of segment.jitter.ms.", at_least(0), dynamic=True)
    log_roll_ms: int | None = setting(LONG, None, "Default of segment.ms.", at_least(1), dynamic=True)
    log_segment_bytes: int = setting(INT, 1024**3, "Default of segment.bytes.", at_least(14), dynamic=True)
    log_segment_delete_delay_ms: int = setting(
        LONG, 60_000, "Default of file.delete.delay.ms.", at_least(0), dynamic=True
    )
    message_max_bytes: int = setting(INT, 1_048_588, "Default of max.message.bytes.", at_least(0), dynamic=True)
    min_insync_replicas: int = setting(
        INT, 1, "In-sync replicas without which acks=all is refused.", at_least(1), dynamic=True
    )
    unclean_leader_election_enable: bool = setting(
        BOOLEAN, False, "Default of unclean.leader.election.enable.", dynamic=True
    )

    # The layers these values come from, as text by Kafka's name
    given: Mapping[str, str] = field(default_factory=dict)
    cluster_wide: Mapping[str, str] = field(default_factory=dict)
    own: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def from_settings(cls, values: Mapping[str, str]) -> NodeConfig:
        """The config a file or command line describes. Raises BadConfig."""
        given: dict[str, str] = {}
        for key, text in values.items():
            name = ALIASES.get(key, key)
            if name not in NODE_SETTINGS and name not in WITHOUT_EFFECT:
                raise unknown_key(key, [*NODE_SETTINGS, *ALIASES], "node")
            if name in NODE_SETTINGS:
                given[name] = text
        return cls(given=given, **_parsed(given)).checked()

    def with_dynamic(self, cluster_wide: Mapping[str, str], own: Mapping[str, str]) -> NodeConfig:
        """This node, as it was started, with what AlterConfigs set for all nodes and, before that, for this one.
        Raises BadConfig."""
        layers = {**self.given, **cluster_wide, **own}
        values = _parsed({key: text for key, text in layers.items() if key not in WITHOUT_EFFECT})
        return dataclasses.replace(self, **values, cluster_wide=dict(cluster_wide), own=dict(own))

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
            value = getattr(self, NODE_SETTINGS[synonym.name].attribute)
            if value is not None:
                # A negative number of hours is still 'for ever', not so many milliseconds.
                return value if synonym.factor == 1 else max(value * synonym.factor, -1)
        return known.default

    @property
    def address(self) -> tuple[str, int]:
        """Host and port to listen on."""
        return client_listener("listeners", self.listeners)

    @property
    def advertised_address(self) -> tuple[str, int]:
        """Host and port that clients are told. 0.0.0.0 is no address to go to, so it becomes localhost."""
        if self.advertised_listeners:
            return client_listener("advertised.listeners", self.advertised_listeners)
        host, port = self.address
        return ("localhost" if host in ("", "0.0.0.0", "::") else host), port

    @property
    def connection_overrides(self) -> Mapping[str, int]:
        """How many connections each of these addresses may have."""
        return parse_overrides(self.max_connections_per_ip_overrides)

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """The configured voters by id, with their addresses; empty for a node that is alone or joins a cluster."""
        return parse_voters(self.controller_quorum_voters)

    @property
    def bootstrap_servers(self) -> list[tuple[str, int]]:
        """Where a running cluster is asked to take this node in; a node that names only itself is alone."""
        text = self.controller_quorum_bootstrap_servers
        own_ports = [port for _, port in all_listeners("listeners", self.listeners)]
        found = [host_and_port(BOOTSTRAP_SERVERS, item.strip()) for item in text.split(",") if item.strip()]
        return [(host, port) for host, port in found if not (port in own_ports and host in LOCAL_HOSTS)]

    @property
    def is_alone(self) -> bool:
        """Whether this node was set up as a cluster of its own."""
        return not self.bootstrap_servers and set(self.voters) <= {self.node_id}

    @property
    def http_host_and_port(self) -> tuple[str, int] | None:
        return host_and_port("http.address", self.http_address) if self.http_address else None

    def checked(self) -> NodeConfig:
        """Itself, when its settings go together. Raises BadConfig."""
        pairs = (
            ("group.min.session.timeout.ms", "group.max.session.timeout.ms"),
            ("group.consumer.min.heartbeat.interval.ms", "group.consumer.heartbeat.interval.ms"),
            ("group.consumer.heartbeat.interval.ms", "group.consumer.max.heartbeat.interval.ms"),
            ("group.consumer.min.session.timeout.ms", "group.consumer.session.timeout.ms"),
            ("group.consumer.session.timeout.ms", "group.consumer.max.session.timeout.ms"),
            ("log.cleaner.min.compaction.lag.ms", "log.cleaner.max.compaction.lag.ms"),
        )
        for low, high in pairs:
            low_value, high_value = (getattr(self, NODE_SETTINGS[name].attribute) for name in (low, high))
            if low_value > high_value:
                raise BadConfig(low, f"{low} ({low_value}) must not be larger than {high} ({high_value})")
        if 0 <= self.queued_max_request_bytes < self.socket_request_max_bytes:
            raise BadConfig(
                "queued.max.request.bytes",
                f"queued.max.request.bytes ({self.queued_max_request_bytes}) must be at least socket.request.max.bytes"
                f" ({self.socket_request_max_bytes}), or -1",
            )
        if not self.log_dirs or "," in self.log_dirs:
            raise BadConfig("log.dirs", f"Invalid value '{self.log_dirs}' for log.dirs: must be one directory")
        _ = self.address, self.advertised_address, self.http_host_and_port, self.bootstrap_servers
        if not self.is_alone:
            self._check_cluster()
        return self

    def _check_cluster(self) -> None:
        own = self.voters.get(self.node_id)
        if own is not None and self.address[1] not in (0, own[1]):
            raise BadConfig(
                VOTERS,
                f"{VOTERS} says that node {self.node_id} is at {own[0]}:{own[1]}, but it listens on port"
                f" {self.address[1]} (listeners): one of the two, or node.id, is wrong",
            )
        if not self.cluster_id:
            raise BadConfig(
                "cluster.id", "cluster.id is missing: give all nodes of the cluster the same, any 22 letters will do"
            )
        if self.broker_heartbeat_interval_ms * 2 > self.broker_session_timeout_ms:
            raise BadConfig(
                "broker.heartbeat.interval.ms",
                f"broker.heartbeat.interval.ms ({self.broker_heartbeat_interval_ms}) must be at most half of"
                f" broker.session.timeout.ms ({self.broker_session_timeout_ms})",
            )


def passed_over(values: Mapping[str, str]) -> list[str]:
    """Keys of a Kafka broker that have no meaning here: worth a line in the log, no reason to stop."""
    return sorted(key for key in values if key in WITHOUT_EFFECT)


def _parsed(texts: Mapping[str, str]) -> dict[str, Any]:
    return {key.replace(".", "_"): parse_known(NODE_SETTINGS, key, text, "node") for key, text in texts.items()}


NODE_SETTINGS: dict[str, Setting] = settings_of(NodeConfig)
