"""Idempotent and transactional producers."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.config.definitions import BOOLEAN, DAY_MS, INT, SHORT, Section, at_least, between, setting


@dataclass(frozen=True, slots=True)
class TransactionsConfig(Section):
    """Idempotent and transactional producers."""

    producer_id_expiration_ms: int = setting(
        INT, DAY_MS, "An idempotent producer silent for this long is forgotten.", at_least(1), dynamic=True
    )
    transaction_max_timeout_ms: int = setting(
        INT, 900_000, "The longest timeout a transaction may ask for.", at_least(1)
    )
    transactional_id_expiration_ms: int = setting(
        INT, 7 * DAY_MS, "A transactional id without a transaction for this long is forgotten.", at_least(1)
    )
    transaction_remove_expired_transaction_cleanup_interval_ms: int = setting(
        INT, 3_600_000, "How often transactional ids that expired are looked for.", at_least(1)
    )
    transaction_state_log_num_partitions: int = setting(
        INT, 50, "Partitions of __transaction_state.", between(1, 10_000)
    )
    # As with __consumer_offsets: no more replicas than there are nodes, and no more in sync than there are replicas.
    transaction_state_log_replication_factor: int = setting(
        SHORT, 3, "Replicas of __transaction_state, at most.", at_least(1)
    )
    transaction_state_log_min_isr: int = setting(
        INT, 2, "In-sync replicas that a write to __transaction_state needs, at most as many as it has.", at_least(1)
    )
    transaction_state_log_segment_bytes: int = setting(
        INT, 100 * 1024**2, "Segment size of __transaction_state.", at_least(1)
    )
    transaction_partition_verification_enable: bool = setting(
        BOOLEAN,
        True,
        "Whether a partition's leader asks the coordinator before it takes the first batch of a transaction.",
        dynamic=True,
    )
    add_partitions_to_txn_retry_backoff_ms: int = setting(
        INT,
        20,
        "How long a leader waits until it asks a coordinator again that still ends the last transaction.",
        at_least(1),
    )
    add_partitions_to_txn_retry_backoff_max_ms: int = setting(
        INT, 100, "How long a leader waits in all; then the producer sends its batch again.", at_least(0)
    )
