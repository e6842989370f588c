"""UnregisterBroker."""

from __future__ import annotations

from kio.schema.unregister_broker.v0.request import UnregisterBrokerRequest

from chronik.api import unregister_broker
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def test_a_broker_is_taken_off_the_list_once() -> None:
    context = fake_context(brokers=(1, 2))

    first = ask(unregister_broker, UnregisterBrokerRequest(broker_id=2), context, version=0)
    second = ask(unregister_broker, UnregisterBrokerRequest(broker_id=2), context, version=0)

    assert (first.error_code, first.error_message) == (Code.NONE, None)
    assert list(context.metadata.image.brokers) == [1]
    assert second.error_code == Code.BROKER_ID_NOT_REGISTERED
    assert "not currently registered" in second.error_message


def test_another_node_is_the_controller() -> None:
    context = fake_context(brokers=(1, 2))
    metadata_of(context).controller_id = 2

    response = ask(unregister_broker, UnregisterBrokerRequest(broker_id=2), context, version=0)

    assert response.error_code == Code.NOT_CONTROLLER
