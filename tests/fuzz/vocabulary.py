"""Values that mean something to the node: names it knows, ids it handed out, settings, batches.

A fuzzer that only throws dice never gets past 'unknown topic'. Each field of a request is filled by its name from here,
or by its type with boundary values.
"""

from __future__ import annotations

import random
import struct
import time
import uuid
from typing import Any

from crc32c import crc32c

from chronik.core.records.payload import KeyValue, build

TOPICS = ("fuzz-a", "fuzz-b", "fuzz-compacted", "fuzz-small")
GROUPS = ("fuzz-group-1", "fuzz-group-2", "fuzz-group-3")
INTERNAL = ("__consumer_offsets", "__cluster_metadata")
NOT_TOPICS = ("", ".", "..", "no-such-topic", "a b", "x" * 249, "x" * 250, "fuzz/a", "näme", "\x00", "x" * 40_000)
TOPIC_CONFIGS = (
    "retention.ms",
    "max.message.bytes",
    "cleanup.policy",
    "segment.bytes",
    "min.insync.replicas",
    "nonsense",
    "",
)
CONFIG_VALUES = ("1", "0", "-1", "compact", "delete", "100000", "9" * 30, "1.5", "", "compact,delete", "true", "näme")
INT_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64, "timedelta_i32": 32, "timedelta_i64": 64}

_STRINGS: dict[str, tuple[str, ...]] = {
    "member_id": ("", "fuzz-member-1", "fuzz-member-2"),
    "group_instance_id": ("fuzz-instance", ""),
    "instance_id": ("fuzz-instance", ""),
    "protocol_type": ("consumer", "connect", ""),
    "protocol_name": ("range", "cooperative-sticky", ""),
    "server_assignor": ("range", "uniform", "nonsense", ""),
    "subscribed_topic_regex": ("fuzz.*", ".*", "(((", "(a+)+b", "[", "x{1000}{1000}{1000}", ""),
    "transactional_id": ("fuzz-transaction", ""),
    "states_filter": ("Stable", "empty", "nonsense"),
    "types_filter": ("classic", "consumer", "nonsense"),
    "value": CONFIG_VALUES,
    "configuration_keys": TOPIC_CONFIGS,
    "resource_name": ("fuzz-a", "fuzz-b", "", "1", "2", "no-such-topic"),
}
_NUMBERS: dict[str, tuple[int, ...]] = {
    "acks": (-1, -1, 1, 1, 0, 2, -2),
    "index": (0, 0, 1, 2, 7, -1),
    "partition": (0, 0, 1, 2, 7, -1),
    "partition_index": (0, 0, 1, 2, 7, -1),
    "partition_indexes": (0, 0, 1, 2, 7, -1),
    "partitions": (0, 0, 1, 2, 7, -1),
    "num_partitions": (1, 2, 3, -1, 0, 100_000_000),
    "count": (1, 2, 3, 4, 0, -1, 100_000_000),
    "replication_factor": (1, -1, 0, 3),
    "broker_ids": (1, 2, 3, -1),
    "replicas": (1, 2, 3, -1),
    "new_isr": (1, 2, 3, -1),
    "election_type": (0, 1, 2, -1),
    "replica_epoch": (0, 1, 2, 2**31 - 1),
    "leader_epoch": (0, 1, 2, 2**31 - 1, -1),
    "leader_id": (1, 2, 3, -1),
    "voter_id": (1, 2, 3, -1),
    "resource_type": (2, 2, 4, 8, 32, 0, 1, 127),
    "config_operation": (0, 1, 2, 3, 4, -1),
    "max_wait": (0, 0, 1, 20, 2**31 - 1, -1),
    "min_bytes": (0, 1, 1000, 2**31 - 1, -1),
    "max_bytes": (2**31 - 1, 1_000_000, 1, 0, -1),
    "partition_max_bytes": (2**31 - 1, 1_000_000, 1, 0, -1),
    "fetch_offset": (0, 1, 5, 100, -1, -2, 2**63 - 1),
    "offset": (0, 1, -1, 10, 2**63 - 1, -(2**63)),
    "session_epoch": (-1, 0, 0, 1, 2, 2**31 - 1),
    "session_id": (0, 0, 1, 2**31 - 1),
    "timestamp": (-1, -2, -3, -4, -5, 0, 1_700_000_000_000, 2**63 - 1),
    "current_leader_epoch": (-1, -1, 0, 1),
    "generation_id": (-1, 0, 1, 2),
    "generation_id_or_member_epoch": (-1, 0, 1, 2),
    "member_epoch": (0, 0, 1, 2, -1, -2, -3),
    "session_timeout": (6_000, 10_000, 300_000, 0, -1, 2**31 - 1),
    "rebalance_timeout": (1, 50, 1_000, -1, 2**31 - 1),
    "replica_id": (-1, -1, -1, 0, 1, 2),
    "key_type": (0, 0, 1, 2, 127),
    "producer_id": (-1, 0, 1, 1000),
    "producer_epoch": (-1, 0, 1),
    "committed_offset": (0, 5, -1, 2**63 - 1),
}
NODES = (1, 2, 3)
# What is signed with a node's broker epoch is believed, and so is what registers or removes a node or its vote, as in
# Kafka without access control: of these the fuzzer knows only what there is not.
_NEVER_A_NODE = (0, 77, -1, 2**31 - 1)
_NEVER_RIGHT: dict[str, tuple[int, ...]] = {"broker_epoch": (0, -1, 10**9, 2**63 - 1, -(2**63))}
_STRIKES = frozenset({"BrokerRegistrationRequest", "UnregisterBrokerRequest", "RemoveRaftVoterRequest"})
# The fields in which a node names itself.
_SENDERS = frozenset({"replica_id", "leader_id", "broker_id"})
_QUORUM = frozenset({"TopicData", "TopicSnapshot"})
_TOPIC_FIELDS = frozenset({"name", "topic", "topic_name", "topic_names", "subscribed_topic_names"})
_GROUP_FIELDS = frozenset({"group_id", "group_ids", "groups", "groups_names", "key", "coordinator_keys"})


