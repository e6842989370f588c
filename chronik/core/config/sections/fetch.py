"""What a fetch is answered with, and from which replica."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import INT, STRING, Section, at_least, setting


@dataclass(frozen=True, slots=True)
class FetchConfig(Section):
    """What a fetch is answered with, and from which replica."""

    fetch_max_bytes: int = setting(INT, 55 * 1024**2, "The most bytes one fetch is answered with.", at_least(1024))
    max_incremental_fetch_session_cache_slots: int = setting(INT, 1000, "Incremental fetch sessions kept.", at_least(0))
    replica_selector_class: str | None = setting(
        STRING,
        None,
        "With org.apache.kafka.common.replica.RackAwareReplicaSelector consumers read from their own rack.",
    )
