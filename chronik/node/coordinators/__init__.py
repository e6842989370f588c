"""Coordinators on this node: a machine for each partition of an internal topic that it leads.

A machine is loaded from its log when the partition is led here and dropped when it is not; its answers wait until what
they say is durable.
"""
