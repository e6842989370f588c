"""Worlds with transactional clients."""

from __future__ import annotations

import pytest

from chronik.sim.run import run_world
from chronik.sim.transaction_checks import Outcome
from chronik.sim.transactional_clients import TransactionalClient
from chronik.sim.transactions import ARE_OFFERED
from chronik.sim.world import World

WITH_TRANSACTIONS = pytest.mark.skipif(not ARE_OFFERED, reason="nodes do not offer transactions yet")


@WITH_TRANSACTIONS
@pytest.mark.parametrize("node_count", [1, 3])
def test_a_world_with_transactions_keeps_its_promises_and_has_every_outcome(node_count: int) -> None:
    world = World(3, 6.0, node_count, transactions_share=1.0, is_only_transactions=True)
    outcome = run_world(world)
    assert outcome.broken is None
    outcomes = {one.outcome for one in world.transactions.checks.transactions()}
    assert {Outcome.COMMITTED, Outcome.ABORTED} <= outcomes
    assert any(partition.topic == "ledger-copy" for partition in world.transactions.checks.written_to())


def test_both_protocols_are_spoken_somewhere() -> None:
    spoken = set()
    for seed in range(10):
        world = World(seed, 6.0, 1, transactions_share=1.0)
        if world.transactions.is_there:
            clients = world.transactions.clients(world)
            spoken |= {client.adds_by_itself for client in clients if isinstance(client, TransactionalClient)}
        world.loop.close()
    assert spoken == ({True, False} if ARE_OFFERED else set())


def test_a_world_without_them_is_as_it_was() -> None:
    world = World(3, 6.0, 1, transactions_share=0.0)
    assert (world.transactions.is_there, world.transactions.clients(world), world.transactions.plans) == (False, [], {})
    world.loop.close()
