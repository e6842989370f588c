"""For which group a record was given to a client: inferred, and only where a member had the partition then."""

from __future__ import annotations

from confluent_kafka import Consumer, TopicPartition

from chronik.testing import RunningCluster
from tests.cluster.support import create_topic, new_name, wait_until
from tests.cluster.test_where import ANSWER_S, produce, switch, where


def reader(bootstrap: str, group: str) -> Consumer:
    """With the client id that librdkafka gives to every client."""
    settings = {"bootstrap.servers": bootstrap, "group.id": group, "auto.offset.reset": "earliest", "log_level": 0}
    return Consumer({**settings, "enable.auto.commit": False})


def test_a_reader_without_a_group_is_not_the_groups_whose_last_member_has_left(cluster: RunningCluster) -> None:
    topic, group = create_topic(cluster.bootstrap, partitions=1), new_name("billing")
    switch(cluster, topic, "on")
    produce(cluster.bootstrap, topic, [b"a"])
    member = reader(cluster.bootstrap, group)
    member.subscribe([topic])
    assert len(member.consume(1, ANSWER_S)) == 1
    member.commit(asynchronous=False)
    # Its coordinator tells the trace once a second who has which partition.
    wait_until(lambda: where(cluster.bootstrap, topic, 0, 0)["delivered"][0]["group"] == group, "it is inferred")
    member.close()
    alone = reader(cluster.bootstrap, new_name("nobody"))
    alone.assign([TopicPartition(topic, 0, 0)])
    assert len(alone.consume(1, ANSWER_S)) == 1
    alone.close()

    story = where(cluster.bootstrap, topic, 0, 0)
    switch(cluster, topic, "off")

    by_librdkafka = [each for each in story["delivered"] if each["client_id"] == "rdkafka"]
    assert [(each["group"], each["is_group_inferred"]) for each in by_librdkafka] == [(group, True), (None, False)]
