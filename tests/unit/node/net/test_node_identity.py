"""Which connections are those of other nodes."""

from __future__ import annotations

import pytest

from chronik.api.call import Peer
from chronik.node.net.node_identity import may_identify, node_identity
from chronik.wire.versions import NODE_SOFTWARE, node_name

VERSIONS_REQUEST, METADATA_REQUEST = memoryview(b"\x00\x12\x00\x03"), memoryview(b"\x00\x03\x00\x03")


@pytest.mark.parametrize(
    ("software", "client_id", "node_id"),
    [
        (NODE_SOFTWARE, node_name(3), 3),
        (NODE_SOFTWARE, "some tool of ours", -1),
        ("librdkafka", node_name(3), None),
        ("", "", None),
    ],
)
def test_a_node_is_known_by_its_software_and_its_client_id(software: str, client_id: str, node_id: int | None) -> None:
    assert node_identity(Peer(1, "10.0.0.7"), software, client_id) == node_id


def test_only_a_connection_that_has_sent_nothing_else_may_still_be_a_nodes() -> None:
    assert may_identify([])
    assert may_identify([VERSIONS_REQUEST])
    assert not may_identify([METADATA_REQUEST])
    assert not may_identify([VERSIONS_REQUEST, METADATA_REQUEST])
