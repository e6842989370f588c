"""Topics and partitions: what is created, what is refused, and with which code."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import (
    CreateInternalTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    RegisterBroker,
    TopicToDelete,
)
from chronik.core.machines.metadata.names import TRACE_TOPIC
from chronik.core.machines.metadata.records import PartitionChangeRecord
from chronik.core.machines.metadata.topics import PARTITIONS_PER_COMMAND_MAX
from tests.unit.core.machines.metadata.cluster import Cluster, led
from tests.unit.core.machines.metadata.machine_asked import Asked, topic_id


def create(asked: Asked, *names: str, **traits: Any) -> list[Code]:
    wanted = tuple(NewTopic(name, topic_id(100 + number), **traits) for number, name in enumerate(names))
    return [created.outcome.code for created in asked.ask(CreateTopics(wanted))]


def test_every_topic_of_a_batch_is_created() -> None:
    # F26: only the first was.
    asked = Asked()
    wanted = tuple(NewTopic(f"t{number}", topic_id(number), 2) for number in range(1, 6))

    results = asked.ask(CreateTopics(wanted))

    assert [(one.name, one.outcome.code, one.partition_count) for one in results] == [
        (f"t{number}", Code.NONE, 2) for number in range(1, 6)
    ]
    for number in range(1, 6):
        topic = asked.image.topic(f"t{number}")
        assert topic is not None
        assert topic.id == topic_id(number)
        assert asked.image.topic_by_id(topic_id(number)) is topic
        assert [partition.leader for partition in topic.partitions] == [1, 1]


def test_a_bad_topic_does_not_hold_back_the_others() -> None:
    asked = Asked()
    create(asked, "there")

    assert create(asked, "a", "there", "b c", "d") == [
        Code.NONE,
        Code.TOPIC_ALREADY_EXISTS,
        Code.INVALID_TOPIC_EXCEPTION,
        Code.NONE,
    ]
    assert sorted(asked.image.topics) == ["a", "d", "there"]


def test_a_new_partition_is_led_by_its_first_replica_in_epoch_zero() -> None:
    asked = Asked(brokers=(1, 2, 3))

    create(asked, "t", partition_count=3, replication_factor=3)

    partitions = asked.image.topics["t"].partitions
    assert [partition.replicas for partition in partitions] == [(1, 2, 3), (2, 3, 1), (3, 1, 2)]
    for partition in partitions:
        assert partition.leader == partition.replicas[0]
        assert partition.in_sync == partition.replicas
        assert (partition.leader_epoch, partition.partition_epoch) == (0, 0)


def test_topics_of_one_partition_take_turns_with_the_brokers() -> None:
    asked = Asked(brokers=(1, 2, 3))

    create(asked, "a", "b", "c")
    create(asked, "d")

    assert [asked.image.topics[name].partitions[0].leader for name in "abcd"] == [1, 2, 3, 1]


def test_minus_one_means_the_nodes_defaults() -> None:
    asked = Asked({"num.partitions": "4", "default.replication.factor": "2"}, brokers=(1, 2))

    [created] = asked.ask(CreateTopics((NewTopic("t", topic_id(1)),)))

    assert (created.partition_count, created.replication_factor) == (4, 2)
    assert len(asked.image.topics["t"].partitions) == 4


@pytest.mark.parametrize(
    ("traits", "code"),
    [
        ({"partition_count": 0}, Code.INVALID_PARTITIONS),
        ({"partition_count": -2}, Code.INVALID_PARTITIONS),
        ({"replication_factor": 0}, Code.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": -2}, Code.INVALID_REPLICATION_FACTOR),
        ({"replication_factor": 3}, Code.INVALID_REPLICATION_FACTOR),
        ({"partition_count": PARTITIONS_PER_COMMAND_MAX + 1}, Code.POLICY_VIOLATION),
        ({"partition_count": 2**31 - 1}, Code.POLICY_VIOLATION),
        ({"configs": (("no.such", "1"),)}, Code.INVALID_CONFIG),
        ({"configs": (("retention.ms", "soon"),)}, Code.INVALID_CONFIG),
        ({"configs": (("retention.ms", None),)}, Code.INVALID_CONFIG),
        ({"configs": (("min.compaction.lag.ms", "2"), ("max.compaction.lag.ms", "1"))}, Code.INVALID_CONFIG),
    ],
)
def test_a_topic_that_cannot_be_is_refused(traits: dict[str, Any], code: Code) -> None:
    asked = Asked(brokers=(1, 2))

    assert create(asked, "t", **traits) == [code]
    assert not asked.image.topics


def test_a_name_given_twice_in_one_command_creates_nothing() -> None:
    asked = Asked()

    results = asked.ask(
        CreateTopics((NewTopic("t", topic_id(1)), NewTopic("u", topic_id(2)), NewTopic("t", topic_id(3))))
    )

    assert [(one.name, one.outcome.code) for one in results] == [("t", Code.INVALID_REQUEST), ("u", Code.NONE)]
    assert list(asked.image.topics) == ["u"]


def test_names_that_collide_in_dot_and_underscore_are_refused() -> None:
    asked = Asked()
    create(asked, "a.b")

    assert create(asked, "a_b", "c.d", "c_d", "a.b", "ab") == [
        Code.INVALID_TOPIC_EXCEPTION,
        Code.NONE,
        Code.INVALID_TOPIC_EXCEPTION,  # with its neighbour in the same command
        Code.TOPIC_ALREADY_EXISTS,
        Code.NONE,
    ]


def test_the_metadata_log_is_no_topic_to_create() -> None:
    assert create(Asked(), "__cluster_metadata") == [Code.INVALID_REQUEST]


def test_validate_only_answers_the_same_and_changes_nothing() -> None:
    asked = Asked()
    wanted = (NewTopic("t", topic_id(1), 3), NewTopic("u", topic_id(2), 0))
    before = len(asked.log)

    results = asked.ask(CreateTopics(wanted, validate_only=True))

    assert [(one.outcome.code, one.partition_count) for one in results] == [
        (Code.NONE, 3),
        (Code.INVALID_PARTITIONS, -1),
    ]
    assert len(asked.log) == before
    assert not asked.image.topics


def test_replicas_can_be_assigned_by_hand() -> None:
    asked = Asked(brokers=(1, 2, 3))

    assert create(asked, "t", assignments=((1, (3, 1)), (0, (2, 3)))) == [Code.NONE]

    assert [partition.replicas for partition in asked.image.topics["t"].partitions] == [(2, 3), (3, 1)]
    assert [partition.leader for partition in asked.image.topics["t"].partitions] == [2, 3]


@pytest.mark.parametrize(
    ("traits", "code"),
    [
        ({"assignments": ((0, (1,)),), "partition_count": 1}, Code.INVALID_REQUEST),
        ({"assignments": ((0, (1,)),), "replication_factor": 1}, Code.INVALID_REQUEST),
        ({"assignments": ((0, ()),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (9,)),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (1, 1)),)}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (1,)), (0, (2,)))}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (1,)), (2, (2,)))}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((0, (1,)), (1, (1, 2)))}, Code.INVALID_REPLICA_ASSIGNMENT),
        ({"assignments": ((-1, (1,)),)}, Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_an_assignment_that_cannot_be_is_refused(traits: dict[str, Any], code: Code) -> None:
    asked = Asked(brokers=(1, 2))

    assert create(asked, "t", **traits) == [code]


def test_without_any_broker_no_topic_can_be_placed() -> None:
    assert create(Asked(brokers=()), "t") == [Code.INVALID_REPLICATION_FACTOR]


def test_settings_given_at_creation_are_the_topics_own() -> None:
    asked = Asked()

    [created] = asked.ask(CreateTopics((NewTopic("t", topic_id(1), configs=(("retention.ms", "5"),)),)))

    assert created.overrides == (("retention.ms", "5"),)
    assert asked.image.topic_config("t").retention_ms == 5


def test_the_offsets_topic_is_made_when_first_needed_with_the_settings_it_needs() -> None:
    asked = Asked({"offsets.topic.segment.bytes": "12345"})

    created = asked.ask(CreateInternalTopic("__consumer_offsets", topic_id(1)))
    again = asked.ask(CreateInternalTopic("__consumer_offsets", topic_id(2)))

    assert (created.partition_count, created.replication_factor) == (50, 1)
    assert (again.topic_id, again.partition_count) == (topic_id(1), 50)
    config = asked.image.topic_config("__consumer_offsets")
    assert config.cleanup_policy == ("compact",)
    assert config.segment_bytes == 12345
    assert asked.image.topics["__consumer_offsets"].is_internal


def test_the_offsets_topic_has_as_many_replicas_as_there_are_nodes_up_to_its_setting() -> None:
    asked = Asked(brokers=(1, 2, 3, 4))

    assert asked.ask(CreateInternalTopic("__consumer_offsets", topic_id(1))).replication_factor == 3


def test_a_node_that_is_down_has_its_replica_of_the_offsets_topic_when_it_is_back() -> None:
    """Made with two replicas it would stay so, and one death more would stop its groups."""
    cluster = Cluster()
    cluster.fence(3)

    created = cluster.ask(CreateInternalTopic("__consumer_offsets", topic_id(1)))

    assert created.replication_factor == 3
    partitions = cluster.image.topics["__consumer_offsets"].partitions
    assert all(set(placed.in_sync) == {1, 2} and placed.leader != 3 for placed in partitions)


def test_a_node_that_shut_down_counts_as_one_that_is_down() -> None:
    """A node that shut down counts as one that is down and until then the offsets topic waits."""
    cluster = Cluster()
    cluster.topic((1, 2), name="led-by-1")
    cluster.beat(1, wants_shut_down=True)

    assert cluster.refusal(CreateInternalTopic("__consumer_offsets", topic_id(9))) == Code.INVALID_REPLICATION_FACTOR
    cluster.fence(1)
    assert cluster.ask(CreateInternalTopic("__consumer_offsets", topic_id(9))).replication_factor == 3


def test_the_offsets_topic_is_not_made_before_all_voters_have_registered() -> None:
    """In a cluster that starts, the first group would be kept on the first node alone, for good."""
    asked = Asked(brokers=(1, 2))

    with pytest.raises(Refused, match="only 2 broker"):
        asked.ask(CreateInternalTopic("__consumer_offsets", topic_id(1), voter_count=3))
    assert asked.ask(CreateInternalTopic("__consumer_offsets", topic_id(1), voter_count=2)).replication_factor == 2


def test_the_trace_topic_has_a_partition_for_each_node_and_forgets() -> None:
    asked = Asked({"chronik.trace.retention.ms": "600000"}, brokers=(1, 2, 3, 4))

    created = asked.ask(CreateInternalTopic(TRACE_TOPIC, topic_id(1)))

    assert (created.partition_count, created.replication_factor) == (4, 3)
    config = asked.image.topic_config(TRACE_TOPIC)
    assert (config.cleanup_policy, config.retention_ms, config.segment_ms) == (("delete",), 600_000, 60_000)
    leaders = [placed.leader for placed in asked.image.topics[TRACE_TOPIC].partitions]
    assert sorted(leaders) == [1, 2, 3, 4]


def test_the_trace_topic_of_a_node_alone_has_no_copies() -> None:
    created = Asked().ask(CreateInternalTopic(TRACE_TOPIC, topic_id(1)))

    assert (created.partition_count, created.replication_factor) == (3, 1)


def test_a_node_that_comes_after_the_trace_topic_gets_a_partition_of_its_own_once() -> None:
    asked = Asked(brokers=(1, 2))
    asked.ask(CreateInternalTopic(TRACE_TOPIC, topic_id(1)))
    asked.ask(RegisterBroker(3, bytes(16), "host-3", 9092))

    for _ in range(2):
        again = asked.ask(CreateInternalTopic(TRACE_TOPIC, topic_id(2)))

    assert (again.topic_id, again.partition_count) == (topic_id(1), 4)
    added = asked.image.topics[TRACE_TOPIC].partitions[3]
    assert (added.leader, added.replicas) == (3, (3, 1, 2))


def test_a_node_that_lost_its_partition_of_the_trace_topic_leads_it_again() -> None:
    """A node that lost its partition of the trace topic leads it again when it can."""
    asked = Asked(brokers=(1, 2, 3))
    asked.ask(CreateInternalTopic(TRACE_TOPIC, topic_id(1)))
    topic = asked.image.topics[TRACE_TOPIC]
    number = next(number for number, placed in enumerate(topic.partitions) if placed.replicas[0] == 2)
    asked.image.apply(PartitionChangeRecord(number, topic.id, isr=(3, 1), leader=3))

    asked.ask(CreateInternalTopic(TRACE_TOPIC, topic_id(2)))
    assert asked.image.topics[TRACE_TOPIC].partitions[number].leader == 3  # it has not caught up yet

    asked.image.apply(PartitionChangeRecord(number, topic.id, isr=(3, 1, 2)))
    asked.ask(CreateInternalTopic(TRACE_TOPIC, topic_id(2)))
    assert asked.image.topics[TRACE_TOPIC].partitions[number].leader == 2


def test_an_internal_topic_that_is_none_of_ours_is_refused() -> None:
    with pytest.raises(Refused) as caught:
        Asked().ask(CreateInternalTopic("orders", topic_id(1)))

    assert caught.value.code is Code.INVALID_TOPIC_EXCEPTION


def test_a_deleted_topics_settings_do_not_come_back_with_its_name() -> None:
    asked = Asked()
    create(asked, "t", configs=(("retention.ms", "5"),))
    asked.ask(DeleteTopics((TopicToDelete("t"),)))

    create(asked, "t")

    assert asked.image.topic_overrides("t") == {}
    assert asked.image.topic_config("t").retention_ms != 5


def test_partitions_are_added_behind_those_that_are_there() -> None:
    asked = Asked(brokers=(1, 2, 3))
    create(asked, "t", partition_count=2, replication_factor=2)
    before = list(asked.image.topics["t"].partitions)

    assert [one.code for one in asked.ask(CreatePartitions((MorePartitions("t", 5),)))] == [Code.NONE]

    partitions = asked.image.topics["t"].partitions
    assert partitions[:2] == before
    assert len(partitions) == 5
    assert all(len(partition.replicas) == 2 for partition in partitions)


def test_new_partitions_can_be_assigned_by_hand() -> None:
    asked = Asked(brokers=(1, 2))
    create(asked, "t")

    asked.ask(CreatePartitions((MorePartitions("t", 3, ((2,), (1,))),)))

    assert [partition.replicas for partition in asked.image.topics["t"].partitions] == [(1,), (2,), (1,)]


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (MorePartitions("nope", 3), Code.UNKNOWN_TOPIC_OR_PARTITION),
        (MorePartitions("t", 2), Code.INVALID_PARTITIONS),
        (MorePartitions("t", 1), Code.INVALID_PARTITIONS),
        (MorePartitions("t", -1), Code.INVALID_PARTITIONS),
        (MorePartitions("__consumer_offsets", 51), Code.INVALID_PARTITIONS),
        (MorePartitions("t", 2**31 - 1), Code.POLICY_VIOLATION),
        (MorePartitions("t", 4, ((1,),)), Code.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("t", 3, ((1, 2),)), Code.INVALID_REPLICA_ASSIGNMENT),
        (MorePartitions("t", 3, ((8,),)), Code.INVALID_REPLICA_ASSIGNMENT),
    ],
)
def test_partitions_that_cannot_be_added_are_refused(wanted: MorePartitions, code: Code) -> None:
    asked = Asked(brokers=(1, 2))
    create(asked, "t", partition_count=2)
    asked.ask(CreateInternalTopic("__consumer_offsets", topic_id(1)))

    [outcome] = asked.ask(CreatePartitions((wanted,)))

    assert outcome.code is code
    assert len(asked.image.topics["t"].partitions) == 2


def test_adding_partitions_can_be_tried_without_doing_it_and_not_twice_at_once() -> None:
    asked = Asked()
    create(asked, "t", "u")

    tried = asked.ask(CreatePartitions((MorePartitions("t", 3),), validate_only=True))
    twice = asked.ask(CreatePartitions((MorePartitions("t", 3), MorePartitions("u", 2), MorePartitions("t", 4))))

    assert [one.code for one in tried] == [Code.NONE]
    assert [one.code for one in twice] == [Code.INVALID_REQUEST, Code.NONE, Code.INVALID_REQUEST]
    assert len(asked.image.topics["t"].partitions) == 1
    assert len(asked.image.topics["u"].partitions) == 2


def test_replicas_go_to_fenced_brokers_when_there_are_too_few_others() -> None:
    """They are not in sync, and do not lead, until they are back."""
    cluster = Cluster()
    cluster.fence(2)

    [created] = cluster.ask(CreateTopics((NewTopic("t", topic_id(1), 2, 3),)))

    assert created.outcome.code == Code.NONE
    assert [(one.replicas, one.in_sync, one.leader) for one in cluster.image.topics["t"].partitions] == [
        ((1, 3, 2), (1, 3), 1),
        ((3, 1, 2), (3, 1), 3),
    ]


def test_a_broker_that_is_shutting_down_gets_no_new_partition() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), name="led-by-1")
    cluster.beat(1, wants_shut_down=True)

    [too_many] = cluster.ask(CreateTopics((NewTopic("t", topic_id(9), 3, 3),)))
    [fits] = cluster.ask(CreateTopics((NewTopic("t", topic_id(9), 3, 2),)))

    assert too_many.outcome.code == Code.INVALID_REPLICATION_FACTOR
    assert fits.outcome.code == Code.NONE
    assert all(1 not in partition.replicas for partition in cluster.image.topics["t"].partitions)


def test_a_partition_by_hand_begins_with_those_in_sync_that_are_alive() -> None:
    cluster = Cluster()
    cluster.topic((1, 2), name="led-by-1")
    cluster.fence(3)
    cluster.beat(1, wants_shut_down=True)

    cluster.topic((1, 3, 2))

    assert led(cluster.partition()) == (2, (2,), ())


def test_nothing_can_be_created_while_all_brokers_are_fenced() -> None:
    cluster = Cluster()
    cluster.fence(1, 2, 3)

    [created] = cluster.ask(CreateTopics((NewTopic("t", topic_id(1), 1, 1),)))

    assert created.outcome.code == Code.INVALID_REPLICATION_FACTOR
    assert "fenced" in (created.outcome.message or "")


def test_the_default_replication_factor_is_the_setting() -> None:
    cluster = Cluster(settings={"default.replication.factor": "3"})

    [created] = cluster.ask(CreateTopics((NewTopic("t", topic_id(1)),)))

    assert created.replication_factor == 3
    assert len(cluster.partition().replicas) == 3


def test_partitions_added_during_a_move_get_as_many_replicas_as_it_leads_to() -> None:
    cluster = Cluster((1, 2, 3, 4))
    cluster.topic((1, 2))
    cluster.move(3, 4)
    assert len(cluster.partition().replicas) == 4

    assert [one.code for one in cluster.ask(CreatePartitions((MorePartitions("t", 2),)))] == [Code.NONE]
    by_hand = CreatePartitions((MorePartitions("t", 3, ((1, 2),)),))
    assert [one.code for one in cluster.ask(by_hand)] == [Code.NONE]
    assert [len(cluster.partition(number).replicas) for number in (1, 2)] == [2, 2]

    cluster.move(1, 2, 3)  # to more
    cluster.ask(CreatePartitions((MorePartitions("t", 4),)))
    assert len(cluster.partition(3).replicas) == 3
