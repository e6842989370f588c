"""What is said in the name of a node comes from that node: the ids in its requests are its own."""

from __future__ import annotations

from chronik.api.context import Caller
from chronik.core.errors import Code, Refused


def check_is_node(node_id: int, caller: Caller) -> None:
    """Whether the connection is that node's (`node.net.node_identity`). Raises Refused."""
    if not caller.is_node or caller.node_id != node_id:
        raise Refused(Code.CLUSTER_AUTHORIZATION_FAILED, f"this connection is not that of node {node_id}")
