"""Which connections are those of other nodes of this cluster: decided here and nowhere else.

A node says so in its first request, an ApiVersions with the name of our software, and its client id says which node it
is. Where clients show certificates or log in it must be a super user's besides (`net.authentication`). All other code
asks `Caller.is_node` and `Caller.node_id`.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.api.call import Peer
from chronik.wire.versions import API_VERSIONS, NODE_SOFTWARE, SASL_AUTHENTICATE, SASL_HANDSHAKE, node_id_of

_API_VERSIONS = API_VERSIONS.to_bytes(2, "big")
_FIRST_REQUESTS = tuple(key.to_bytes(2, "big") for key in (API_VERSIONS, SASL_HANDSHAKE, SASL_AUTHENTICATE))


def node_identity(peer: Peer, client_software_name: str, client_id: str) -> int | None:
    """Which node this is, -1 when it does not say which; None: it is a client."""
    return node_id_of(client_id) if peer.may_be_node and client_software_name == NODE_SOFTWARE else None


def may_identify(frames: Sequence[memoryview]) -> bool:
    """Whether a connection that has sent only this may still turn out to be a node's."""
    return not frames or (len(frames) == 1 and frames[0][:2] in _FIRST_REQUESTS)


def may_not_become_node(peer: Peer, frames: Sequence[memoryview]) -> bool:
    """Whether it has had its say and is no node's: one that logs in says so afterwards."""
    return peer.login is None or frames[-1][:2] == _API_VERSIONS
