"""This node's copy of a partition: its role, its in-sync set and its high watermark (Kafka: Partition, Replica).

Owns the high watermark: nothing else computes one. `node.replication` calls it, under the metadata image's orders to
lead or follow; request handlers read from it. It never waits and writes only through its `core.log`.

    replica       the copy: append, follow, read, and what moves the watermark
    in_sync       while leading: how far each follower is, which leave the in-sync set and which may join it
    follower      one step of a follower: append, truncate, begin anew or ask again
    divergence    where a follower's log parts from its leader's, by leader epochs (KIP-101, KIP-595)
    throttle      replication quotas (KIP-73); batch_order: which batches may follow which

Invariants: log start <= high watermark <= end offset, and the watermark never goes back. The watermark passes a record
only when every replica counted has it durably: the in-sync set, those being added to it, and those about to join. The
offset below which this node itself has everything durably is `durable_end_offset`.
"""
