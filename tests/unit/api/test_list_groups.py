"""ListGroups over the wire."""

from __future__ import annotations

from typing import Any

from kio.schema.list_groups.v5.request import ListGroupsRequest

from chronik.api import list_groups
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import OffsetToCommit
from tests.unit.api.fake_context import ask, groups_of
from tests.unit.api.grouped_context import grouped_context
from tests.unit.core.machines.groups.host import commit


def listed(states: tuple[str, ...] = (), types: tuple[str, ...] = ()) -> list[tuple[Any, ...]]:
    context, host = grouped_context()
    host.stable_group("a")
    host.ask(commit(OffsetToCommit("t", 0, 1), group_id="simple"))
    response = ask(list_groups, ListGroupsRequest(states_filter=states, types_filter=types), context, version=5)
    assert response.error_code is Code.NONE
    return [(one.group_id, one.protocol_type, one.group_state, one.group_type) for one in response.groups]


def test_groups_of_all_machines_are_listed() -> None:
    assert listed() == [("g", "consumer", "Stable", "classic"), ("simple", "", "Empty", "classic")]


def test_filters_pick_by_state_and_type() -> None:
    assert [group[0] for group in listed(states=("empty",))] == ["simple"]
    assert listed(types=("consumer",)) == []


def test_a_node_that_is_still_reading_its_groups_lists_none_rather_than_some() -> None:
    context, _ = grouped_context()
    groups_of(context).is_loading = True

    response = ask(list_groups, ListGroupsRequest(states_filter=(), types_filter=()), context, version=5)

    assert (response.error_code, response.groups) == (Code.COORDINATOR_LOAD_IN_PROGRESS, ())


def test_a_refusal_lists_nothing() -> None:
    refused: Any = list_groups.refuse(
        ListGroupsRequest(states_filter=(), types_filter=()), Code.UNKNOWN_SERVER_ERROR, None
    )
    assert (refused.error_code, refused.groups) == (Code.UNKNOWN_SERVER_ERROR, ())
