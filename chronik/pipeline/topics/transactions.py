"""One transaction of one writer, by a client that blocks: begun by fencing the one before it, and ended once.

It speaks the protocol of before KIP-890 (partitions and groups are added by the client), which every Kafka since 2.5
and Chronik know. What that protocol cannot tell apart, a late batch or a late end and those of the next transaction,
the epoch does: each transaction here begins with InitProducerId, and has an epoch of its own.

Every step may be repeated when its answer was lost: adding twice, the same batches with their sequences, the same
offset and the same end come to the same.
"""

from __future__ import annotations

import datetime
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from chronik.core.errors import Code
from chronik.pipeline.topics.client import PASSING, Failed, Passing, ReadPartition, TopicClient

OFFSET_FETCH, FIND_COORDINATOR, INIT_PRODUCER_ID, ADD_PARTITIONS, ADD_OFFSETS, END_TXN, TXN_OFFSET_COMMIT = (
    9, 10, 22, 24, 25, 26, 28,
)  # fmt: skip
GROUP, TRANSACTION = 0, 1  # kinds of coordinator
# The newest version of each that speaks the protocol of before KIP-890.
HIGHEST = {
    OFFSET_FETCH: 7, FIND_COORDINATOR: 3, INIT_PRODUCER_ID: 4, ADD_PARTITIONS: 3, ADD_OFFSETS: 3, END_TXN: 3,
    TXN_OFFSET_COMMIT: 3,
}  # fmt: skip
AGAIN = PASSING | {
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.NOT_COORDINATOR,
    Code.CONCURRENT_TRANSACTIONS,  # the one before is still being ended
    Code.UNSTABLE_OFFSET_COMMIT,
}
FENCED = (Code.PRODUCER_FENCED, Code.INVALID_PRODUCER_EPOCH)


class WriterTransaction:
    """A writer's next transaction. `name` is its transactional id, and of the group that says what it has committed."""

    def __init__(self, cluster: TopicClient, name: str, timeout_ms: int) -> None:
        self._cluster = cluster
        self._name = name
        self._timeout_ms = timeout_ms
        self.producer_id = -1
        self.producer_epoch = -1

    def begin(self) -> None:
        """From now on no other writer of this name can write or commit, and what it had open is ended."""
        timeout = datetime.timedelta(milliseconds=self._timeout_ms)
        body = {"transactional_id": self._name, "transaction_timeout": timeout, "producer_id": -1, "producer_epoch": -1}
        answer = self._ask(TRANSACTION, INIT_PRODUCER_ID, body, lambda answer: [answer.error_code])
        self.producer_id, self.producer_epoch = answer.producer_id, answer.producer_epoch

    def committed(self) -> int:
        """The number that the last committed transaction of this name noted; 0 where none is known."""
        body = {"group_id": self._name, "topics": None, "require_stable": True}
        answer = self._ask(
            GROUP,
            OFFSET_FETCH,
            body,
            lambda answer: [answer.error_code, *(each.error_code for each in _partitions(answer))],
        )
        return max((each.committed_offset for each in _partitions(answer)), default=0)

    def add(self, partitions: Iterable[ReadPartition]) -> None:
        topics: dict[str, list[int]] = {}
        for topic, number in sorted(partitions):
            topics.setdefault(topic, []).append(number)
        body = {f"v3_and_below_{name}": value for name, value in self._identity().items()}
        body["v3_and_below_topics"] = [{"name": name, "partitions": tuple(own)} for name, own in topics.items()]
        self._ask(
            TRANSACTION,
            ADD_PARTITIONS,
            body,
            lambda answer: [
                each.partition_error_code
                for topic in answer.results_by_topic_v3_and_below
                for each in topic.results_by_partition
            ],
        )

    def produce(self, batches: Mapping[ReadPartition, bytes]) -> None:
        self._cluster.produce(batches, transactional_id=self._name)

    def note(self, number: int, topic: str) -> None:
        """What `committed` says when this transaction has committed. The offset is one of this topic, as every offset
        must be of some topic."""
        self._ask(
            TRANSACTION,
            ADD_OFFSETS,
            {**self._identity(), "group_id": self._name},
            lambda answer: [answer.error_code],
        )
        partition = {
            "partition_index": 0, "committed_offset": number, "committed_leader_epoch": -1, "committed_metadata": "",
        }  # fmt: skip
        body = {
            **self._identity(),
            "group_id": self._name,
            "generation_id": -1,
            "member_id": "",
            "group_instance_id": None,
            "topics": [{"name": topic, "partitions": [partition]}],
        }
        self._ask(GROUP, TXN_OFFSET_COMMIT, body, lambda answer: [each.error_code for each in _partitions(answer)])

    def end(self, *, is_commit: bool) -> None:
        """Durable when this returns: readers get the markers in a moment."""
        body = {**self._identity(), "committed": is_commit}
        self._ask(TRANSACTION, END_TXN, body, lambda answer: [answer.error_code])

    def _identity(self) -> dict[str, Any]:
        return {
            "transactional_id": self._name,
            "producer_id": self.producer_id,
            "producer_epoch": self.producer_epoch,
        }

    def _ask(self, kind: int, api_key: int, body: Mapping[str, Any], codes: Callable[[Any], Iterable[int]]) -> Any:
        """The coordinator's answer, asked again while it cannot be given. Raises Failed."""

        def ask() -> Any:
            found = self._cluster.ask_any(
                FIND_COORDINATOR, {"key": self._name, "key_type": kind}, HIGHEST[FIND_COORDINATOR]
            )
            self._check(found.error_code, "the coordinator")
            answer = self._cluster.ask_at((found.host, found.port), api_key, body, HIGHEST[api_key])
            for code in codes(answer):
                self._check(code, self._name)
            return answer

        return self._cluster.patiently(ask)

    def _check(self, number: int, what: str) -> None:
        code = Code(number)
        if code in AGAIN:
            raise Passing(f"{what}: {code.name}")
        if code in FENCED:
            raise Failed(
                f"{self._name}: {code.name}: another writer of this name has begun, or the transaction took longer "
                f"than its timeout ({self._timeout_ms} ms, kafka.transaction.timeout.ms) and was aborted"
            )
        if code is not Code.NONE:
            raise Failed(f"{what}: {code.name}")


def _partitions(answer: Any) -> list[Any]:
    return [each for topic in answer.topics for each in topic.partitions]
