"""Batches with acks=0 that are led elsewhere: none is lost without a word, and none overtakes another."""

from __future__ import annotations

from chronik.api.call import Peer
from chronik.core.errors import Code
from chronik.node.net.peers import NotSent
from chronik.node.routing.leader_waits import LEADER_WAIT_MS
from chronik.node.routing.produce_forwarder import AGAIN_MS
from tests.unit.node.sent_on import orders, partitions_in, passed, send, take
from tests.unit.node.town import HERE, SECOND, THIRD, Town, in_time, in_town

A, B, C, D = 9, 10, 11, 12  # versions of requests, by which to tell them apart


def versions(town: Town, node_id: int = SECOND) -> list[int]:
    return [sent.header.version for sent in town.peers.to(node_id)]


async def refuse(town: Town, number: int) -> None:
    take(town.peers.sent[number], code=Code.NOT_LEADER_OR_FOLLOWER)
    await town.settle()


async def accept(town: Town, number: int) -> None:
    take(town.peers.sent[number])
    await town.settle()


def a_moment_later(town: Town) -> None:
    town.house.loop.advance(AGAIN_MS)


@in_town()
async def test_a_batch_that_is_refused_goes_again_before_those_behind_it(town: Town) -> None:
    """A leader that does not know yet that it leads would refuse the first and take the second."""
    slots = [send(town, orders(1), acks=0, version=version) for version in (A, B)]
    await refuse(town, 0)
    slots.append(send(town, orders(1), acks=0, version=C))
    assert versions(town) == [A]

    a_moment_later(town)
    assert versions(town) == [A, A]
    await accept(town, 1)
    assert versions(town) == [A, A, B, C]
    await accept(town, 2)
    await accept(town, 3)

    assert [slot.buffers for slot in slots] == [(), (), ()]


@in_town()
async def test_a_leader_that_has_taken_one_is_sent_the_others_without_waiting(town: Town) -> None:
    send(town, orders(1), acks=0, version=A)
    await accept(town, 0)

    for version in (B, C, D):
        send(town, orders(1), acks=0, version=version)

    assert versions(town) == [A, B, C, D]


@in_town()
async def test_only_those_of_the_same_connection_and_partition_wait_for_each_other(town: Town) -> None:
    send(town, orders(1), acks=0)
    send(town, orders(2), acks=0)
    send(town, orders(1), acks=1)
    send(town, orders(1), acks=0, peer=Peer(2, "b"))

    assert [partitions_in(sent) for sent in town.peers.sent] == [[1], [2], [1], [1]]


@in_town()
async def test_a_partition_that_a_request_names_twice_has_its_batches_in_order(town: Town) -> None:
    slot = send(town, orders(1, 2, 1), acks=0)
    assert [partitions_in(sent) for sent in town.peers.sent] == [[1, 2]]

    await accept(town, 0)
    assert [partitions_in(sent) for sent in town.peers.sent] == [[1, 2], [1]]
    await accept(town, 1)

    assert slot.buffers == ()


@in_town()
async def test_all_that_a_leader_refuses_when_it_steps_down_go_to_the_next_in_order(town: Town) -> None:
    send(town, orders(1), acks=0)
    await accept(town, 0)
    for version in (A, B):
        send(town, orders(1), acks=0, version=version)
    town.lead("orders", 1, THIRD)
    send(town, orders(1), acks=0, version=C)
    assert town.peers.to(THIRD) == [], "not before it is known what became of those before it"

    await refuse(town, 1)
    await refuse(town, 2)
    a_moment_later(town)
    for number in (3, 4, 5):
        await accept(town, number)

    assert versions(town, THIRD) == [A, B, C]


@in_town()
async def test_a_batch_that_was_overtaken_does_not_come_behind(town: Town) -> None:
    """A batch that was overtaken does not come behind and its client is hung up on. Its leader was deposed for a
    moment, and led again when the next one came."""
    send(town, orders(1), acks=0)
    await accept(town, 0)
    first, second = send(town, orders(1), acks=0, version=A), send(town, orders(1), acks=0, version=B)

    await refuse(town, 1)
    await accept(town, 2)
    a_moment_later(town)

    assert (first.is_filled, first.buffers) == (True, None)
    assert second.buffers == ()
    assert len(town.peers.sent) == 3


@in_town()
async def test_a_batch_that_never_left_goes_again_before_those_behind_it(town: Town) -> None:
    send(town, orders(1), acks=0, version=A)
    send(town, orders(1), acks=0, version=B)
    town.peers.sent[0].fail(NotSent("connection refused"))
    await town.settle()
    send(town, orders(1), acks=0, version=C)
    assert versions(town) == [A]

    a_moment_later(town)
    await accept(town, 1)

    assert versions(town) == [A, A, B, C]


@in_town()
async def test_what_waits_goes_to_another_leader_at_once_even_to_this_node(town: Town) -> None:
    slots = [send(town, orders(1), acks=0, version=version) for version in (A, B)]
    await refuse(town, 0)

    town.lead("orders", 1, HERE)
    await town.settle()

    assert [slot.buffers for slot in slots] == [(), ()]
    assert len(town.peers.sent) == 1
    a_moment_later(town)
    assert len(town.peers.sent) == 1


@in_town()
async def test_what_waits_for_its_turn_waits_for_a_leader_too(town: Town) -> None:
    for version in (A, B):
        send(town, orders(1), acks=0, version=version)
    town.lead("orders", 1, -1)
    send(town, orders(1), acks=0, version=C)
    await refuse(town, 0)
    a_moment_later(town)

    town.lead("orders", 1, THIRD)
    for number in (1, 2, 3):
        await accept(town, number)

    assert versions(town, THIRD) == [A, B, C]


# --- the client hangs up


@in_town()
async def test_a_client_that_sent_and_hung_up_has_sent_all_of_it(town: Town) -> None:
    """And nothing of its connection is left."""
    for version in (A, B, C):
        send(town, orders(1), acks=0, version=version)
    await refuse(town, 0)
    town.forwarding.connection_closed(1)

    a_moment_later(town)
    for number in (1, 2, 3):
        await accept(town, number)

    assert versions(town) == [A, A, B, C]
    assert [link.is_closed for link in town.peers.links] == [True] * len(town.peers.links)
    assert len(town.forwarding._routes) == 0


@in_time
async def test_a_leader_that_refuses_for_ever_leaves_nothing_of_a_client_that_hung_up(town: Town) -> None:
    slot = send(town, orders(1), acks=0)
    town.forwarding.connection_closed(1)
    for _ in range(2 * LEADER_WAIT_MS // AGAIN_MS):
        town.house.loop.advance(AGAIN_MS)
        for sent in town.peers.sent:
            if not sent.answer.done():
                take(sent, code=Code.NOT_LEADER_OR_FOLLOWER)
        await passed(AGAIN_MS / 1000)

    assert slot.is_filled
    assert all(link.is_closed for link in town.peers.links)
    assert len(town.forwarding._routes) == 0


@in_town()
async def test_a_client_that_hung_up_does_not_wait_for_a_leader_after_a_refusal(town: Town) -> None:
    slot = send(town, orders(1), acks=0)
    await refuse(town, 0)
    town.forwarding.connection_closed(1)

    town.lead("orders", 1, -1)
    town.lead("orders", 1, THIRD)
    await town.settle()

    assert slot.is_filled
    assert town.peers.to(THIRD) == []
    assert len(town.forwarding._routes) == 0
