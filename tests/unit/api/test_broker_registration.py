"""BrokerRegistration."""

from __future__ import annotations

import uuid
from typing import Any

import pytest
from kio.schema.broker_registration.v4.request import BrokerRegistrationRequest, Listener

from chronik.api import broker_registration
from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import RegisterBroker
from tests.unit.api.fake_context import CLUSTER_ID, ask, fake_context, metadata_of

INCARNATION = uuid.UUID(int=7)


def listener(name: str, host: str, port: int) -> Listener:
    return Listener(name=name, host=host, port=port, security_protocol=0)


BOTH = (listener("PLAINTEXT", "public", 9092), listener("INTERNAL", "private", 19092))


def request(**other: Any) -> Any:
    fields: dict[str, Any] = {
        "broker_id": 2,
        "cluster_id": CLUSTER_ID,
        "incarnation_id": INCARNATION,
        "listeners": BOTH,
        "features": (),
        "rack": "r",
        "previous_broker_epoch": 5,
    }
    return BrokerRegistrationRequest(**fields | other)


def test_a_node_registers_fenced_with_both_its_addresses() -> None:
    context = fake_context()

    response = ask(broker_registration, request(), context, version=4, node_id=2)

    broker = context.metadata.image.brokers[2]
    assert (response.error_code, response.broker_epoch) == (Code.NONE, broker.epoch)
    assert (broker.host, broker.port, broker.rack, broker.is_fenced) == ("public", 9092, "r", True)
    assert (broker.internal_host, broker.internal_port) == ("private", 19092)
    assert broker.incarnation_id == INCARNATION.bytes


def test_a_broker_with_one_listener_of_another_name_is_reached_there_by_all() -> None:
    context = fake_context()

    ask(broker_registration, request(listeners=(listener("EXTERNAL", "h", 1),)), context, version=4, node_id=2)

    broker = context.metadata.image.brokers[2]
    assert (broker.host, broker.port, broker.internal_host, broker.internal_port) == ("h", 1, "h", 1)


@pytest.mark.parametrize(("version", "epoch", "is_lost"), [(4, -1, True), (3, -1, True), (2, -1, False), (4, 5, False)])
def test_no_previous_epoch_is_a_disk_without_anything(version: int, epoch: int, is_lost: bool) -> None:
    context = fake_context()

    ask(broker_registration, request(previous_broker_epoch=epoch), context, version, node_id=2)

    [command] = metadata_of(context).asked
    assert isinstance(command, RegisterBroker)
    assert command.has_lost_its_log is is_lost
    assert not command.has_lost_its_tail


@pytest.mark.parametrize(("told", "epoch"), [(-2, 0), (-19, 17), (-(2**62), 2**62 - 2)])
def test_below_that_it_is_the_disk_of_an_epoch_whose_last_records_may_be_missing(told: int, epoch: int) -> None:
    context = fake_context()

    ask(broker_registration, request(previous_broker_epoch=told), context, version=4, node_id=2)

    [command] = metadata_of(context).asked
    assert isinstance(command, RegisterBroker)
    assert (command.has_lost_its_tail, command.has_lost_its_log, command.previous_epoch) == (True, False, epoch)


@pytest.mark.parametrize(
    ("wrong", "code"),
    [
        ({"cluster_id": "another"}, Code.INCONSISTENT_CLUSTER_ID),
        ({"broker_id": 1}, Code.DUPLICATE_BROKER_REGISTRATION),
        ({"broker_id": 3}, Code.CLUSTER_AUTHORIZATION_FAILED),
        ({"broker_id": -1}, Code.INVALID_REGISTRATION),
        ({"broker_id": -(2**31)}, Code.INVALID_REGISTRATION),
        ({"listeners": ()}, Code.INVALID_REGISTRATION),
    ],
)
def test_whoever_cannot_be_a_node_of_this_cluster_is_refused(wrong: dict[str, Any], code: Code) -> None:
    context = fake_context()

    response = ask(broker_registration, request(**wrong), context, version=4, node_id=2)

    assert (response.error_code, response.broker_epoch) == (code, -1)
    assert metadata_of(context).asked == []


def test_a_node_that_is_not_the_controller_registers_nobody() -> None:
    context = fake_context()
    metadata_of(context).controller_id = 2

    assert ask(broker_registration, request(), context, version=4, node_id=2).error_code == Code.NOT_CONTROLLER
