"""Metadata: which topics, which node leads, and what is created on the way."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest

from chronik.api import metadata
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import CreateInternalTopic, CreateTopics, RegisterBroker
from chronik.core.machines.metadata.records import (
    NO_LEADER,
    BrokerEndpoint,
    PartitionChangeRecord,
    RegisterBrokerRecord,
)
from chronik.wire.unions.metadata import NOT_ASKED, AnyMetadataRequest, AnyMetadataTopic
from tests.unit.api.fake_context import CLUSTER_ID, ask, fake_context, metadata_of

NEWEST = 13


def by_name(*names: str, **flags: Any) -> AnyMetadataRequest:
    return AnyMetadataRequest(topics=tuple(AnyMetadataTopic(name=name) for name in names), **flags)


def fence(context: Any, broker_id: int) -> None:
    end_points = (BrokerEndpoint("PLAINTEXT", f"host-{broker_id}", 9092, 0),)
    context.metadata.image.apply(RegisterBrokerRecord(broker_id, bytes(16), 99, end_points, (), None, True, False))


def test_null_means_all_topics_and_an_empty_list_none() -> None:
    context = fake_context(topics={"b": 1, "a": 2})

    every = ask(metadata, AnyMetadataRequest(topics=None), context, NEWEST)
    none = ask(metadata, AnyMetadataRequest(topics=()), context, NEWEST)

    assert [(topic.name, len(topic.partitions)) for topic in every.topics] == [("a", 2), ("b", 1)]
    assert none.topics == ()
    assert [broker.node_id for broker in none.brokers] == [1]


def test_in_version_0_an_empty_list_means_all() -> None:
    context = fake_context(topics={"a": 1})

    assert [topic.name for topic in ask(metadata, AnyMetadataRequest(topics=()), context, 0).topics] == ["a"]
    assert ask(metadata, AnyMetadataRequest(topics=()), context, 1).topics == ()


def test_all_live_brokers_and_the_cluster_are_named() -> None:
    context = fake_context(brokers=(2, 1, 3))
    fence(context, 3)

    response = ask(metadata, AnyMetadataRequest(topics=()), context, NEWEST)

    assert [(broker.node_id, broker.host, broker.port) for broker in response.brokers] == [
        (1, "host-1", 9092),
        (2, "host-2", 9092),
    ]
    assert (response.cluster_id, response.controller_id) == (CLUSTER_ID, 1)


def test_each_node_is_named_with_the_address_it_registered() -> None:
    # F16: ports and node ids were hard-coded.
    context = fake_context(brokers=())
    for broker_id, host, port in ((7, "seven", 19_001), (8, "eight", 19_002)):
        metadata_of(context).tell(RegisterBroker(broker_id, bytes(16), host, port))

    response = ask(metadata, AnyMetadataRequest(topics=()), context, NEWEST)

    found = [(broker.node_id, broker.host, broker.port) for broker in response.brokers]
    assert found == [(7, "seven", 19_001), (8, "eight", 19_002)]


def test_a_node_that_knows_no_controller_names_itself_whatever_its_number() -> None:
    context = dataclasses.replace(fake_context(brokers=(1, 2)), node_id=2)
    metadata_of(context).controller_id = None

    assert ask(metadata, AnyMetadataRequest(topics=None), context, NEWEST).controller_id == 2


def test_the_leader_of_a_partition_is_not_the_controller() -> None:
    # F13: the leader of the quorum was taken for the leader of the partition.
    context = fake_context(topics={"a": 3}, brokers=(1, 2, 3))
    metadata_of(context).controller_id = 2

    [topic] = ask(metadata, by_name("a"), context, NEWEST).topics

    assert sorted(one.leader_id for one in topic.partitions) == [1, 2, 3]


@pytest.mark.parametrize(("controller_id", "shown"), [(1, 1), (2, 2), (3, 1), (9, 1), (None, 1)])
def test_the_true_controller_is_named_if_it_is_a_live_broker_and_else_this_node(
    controller_id: int | None, shown: int
) -> None:
    context = fake_context(brokers=(1, 2, 3))
    fence(context, 3)
    metadata_of(context).controller_id = controller_id

    assert ask(metadata, AnyMetadataRequest(topics=None), context, version=13).controller_id == shown


def test_a_topic_is_shown_with_its_id_and_the_true_leaders() -> None:
    context = fake_context(topics={"a": 2}, brokers=(1, 2))

    [topic] = ask(metadata, by_name("a"), context, NEWEST).topics

    assert topic.topic_id == uuid.UUID(bytes=context.metadata.image.topics["a"].id)
    assert [(one.partition_index, one.leader_id, one.leader_epoch, one.error_code) for one in topic.partitions] == [
        (0, 1, 0, Code.NONE),
        (1, 2, 0, Code.NONE),
    ]
    assert topic.topic_authorized_operations == NOT_ASKED


def test_a_partition_without_a_leader_says_so_and_names_nobody() -> None:
    # F14: an unknown leader was answered as 'me'.
    context = fake_context(topics={"a": 1, "b": 2}, brokers=(1, 2))
    image = context.metadata.image
    image.apply(PartitionChangeRecord(0, image.topics["a"].id, leader=NO_LEADER))
    fence(context, 2)

    a, b = ask(metadata, by_name("a", "b"), context, NEWEST).topics

    assert [(one.leader_id, one.error_code) for one in a.partitions] == [(-1, Code.LEADER_NOT_AVAILABLE)]
    assert {one.leader_id: one.error_code for one in b.partitions} == {1: Code.NONE, -1: Code.LEADER_NOT_AVAILABLE}
    gone = next(one for one in b.partitions if one.leader_id == -1)
    assert (gone.replica_nodes, gone.offline_replicas) == ((2,), (2,))


def test_only_version_0_calls_a_missing_replica_an_error() -> None:
    context = fake_context(
        config=NodeConfig.from_settings({"default.replication.factor": "2"}), topics={"a": 1}, brokers=(1, 2)
    )
    fence(context, 2)

    [in_0] = ask(metadata, by_name("a"), context, 0).topics[0].partitions
    [in_1] = ask(metadata, by_name("a"), context, 1).topics[0].partitions

    assert (in_0.error_code, in_1.error_code) == (Code.REPLICA_NOT_AVAILABLE, Code.NONE)
    assert in_1.leader_id == 1


def test_a_missing_topic_is_created_and_shown_at_once() -> None:
    context = fake_context(config=NodeConfig.from_settings({"num.partitions": "3"}))

    response = ask(metadata, by_name("x", "y", "x"), context, NEWEST)

    assert [(topic.name, topic.error_code, len(topic.partitions)) for topic in response.topics] == [
        ("x", Code.NONE, 3),
        ("y", Code.NONE, 3),
    ]
    [command] = metadata_of(context).asked
    assert isinstance(command, CreateTopics)


@pytest.mark.parametrize(
    ("enabled", "allowed"), [(False, True), (True, False), (False, False)], ids=["config", "request", "both"]
)
def test_a_missing_topic_is_not_created_unless_node_and_client_want_it(enabled: bool, allowed: bool) -> None:
    context = fake_context(config=NodeConfig.from_settings({"auto.create.topics.enable": str(enabled)}))

    [topic] = ask(metadata, by_name("x", allow_auto_topic_creation=allowed), context, NEWEST).topics

    assert (topic.name, topic.error_code, topic.topic_id) == ("x", Code.UNKNOWN_TOPIC_OR_PARTITION, None)
    assert not metadata_of(context).asked


@pytest.mark.parametrize("name", ["__consumer_offsets", "__transaction_state"])
def test_a_coordinators_topic_is_created_as_it_has_to_be(name: str) -> None:
    context = fake_context()

    [topic] = ask(metadata, by_name(name), context, NEWEST).topics

    assert (topic.is_internal, len(topic.partitions)) == (True, 50)
    assert isinstance(metadata_of(context).asked[0], CreateInternalTopic)
    assert context.metadata.image.topic_config(name).is_compacted


def test_an_internal_topic_that_no_client_needs_is_not_created_for_one() -> None:
    [topic] = ask(metadata, by_name("__chronik_trace"), fake_context(), NEWEST).topics

    assert topic.error_code is Code.UNKNOWN_TOPIC_OR_PARTITION


def test_a_bad_name_is_refused_alone() -> None:
    bad, good = ask(metadata, by_name("a b", "c"), fake_context(), NEWEST).topics

    assert (bad.name, bad.error_code) == ("a b", Code.INVALID_TOPIC_EXCEPTION)
    assert good.error_code is Code.NONE


def test_why_a_topic_could_not_be_created_is_told() -> None:
    context = fake_context(config=NodeConfig.from_settings({"default.replication.factor": "3"}), brokers=(1,))

    [topic] = ask(metadata, by_name("x"), context, NEWEST).topics

    assert topic.error_code is Code.INVALID_REPLICATION_FACTOR


def test_when_nothing_can_be_created_existing_topics_are_shown() -> None:
    """When nothing can be created the topics that are there are shown all the same."""
    context = fake_context(topics={"a": 1})
    metadata_of(context).refusing = Refused(Code.NOT_CONTROLLER)

    there, missing = ask(metadata, by_name("a", "x"), context, NEWEST).topics

    assert there.error_code is Code.NONE
    assert missing.error_code is Code.LEADER_NOT_AVAILABLE, "all clients ask again then"


def test_topics_are_found_by_id_from_version_12() -> None:
    context = fake_context(topics={"a": 1})
    known, unknown = uuid.UUID(bytes=context.metadata.image.topics["a"].id), uuid.UUID(int=99)

    response = ask(
        metadata,
        AnyMetadataRequest(topics=(AnyMetadataTopic(topic_id=known), AnyMetadataTopic(topic_id=unknown))),
        context,
        12,
    )

    assert [(topic.name, topic.topic_id, topic.error_code) for topic in response.topics] == [
        ("a", known, Code.NONE),
        (None, unknown, Code.UNKNOWN_TOPIC_ID),
    ]
    assert not metadata_of(context).asked


@pytest.mark.parametrize(
    ("topic", "version"),
    [(AnyMetadataTopic(topic_id=uuid.UUID(int=1)), 11), (AnyMetadataTopic(), 10), (AnyMetadataTopic(), 13)],
)
def test_a_topic_without_a_name_is_refused_where_ids_do_not_count(topic: AnyMetadataTopic, version: int) -> None:
    response = ask(metadata, AnyMetadataRequest(topics=(topic,)), fake_context(), version)

    assert response.error_code is Code.INVALID_REQUEST
    assert [one.error_code for one in response.topics] == [Code.INVALID_REQUEST]
    assert response.brokers == ()  # which is how clients of versions without that code see that it failed


def test_what_the_client_may_do_is_told_when_asked() -> None:
    context = fake_context(topics={"a": 1})
    request = by_name("a", include_topic_authorized_operations=True, include_cluster_authorized_operations=True)

    response = ask(metadata, request, context, 8)

    assert response.cluster_authorized_operations == 0b1_1111_1010_0000
    assert response.topics[0].topic_authorized_operations == 0b1101_1111_1000
    assert ask(metadata, by_name("a"), context, 8).cluster_authorized_operations == NOT_ASKED
