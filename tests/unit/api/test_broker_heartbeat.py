"""BrokerHeartbeat."""

from __future__ import annotations

from typing import Any

from kio.schema.broker_heartbeat.v2.request import BrokerHeartbeatRequest

from chronik.api import broker_heartbeat
from chronik.api.context import RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import RegisterBroker
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def registered() -> tuple[RequestContext, int]:
    context = fake_context()
    epoch = metadata_of(context).tell(RegisterBroker(2, bytes(16), "host-2", 9092, is_fenced=True))
    return context, epoch


def beat(
    context: RequestContext, epoch: int, offset: int, *, shut_down: bool = False, fence: bool = False, node_id: int = 2
) -> tuple[Any, ...]:
    request = BrokerHeartbeatRequest(
        broker_id=2,
        broker_epoch=epoch,
        current_metadata_offset=offset,
        want_fence=fence,
        want_shut_down=shut_down,
    )
    response = ask(broker_heartbeat, request, context, version=2, node_id=node_id)
    return response.error_code, response.is_caught_up, response.is_fenced, response.should_shut_down


def test_a_node_that_has_followed_its_registration_may_serve() -> None:
    context, epoch = registered()

    assert beat(context, epoch, epoch) == (Code.NONE, False, True, False)
    assert beat(context, epoch, epoch + 1, fence=True) == (Code.NONE, True, True, False)
    assert beat(context, epoch, epoch + 1) == (Code.NONE, True, False, False)
    assert not context.metadata.image.brokers[2].is_fenced


def test_a_node_that_leads_nothing_may_stop() -> None:
    context, epoch = registered()
    beat(context, epoch, epoch + 1)

    assert beat(context, epoch, epoch + 1, shut_down=True) == (Code.NONE, True, True, True)


def test_an_epoch_that_is_not_the_latest_is_refused() -> None:
    context, epoch = registered()

    assert beat(context, epoch - 1, epoch + 1) == (Code.STALE_BROKER_EPOCH, False, True, False)


def test_another_node_is_the_controller() -> None:
    context, epoch = registered()
    metadata_of(context).controller_id = None

    assert beat(context, epoch, epoch + 1)[0] == Code.NOT_CONTROLLER


def test_a_node_reports_in_its_own_name_only() -> None:
    """F64"""
    context, epoch = registered()

    assert beat(context, epoch, epoch + 1, node_id=3)[0] == Code.CLUSTER_AUTHORIZATION_FAILED
    assert context.metadata.image.brokers[2].is_fenced
