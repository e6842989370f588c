"""DeleteGroups over the wire."""

from __future__ import annotations

from typing import Any

from chronik.api import delete_groups
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import OffsetToCommit
from chronik.wire.kafka_4_4 import DeleteGroupsRequest
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context
from tests.unit.core.machines.groups.host import commit


def test_each_group_has_its_own_result() -> None:
    context, host = grouped_context()
    host.stable_group("a")
    host.ask(commit(OffsetToCommit("t", 0, 1), group_id="empty"))
    response = ask(delete_groups, DeleteGroupsRequest(groups_names=("g", "empty", "none", "empty")), context, version=3)
    assert [one.error_message for one in response.results] == [
        "The group is not empty.",
        None,
        "The group id does not exist.",
    ]
    assert [(one.group_id, one.error_code) for one in response.results] == [
        ("g", Code.NON_EMPTY_GROUP),
        ("empty", Code.NONE),
        ("none", Code.GROUP_ID_NOT_FOUND),
    ]
    assert list(host.machine.groups) == ["g"]


def test_a_refusal_names_every_group() -> None:
    refused: Any = delete_groups.refuse(DeleteGroupsRequest(groups_names=("g", "h")), Code.UNKNOWN_SERVER_ERROR, None)
    assert [(one.group_id, one.error_code) for one in refused.results] == [
        ("g", Code.UNKNOWN_SERVER_ERROR),
        ("h", Code.UNKNOWN_SERVER_ERROR),
    ]
