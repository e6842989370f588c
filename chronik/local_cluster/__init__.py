"""Nodes on this machine: their directory, their config files, their processes, and who belongs to the cluster.

Used by `chronik cluster`, the lab and the tests alike.
"""
