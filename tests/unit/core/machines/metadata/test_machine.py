"""The machine as a whole: brokers, producer ids, and that its log says everything."""

from __future__ import annotations

import copy
import itertools
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.core.errors import Code, Refused
from chronik.core.machines.machine import LogRecord
from chronik.core.machines.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    ConfigChange,
    CreateInternalTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    MorePartitions,
    NewTopic,
    ProducerIdBlock,
    RegisterBroker,
    TopicToDelete,
)
from chronik.core.machines.metadata.records import FeatureLevelRecord, RegisterBrokerRecord, encode
from tests.unit.core.machines.metadata.machine_asked import Asked, content, topic_id

NAMES = st.sampled_from(["a", "b.c", "b_c", "d", "__consumer_offsets", "bad name"])
CONFIGS = st.lists(
    st.tuples(
        st.sampled_from(["retention.ms", "cleanup.policy", "nonsense"]),
        st.sampled_from(["5", "compact", "delete", None]),
    ),
    max_size=2,
).map(tuple)
ID = st.just(topic_id(0))  # `told` gives each its own


def new_topics() -> st.SearchStrategy[Any]:
    topic = st.builds(
        NewTopic,
        name=NAMES,
        topic_id=ID,
        partition_count=st.integers(-2, 4),
        replication_factor=st.integers(-2, 4),
        configs=CONFIGS,
    )
    return st.builds(CreateTopics, st.lists(topic, max_size=4).map(tuple), st.booleans())


def changes() -> st.SearchStrategy[Any]:
    keys = st.sampled_from(["retention.ms", "cleanup.policy", "log.segment.bytes", "log.cleanup.policy", "nonsense"])
    operation = st.tuples(keys, st.integers(0, 4), st.sampled_from(["5", "compact", "1000", None]))
    resource = st.one_of(st.tuples(st.just(2), NAMES), st.tuples(st.just(4), st.sampled_from(["", "1", "2"])))
    change = st.builds(
        lambda named, operations: ConfigChange(named[0], named[1], tuple(operations)),
        resource,
        st.lists(operation, max_size=3),
    )
    return st.builds(AlterConfigs, st.lists(change, max_size=3).map(tuple), st.booleans(), st.booleans())


COMMANDS = st.one_of(
    new_topics(),
    changes(),
    st.builds(CreateInternalTopic, st.just("__consumer_offsets"), ID),
    st.builds(DeleteTopics, st.lists(st.builds(TopicToDelete, NAMES), max_size=3).map(tuple)),
    st.builds(CreatePartitions, st.lists(st.builds(MorePartitions, NAMES, st.integers(0, 6)), max_size=3).map(tuple)),
    st.builds(AllocateProducerIds, st.integers(1, 3)),
    st.builds(
        RegisterBroker, st.integers(1, 4), ID, st.just("host"), st.integers(1, 65_535), st.sampled_from([None, "r"])
    ),
)


def told(commands: list[Any]) -> Asked:
    """A machine that was asked all of these, each new topic with an id of its own, as chance would have it."""
    asked = Asked({"offsets.topic.num.partitions": "2"})
    number = itertools.count(1)
    for command in commands:
        if isinstance(command, CreateTopics):
            topics = tuple(replace(topic, topic_id=topic_id(next(number))) for topic in command.topics)
            asked.ask(replace(command, topics=topics))
        elif isinstance(command, CreateInternalTopic):
            asked.ask(replace(command, topic_id=topic_id(next(number))))
        else:
            asked.ask(command)
    return asked


@given(st.lists(COMMANDS, max_size=15))
def test_the_log_replayed_gives_the_same_image(commands: list[Any]) -> None:
    asked = told(commands)

    assert content(asked.replayed().image) == content(asked.image)


@given(st.lists(COMMANDS, max_size=6), COMMANDS)
def test_deciding_changes_nothing(commands: list[Any], last: Any) -> None:
    asked = told(commands)
    before = copy.deepcopy(content(asked.image))

    first = asked.machine.decide(1, last, now_ms=0)
    second = asked.machine.decide(1, last, now_ms=0)

    assert content(asked.image) == before
    assert first == second


def test_the_first_registration_says_the_version_of_the_log() -> None:
    asked = Asked(brokers=())

    decision = asked.machine.decide(1, RegisterBroker(1, topic_id(9), "node.example", 9092, "rack-a"), now_ms=0)

    assert decision.facts[0] == FeatureLevelRecord("metadata.version", 30)
    assert isinstance(decision.facts[4], RegisterBrokerRecord)
    for fact in decision.facts:
        asked.machine.apply(fact)
    broker = asked.image.brokers[1]
    assert (broker.host, broker.port, broker.rack, broker.is_fenced) == ("node.example", 9092, "rack-a", False)
    assert broker.incarnation_id == topic_id(9)


def test_a_broker_that_comes_back_has_a_new_address_and_a_larger_epoch() -> None:
    before = Asked(brokers=(1, 2))
    first = before.image.brokers[1]
    asked = Asked(brokers=())
    for record in before.log:
        asked.machine.replay(record)

    epoch = asked.ask(RegisterBroker(1, topic_id(2), "elsewhere", 7))

    assert epoch > first.epoch
    assert asked.image.brokers[1].epoch == epoch
    assert (asked.image.brokers[1].host, asked.image.brokers[1].port) == ("elsewhere", 7)
    assert [broker.id for broker in asked.image.live_brokers()] == [1, 2]


def test_no_producer_id_is_allocated_twice_not_even_after_a_restart() -> None:
    asked = Asked()

    first = asked.ask(AllocateProducerIds(1))
    second = asked.ask(AllocateProducerIds(2))
    [reply] = asked.replayed().decide(1, AllocateProducerIds(1), now_ms=0).replies

    assert first == ProducerIdBlock(0, 1000)
    assert second == ProducerIdBlock(1000, 2000)
    assert reply.answer == ProducerIdBlock(2000, 3000)


def test_a_broker_that_has_been_replaced_gets_no_producer_ids() -> None:
    asked = Asked()
    epoch = asked.image.brokers[1].epoch

    assert asked.ask(AllocateProducerIds(1, epoch)) == ProducerIdBlock(0, 1000)
    with pytest.raises(Refused) as refused:
        asked.ask(AllocateProducerIds(1, epoch + 1))

    assert refused.value.code == Code.STALE_BROKER_EPOCH


def test_records_we_do_not_know_are_passed_over_when_the_log_is_replayed() -> None:
    asked = Asked()
    before = content(asked.image)

    asked.machine.replay(LogRecord(None, None))
    asked.machine.replay(LogRecord(None, bytes([1, 0x19, 0, 0])))

    assert content(asked.image) == before


def test_a_fact_stands_in_the_log_without_a_key() -> None:
    record = Asked().machine.encode(FeatureLevelRecord("f", 1))

    assert record == LogRecord(None, encode(FeatureLevelRecord("f", 1)))


def test_time_alone_changes_nothing() -> None:
    machine = Asked().machine

    assert machine.next_deadline_ms() is None
    assert machine.expire(10**15).facts == []


def test_what_is_no_command_is_a_bug() -> None:
    with pytest.raises(AssertionError):
        Asked().ask("a string")
