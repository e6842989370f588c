"""The batches of idempotent producers that come on one connection, so that none overtakes one that failed (KIP-98).

A log that knows nothing of a producer takes any of its batches as the first, as Kafka does: it may have forgotten the
producer, or its topic was deleted and created again. A batch that follows on one that was refused must then not be the
first to arrive, or the refused one is out of order for ever. The log cannot tell. The connection can: a client sends
its batches in order on one connection, and after a failure sends all of them again, in order. So of one producer, for
one partition:

- behind a batch that was refused for now, nothing is taken until that batch, or an earlier one, has come again;
- behind a batch that another leader has and has not acknowledged, only what goes to the same leader is taken.

A new epoch begins anew. Nothing of this is needed when the connection has ended: nothing comes behind it then.
"""

from __future__ import annotations

from typing import TypeAlias

from chronik.core.errors import Code
from chronik.core.records.batch import BatchHeader

Leadership: TypeAlias = tuple[int, int]  # leader, leader epoch
Key: TypeAlias = tuple[str | bytes, int, int]  # topic (or its id), partition, producer id

PRODUCERS_KEPT = 1000  # of one connection; without an entry a batch is taken as Kafka takes it
UNSETTLED_KEPT = 100  # batches of one producer and partition

# Refusals after which a producer sends the batch again. After any other it goes on without the batch: then what comes
# next is not behind anything.
REFUSED_FOR_NOW = frozenset(
    (
        Code.UNKNOWN_TOPIC_OR_PARTITION,
        Code.UNKNOWN_TOPIC_ID,
        Code.LEADER_NOT_AVAILABLE,
        Code.NOT_LEADER_OR_FOLLOWER,
        Code.FENCED_LEADER_EPOCH,
        Code.NOT_ENOUGH_REPLICAS,
        Code.KAFKA_STORAGE_ERROR,
        Code.OUT_OF_ORDER_SEQUENCE_NUMBER,
    )
)
# The leader has the batch, and no node knows whether it stays.
DOUBTFUL = frozenset((Code.REQUEST_TIMED_OUT, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND))


class _Sent:
    """What is known of one producer's batches for one partition."""

    __slots__ = ("epoch", "refused_sequence", "unsettled")

    def __init__(self, epoch: int) -> None:
        self.epoch = epoch
        self.refused_sequence: int | None = None  # the lowest that was refused and has not come again
        # By first sequence, the leader that has the batch; None while it waits for one.
        self.unsettled: dict[int, Leadership | None] = {}


class BatchOrder:
    """Of one connection."""

    __slots__ = ("_sent",)

    def __init__(self) -> None:
        self._sent: dict[Key, _Sent] = {}

    def __bool__(self) -> bool:
        """Whether there is anything that a batch could be behind."""
        return bool(self._sent)

    def comes(self, topic: str | bytes, partition: int, header: BatchHeader, leadership: Leadership | None) -> bool:
        """A batch has come, perhaps again, and would go to this leader. False when it would overtake another."""
        sent = self._known(topic, partition, header)
        if sent is None:
            return True
        sequence = header.base_sequence
        if sent.refused_sequence is not None:
            if sequence > sent.refused_sequence:
                return False
            sent.refused_sequence = None
        sent.unsettled.pop(sequence, None)
        return all(where == leadership for earlier, where in sent.unsettled.items() if earlier < sequence)

    def goes(self, topic: str | bytes, partition: int, header: BatchHeader, leadership: Leadership | None) -> None:
        """It is on its way to this leader, or this leader has it and has not acknowledged it; None: it waits."""
        unsettled = self._entry(topic, partition, header).unsettled
        unsettled[header.base_sequence] = leadership
        if len(unsettled) > UNSETTLED_KEPT:
            del unsettled[next(iter(unsettled))]

    def settled(self, topic: str | bytes, partition: int, header: BatchHeader, code: Code) -> None:
        """What became of it."""
        if code in REFUSED_FOR_NOW:
            sent = self._entry(topic, partition, header)
            if sent.refused_sequence is None or header.base_sequence < sent.refused_sequence:
                sent.refused_sequence = header.base_sequence
        else:
            known = self._known(topic, partition, header)
            if known is None or code in DOUBTFUL:
                return
            sent = known
        sent.unsettled.pop(header.base_sequence, None)
        if not sent.unsettled and sent.refused_sequence is None:
            del self._sent[topic, partition, header.producer_id]

    def _known(self, topic: str | bytes, partition: int, header: BatchHeader) -> _Sent | None:
        sent = self._sent.get((topic, partition, header.producer_id))
        return sent if sent is not None and sent.epoch == header.producer_epoch else None

    def _entry(self, topic: str | bytes, partition: int, header: BatchHeader) -> _Sent:
        """A new one where there is none of this epoch."""
        sent = self._known(topic, partition, header)
        if sent is None:
            key = topic, partition, header.producer_id
            self._sent.pop(key, None)
            sent = self._sent[key] = _Sent(header.producer_epoch)
            if len(self._sent) > PRODUCERS_KEPT:
                del self._sent[next(iter(self._sent))]
        return sent
