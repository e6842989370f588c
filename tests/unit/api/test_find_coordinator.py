"""Finding the node that holds a group."""

from __future__ import annotations

from chronik.api import find_coordinator
from chronik.core.errors import Code, Refused
from chronik.wire.unions.find_coordinator import AnyFindCoordinatorRequest
from tests.unit.api.fake_context import ask, fake_context, groups_of


def test_a_group_is_found_in_the_shape_of_old_and_new_versions() -> None:
    old = ask(find_coordinator, AnyFindCoordinatorRequest(key="g"), fake_context(), version=3)
    assert (old.error_code, old.node_id, old.host, old.port) == (Code.NONE, 1, "host-1", 9092)
    new = ask(find_coordinator, AnyFindCoordinatorRequest(coordinator_keys=("g", "h")), fake_context(), version=4)
    assert [(one.key, one.node_id, one.error_code) for one in new.coordinators] == [
        ("g", 1, Code.NONE),
        ("h", 1, Code.NONE),
    ]


def test_there_are_no_transactions_yet_and_no_share_groups() -> None:
    context = fake_context()
    assert (
        ask(find_coordinator, AnyFindCoordinatorRequest(key="t", key_type=1), context, version=3).error_code
        is Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    )
    (share,) = ask(
        find_coordinator, AnyFindCoordinatorRequest(coordinator_keys=("s",), key_type=2), context, version=6
    ).coordinators
    assert share.error_code is Code.INVALID_REQUEST
    assert share.node_id == -1


def test_a_coordinator_that_nobody_knows_is_an_error_of_the_key() -> None:
    context = fake_context()
    groups_of(context).refusing = Refused(Code.COORDINATOR_NOT_AVAILABLE)
    response = ask(find_coordinator, AnyFindCoordinatorRequest(coordinator_keys=("g",)), context, version=4)
    assert response.coordinators[0].error_code is Code.COORDINATOR_NOT_AVAILABLE


def test_a_refusal_names_every_key() -> None:
    refused = find_coordinator.refuse(
        AnyFindCoordinatorRequest(coordinator_keys=("g", "h")), Code.UNKNOWN_SERVER_ERROR, "why"
    )
    assert [(one.key, one.error_code, one.error_message) for one in refused.coordinators] == [
        ("g", Code.UNKNOWN_SERVER_ERROR, "why"),
        ("h", Code.UNKNOWN_SERVER_ERROR, "why"),
    ]
    assert (
        find_coordinator.refuse(AnyFindCoordinatorRequest(key="g"), Code.UNKNOWN_SERVER_ERROR, None).error_code
        is Code.UNKNOWN_SERVER_ERROR
    )
