"""SyncGroup over the wire."""

from __future__ import annotations

from typing import Any

from kio.schema.sync_group.v5.request import SyncGroupRequest, SyncGroupRequestAssignment

from chronik.api import sync_group
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context


def request(**changes: Any) -> SyncGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "generation_id": 1,
        "member_id": "a",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocol_name": "range",
        "assignments": (),
    }
    return SyncGroupRequest(**{**fields, **changes})


def test_a_leader_gets_the_assignment_it_brought() -> None:
    context, host = grouped_context()
    host.joins("a")
    given = (SyncGroupRequestAssignment(member_id="a", assignment=b"all"),)
    response = ask(sync_group, request(assignments=given), context, version=5)
    assert (response.error_code, response.assignment) == (Code.NONE, b"all")
    assert (response.protocol_type, response.protocol_name) == ("consumer", "range")
    assert ask(sync_group, request(protocol_type=None, protocol_name=None), context, version=4).assignment == b"all"


def test_refusals_have_no_assignment() -> None:
    context, host = grouped_context()
    host.joins("a")
    illegal = ask(sync_group, request(generation_id=7), context, version=5)
    assert (illegal.error_code, illegal.assignment, illegal.protocol_name) == (Code.ILLEGAL_GENERATION, b"", None)
    assert ask(sync_group, request(group_id=""), context, version=5).error_code is Code.INVALID_GROUP_ID
