"""The voters of the metadata log, and when they elect."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from chronik.core.config.addresses import BOOTSTRAP_SERVERS, LOCAL_HOSTS, host_and_port, parse_voters
from chronik.core.config.definitions import INT, LIST, STRING, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class QuorumConfig(Section):
    """The voters of the metadata log, and when they elect."""

    # Kafka's timeouts are two to four times as long; decision 0013 says why ours are not.
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
    controller_quorum_fetch_snapshot_max_bytes: int = setting(
        INT, 1024 * 1024, "Bytes of a snapshot that are asked for at once; a leader sends at most 1 MiB.", at_least(1)
    )

    @property
    def voters(self) -> Mapping[int, tuple[str, int]]:
        """The configured voters by id, with their addresses; empty for a node that is alone or joins a cluster."""
        return parse_voters(self.controller_quorum_voters)

    def bootstrap_servers(self, own_ports: Collection[int]) -> list[tuple[str, int]]:
        """Where a running cluster is asked to take this node in; a node that names only itself is alone."""
        text = self.controller_quorum_bootstrap_servers
        found = [host_and_port(BOOTSTRAP_SERVERS, item.strip()) for item in text.split(",") if item.strip()]
        return [(host, port) for host, port in found if not (port in own_ports and host in LOCAL_HOSTS)]

    def check(self) -> None:
        _ = self.bootstrap_servers(())
