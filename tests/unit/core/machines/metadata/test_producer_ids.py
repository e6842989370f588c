"""A node's blocks of producer ids."""

from __future__ import annotations

from chronik.core.machines.metadata.commands import ProducerIdBlock
from chronik.core.machines.metadata.producer_ids import ProducerIds


def test_there_is_no_id_before_there_is_a_block() -> None:
    assert ProducerIds().take() is None


def test_ids_of_all_blocks_are_given_out_once_each() -> None:
    ids = ProducerIds()
    ids.add(ProducerIdBlock(1000, 1002))
    ids.add(ProducerIdBlock(5000, 5001))

    assert [ids.take() for _ in range(4)] == [1000, 1001, 5000, None]