class Vocabulary:
    """Draws values with the dice it is given. `topic_ids` and `member_ids` are what the node made up. `signed_as` is
    the node in whose name it speaks, if any, and `cluster_id` what it takes for that of the cluster."""

    def __init__(
        self,
        dice: random.Random,
        topic_ids: list[uuid.UUID],
        member_ids: list[str],
        signed_as: int | None = None,
        cluster_id: str = "",
    ) -> None:
        self.dice = dice
        self.signed_as = signed_as
        self._cluster_id = cluster_id
        self._topic_ids = topic_ids
        self._member_ids = member_ids

    def text(self, field: str, holder: str) -> str:
        """A string for this field of this message."""
        dice = self.dice
        if dice.random() < 0.08:
            return self._any_text()
        if field == "cluster_id" and dice.random() < 0.8:
            return self._cluster_id
        if self.signed_as is not None and holder in _QUORUM and dice.random() < 0.9:
            return "__cluster_metadata"
        if field == "name" and "Config" in holder:
            return dice.choice(TOPIC_CONFIGS)
        if field in _TOPIC_FIELDS:
            return dice.choice(TOPICS) if dice.random() < 0.8 else dice.choice(INTERNAL + NOT_TOPICS)
        if field in _GROUP_FIELDS:
            return dice.choice(GROUPS) if dice.random() < 0.9 else dice.choice(("", "no-such-group", "g" * 30_000))
        if field == "member_id" and self._member_ids and dice.random() < 0.6:
            return dice.choice(self._member_ids)
        if field in _STRINGS:
            return dice.choice(_STRINGS[field])
        return self._any_text()

    def _any_text(self) -> str:
        dice = self.dice
        alphabet = dice.choice(("ab", "\x00\n\t ", "äöü€", "𝄞\ufffd", "%s{}\\'\"", "0123456789"))
        return "".join(dice.choices(alphabet, k=dice.choice((0, 1, 3, 20, 300))))

    def number(self, field: str, kind: str, holder: str = "") -> int:
        dice = self.dice
        bits = INT_BITS[kind]
        if field in _NEVER_RIGHT:
            return dice.choice(_NEVER_RIGHT[field])
        if holder in _STRIKES and field in ("broker_id", "voter_id"):
            return dice.choice(_NEVER_A_NODE)
        if self.signed_as is not None and field in _SENDERS and dice.random() < 0.8:
            return self.signed_as
        if field == "broker_id":
            return dice.choice((*NODES, *_NEVER_A_NODE))
        if field in _NUMBERS and dice.random() < 0.9:
            value = dice.choice(_NUMBERS[field])
            return max(-(2 ** (bits - 1)), min(value, 2 ** (bits - 1) - 1))
        edge = dice.choice((0, 1, -1, 2, 100, 2 ** (bits - 1) - 1, -(2 ** (bits - 1))))
        return edge if dice.random() < 0.7 else dice.randrange(-(2 ** (bits - 1)), 2 ** (bits - 1))

    def topic_id(self) -> bytes:
        dice = self.dice
        if self._topic_ids and dice.random() < 0.8:
            return dice.choice(self._topic_ids).bytes
        return bytes(16) if dice.random() < 0.3 else dice.randbytes(16)

    def content(self, field: str) -> bytes:
        """For a byte field: group metadata and assignments are opaque to the node, but never empty in practice."""
        dice = self.dice
        if field == "records":
            return self.records()
        if field == "metadata" and dice.random() < 0.6:  # a consumer's subscription, version 0
            names = [name.encode() for name in dice.sample(TOPICS, k=2)]
            return (
                b"\x00\x00"
                + struct.pack(">i", 2)
                + b"".join(struct.pack(">h", len(n)) + n for n in names)
                + b"\xff" * 4
            )
        return dice.randbytes(dice.choice((0, 1, 10, 1000)))

    def records(self) -> bytes:
        """One batch as a producer sends it, or something that only looks like one."""
        dice = self.dice
        batch = self._sound_batch()
        match dice.randrange(10):
            case 0:
                return dice.randbytes(dice.choice((0, 1, 60, 61, 500)))
            case 1:  # the checksum does not hold
                batch[dice.randrange(17, len(batch))] ^= 1 << dice.randrange(8)
            case 2:  # any header field, with a checksum that holds
                field, size = dice.choice(
                    ((0, 8), (8, 4), (12, 4), (21, 2), (23, 4), (27, 8), (35, 8), (43, 8), (51, 2), (53, 4), (57, 4))
                )
                batch[field : field + size] = dice.choice(
                    (dice.randbytes(size), b"\xff" * size, bytes(size), b"\x7f" + b"\xff" * (size - 1))
                )
                _seal(batch)
            case 3:  # records that do not make sense, with a checksum that holds
                batch[61:] = dice.randbytes(dice.choice((0, 1, 40, 3000)))
                batch[8:12] = struct.pack(">i", len(batch) - 12)
                _seal(batch)
            case 4:
                del batch[dice.randrange(len(batch)) :]
            case 5:
                batch += self._sound_batch()
            case 6:  # an older format, or one that does not exist yet
                batch[16] = dice.choice((0, 1, 3, 255))
        return bytes(batch)

    def _sound_batch(self) -> bytearray:
        dice = self.dice
        records = [
            KeyValue(dice.choice((None, b"", b"key")), dice.choice((None, b"", b"value", b"v" * 2000)))
            for _ in range(dice.choice((1, 1, 2, 50)))
        ]
        producer: dict[str, Any] = {}
        if dice.random() < 0.3:
            producer = {
                "producer_id": dice.choice((0, 1, 5)),
                "producer_epoch": dice.choice((0, 0, 1)),
                "base_sequence": dice.choice((0, 1, 2)),
            }
        return build(records, int(time.time() * 1000), **producer)


def _seal(batch: bytearray) -> None:
    batch[17:21] = struct.pack(">I", crc32c(batch[21:]))
