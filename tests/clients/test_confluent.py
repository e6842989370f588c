"""confluent-kafka (librdkafka) against the node under test."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest
from confluent_kafka import (
    ConsumerGroupState,
    ConsumerGroupTopicPartitions,
    ConsumerGroupType,
    KafkaError,
    KafkaException,
    TopicCollection,
    TopicPartition,
)
from confluent_kafka.admin import (
    AdminClient,
    AlterConfigOpType,
    ConfigEntry,
    ConfigResource,
    ConfigSource,
    NewPartitions,
    NewTopic,
    OffsetSpec,
)

from tests.clients.behaviours import EARLIEST, ClientBehaviours, member_of
from tests.clients.librdkafka import Librdkafka, codes_of_one_batch
from tests.clients.support import (
    WAIT_SECONDS,
    Client,
    Member,
    Record,
    Settings,
    at_once,
    read,
    wait_until_owned,
)

MakeTopic = Callable[..., str]


@pytest.fixture
def client(bootstrap: str) -> Iterator[Client]:
    library = Librdkafka(bootstrap)
    yield library
    library.close()


@pytest.fixture
def admin(bootstrap: str) -> AdminClient:
    return AdminClient({"bootstrap.servers": bootstrap})


class TestConfluent(ClientBehaviours):
    """All that every client can do, and what librdkafka can do beyond it."""

    def test_cooperative_members_share_the_partitions(self, client: Client, make_topic: MakeTopic) -> None:
        topic = make_topic(partitions=4)
        cooperative = {"partition.assignment.strategy": "cooperative-sticky"}
        self._check_rebalancing(client, topic, member_of(topic) | cooperative)

    @pytest.mark.parametrize("assignor", ["range", "uniform"])
    def test_members_of_the_new_protocol_share_the_partitions(
        self, client: Client, make_topic: MakeTopic, assignor: str
    ) -> None:
        topic = make_topic(partitions=4)
        self._check_rebalancing(client, topic, _new_protocol(topic) | {"group.remote.assignor": assignor})

    def test_a_static_member_of_the_new_protocol_comes_back_to_its_partitions(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic(partitions=4)
        self._check_static_membership(client, topic, _new_protocol(topic))


def _new_protocol(group: str) -> Settings:
    return EARLIEST | {"group.id": group, "group.protocol": "consumer"}


def _outcome(futures: dict[Any, Any]) -> Any:
    """The one answer of an admin request about one thing."""
    [future] = futures.values()
    return future.result(WAIT_SECONDS)


def _refusal(futures: dict[Any, Any]) -> int:
    with pytest.raises(KafkaException) as refused:
        _outcome(futures)
    code: int = refused.value.args[0].code()
    return code


def test_the_new_protocol_gives_partitions_to_members_and_goes_on_where_it_committed(
    client: Client, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    client.produce(topic, [Record(b"x", partition=number % 2) for number in range(10)])
    consumer = client.consumer(topic, _new_protocol(topic))
    read(consumer, 10)
    consumer.commit()
    group = _outcome(admin.describe_consumer_groups([topic]))
    assert (group.state, group.type) == (ConsumerGroupState.STABLE, ConsumerGroupType.CONSUMER)
    [member] = group.members
    assert {at.partition for at in member.assignment.topic_partitions} == {0, 1}
    consumer.close()
    client.produce(topic, [Record(b"later", partition=1)])
    assert [record.value for record in read(client.consumer(topic, _new_protocol(topic)), 1)] == [b"later"]


def test_a_new_protocol_member_sees_partitions_that_are_added(
    client: Client, admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=1)
    with Member(
        lambda: client.consumer(topic, _new_protocol(topic) | {"topic.metadata.refresh.interval.ms": 500})
    ) as only:
        wait_until_owned(1, only)
        _outcome(admin.create_partitions([NewPartitions(topic, 3)]))
        wait_until_owned(3, only)


def test_a_topic_is_created_listed_described_and_deleted(admin: AdminClient, name: str) -> None:
    _outcome(admin.create_topics([NewTopic(name, 3, 1)]))
    at_once(lambda: name in admin.list_topics(timeout=10).topics, "the topic is listed")
    described = _outcome(admin.describe_topics(TopicCollection([name])))
    assert [partition.id for partition in described.partitions] == [0, 1, 2]
    [leader] = {partition.leader.id for partition in described.partitions}
    assert [node.id for node in admin.describe_cluster().result(WAIT_SECONDS).nodes] == [leader]
    assert _refusal(admin.create_topics([NewTopic(name, 3, 1)])) == KafkaError.TOPIC_ALREADY_EXISTS
    _outcome(admin.delete_topics([name]))
    at_once(lambda: name not in admin.list_topics(timeout=10).topics, "the topic is gone")
    assert _refusal(admin.delete_topics([name])) == KafkaError.UNKNOWN_TOPIC_OR_PART


@pytest.mark.parametrize(
    ("topic", "code"),
    [
        (NewTopic("bad name!", 1, 1), KafkaError.TOPIC_EXCEPTION),
        (NewTopic("no-partitions", 0, 1), KafkaError.INVALID_PARTITIONS),
        (NewTopic("many-replicas", 1, 3), KafkaError.INVALID_REPLICATION_FACTOR),
        (NewTopic("bad-config", 1, 1, config={"no.such.key": "1"}), KafkaError.INVALID_CONFIG),
        (NewTopic("bad-value", 1, 1, config={"retention.ms": "soon"}), KafkaError.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused_with_the_reason(admin: AdminClient, topic: NewTopic, code: int) -> None:
    assert _refusal(admin.create_topics([topic])) == code


def test_configs_are_described_with_their_source_and_altered_one_by_one(
    admin: AdminClient, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"max.message.bytes": "5000"})

    def configs() -> dict[str, tuple[str, ConfigSource]]:
        found = _outcome(admin.describe_configs([ConfigResource(ConfigResource.Type.TOPIC, topic)]))
        return {key: (entry.value, ConfigSource(entry.source)) for key, entry in found.items()}

    def alter(*entries: ConfigEntry) -> dict[Any, Any]:
        resource = ConfigResource(ConfigResource.Type.TOPIC, topic, incremental_configs=list(entries))
        return admin.incremental_alter_configs([resource])

    assert configs()["max.message.bytes"] == ("5000", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert configs()["cleanup.policy"] == ("delete", ConfigSource.DEFAULT_CONFIG)
    _outcome(
        alter(
            ConfigEntry("cleanup.policy", "compact", incremental_operation=AlterConfigOpType.APPEND),
            ConfigEntry("max.message.bytes", None, incremental_operation=AlterConfigOpType.DELETE),
        )
    )
    assert configs()["cleanup.policy"] == ("delete,compact", ConfigSource.DYNAMIC_TOPIC_CONFIG)
    assert configs()["max.message.bytes"] == ("1048588", ConfigSource.DEFAULT_CONFIG)
    bad = ConfigEntry("retention.ms", "soon", incremental_operation=AlterConfigOpType.SET)
    assert _refusal(alter(bad)) == KafkaError.INVALID_CONFIG


def test_broker_configs_are_described(admin: AdminClient) -> None:
    [node] = admin.describe_cluster().result(WAIT_SECONDS).nodes
    configs = _outcome(admin.describe_configs([ConfigResource(ConfigResource.Type.BROKER, str(node.id))]))
    assert configs["auto.create.topics.enable"].value == "true"
    assert configs["num.partitions"].value == "1"


def test_partitions_are_added_and_never_taken_away(admin: AdminClient, make_topic: MakeTopic) -> None:
    topic = make_topic(partitions=2)
    _outcome(admin.create_partitions([NewPartitions(topic, 4)]))
    at_once(lambda: len(admin.list_topics(timeout=10).topics[topic].partitions) == 4, "four partitions")
    assert _refusal(admin.create_partitions([NewPartitions(topic, 1)])) == KafkaError.INVALID_PARTITIONS


def test_offsets_are_listed_by_kind_and_records_deleted(
    admin: AdminClient, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    newest_ms = int(time.time() * 1000)
    for age_ms in (3000, 0, 2000):
        client.produce(topic, [Record(b"x", timestamp_ms=newest_ms - age_ms)])

    def offset(kind: OffsetSpec) -> int:
        found: int = _outcome(admin.list_offsets({TopicPartition(topic, 0): kind})).offset
        return found

    assert offset(OffsetSpec.earliest()) == 0
    assert offset(OffsetSpec.latest()) == 3
    assert offset(OffsetSpec.max_timestamp()) == 1
    assert offset(OffsetSpec.for_timestamp(newest_ms - 2500)) == 1
    assert _outcome(admin.delete_records([TopicPartition(topic, 0, 2)])).low_watermark == 2
    assert offset(OffsetSpec.earliest()) == 2
    beyond = admin.delete_records([TopicPartition(topic, 0, 99)])
    assert _refusal(beyond) == KafkaError.OFFSET_OUT_OF_RANGE


def test_a_consumer_below_the_log_start_is_reset_to_it(
    admin: AdminClient, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic()
    client.produce(topic, [Record(b"%d" % number) for number in range(10)])
    consumer = client.consumer(topic, EARLIEST, partitions=[0])
    read(consumer, 10)
    _outcome(admin.delete_records([TopicPartition(topic, 0, 6)]))
    consumer.seek(0, 2)
    assert [record.offset for record in read(consumer, 4)] == [6, 7, 8, 9]


def test_a_group_is_listed_described_moved_and_deleted(
    admin: AdminClient, client: Client, make_topic: MakeTopic
) -> None:
    topic = make_topic(partitions=2)
    client.produce(topic, [Record(b"x", partition=number % 2) for number in range(6)])
    consumer = client.consumer(topic, member_of(topic))
    read(consumer, 6)
    consumer.commit()
    listed = admin.list_consumer_groups(states={ConsumerGroupState.STABLE}).result(WAIT_SECONDS)
    assert topic in {group.group_id for group in listed.valid}
    group = _outcome(admin.describe_consumer_groups([topic]))
    assert (group.state, len(group.members)) == (ConsumerGroupState.STABLE, 1)
    assert _refusal(admin.delete_consumer_groups([topic])) == KafkaError.NON_EMPTY_GROUP
    consumer.close()

    move = ConsumerGroupTopicPartitions(topic, [TopicPartition(topic, 0, 1)])
    _outcome(admin.alter_consumer_group_offsets([move]))
    offsets = _outcome(admin.list_consumer_group_offsets([ConsumerGroupTopicPartitions(topic)]))
    assert {at.partition: at.offset for at in offsets.topic_partitions} == {0: 1, 1: 3}
    assert len(read(client.consumer(topic, member_of(topic)), 2)) == 2
    client.close()
    _outcome(admin.delete_consumer_groups([topic]))
    assert _refusal(admin.delete_consumer_groups([topic])) == KafkaError.GROUP_ID_NOT_FOUND


def test_what_may_be_done_to_a_group_that_does_not_exist_is_told(bootstrap: str, name: str) -> None:
    admin = AdminClient({"bootstrap.servers": bootstrap})

    described = admin.describe_consumer_groups([name], include_authorized_operations=True)[name].result(20)

    assert described.state is ConsumerGroupState.DEAD
    assert {operation.name for operation in described.authorized_operations} == {
        "READ",
        "DELETE",
        "DESCRIBE",
        "DESCRIBE_CONFIGS",
        "ALTER_CONFIGS",
    }


# What librdkafka says of a record that is good, in a batch that is refused for others (KIP-467).
BAD_ONES_BESIDE_IT = KafkaError._INVALID_DIFFERENT_RECORD  # its public name


def test_the_records_without_a_key_are_told_from_the_good_ones_of_their_batch(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    topic = make_topic(**{"cleanup.policy": "compact"})
    records = [Record(b"x", key=None if number % 10 == 0 else b"k") for number in range(100)]
    codes = codes_of_one_batch(bootstrap, topic, records)
    assert codes == [KafkaError.INVALID_RECORD if number % 10 == 0 else BAD_ONES_BESIDE_IT for number in range(100)]


def test_the_records_with_a_time_that_is_not_allowed_are_told_from_the_good_ones(
    bootstrap: str, make_topic: MakeTopic
) -> None:
    """The records with a time that is not allowed are told from the good ones of their batch. Of one alone librdkafka
    makes a refusal of the whole batch. Of several each is INVALID_RECORD, since the one code of the batch may not be
    theirs."""
    topic = make_topic(**{"message.timestamp.before.max.ms": "3600000"})
    now_ms = int(time.time() * 1000)
    late_ms = now_ms - 2 * 3600 * 1000
    records = [Record(b"x", timestamp_ms=late_ms if number in (3, 7) else now_ms) for number in range(10)]
    codes = codes_of_one_batch(bootstrap, topic, records)
    assert codes == [KafkaError.INVALID_RECORD if number in (3, 7) else BAD_ONES_BESIDE_IT for number in range(10)]
