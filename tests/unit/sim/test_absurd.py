"""Requests that make no sense are well-formed all the same, and name nothing that a promise is about."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import pytest

from chronik.sim.absurd import Absurd
from chronik.sim.chance import SimChance
from chronik.sim.link import VERSIONS, request_type
from chronik.wire.writer import encode_into

NODE_FIELDS = ("broker_id", "broker_ids", "replicas", "voter_id")


def values(message: Any) -> Iterator[tuple[str, Any]]:
    """Every field anywhere in a message, with the fields of its parts."""
    for field in dataclasses.fields(message):
        value = getattr(message, field.name)
        for one in value if isinstance(value, tuple) else (value,):
            if dataclasses.is_dataclass(one):
                yield from values(one)
            else:
                yield field.name, one


@pytest.mark.parametrize("name", sorted(VERSIONS))
def test_each_is_well_formed_and_means_no_node(name: str) -> None:
    absurd = Absurd(SimChance(1, name))
    for _ in range(50):
        message = absurd.message(request_type(name))

        encode_into(bytearray(), message)
        assert not any(field in NODE_FIELDS and value in range(10) for field, value in values(message))


def test_topics_are_named_where_they_may_be() -> None:
    named: set[Any] = set()
    for absurd in (Absurd(SimChance(1, "a")), Absurd(SimChance(1, "a"), ["orders"])):
        found = {value for _ in range(100) for _, value in values(absurd.message(request_type("list_offsets")))}
        named.add("orders" in found)

    assert named == {False, True}


def test_a_given_number_is_taken() -> None:
    absurd = Absurd(SimChance(1, "a"), numbers={"broker_id": (3,)})

    assert absurd.fields(request_type("broker_heartbeat"))["broker_id"] == 3
