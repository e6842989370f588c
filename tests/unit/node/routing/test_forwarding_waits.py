"""Batches that wait until it is known which node leads their partition."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import CreateTopics, NewTopic
from chronik.node.net.peers import NotSent, Unreachable
from chronik.node.routing.leader_waits import LEADER_WAIT_MS
from tests.unit.core.log.logs import batch_of
from tests.unit.node.sent_on import (
    orders,
    outcomes,
    passed,
    send,
    take,
)
from tests.unit.node.town import SECOND, THIRD, Town, in_time, in_town


@in_town()
async def test_without_a_leader_a_batch_waits_for_one_and_goes_there(town: Town) -> None:
    slot = send(town, orders(4))
    await town.settle()
    assert not slot.is_filled

    town.lead("orders", 4, THIRD)
    take(town.peers.to(THIRD)[0])
    await town.settle()

    assert outcomes(slot) == [(4, 0, 104)]


@in_town()
async def test_the_leader_may_turn_out_to_be_this_node(town: Town) -> None:
    first, second = send(town, orders(4)), send(town, orders(4))

    town.lead("orders", 4, 1)
    third = send(town, orders(4))
    await town.settle()

    assert [outcomes(slot) for slot in (first, second, third)] == [[(4, 0, 0)], [(4, 0, 1)], [(4, 0, 2)]]
    assert town.peers.sent == []


@in_town()
async def test_nobody_waits_for_a_leader_for_long(town: Town) -> None:
    patient, hasty = send(town, orders(4)), send(town, orders(4), timeout_ms=10)

    town.house.loop.advance(10)
    await town.settle()
    assert outcomes(hasty) == [(4, Code.LEADER_NOT_AVAILABLE, -1)]
    assert not patient.is_filled
    town.house.loop.advance(LEADER_WAIT_MS)
    await town.settle()

    assert outcomes(patient) == [(4, Code.LEADER_NOT_AVAILABLE, -1)]


@in_town()
async def test_a_batch_that_never_left_goes_to_the_next_leader(town: Town) -> None:
    slot = send(town, orders(1))
    town.peers.sent[0].fail(NotSent("connection refused"))
    await town.settle()
    assert not slot.is_filled

    town.lead("orders", 1, THIRD)
    take(town.peers.to(THIRD)[0])
    await town.settle()

    assert outcomes(slot) == [(1, 0, 101)]


@in_time
async def test_leaders_that_change_all_the_time_do_not_make_a_batch_wait_for_ever(town: Town) -> None:
    slot = send(town, orders(1))
    town.peers.sent[0].fail(NotSent("connection refused"))
    await town.settle()
    town.lead("orders", 1, THIRD)
    await passed(LEADER_WAIT_MS / 1000)

    town.peers.to(THIRD)[0].fail(NotSent("connection refused"))
    await town.settle()

    assert [code for _, code, _ in outcomes(slot)] == [Code.NOT_LEADER_OR_FOLLOWER]


@in_town()
async def test_a_batch_that_may_have_arrived_is_not_sent_twice(town: Town) -> None:
    slot = send(town, orders(1))
    town.peers.sent[0].fail(Unreachable("no answer"))
    await town.settle()
    town.lead("orders", 1, THIRD)
    await town.settle()

    assert len(town.peers.sent) == 1
    assert [code for _, code, _ in outcomes(slot)] == [Code.NOT_LEADER_OR_FOLLOWER]


@in_town()
async def test_a_leader_named_while_the_batch_was_on_its_way_gets_it_at_once(town: Town) -> None:
    """A leader named while the batch was on its way to the one before gets it at once."""
    slot = send(town, orders(1))
    town.lead("orders", 1, THIRD)
    town.peers.sent[0].fail(NotSent("connection refused"))
    await town.settle()

    take(town.peers.to(THIRD)[0])
    await town.settle()

    assert outcomes(slot) == [(1, 0, 101)]


@in_town()
async def test_batches_that_wait_leave_in_the_order_in_which_they_came(town: Town) -> None:
    for version in (3, 5, 9, 12):
        send(town, orders(4), version=version)

    town.lead("orders", 4, SECOND)
    send(town, orders(4), version=11)

    assert [sent.header.version for sent in town.peers.to(SECOND)] == [3, 5, 9, 12, 11]


@in_town()
async def test_a_deleted_topic_is_not_waited_for(town: Town) -> None:
    slot = send(town, orders(4))

    del town.image.topics["orders"]
    town.forwarding.metadata_applied([])
    await town.settle()

    assert [code for _, code, _ in outcomes(slot)] == [Code.UNKNOWN_TOPIC_OR_PARTITION]


@in_town()
async def test_a_topic_that_is_not_known_here_yet_is_waited_for(town: Town) -> None:
    gate = town.cluster.hold()
    slot = send(town, [("news", [(0, bytes(batch_of()))])])
    await town.settle()
    assert not slot.is_filled

    town.house.tell(CreateTopics((NewTopic("news", bytes(15) + b"n", 1, 1),)))
    town.lead("news", 0, THIRD)
    take(town.peers.to(THIRD)[0])
    gate.set()
    await town.settle()

    assert outcomes(slot) == [(0, 0, 100)]


@in_town()
async def test_a_topic_that_the_controller_does_not_know_either_is_refused_at_once(town: Town) -> None:
    slot = send(town, [("nothing", [(0, bytes(batch_of()))])])
    await town.settle()

    assert [code for _, code, _ in outcomes(slot)] == [Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert town.cluster.caught_up == 1


@in_town()
async def test_the_controller_knows_all_topics(town: Town) -> None:
    town.cluster.controller_id = 1
    slot = send(town, [("nothing", [(0, bytes(batch_of()))])])

    assert [code for _, code, _ in outcomes(slot)] == [Code.UNKNOWN_TOPIC_OR_PARTITION]
    assert town.cluster.caught_up == 0
