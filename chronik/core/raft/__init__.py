"""Kafka's Raft (KRaft, KIP-595) as a pure machine: messages and time in, work to do out.

`step(message)`, `tick(now)`, `log_grew()` and the rest of `core.Raft` return a `Ready`. Its parts are to be carried out
in this order, each done before the next begins, and all of them before the machine is called again:

1. `election`: on disk, when it is there. A vote that is forgotten in a crash could be given twice.
2. The log. `truncate_to`: cut it there. `append`: write these control records at its end, in the machine's epoch.
   `take`: append the records (or the snapshot's bytes) that came with the answer just stepped; without it they are
   thrown away. `install`: that snapshot is complete and takes the place of the whole log, synced. Records need not be
   synced before the next call.
3. `send`: messages to other nodes. They say what 1 and 2 made true.
4. `high_watermark`: everything below it is safe; machines may answer.

Whenever the log has changed, and whenever more of it is synced, `log_grew()` is called. The log is a log like any other
(`core/log`): the machine looks at it through `RaftLog` and never writes.

Followers pull. `next_fetch()` says what to ask whom; one fetch is under way at a time. A fetch from a point says 'I
have everything below it, on disk', so nothing is asked while a sync is under way. A leader's answer that brings neither
records nor news may be held back for a while; when the log grows or the watermark moves, the same fetch is stepped
again and the fresh answer is sent instead.

Owned and called by `node.cluster.quorum` alone. Invariants: at most one vote an epoch, on disk before it is given; the
epoch and the high watermark never go back; nothing below the watermark is cut.

    core                    the machine (Kafka: KafkaRaftClient, QuorumState); roles: its states; quorum: votes
    ready, messages         what comes out and goes in
    quorum_log, snapshot_file, state_file    its files: log and snapshots, epoch and vote (quorum-state)
    quorum_replica          the metadata log as a replica; view: what DescribeQuorum shows
"""
