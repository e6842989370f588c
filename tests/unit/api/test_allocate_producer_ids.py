"""AllocateProducerIds."""

from __future__ import annotations

import pytest
from kio.schema.allocate_producer_ids.v0.request import AllocateProducerIdsRequest

from chronik.api import allocate_producer_ids
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def allocated(context: RequestContext, epoch: int, node_id: int = 2) -> tuple[int, int, int]:
    request = AllocateProducerIdsRequest(broker_id=2, broker_epoch=epoch)
    response = ask(allocate_producer_ids, request, context, version=0, node_id=node_id)
    return response.error_code, response.producer_id_start, response.producer_id_len


def test_each_block_is_given_once() -> None:
    context = fake_context(brokers=(1, 2))
    epoch = context.metadata.image.brokers[2].epoch

    assert allocated(context, epoch) == (Code.NONE, 0, 1000)
    assert allocated(context, epoch) == (Code.NONE, 1000, 1000)


@pytest.mark.parametrize("epoch", [-1, 77])
def test_a_node_must_sign_with_its_epoch(epoch: int) -> None:
    context = fake_context(brokers=(1, 2))

    assert allocated(context, epoch) == (Code.STALE_BROKER_EPOCH, 0, 0)


def test_another_node_is_the_controller() -> None:
    context = fake_context(brokers=(1, 2))
    metadata_of(context).controller_id = 2

    assert allocated(context, 1) == (Code.NOT_CONTROLLER, 0, 0)


def test_a_node_asks_in_its_own_name_only() -> None:
    """F64"""
    context = fake_context(brokers=(1, 2))
    epoch = context.metadata.image.brokers[2].epoch

    assert allocated(context, epoch, node_id=3) == (Code.CLUSTER_AUTHORIZATION_FAILED, 0, 0)
