"""The partitions this node hosts: opened, led or followed, synced, kept in sync, dropped.

Owns the logs of this node, their checkpoints and directories, and the responses that wait for a log (the purgatory).
Request handlers reach it by `api.context` alone; coordinators, the quorum and the node's own rounds are given
`Replicas`. It calls nothing above it: what others want to hear of a replica is given at construction
(`ReplicaListeners`).

    hosted_partitions   the state of each partition: open, damaged, failed, put off
    partition_logs      their files: open and recover, checkpoints, directories
    checkpoints, directories, stored_starts     what of a log survives a restart, and in which order it is written
    partition_registry  which are led and which followed, as the metadata image says
    replicas            what is written and read, and what a failing disk means
    sync_rounds         one sync for all logs that were written to meanwhile
    purgatory           responses that are not due yet
    fetchers            fetches from leaders, for what is followed here
    in_sync_upkeep      asks the controller for another in-sync set

Invariants: only the metadata image decides whether a replica leads. A response counts a replica only when its write is
on disk. A high watermark never goes back. What a change of files makes untrue leaves the checkpoints first.
"""
