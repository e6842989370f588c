"""Which principal is which node's, also before the metadata is there."""

from __future__ import annotations

from chronik.core.access.node_principals import parse_node_principals
from chronik.core.access.principal import KafkaPrincipal
from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import BrokerEndpoint, RegisterBrokerRecord, UnregisterBrokerRecord
from chronik.node.cluster.node_principals import FILE, NodePrincipals
from tests.unit.core.fakes import MemoryFiles

NODE, THIEF = KafkaPrincipal("User", "node2"), KafkaPrincipal("User", "node3")


def registered(principal: str) -> RegisterBrokerRecord:
    end_points = (BrokerEndpoint("PLAINTEXT", "h", 1, 0),)
    return RegisterBrokerRecord(2, bytes(16), 1, end_points, (), None, False, False, principal)


def opened(files: MemoryFiles) -> tuple[NodePrincipals, MetadataImage]:
    image = MetadataImage("c", NodeConfig())
    return NodePrincipals(parse_node_principals(""), image, files), image


def test_an_id_is_bound_by_its_registration_until_it_is_unregistered() -> None:
    principals, image = opened(MemoryFiles())
    assert principals.may_be(2, THIEF)

    image.apply(registered(str(NODE)))
    principals.metadata_changed(is_caught_up=True)
    assert (principals.may_be(2, NODE), principals.may_be(2, THIEF)) == (True, False)

    image.apply(UnregisterBrokerRecord(2, 1))
    principals.metadata_changed(is_caught_up=True)
    assert principals.may_be(2, THIEF)


def test_after_a_restart_it_is_bound_before_the_metadata_is_there() -> None:
    """F64: a vote in another's name would count by then."""
    files = MemoryFiles()
    principals, image = opened(files)
    image.apply(registered(str(NODE)))
    principals.metadata_changed(is_caught_up=True)

    later, image = opened(files)
    later.metadata_changed(is_caught_up=False)
    assert (later.may_be(2, NODE), later.may_be(2, THIEF)) == (True, False)
    later.metadata_changed(is_caught_up=True)
    assert later.may_be(2, THIEF), "it was unregistered meanwhile"


def test_a_damaged_file_is_no_reason_not_to_start() -> None:
    for damaged in (b"{", b"[]", b'{"x": "y"}'):
        files = MemoryFiles()
        files.replace(FILE, damaged)
        assert opened(files)[0].bound(2) == ""
