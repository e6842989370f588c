"""One partition's batch of a Produce request that is sent on to the leader, until its answer is given to the client."""

from __future__ import annotations

from typing import NamedTuple

from chronik.api.context import PartitionBatch, PendingProduce
from chronik.core.errors import Code
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.partition import Partition
from chronik.core.records.batch import read_header, read_producer_id
from chronik.core.replica.batch_order import Leadership
from chronik.node.routing.routes import Route
from chronik.wire.produce import PartitionAnswer


class ForwardedBatch(NamedTuple):
    """A batch, and the partition as the metadata had it when the batch was sent on, or had to wait."""

    produce: PendingProduce
    batch: PartitionBatch
    seen: Partition | None
    route: Route

    @property
    def wants_no_answer(self) -> bool:
        return self.produce.request.acks == 0

    def has_other_leader(self, now: Partition | None) -> bool:
        """Whether the partition has a leader by now that is not the one it had."""
        return now is not None and now.has_leader and leadership_of(now) != leadership_of(self.seen)

    def settle(self, answer: PartitionAnswer) -> None:
        self.produce.settle(self.batch, answer)

    def refuse(self, code: Code) -> None:
        refuse(self.produce, self.batch, code)

    def refuse_unplaced(self, now: Partition | None) -> None:
        """The time to find its leader is over: with the reason."""
        if now is not None:
            self.refuse(Code.NOT_LEADER_OR_FOLLOWER if now.has_leader else Code.LEADER_NOT_AVAILABLE)
        elif isinstance(self.batch.topic, bytes):
            self.refuse(Code.UNKNOWN_TOPIC_ID)
        else:
            self.refuse(Code.UNKNOWN_TOPIC_OR_PARTITION)

    # --- the order of an idempotent producer's batches (core/replica/batch_order)

    def goes_in_order(self) -> bool:
        """Whether it may go to its leader; then it is on its way."""
        order, batch, seen = self.produce.call.caller.order, self.batch, self.seen
        if order is None or read_producer_id(batch.records) < 0:
            return True
        header = read_header(batch.records)
        leadership = leadership_of(seen) if seen is not None and seen.has_leader else None
        if not order.comes(batch.topic, batch.partition, header, leadership):
            return False
        order.goes(batch.topic, batch.partition, header, leadership)
        return True

    def holds_up_its_producer(self) -> None:
        """No leader has it: what comes behind it must not go anywhere before it does."""
        order, batch = self.produce.call.caller.order, self.batch
        if order is not None and not self.wants_no_answer and read_producer_id(batch.records) >= 0:
            order.goes(batch.topic, batch.partition, read_header(batch.records), None)


def refuse(produce: PendingProduce, batch: PartitionBatch, code: Code) -> None:
    produce.settle(batch, PartitionAnswer(batch.partition, code, -1, -1, -1))


def leadership_of(placed: Partition | None) -> Leadership | None:
    return None if placed is None else (placed.leader, placed.leader_epoch)


def placed(image: MetadataImage, batch: PartitionBatch) -> Partition | None:
    return image.partition(batch.topic, batch.partition)
