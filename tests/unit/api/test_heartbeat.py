"""Heartbeat over the wire."""

from __future__ import annotations

from typing import Any

from kio.schema.heartbeat.v4.request import HeartbeatRequest

from chronik.api import heartbeat
from chronik.core.errors import Code, Refused
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context, refusing_desk


def request(**changes: Any) -> HeartbeatRequest:
    fields: dict[str, Any] = {"group_id": "g", "generation_id": 1, "member_id": "a", "group_instance_id": None}
    return HeartbeatRequest(**{**fields, **changes})


def test_a_member_is_heard_and_a_stranger_is_not() -> None:
    context, host = grouped_context()
    host.stable_group("a")
    assert ask(heartbeat, request(), context, version=4).error_code is Code.NONE
    assert ask(heartbeat, request(member_id="b"), context, version=4).error_code is Code.UNKNOWN_MEMBER_ID
    assert ask(heartbeat, request(group_id=""), context, version=4).error_code is Code.INVALID_GROUP_ID


def test_a_member_need_not_know_that_its_group_is_being_read_back() -> None:
    loading = refusing_desk(Refused(Code.COORDINATOR_LOAD_IN_PROGRESS))
    assert ask(heartbeat, request(), loading, version=4).error_code is Code.NONE
    elsewhere = refusing_desk(Refused(Code.NOT_COORDINATOR))
    assert ask(heartbeat, request(), elsewhere, version=4).error_code is Code.NOT_COORDINATOR
