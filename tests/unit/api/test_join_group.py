"""JoinGroup over the wire."""

from __future__ import annotations

import uuid
from typing import Any

from kio.schema.join_group.v9.request import JoinGroupRequest, JoinGroupRequestProtocol

from chronik.api import join_group
from chronik.api.durations import duration
from chronik.api.topic_shapes import TopicShapes
from chronik.core.errors import Code
from chronik.core.machines.groups.commands import Join
from tests.unit.api.fake_context import ask, groups_of
from tests.unit.api.grouped_context import grouped_context
from tests.unit.core.machines.groups.host import consumer_beat, subscription


def request(**changes: Any) -> JoinGroupRequest:
    fields: dict[str, Any] = {
        "group_id": "g",
        "session_timeout": duration(10_000),
        "rebalance_timeout": duration(60_000),
        "member_id": "",
        "group_instance_id": None,
        "protocol_type": "consumer",
        "protocols": (JoinGroupRequestProtocol(name="range", metadata=b"sub"),),
        "reason": None,
    }
    return JoinGroupRequest(**{**fields, **changes})


def test_a_new_member_gets_an_id_made_of_its_client_s_and_a_uuid_and_joins_with_it() -> None:
    context, _ = grouped_context()
    first = ask(join_group, request(), context, version=9)
    assert first.error_code is Code.MEMBER_ID_REQUIRED
    client_id, _, unique = first.member_id.partition("-")
    assert client_id == "test"
    assert str(uuid.UUID(unique)) == unique
    second = ask(join_group, request(member_id=first.member_id), context, version=9)
    assert (second.error_code, second.generation_id, second.leader) == (Code.NONE, 1, first.member_id)
    assert (second.protocol_type, second.protocol_name, second.skip_assignment) == ("consumer", "range", False)
    assert [(member.member_id, member.metadata) for member in second.members] == [(first.member_id, b"sub")]


def test_before_version_4_a_member_is_let_in_at_once() -> None:
    context, _ = grouped_context()
    assert ask(join_group, request(), context, version=3).error_code is Code.NONE


def test_version_0_has_one_timeout_for_both() -> None:
    context, _ = grouped_context()
    ask(join_group, request(rebalance_timeout=duration(-1)), context, version=0)
    (_, command), *_ = groups_of(context).asked
    assert isinstance(command, Join)
    assert command.rebalance_timeout_ms == command.session_timeout_ms == 10_000


def test_a_static_member_s_id_begins_with_its_own_name() -> None:
    context, host = grouped_context()
    joined = ask(join_group, request(group_instance_id="mine"), context, version=9)
    assert joined.member_id.startswith("mine-")
    assert host.classic().members[joined.member_id].client_host == "/127.0.0.1"


def test_only_version_9_can_be_told_to_skip_the_assignment() -> None:
    context, _ = grouped_context()
    for version in (8, 9):
        ask(join_group, request(group_instance_id=f"i{version}", group_id=f"g{version}"), context, version=version)
    assert [command.may_skip_assignment for _, command in groups_of(context).asked] == [False, True]


def test_refusals_keep_the_member_s_id_unless_it_lost_its_place() -> None:
    context, _ = grouped_context()
    empty = ask(join_group, request(group_id="", member_id="m"), context, version=9)
    assert (empty.error_code, empty.member_id) == (Code.INVALID_GROUP_ID, "m")
    short = ask(join_group, request(session_timeout=duration(1)), context, version=9)
    assert short.error_code is Code.INVALID_SESSION_TIMEOUT
    unknown = ask(join_group, request(member_id="m"), context, version=9)
    assert (unknown.error_code, unknown.member_id, unknown.protocol_name) == (Code.UNKNOWN_MEMBER_ID, "", "")


def test_a_classic_member_joins_a_consumer_group_at_once_and_nobody_leads() -> None:
    context, host = grouped_context({"orders": 2})
    host.ask(consumer_beat("m", 0, topics=TopicShapes(context.metadata.image)))
    protocols = (JoinGroupRequestProtocol(name="range", metadata=subscription("orders")),)
    first = ask(join_group, request(protocols=protocols), context, version=9)
    assert first.error_code is Code.MEMBER_ID_REQUIRED
    joined = ask(join_group, request(protocols=protocols, member_id=first.member_id), context, version=9)
    assert (joined.error_code, joined.generation_id, joined.leader, joined.members) == (Code.NONE, 2, "", ())
    assert (joined.protocol_type, joined.protocol_name) == ("consumer", "range")
    assert len(host.consumer().target(first.member_id)) == 1  # it knows the topics of the cluster
