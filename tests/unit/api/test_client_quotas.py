"""DescribeClientQuotas and AlterClientQuotas."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kio.schema.alter_client_quotas.v1.request import AlterClientQuotasRequest, EntityData, EntryData, OpData
from kio.schema.describe_client_quotas.v1.request import ComponentData, DescribeClientQuotasRequest
from kio.static.primitive import f64, i8

from chronik.api import alter_client_quotas, describe_client_quotas
from chronik.api.context import RequestContext
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import decode, encode
from chronik.core.machines.metadata.snapshots import gone_since, records_of
from tests.unit.api.fake_context import CLUSTER_ID, ask, fake_context, metadata_of

Entity = Mapping[str, str | None]


def entry(entity: Entity, *operations: tuple[str, float | None]) -> EntryData:
    return EntryData(
        entity=tuple(EntityData(entity_type=kind, entity_name=name) for kind, name in entity.items()),
        ops=tuple(OpData(key=key, value=f64(value or 0.0), remove=value is None) for key, value in operations),
    )


def alter(context: RequestContext, *entries: EntryData, validate_only: bool = False) -> list[int]:
    request = AlterClientQuotasRequest(entries=entries, validate_only=validate_only)
    response = ask(alter_client_quotas, request, context, version=1)
    named = [[(one.entity_type, one.entity_name) for one in each.entity] for each in response.entries]
    assert named == [[(one.entity_type, one.entity_name) for one in each.entity] for each in entries]
    return [each.error_code for each in response.entries]


def described(context: RequestContext, *parts: tuple[str, int, str | None], strict: bool = False) -> Any:
    components = tuple(ComponentData(entity_type=kind, match_type=i8(how), match=match) for kind, how, match in parts)
    request = DescribeClientQuotasRequest(components=components, strict=strict)
    response = ask(describe_client_quotas, request, context, version=1)
    if response.error_code:
        assert response.entries is None
        return response.error_code
    return {
        tuple((one.entity_type, one.entity_name) for one in each.entity): {v.key: v.value for v in each.values}
        for each in response.entries
    }


def test_what_is_set_is_described_and_goes_again() -> None:
    context = fake_context()
    assert alter(
        context,
        entry({"user": "alice", "client-id": None}, ("producer_byte_rate", 1000.0), ("request_percentage", 12.5)),
        entry({"ip": "10.0.0.1"}, ("connection_creation_rate", 5.0)),
    ) == [0, 0]
    both = (("client-id", None), ("user", "alice"))
    assert described(context) == {
        both: {"producer_byte_rate": 1000.0, "request_percentage": 12.5},
        (("ip", "10.0.0.1"),): {"connection_creation_rate": 5.0},
    }
    assert list(described(context, ("user", 0, "alice"))) == [both]
    assert described(context, ("user", 0, "alice"), strict=True) == {}

    gone = entry({"user": "alice", "client-id": None}, ("producer_byte_rate", None), ("request_percentage", None))
    assert alter(context, gone) == [0]
    assert alter(context, gone) == [0]  # what is not there is no error
    assert list(described(context)) == [(("ip", "10.0.0.1"),)]


def test_validate_only_changes_nothing_and_says_the_same() -> None:
    context = fake_context()
    entries = entry({"user": "alice"}, ("producer_byte_rate", 1.0)), entry({"user": "bob"}, ("foo", 1.0))
    assert alter(context, *entries, validate_only=True) == [0, Code.INVALID_REQUEST]
    assert described(context) == {}


def test_one_bad_entity_does_not_hold_back_the_others_and_is_not_half_done() -> None:
    context = fake_context()
    assert alter(
        context,
        entry({"user": "alice"}, ("producer_byte_rate", 1.0), ("consumer_byte_rate", -1.0)),
        entry({"user": "bob"}, ("producer_byte_rate", 1.0)),
        entry({"user": "bob"}, ("producer_byte_rate", 2.0)),
        entry({"user": "carol"}, ("producer_byte_rate", 1.0), ("producer_byte_rate", 2.0)),
    ) == [Code.INVALID_REQUEST, 0, Code.INVALID_REQUEST, Code.INVALID_REQUEST]
    assert described(context) == {(("user", "bob"),): {"producer_byte_rate": 1.0}}


def test_a_filter_that_is_refused_gets_no_entries() -> None:
    assert described(fake_context(), ("group", 0, "g")) == Code.UNSUPPORTED_VERSION
    assert described(fake_context(), ("user", 0, None)) == Code.INVALID_REQUEST


def test_only_the_controller_decides_and_every_entity_is_answered() -> None:
    context = fake_context(brokers=(1, 2))
    metadata_of(context).controller_id = 2
    entries = [entry({"user": name}, ("producer_byte_rate", 1.0)) for name in ("alice", "bob")]
    assert alter(context, *entries) == [Code.NOT_CONTROLLER] * 2


def test_quotas_are_in_snapshots_and_a_record_is_kafkas() -> None:
    context = fake_context()
    alter(context, entry({"user": "alice"}, ("producer_byte_rate", 1000.0)))
    image = metadata_of(context).image
    other = MetadataImage(CLUSTER_ID, NodeConfig())
    for record in records_of(image):
        again = decode(encode(record))
        assert again is not None
        other.apply(again)
    assert other.quotas == image.quotas
    assert other.quotas.is_in_use

    # ClientQuotaRecord, 14: frame version, key, version, [("user", "alice")], the key, a float64, remove, no tags.
    expected = b"\x01\x0e\x00\x02\x05user\x06alice\x00\x13producer_byte_rate\x40\x8f\x40\x00\x00\x00\x00\x00\x00\x00"
    assert expected in [encode(record) for record in records_of(image)]

    empty = MetadataImage(CLUSTER_ID, NodeConfig())
    for gone in gone_since(image, empty):
        if type(gone).__name__ == "ClientQuotaRecord":
            other.apply(gone)
    assert not other.quotas.is_in_use
