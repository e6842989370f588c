"""Which connections are those of other nodes of this cluster: decided here and nowhere else.

A node says so in its first request, an ApiVersions with the name of our software, and its client id says which node it
is. Whether it was the node that said so, only authentication can tell: its criterion goes here. All other code asks
`Caller.is_node` and `Caller.node_id`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.api.call import Peer
from chronik.wire.versions import API_VERSIONS, NODE_SOFTWARE, node_id_of

_FIRST_REQUEST = API_VERSIONS.to_bytes(2, "big")


def node_identity(peer: Peer, client_software_name: str, client_id: str) -> int | None:
    """Which node this is, -1 when it does not say which; None: it is a client."""
    return node_id_of(client_id) if client_software_name == NODE_SOFTWARE else None


def may_identify(frames: Sequence[memoryview]) -> bool:
    """Whether a connection that has sent only this may still turn out to be a node's."""
    return not frames or (len(frames) == 1 and frames[0][:2] == _FIRST_REQUEST)
