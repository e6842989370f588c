"""Every version of a message can be turned into the type its handler knows, and back, and into every other version."""

from __future__ import annotations

import dataclasses
import datetime
from typing import Any

import pytest
from kio.schema.delete_topics.v5.response import DeletableTopicResult as DeletedV5
from kio.schema.delete_topics.v6.response import DeletableTopicResult as DeletedV6
from kio.schema.join_group.v0.request import JoinGroupRequest as JoinV0
from kio.schema.join_group.v6.response import JoinGroupResponse as JoinedV6
from kio.schema.join_group.v9.request import JoinGroupRequest as JoinV9
from kio.schema.join_group.v9.response import JoinGroupResponse as JoinedV9
from kio.schema.metadata.v0.request import MetadataRequest as MetadataV0
from kio.schema.metadata.v13.request import MetadataRequest as MetadataV13

from chronik.api.table import DIRECT, module_of
from chronik.core.errors import Code
from chronik.wire.lift import convert
from chronik.wire.versions import APIS
from tests.unit.wire.messages import SPOKEN, VARIANTS, filled, read, request_type, response_type, write

HANDLED = [(key, version) for key, version in SPOKEN if key not in DIRECT]
NAMES = [f"{APIS[key].name}-v{version}" for key, version in HANDLED]


@pytest.mark.parametrize(("api_key", "version"), HANDLED, ids=NAMES)
def test_a_request_lifted_to_its_handler_keeps_every_field(api_key: int, version: int) -> None:
    for variant in VARIANTS:
        request = filled(request_type(api_key, version), variant)

        lifted = convert(request, module_of(api_key).REQUEST)

        assert isinstance(lifted, module_of(api_key).REQUEST)
        assert convert(lifted, type(request)) == request


@pytest.mark.parametrize(("api_key", "version"), HANDLED, ids=NAMES)
def test_a_response_of_any_version_can_be_told_in_every_other(api_key: int, version: int) -> None:
    for variant in VARIANTS:
        response = filled(response_type(api_key, version), variant)
        lifted = convert(response, module_of(api_key).RESPONSE)

        assert convert(lifted, type(response)) == response
        for other in range(APIS[api_key].supported, APIS[api_key].highest + 1):
            lowered = convert(lifted, response_type(api_key, other))
            assert read(type(lowered), write(lowered)) == lowered


def test_a_message_of_the_type_wanted_is_handed_on_as_it_is() -> None:
    request = MetadataV0(topics=())

    assert convert(request, MetadataV0) is request


def test_a_field_that_came_later_gets_the_default_of_the_protocol_not_zero() -> None:
    request = JoinV0(
        group_id="g",
        session_timeout=datetime.timedelta(seconds=9),
        member_id="",
        protocol_type="consumer",
        protocols=(),
    )

    lifted = convert(request, JoinV9)

    assert lifted.rebalance_timeout == datetime.timedelta(milliseconds=-1)
    assert lifted.group_instance_id is None
    assert lifted.session_timeout == request.session_timeout


def test_a_null_becomes_the_zero_of_a_version_that_knows_no_null() -> None:
    """JoinGroup before 7 has no null protocol, DeleteTopics before 6 no null topic, Metadata 0 no null array."""
    joined: Any = filled(JoinedV9, "null")
    deleted = DeletedV6(name=None, topic_id=None, error_code=Code.NONE, error_message=None)

    assert joined.protocol_name is None
    assert convert(joined, JoinedV6).protocol_name == ""
    assert convert(deleted, DeletedV5).name == ""
    assert convert(filled(MetadataV13, "null"), MetadataV0).topics == ()


def test_defaults_are_not_shared_state() -> None:
    lifted = convert(MetadataV0(topics=()), MetadataV13)

    with pytest.raises(dataclasses.FrozenInstanceError):
        lifted.topics = None
