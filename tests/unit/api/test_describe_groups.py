"""DescribeGroups over the wire."""

from __future__ import annotations

from typing import Any

from kio.schema.describe_groups.v6.request import DescribeGroupsRequest

from chronik.api import describe_groups
from chronik.core.errors import Code, Refused
from tests.unit.api.fake_context import ask
from tests.unit.api.grouped_context import grouped_context, refusing_desk


def request(*groups: str, operations: bool = False) -> DescribeGroupsRequest:
    return DescribeGroupsRequest(groups=groups, include_authorized_operations=operations)


def test_a_stable_group_is_described_with_its_members() -> None:
    context, host = grouped_context()
    host.stable_group("a")
    (group,) = ask(describe_groups, request("g"), context, version=6).groups
    assert (group.error_code, group.group_state, group.protocol_type) == (Code.NONE, "Stable", "consumer")
    assert group.protocol_data == "range"
    (member,) = group.members
    assert (member.member_id, member.client_id, member.client_host) == ("a", "client", "/127.0.0.1")
    assert (member.member_metadata, member.member_assignment) == (b"sub", b"a")
    assert group.authorized_operations == -(2**31)


def test_what_the_client_may_do_is_told_when_asked() -> None:
    context, host = grouped_context()
    host.stable_group("a")
    (group,) = ask(describe_groups, request("g", operations=True), context, version=6).groups
    assert group.authorized_operations == 0b1101_0100_1000


def test_a_group_that_is_not_there_is_dead_and_from_version_6_an_error() -> None:
    context, _ = grouped_context()
    (old,) = ask(describe_groups, request("g", operations=True), context, version=5).groups
    (new,) = ask(describe_groups, request("g", operations=True), context, version=6).groups
    assert (old.error_code, old.group_state) == (Code.NONE, "Dead")
    assert (new.error_code, new.group_state) == (Code.GROUP_ID_NOT_FOUND, "Dead")
    assert (old.authorized_operations, new.authorized_operations) == (0b1101_0100_1000, -(2**31))
    assert new.error_message == "Group g not found."


def test_other_refusals_are_the_group_s_own() -> None:
    context = refusing_desk(Refused(Code.NOT_COORDINATOR))
    (group,) = ask(describe_groups, request("g"), context, version=5).groups
    assert group.error_code is Code.NOT_COORDINATOR
    refused: Any = describe_groups.refuse(request("g", "h"), Code.UNKNOWN_SERVER_ERROR, None)
    assert [group.error_code for group in refused.groups] == [Code.UNKNOWN_SERVER_ERROR] * 2
