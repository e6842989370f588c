"""What every client library must see, written once: a test module inherits it and gives the `client` fixture."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest

from tests.clients.support import (
    CODECS,
    Client,
    Member,
    MessageTooLarge,
    Record,
    Settings,
    content,
    read,
    wait_until,
    wait_until_owned,
)

MakeTopic = Callable[..., str]

EARLIEST: Settings = {"auto.offset.reset": "earliest"}
LARGE_MESSAGE_BYTES = 10 * 1024 * 1024
LARGE: Settings = {"max.request.size": 12 * 1024 * 1024, "max.partition.fetch.bytes": 12 * 1024 * 1024}


def member_of(group: str, **settings: str | int) -> Settings:
    """Settings of a group member that notices a rebalance soon.

    Its session outlasts any wait in these tests: what is seen to happen does not happen by expiry.
    """
    soon = {"heartbeat.interval.ms": 300, "session.timeout.ms": 45_000}
    return {**EARLIEST, **soon, "group.id": group, **{key.replace("_", "."): value for key, value in settings.items()}}


class ClientBehaviours:
    """Tests for any client library."""

    def test_what_default_settings_produce_default_settings_consume(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic(partitions=3)
        sent = [Record(b"value %d" % number, b"key %d" % number) for number in range(50)]
        client.produce(topic, sent)
        received = read(client.consumer(topic, EARLIEST | {"group.id": topic}), 50)
        assert sorted(content(received)) == sorted(content(sent))

    def test_a_consumer_without_a_group_reads_the_partitions_it_chose(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic(partitions=3)
        sent = [Record(b"%d" % number, partition=number % 3) for number in range(30)]
        client.produce(topic, sent)
        consumer = client.consumer(topic, EARLIEST, partitions=[0, 2])
        received = read(consumer, 20)
        for partition in (0, 2):
            kept = [record for record in received if record.partition == partition]
            assert [record.value for record in kept] == [b"%d" % number for number in range(partition, 30, 3)]
            assert [record.offset for record in kept] == list(range(10))

    def test_five_thousand_messages_all_arrive_in_order_per_partition(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic(partitions=3)
        sent = [Record(b"%05d" % number, b"%d" % (number % 7)) for number in range(5000)]
        placed = client.produce(topic, sent, {"acks": "1"})
        received = read(client.consumer(topic, EARLIEST | {"group.id": topic}), 5000)
        assert {(r.partition, r.offset, r.value) for r in received} == {
            (r.partition, r.offset, r.value) for r in placed
        }
        for partition in range(3):
            values = [record.value or b"" for record in received if record.partition == partition]
            assert values == sorted(values)

    @pytest.mark.parametrize("acks", ["0", "1", "all"])
    def test_every_kind_of_acknowledgement_makes_the_record_visible(
        self, client: Client, make_topic: MakeTopic, acks: str
    ) -> None:
        topic = make_topic()
        client.produce(topic, [Record(b"seen")], {"acks": acks, "enable.idempotence": False})
        assert content(read(client.consumer(topic, EARLIEST, partitions=[0]), 1)) == [(None, b"seen")]

    def test_headers_come_back_in_order_with_doubles_and_empty_ones(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic()
        headers = (("trace", b"1"), ("trace", b"2"), ("empty", b""), ("binary", bytes(range(256))))
        client.produce(topic, [Record(b"with", headers=headers), Record(b"without")])
        received = read(client.consumer(topic, EARLIEST, partitions=[0]), 2)
        assert [tuple(record.headers) for record in received] == [headers, ()]

    def test_tombstones_null_keys_and_empty_bytes_stay_what_they_are(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic()
        sent = [Record(None, b"deleted"), Record(b"no key", None), Record(b"", b""), Record(b"\x00\xff", b"\x00")]
        client.produce(topic, sent)
        assert content(read(client.consumer(topic, EARLIEST, partitions=[0]), 4)) == content(sent)

    @pytest.mark.parametrize("codec", CODECS)
    def test_every_codec_round_trips(self, client: Client, make_topic: MakeTopic, codec: str) -> None:
        topic = make_topic()
        sent = [Record(b"compress me, please " * 50 + b"%d" % number, b"%d" % number) for number in range(100)]
        client.produce(topic, sent, {"compression.type": codec, "linger.ms": 20})
        assert content(read(client.consumer(topic, EARLIEST, partitions=[0]), 100)) == content(sent)

    @pytest.mark.parametrize("size_bytes", [1, 1000, 1024 * 1024, LARGE_MESSAGE_BYTES])
    def test_messages_from_one_byte_to_ten_megabytes_round_trip(
        self, client: Client, make_topic: MakeTopic, size_bytes: int
    ) -> None:
        topic = make_topic(**{"max.message.bytes": str(LARGE_MESSAGE_BYTES + 1024)})
        value = bytes(range(256)) * (size_bytes // 256) + bytes(size_bytes % 256)
        client.produce(topic, [Record(value), Record(b"after it")], LARGE)
        assert content(read(client.consumer(topic, EARLIEST | LARGE, partitions=[0]), 2)) == [
            (None, value),
            (None, b"after it"),
        ]

    def test_a_message_larger_than_a_fetch_still_arrives(self, client: Client, make_topic: MakeTopic) -> None:
        topic = make_topic()
        value = bytes(200_000)
        client.produce(topic, [Record(value), Record(b"next")])
        small = EARLIEST | {"max.partition.fetch.bytes": 10_000}
        assert content(read(client.consumer(topic, small, partitions=[0]), 2)) == [(None, value), (None, b"next")]

    def test_a_message_over_the_topic_limit_is_refused_and_not_written(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic(**{"max.message.bytes": "10000"})
        with pytest.raises(MessageTooLarge):
            client.produce(topic, [Record(bytes(20_000))])
        placed = client.produce(topic, [Record(bytes(5_000))])
        assert [record.offset for record in placed] == [0]

    def test_an_idempotent_producer_gets_each_offset_once(self, client: Client, make_topic: MakeTopic) -> None:
        topic = make_topic(partitions=2)
        sent = [Record(b"%d" % number, partition=number % 2) for number in range(400)]
        placed = client.produce(topic, sent, {"enable.idempotence": True, "acks": "all"})
        for partition in range(2):
            assert [r.offset for r in placed if r.partition == partition] == list(range(200))
        received = read(client.consumer(topic, EARLIEST, partitions=[0, 1]), 400)
        assert sorted(content(received), key=str) == sorted(content(sent), key=str)

    def test_a_topic_that_is_not_there_is_created_by_the_first_message(self, client: Client, name: str) -> None:
        client.produce(name, [Record(b"first")])
        assert content(read(client.consumer(name, EARLIEST, partitions=[0]), 1)) == [(None, b"first")]

    def test_a_group_goes_on_where_it_committed(self, client: Client, make_topic: MakeTopic) -> None:
        topic = make_topic()
        settings = member_of(topic) | {"enable.auto.commit": False}
        client.produce(topic, [Record(b"%d" % number) for number in range(10)])
        first = client.consumer(topic, settings)
        read(first, 10)
        first.seek(0, 4)
        read(first, 6)
        first.commit()
        first.close()
        client.produce(topic, [Record(b"later")])
        second = client.consumer(topic, settings)
        assert content(read(second, 1)) == [(None, b"later")]
        second.close()

    def test_what_was_not_committed_is_delivered_again(self, client: Client, make_topic: MakeTopic) -> None:
        topic = make_topic()
        settings = member_of(topic) | {"enable.auto.commit": False}
        client.produce(topic, [Record(b"%d" % number) for number in range(5)])
        for _ in range(2):
            consumer = client.consumer(topic, settings)
            assert [record.value for record in read(consumer, 5)] == [b"0", b"1", b"2", b"3", b"4"]
            consumer.close()

    def test_seeking_by_time_starts_at_the_first_record_not_older(self, client: Client, make_topic: MakeTopic) -> None:
        topic = make_topic()
        start_ms = int(time.time() * 1000) - 100_000
        sent = [Record(b"%d" % number, timestamp_ms=start_ms + 1000 * number) for number in range(20)]
        client.produce(topic, sent)
        consumer = client.consumer(topic, EARLIEST, partitions=[0])
        read(consumer, 20)
        assert consumer.offset_at(0, start_ms - 1) == 0
        assert consumer.offset_at(0, start_ms + 7_500) == 8
        assert consumer.offset_at(0, start_ms + 8_000) == 8
        assert consumer.offset_at(0, start_ms + 60_000) is None
        consumer.seek(0, 8)
        received = read(consumer, 12)
        assert received[0].timestamp_ms == start_ms + 8_000
        assert [record.value for record in received] == [b"%d" % number for number in range(8, 20)]

    def test_two_members_share_the_partitions_and_the_last_one_gets_all(
        self, client: Client, make_topic: MakeTopic
    ) -> None:
        topic = make_topic(partitions=4)
        self._check_rebalancing(client, topic, member_of(topic))

    def test_a_static_member_comes_back_to_its_partitions(self, client: Client, make_topic: MakeTopic) -> None:
        topic = make_topic(partitions=4)
        self._check_static_membership(client, topic, member_of(topic))

    def _check_rebalancing(self, client: Client, topic: str, settings: Settings) -> None:
        """On a topic of 4 partitions: one member, two, one again; every message reaches one of them."""
        with Member(lambda: client.consumer(topic, settings)) as first:
            wait_until_owned(4, first)
            client.produce(topic, [Record(b"one %d" % number, partition=number % 4) for number in range(8)])
            wait_until(lambda: len(first.values) >= 8, "the only member reads all partitions")
            with Member(lambda: client.consumer(topic, settings)) as second:
                wait_until_owned(4, first, second)
                client.produce(topic, [Record(b"two %d" % number, partition=number % 4) for number in range(8)])
                sent = {b"two %d" % number for number in range(8)}
                wait_until(lambda: sent <= {*first.values, *second.values}, "two members read all partitions")
                wait_until(lambda: bool(sent & set(second.values)), "the second member reads some")
            wait_until_owned(4, first)
            client.produce(topic, [Record(b"last %d" % number, partition=number % 4) for number in range(8)])
            sent = {b"last %d" % number for number in range(8)}
            wait_until(lambda: sent <= set(first.values), "the last member reads all partitions")

    def _check_static_membership(self, client: Client, topic: str, settings: Settings) -> None:
        """On a topic of 4 partitions: who comes back under its own name finds its partitions as it left them."""
        with Member(lambda: client.consumer(topic, {**settings, "group.instance.id": "stays"})) as stays:
            wait_until_owned(4, stays)
            with Member(lambda: client.consumer(topic, {**settings, "group.instance.id": "returns"})) as returns:
                wait_until_owned(4, stays, returns)
                before = stays.partitions, returns.partitions
            time.sleep(1.0)  # Several heartbeats: a member that had left would be replaced by now.
            assert stays.partitions == before[0]
            with Member(lambda: client.consumer(topic, {**settings, "group.instance.id": "returns"})) as again:
                wait_until(lambda: again.partitions == before[1], "the same partitions again")
                assert stays.partitions == before[0]
