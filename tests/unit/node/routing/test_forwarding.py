"""Batches for partitions that other nodes lead: split by leader, sent on in order, answers put together in order."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from chronik.api.call import Peer
from chronik.core.errors import Code
from chronik.node.net.connection import Slot
from chronik.node.net.peers import NotSent, Unreachable
from chronik.node.routing.leader_waits import LEADER_WAIT_MS
from chronik.node.routing.produce_forwarder import AGAIN_MS, SLACK_MS
from chronik.wire import produce as wire
from chronik.wire.leaders import CurrentLeader
from chronik.wire.produce import PartitionAnswer
from tests.unit.core.log.logs import batch_of
from tests.unit.node.sent_on import (
    PRODUCE,
    orders,
    outcomes,
    partitions_in,
    passed,
    request_in,
    send,
    take,
)
from tests.unit.node.town import CORRELATION_ID, SECOND, THIRD, Town, in_time, in_town, response_in

# --- split, sent on, put together


@pytest.mark.parametrize("version", range(3, 14))
def test_each_partition_goes_to_its_leader_and_the_answers_come_back_in_the_order(version: int) -> None:
    """Each partition goes to its leader and the answers come back in the order of the request."""

    @in_town()
    async def test(town: Town) -> None:
        topics = orders(3, 0, 1, 2)
        if version >= 13:
            topics = [(town.image.topics["orders"].id, topics[0][1])]
        slot = send(town, topics, version=version)

        assert [(sent.node_id, partitions_in(sent)) for sent in town.peers.sent] == [(THIRD, [3]), (SECOND, [1, 2])]
        take(town.peers.to(SECOND)[0])
        await town.settle()
        assert not slot.is_filled
        take(town.peers.to(THIRD)[0])
        await town.settle()

        assert outcomes(slot, version) == [(3, 0, 103), (0, 0, 0), (1, 0, 101), (2, 0, 102)]

    test()


@in_town()
async def test_what_is_led_here_is_not_sent_anywhere(town: Town) -> None:
    slot = send(town, orders(0))
    await town.settle()

    assert outcomes(slot) == [(0, 0, 0)]
    assert town.peers.links == []


@in_town()
async def test_batches_arrive_as_they_were_sent_with_all_that_stood_around_them(town: Town) -> None:
    """Producer id, epoch, sequence, acks, timeout, client id (F24)."""
    batch = bytes(batch_of(3, producer_id=77, producer_epoch=2, sequence=9))
    send(town, [("orders", [(1, batch)])], acks=1, timeout_ms=1234)

    (sent,) = town.peers.sent
    request = request_in(sent)
    assert (request.acks, request.timeout_ms, sent.header.client_id) == (1, 1234, "test")
    assert [bytes(records or b"") for _, records in request.topics[0][1]] == [batch]
    assert sent.timeout_ms == 1234 + SLACK_MS  # never sooner than the client gives it


@in_town()
async def test_requests_of_a_connection_stay_in_order_on_one_link(town: Town) -> None:
    """Requests of a connection stay in order on one link and others have their own."""
    mine, others = Peer(1, "a"), Peer(2, "b")
    for version in (3, 9, 12):
        send(town, orders(1), version=version, peer=mine)
        send(town, orders(2), version=version, peer=others)

    assert [(sent.header.version, partitions_in(sent)) for sent in town.peers.sent] == [
        (3, [1]),
        (3, [2]),
        (9, [1]),
        (9, [2]),
        (12, [1]),
        (12, [2]),
    ]
    assert len(town.peers.links) == 2


@in_town()
async def test_acks_0_is_sent_on_and_needs_no_answer(town: Town) -> None:
    slot = send(town, orders(0, 1), acks=0)
    (sent,) = town.peers.sent
    assert request_in(sent).acks == 1  # this node wants to know that it has arrived

    take(sent)
    await town.settle()

    assert slot.buffers == ()


@in_town()
async def test_acks_0_is_sent_again_to_a_leader_that_does_not_know_yet_that_it_leads(town: Town) -> None:
    slot = send(town, orders(1), acks=0)
    take(town.peers.sent[0], code=Code.NOT_LEADER_OR_FOLLOWER)
    await town.settle()
    town.house.loop.advance(AGAIN_MS)
    take(town.peers.sent[1])
    await town.settle()

    assert slot.buffers == ()


@in_time
async def test_acks_0_is_not_sent_again_for_ever(town: Town) -> None:
    slot = send(town, orders(1), acks=0)
    for _ in range(2 * LEADER_WAIT_MS // AGAIN_MS):
        town.house.loop.advance(AGAIN_MS)
        for sent in town.peers.sent:
            if not sent.answer.done():
                take(sent, code=Code.NOT_LEADER_OR_FOLLOWER)
        await passed(AGAIN_MS / 1000)

    assert (slot.is_filled, slot.buffers) == (True, None)
    assert len(town.peers.sent) > 10


@in_town()
async def test_acks_0_that_does_not_arrive_hangs_up(town: Town) -> None:
    slot = send(town, orders(1), acks=0)

    town.peers.sent[0].fail(Unreachable("gone"))
    await town.settle()

    assert (slot.is_filled, slot.buffers) == (True, None)


@in_town()
async def test_one_leaders_refusal_is_its_own(town: Town) -> None:
    slot = send(town, orders(1, 3))
    take(town.peers.to(SECOND)[0], code=Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND)
    take(town.peers.to(THIRD)[0])
    await town.settle()

    assert [(number, code) for number, code, _ in outcomes(slot)] == [
        (1, Code.NOT_ENOUGH_REPLICAS_AFTER_APPEND),
        (3, 0),
    ]


# --- what goes wrong on the way


@pytest.mark.parametrize("version", [9, 10, 12])
def test_a_link_that_breaks_is_a_leader_to_look_for_again_and_it_is_named(version: int) -> None:
    @in_town()
    async def test(town: Town) -> None:
        slot = send(town, orders(0, 1), version=version)
        town.peers.sent[0].fail(Unreachable("it hung up"))
        await town.settle()

        assert [(number, code) for number, code, _ in outcomes(slot, version)] == [
            (0, 0),
            (1, Code.NOT_LEADER_OR_FOLLOWER),
        ]
        response = response_in(slot, PRODUCE, version)
        if version >= wire.LEADERS_FROM:
            refused = response.responses[0].partition_responses[1]
            assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (SECOND, 1)
            assert [(node.node_id, node.host, node.port) for node in response.node_endpoints] == [
                (SECOND, "host-2", 9092)
            ]

    test()


@in_town()
async def test_a_leader_that_knows_of_a_later_one_is_believed(town: Town) -> None:
    slot = send(town, orders(1))
    told = PartitionAnswer(1, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1, None, CurrentLeader(THIRD, 9))
    parsed = wire.parse(town.peers.sent[0].frame, town.peers.sent[0].header.body, 12)
    town.peers.sent[0].reply(wire.encode(12, CORRELATION_ID, [(parsed.topics[0][0], [told])]))
    await town.settle()

    refused = response_in(slot, PRODUCE, 12).responses[0].partition_responses[0]
    assert (refused.current_leader.leader_id, refused.current_leader.leader_epoch) == (THIRD, 9)


@in_town()
async def test_a_node_that_is_asked_by_a_node_never_sends_on(town: Town) -> None:
    """Two that take each other for the leader would send a batch to and fro."""
    node = Peer(7, "10.0.0.8")
    node.is_node = True

    slot = send(town, orders(0, 1, 3, 4), peer=node)
    await town.settle()

    assert town.peers.sent == []
    assert [code for _, code, _ in outcomes(slot)] == [0] + [Code.NOT_LEADER_OR_FOLLOWER] * 3


@in_town()
async def test_an_answer_that_makes_no_sense_is_a_fault_and_never_success(town: Town) -> None:
    slot = send(town, orders(1, 2))

    town.peers.sent[0].reply(wire.encode(12, CORRELATION_ID, [("orders", [PartitionAnswer(1, 0, 5, -1, 0)])]))
    await town.settle()

    assert Code.UNKNOWN_SERVER_ERROR in [code for _, code, _ in outcomes(slot)]
    assert town.house.metrics.faults == 1
    town.house.metrics.faults = 0


# --- ends


@in_town()
async def test_links_end_with_their_connection_but_not_before_batches_have_arrived(town: Town) -> None:
    send(town, orders(1))
    send(town, orders(3), acks=0)
    town.forwarding.connection_closed(1)
    assert [link.is_closed for link in town.peers.links] == [False, False]

    take(town.peers.to(SECOND)[0])
    take(town.peers.to(THIRD)[0])
    await town.settle()

    assert [link.is_closed for link in town.peers.links] == [True, True]


@in_town()
async def test_links_without_anything_under_way_end_at_once(town: Town) -> None:
    send(town, orders(1))
    take(town.peers.sent[0])
    await town.settle()

    town.forwarding.connection_closed(1)

    assert town.peers.links[0].is_closed


@in_town()
async def test_whoever_hangs_up_does_not_wait_for_a_leader_any_more(town: Town) -> None:
    send(town, orders(4))

    town.forwarding.connection_closed(1)
    town.lead("orders", 4, SECOND)
    town.house.loop.advance(LEADER_WAIT_MS)

    assert town.peers.sent == []
    assert town.peers.links == []


@in_town()
async def test_a_batch_that_never_left_before_the_client_hung_up_is_nobodys(town: Town) -> None:
    send(town, orders(1))
    town.forwarding.connection_closed(1)
    town.peers.sent[0].fail(NotSent("connection refused"))
    await town.settle()
    town.lead("orders", 1, THIRD)

    assert len(town.peers.links) == 1
    assert len(town.forwarding._routes) == 0


@in_town()
async def test_a_node_that_is_fenced_is_not_waited_for(town: Town) -> None:
    send(town, orders(1, 3))

    town.fence(THIRD)

    assert [link.is_closed for link in town.peers.links] == [False, True]


# --- whatever comes


@settings(max_examples=60, deadline=None)
@given(st.data())
def test_in_whatever_order_it_is_answered_each_partition_gets_its_own(data: st.DataObject) -> None:
    """Whatever is asked and in whatever order answered each partition gets its own. Also when one partition is named
    twice, and topics take turns."""

    @in_town()
    async def test(town: Town) -> None:
        town.house.create("more", 3)
        town.lead("more", 0, SECOND)
        town.lead("more", 1, THIRD)
        names = [("orders", 0), ("orders", 1), ("orders", 2), ("orders", 3), ("more", 0), ("more", 1), ("more", 2)]
        asked = data.draw(st.lists(st.sampled_from(names), min_size=1, max_size=12))
        topics: Any = []
        for topic, number in asked:
            if not topics or topics[-1][0] != topic:
                topics.append((topic, []))
            topics[-1][1].append((number, bytes(batch_of())))
        slot = send(town, topics)

        for index in data.draw(st.permutations(range(len(town.peers.sent)))):
            sent = town.peers.sent[index]
            answers = [
                (topic, [PartitionAnswer(number, 0, 1000 * sent.node_id + number, -1, 0) for number, _ in partitions])
                for topic, partitions in request_in(sent).topics
            ]
            sent.reply(wire.encode(12, CORRELATION_ID, answers))
            await town.settle()

        await town.settle()
        response = response_in(slot, PRODUCE, 12)
        told = [(topic.name, p.index, p.base_offset) for topic in response.responses for p in topic.partition_responses]
        assert [(topic, number) for topic, number, _ in told] == asked
        for topic, number, offset in told:
            leader = town.image.topics[topic].partitions[number].leader
            assert offset // 1000 == (leader if leader != 1 else 0)
        assert asyncio.all_tasks() == {asyncio.current_task()}

    test()


@in_town()
async def test_a_batch_that_overtook_others_is_told_to_look_for_the_leader(town: Town) -> None:
    """A batch that overtook others is told to look for the leader not that there is a gap. A leader that steps down
    refuses what it has and sends on what comes next. librdkafka begins a new epoch when it is told of a gap, and sends
    all again under that: what had arrived would be there twice."""
    slot = send(town, orders(1))

    take(town.peers.sent[0], code=Code.OUT_OF_ORDER_SEQUENCE_NUMBER)
    await town.settle()

    assert [code for _, code, _ in outcomes(slot)] == [Code.NOT_LEADER_OR_FOLLOWER]


@in_town()
async def test_what_follows_on_a_batch_that_was_put_off_here_is_not_sent_on_before_it(town: Town) -> None:
    """The leader of now knows nothing of the first: it would take the second, and refuse the first for ever."""
    first, second = (bytes(batch_of(producer_id=1000, producer_epoch=0, sequence=sequence)) for sequence in (0, 1))
    put_off = send(town, [("orders", [(0, first)])])  # the metadata has not told of this id yet
    town.lead("orders", 0, SECOND)
    town.house.replicas.partitions.metadata_changed()

    overtaking = send(town, [("orders", [(0, second)])])
    await town.settle()
    assert outcomes(put_off) == [(0, Code.NOT_ENOUGH_REPLICAS, -1)]
    assert outcomes(overtaking) == [(0, Code.NOT_LEADER_OR_FOLLOWER, -1)]

    send(town, [("orders", [(0, first)])])
    assert [partitions_in(sent) for sent in town.peers.to(SECOND)] == [[0]]


# --- idempotent producers


def of_producer(*sequences: int, producer_id: int = 7) -> list[bytes]:
    return [bytes(batch_of(producer_id=producer_id, producer_epoch=0, sequence=sequence)) for sequence in sequences]


def codes(*slots: Slot) -> list[Code]:
    return [Code(code) for slot in slots for _, code, _ in outcomes(slot)]


@in_town()
async def test_what_follows_on_a_batch_that_one_leader_refused_goes_to_no_other(town: Town) -> None:
    """What follows on a batch that one leader refused does not go to the next leader. The next leader knows nothing of
    the producer: it would take the second, and refuse the first for ever."""
    peer, (first, second) = Peer(1, "a"), of_producer(0, 1)
    refused = send(town, [("orders", [(1, first)])], peer=peer)
    take(town.peers.to(SECOND)[0], code=Code.NOT_ENOUGH_REPLICAS)
    await town.settle()
    town.lead("orders", 1, THIRD)

    behind = send(town, [("orders", [(1, second)])], peer=peer)
    assert codes(refused, behind) == [Code.NOT_ENOUGH_REPLICAS, Code.NOT_LEADER_OR_FOLLOWER]
    assert town.peers.to(THIRD) == []

    again = [send(town, [("orders", [(1, batch)])], peer=peer) for batch in (first, second)]
    for sent in town.peers.to(THIRD):
        take(sent)
    await town.settle()
    assert codes(*again) == [Code.NONE, Code.NONE]


@in_town()
async def test_what_follows_on_a_batch_under_way_to_one_leader_does_not_go_to_the_next(town: Town) -> None:
    peer, (first, second) = Peer(1, "a"), of_producer(0, 1)
    send(town, [("orders", [(1, first)])], peer=peer)
    town.lead("orders", 1, THIRD)
    assert codes(send(town, [("orders", [(1, second)])], peer=peer)) == [Code.NOT_LEADER_OR_FOLLOWER]

    take(town.peers.to(SECOND)[0])
    await town.settle()
    send(town, [("orders", [(1, second)])], peer=peer)
    assert len(town.peers.to(THIRD)) == 1


@in_town()
async def test_what_follows_on_a_batch_that_another_leader_refused_is_not_taken_here(town: Town) -> None:
    peer, (first, second) = Peer(1, "a"), of_producer(0, 1)
    send(town, [("orders", [(1, first)])], peer=peer)
    take(town.peers.to(SECOND)[0], code=Code.NOT_LEADER_OR_FOLLOWER)
    await town.settle()
    town.lead("orders", 1, 1)
    town.house.replicas.partitions.metadata_changed()

    behind = send(town, [("orders", [(1, second)])], peer=peer)
    again = [send(town, [("orders", [(1, batch)])], peer=peer) for batch in (first, second)]
    await town.settle()
    assert codes(behind, *again) == [Code.NOT_LEADER_OR_FOLLOWER, Code.NONE, Code.NONE]


@in_town()
async def test_a_log_that_knows_the_producer_sees_by_itself_what_is_missing(town: Town) -> None:
    peer, (first, second, third) = Peer(1, "a"), of_producer(0, 1, 2)
    slots = [send(town, [("orders", [(0, first)])], peer=peer)]
    slots.append(send(town, [("orders", [(0, third)])], peer=peer))
    slots.append(send(town, [("orders", [(0, second)])], peer=Peer(2, "a")))  # it did not wait
    slots.append(send(town, [("orders", [(0, third)])], peer=peer))
    await town.settle()
    assert codes(*slots) == [Code.NONE, Code.OUT_OF_ORDER_SEQUENCE_NUMBER, Code.NONE, Code.NONE]
