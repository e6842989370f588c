"""Which node this is, and what it keeps where."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import INT, LIST, STRING, BadConfig, Section, at_least, one_of, setting


@dataclass(frozen=True, slots=True)
class ServerConfig(Section):
    """Which node this is, and what it keeps where."""

    node_id: int = setting(INT, 1, "This node's number in the cluster.", at_least(0))
    cluster_id: str | None = setting(
        STRING, None, "The cluster this node belongs to; all its nodes have the same. A node alone makes its own."
    )
    broker_rack: str | None = setting(STRING, None, "The rack of this node: replicas are spread over racks.")
    inter_broker_protocol_version: str = setting(
        STRING, "4.1-IV1", "The Kafka version whose protocol this node speaks.", one_of("4.1-IV1")
    )
    log_dirs: str = setting(STRING, "chronik-data", "The data directory.", shown=LIST)
    durability: str = setting(
        STRING, "sync", "When a write counts as safe: once synced to disk, or once the operating system has it.",
        one_of("sync", "os"),
    )  # fmt: skip

    def check(self) -> None:
        if not self.log_dirs or "," in self.log_dirs:
            raise BadConfig("log.dirs", f"Invalid value '{self.log_dirs}' for log.dirs: must be one directory")
