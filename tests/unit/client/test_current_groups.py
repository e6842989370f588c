"""Whether there is a group: only the coordinator can say no that a node names which is in touch with the cluster."""

from __future__ import annotations

import contextlib
import io
import struct
from collections.abc import Iterator
from datetime import timedelta
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from kio.schema.find_coordinator.v4.response import Coordinator, FindCoordinatorResponse
from kio.schema.list_groups.v5.response import ListedGroup, ListGroupsResponse
from kio.serial import entity_writer

from chronik.client.current_groups import unknown_group
from chronik.client.current_topics import Unsure
from chronik.client.request import Address
from tests.unit.client.answering import another_kafka, answering
from tests.unit.client.looked_at import Nodes, free_address

NOW: Any = timedelta()


def answer(request: bytes, response: Any) -> bytes:
    out = io.BytesIO()
    out.write(request[8:12] + b"\x00")  # correlation id, no tagged fields
    entity_writer(type(response))(out, response)
    return struct.pack(">i", len(out.getvalue())) + out.getvalue()


def coordinator_at(address: Address, code: ErrorCode = ErrorCode.none) -> Any:
    host, port = address
    named: Any = {"key": "billing", "node_id": 3, "host": host, "port": port}
    found = Coordinator(**named, error_code=code, error_message=None)
    return FindCoordinatorResponse(throttle_time=NOW, coordinators=(found,))


def groups(*names: Any, code: ErrorCode = ErrorCode.none) -> Any:
    listed = tuple(
        ListedGroup(group_id=n, protocol_type="consumer", group_state="Empty", group_type="classic") for n in names
    )
    return ListGroupsResponse(throttle_time=NOW, error_code=code, groups=listed)


@contextlib.contextmanager
def a_cluster(listed: Any, found: ErrorCode = ErrorCode.none, *, is_any_current: bool = True) -> Iterator[Address]:
    """Node 1, which is cut off, is asked; node 2 is in touch with node 3, the coordinator."""
    looks: dict[int, Any] = {
        node: {"node": node, "now_us": 1, "is_current": node == 2 and is_any_current, "partitions": {}}
        for node in (1, 2)
    }
    known = Nodes({1: free_address()}, looks)
    with answering(lambda request: answer(request, listed)) as coordinator:
        named = coordinator_at(coordinator, found)
        with answering(lambda request: answer(request, named)) as in_touch, answering(known) as asked:
            known.nodes = {1: asked, 2: in_touch, 3: coordinator}
            yield asked


def told(address: Address) -> str:
    return str(unknown_group([address], "billing", ["billings"], "list them"))


def test_what_its_coordinator_does_not_know_is_not_there() -> None:
    with a_cluster(groups("others")) as address:
        assert told(address) == "no group billing; did you mean billings?"


def test_what_its_coordinator_knows_is_there_and_the_node_that_was_asked_is_behind() -> None:
    with a_cluster(groups("others", "billing")) as address:
        error = unknown_group([address], "billing", [], "list them")
        assert isinstance(error, Unsure)
        assert "group billing is there" in str(error)


@pytest.mark.parametrize(
    ("listed", "found", "is_any_current"),
    [
        (groups(), ErrorCode.none, False),
        (groups(), ErrorCode.coordinator_not_available, True),
        (groups(code=ErrorCode.coordinator_load_in_progress), ErrorCode.none, True),
    ],
    ids=["nobody is in touch", "no coordinator is known", "it is being loaded"],
)
def test_otherwise_it_is_not_known(listed: Any, found: ErrorCode, is_any_current: bool) -> None:
    with a_cluster(listed, found, is_any_current=is_any_current) as address:
        error = unknown_group([address], "billing", [], "list them")
        assert isinstance(error, Unsure)
        assert "whether there is a group billing is not known" in str(error)


def test_where_nothing_answers_it_is_not_known() -> None:
    assert isinstance(unknown_group([free_address()], "billing", [], ""), Unsure)


def test_another_kafka_is_believed() -> None:
    with answering(another_kafka) as address:
        assert told(address) == "no group billing; did you mean billings?"
