"""A classic group as a value: who may do what in it."""

from __future__ import annotations

import struct

import pytest

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicMember, ClassicState


def member(member_id: str, *protocols: tuple[str, bytes], instance_id: str | None = None) -> ClassicMember:
    return ClassicMember(member_id, instance_id, "client", "/host", 10_000, 60_000, protocols)


def group(*members: ClassicMember, state: ClassicState = ClassicState.STABLE, protocol: str = "range") -> ClassicGroup:
    return ClassicGroup("g", state, 5, "consumer", protocol, members[0].member_id, 0, {m.member_id: m for m in members})


def subscription(*topics: str) -> bytes:
    """Version 1 of the consumer's metadata, with the fields after the topics."""
    body = b"".join(struct.pack(">h", len(topic)) + topic.encode() for topic in topics)
    return struct.pack(">hi", 1, len(topics)) + body + struct.pack(">ii", -1, 0)


def refusal(of: ClassicGroup, member_id: str, instance_id: str | None, generation: int) -> Code:
    with pytest.raises(Refused) as caught:
        of.check_commit(member_id, instance_id, generation)
    return caught.value.code


def test_only_protocols_that_all_support_are_shared() -> None:
    both = group(member("a", ("x", b""), ("y", b"")), member("b", ("y", b""), ("z", b"")))
    assert both.shared_protocols() == ["y"]
    assert both.select_protocol() == "y"
    assert both.supports_protocols("consumer", (("z", b""), ("y", b"")))
    assert not both.supports_protocols("consumer", (("z", b""),))
    assert not both.supports_protocols("connect", (("y", b""),))


def test_a_protocol_that_a_member_names_twice_is_one_protocol() -> None:
    twice = group(member("a", ("x", b""), ("x", b"")), member("b", ("x", b"")))
    assert twice.shared_protocols() == ["x"]
    assert twice.select_protocol() == "x"


def test_a_tie_of_votes_goes_to_the_earliest_vote() -> None:
    tied = group(member("a", ("x", b""), ("y", b"")), member("b", ("y", b""), ("x", b"")))
    assert tied.select_protocol() == "x"


def test_a_member_commits_in_its_generation_only() -> None:
    stable = group(member("a"))
    stable.check_commit("a", None, 5)
    assert refusal(stable, "a", None, 4) is Code.ILLEGAL_GENERATION
    assert refusal(stable, "b", None, 5) is Code.UNKNOWN_MEMBER_ID


def test_a_stranger_commits_to_an_empty_group_only() -> None:
    ClassicGroup("g").check_commit("", None, -1)
    assert refusal(group(member("a")), "", None, -1) is Code.UNKNOWN_MEMBER_ID


def test_nobody_commits_between_join_and_sync() -> None:
    completing = group(member("a"), state=ClassicState.COMPLETING_REBALANCE)
    assert refusal(completing, "a", None, 5) is Code.REBALANCE_IN_PROGRESS


def test_commits_go_on_while_a_rebalance_is_prepared() -> None:
    group(member("a"), state=ClassicState.PREPARING_REBALANCE).check_commit("a", None, 5)


def test_a_static_member_is_fenced_by_who_took_its_name() -> None:
    static = group(member("new", instance_id="i"))
    assert refusal(static, "old", "i", 5) is Code.FENCED_INSTANCE_ID
    assert refusal(static, "new", "unknown", 5) is Code.UNKNOWN_MEMBER_ID


def test_the_topics_consumers_subscribe_to_are_read_from_their_metadata() -> None:
    consumers = group(member("a", ("range", subscription("t1", "t2"))), member("b", ("range", subscription("t3"))))
    assert consumers.subscribed_topics() == frozenset({"t1", "t2", "t3"})
    assert consumers.is_subscribed_to("t3")
    assert not consumers.is_subscribed_to("t4")


@pytest.mark.parametrize("metadata", [b"", b"\x00", b"\x00\x01\x00\x00\x00\x05", subscription("t1")[:-10]])
def test_metadata_we_cannot_read_may_mean_any_topic(metadata: bytes) -> None:
    consumers = group(member("a", ("range", metadata)))
    assert consumers.subscribed_topics() is None
    assert consumers.is_subscribed_to("anything")
