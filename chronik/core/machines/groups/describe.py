"""What can be said about a group from outside: lists and descriptions."""

from __future__ import annotations

from collections.abc import Iterable

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.answers import (
    DescribedClassic,
    DescribedConsumer,
    DescribedConsumerMember,
    DescribedMember,
    ListedGroup,
)
from chronik.core.machines.groups.classic_group import ClassicGroup, ClassicState
from chronik.core.machines.groups.consumer_group import ConsumerGroup, by_topic
from chronik.core.machines.groups.consumer_protocol import CONSUMER_PROTOCOL_TYPE

CLASSIC_TYPE = "classic"
CONSUMER_TYPE = "consumer"


def listed(group: ClassicGroup | ConsumerGroup) -> ListedGroup:
    if isinstance(group, ClassicGroup):
        return ListedGroup(group.group_id, group.protocol_type or "", str(group.state), CLASSIC_TYPE)
    return ListedGroup(group.group_id, CONSUMER_PROTOCOL_TYPE, group.state, CONSUMER_TYPE)


def list_groups(
    groups: Iterable[ClassicGroup | ConsumerGroup], states: tuple[str, ...], types: tuple[str, ...]
) -> list[ListedGroup]:
    """Groups in one of the states and of one of the types; no filter lets all through."""
    wanted_states = [state.strip().lower() for state in states]
    wanted_types = [kind.strip().lower() for kind in types]
    return [
        group
        for group in (listed(group) for group in groups)
        if (not wanted_states or group.state.lower() in wanted_states)
        and (not wanted_types or group.type in wanted_types)
    ]


def describe_classic(group_id: str, group: ClassicGroup | ConsumerGroup | None) -> DescribedClassic:
    if not isinstance(group, ClassicGroup):
        kind = "is not a classic group" if group is not None else "not found"
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} {kind}.")
    # Between two generations there is no protocol to show members' metadata in.
    protocol = group.protocol if group.state is ClassicState.STABLE else None
    members = tuple(
        DescribedMember(
            m.member_id,
            m.instance_id,
            m.client_id,
            m.client_host,
            m.metadata(protocol) if protocol else b"",
            m.assignment if protocol else b"",
        )
        for m in group.members.values()
    )
    return DescribedClassic(group_id, str(group.state), group.protocol_type or "", protocol or "", members)


def describe_consumer(
    group_id: str, group: ClassicGroup | ConsumerGroup | None, default_assignor: str
) -> DescribedConsumer:
    if not isinstance(group, ConsumerGroup):
        kind = "is not a consumer group" if group is not None else "not found"
        raise Refused(Code.GROUP_ID_NOT_FOUND, f"Group {group_id} {kind}.")
    members = tuple(
        DescribedConsumerMember(
            member_id,
            subscriber.instance_id,
            subscriber.rack_id,
            group.current(member_id).epoch,
            subscriber.client_id,
            subscriber.client_host,
            subscriber.topics,
            subscriber.regex,
            by_topic(group.current(member_id).assigned),
            by_topic(group.target(member_id)),
            subscriber.classic is not None,
        )
        for member_id, subscriber in group.subscribers.items()
    )
    assignor = group.assignor(default_assignor)
    return DescribedConsumer(group_id, group.state, group.epoch, group.target_epoch, assignor, members)
