"""LeaveGroup over the wire."""

from __future__ import annotations

from chronik.api import leave_group
from chronik.core.errors import Code, Refused
from chronik.wire.unions.leave_group import AnyLeaveGroupRequest, AnyLeavingMember
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context, refusing_desk


def test_before_version_3_one_member_leaves_and_its_error_is_the_answer_s() -> None:
    context, host = grouped_context()
    host.stable_group("a")
    assert (
        ask(leave_group, AnyLeaveGroupRequest(group_id="g", member_id="x"), context, version=2).error_code
        is Code.UNKNOWN_MEMBER_ID
    )
    assert (
        ask(leave_group, AnyLeaveGroupRequest(group_id="g", member_id="a"), context, version=2).error_code is Code.NONE
    )
    assert host.classic().members == {}


def test_from_version_3_each_has_its_own_error() -> None:
    context, host = grouped_context()
    host.stable_group("a")
    members = (
        AnyLeavingMember(member_id="a"),
        AnyLeavingMember(member_id="x"),
        AnyLeavingMember(group_instance_id="i"),
    )
    response = ask(leave_group, AnyLeaveGroupRequest(group_id="g", members=members), context, version=5)
    assert response.error_code is Code.NONE
    assert [(m.member_id, m.group_instance_id, m.error_code) for m in response.members] == [
        ("a", None, Code.NONE),
        ("x", None, Code.UNKNOWN_MEMBER_ID),
        ("", "i", Code.UNKNOWN_MEMBER_ID),
    ]


def test_nobody_is_a_member_of_a_group_that_is_not_there() -> None:
    context, _ = grouped_context()
    response = ask(
        leave_group, AnyLeaveGroupRequest(group_id="g", members=(AnyLeavingMember(member_id="a"),)), context, version=5
    )
    assert (response.error_code, response.members[0].error_code) == (Code.NONE, Code.UNKNOWN_MEMBER_ID)


def test_refusals_are_on_the_answer_and_on_every_member() -> None:
    context = refusing_desk(Refused(Code.NOT_COORDINATOR))
    response = ask(
        leave_group, AnyLeaveGroupRequest(group_id="g", members=(AnyLeavingMember(member_id="a"),)), context, version=5
    )
    assert (response.error_code, response.members[0].error_code) == (Code.NOT_COORDINATOR, Code.NOT_COORDINATOR)
    assert ask(leave_group, AnyLeaveGroupRequest(), context, version=1).error_code is Code.INVALID_GROUP_ID
