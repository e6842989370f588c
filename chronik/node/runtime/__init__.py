"""What every part of a node shares: one timer for all deadlines, a time that never jumps, and long work in short steps.

Knows nothing of requests, partitions or the cluster.
"""
