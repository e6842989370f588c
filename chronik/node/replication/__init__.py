"""The partitions this node has a replica of: opened, led or followed, synced, kept in sync, retired.

`partition_registry` says which there are and in which state, `replicas` does the I/O on them, `fetchers` follows
leaders, `in_sync_upkeep` keeps the in-sync sets, `sync_rounds` syncs many logs at once, `purgatory` holds the responses
that are not due yet. Only the metadata image decides whether a replica leads.
"""
