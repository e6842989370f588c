"""A seeded world in memory: whole nodes on simulated clocks, networks and disks, clients, faults, and a judge.

The network drops, delays, cuts and slows what is sent. It doubles and reorders requests, not bytes: a TCP stream does
neither, but requests are sent again on other connections and overtake each other there (`network`). Single messages of
the quorum are doubled and reordered too where Raft runs alone (`tests/sim/test_raft.py`).
"""
