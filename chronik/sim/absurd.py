"""Well-formed requests that make no sense: every field has a value of its type, and one that no client would send.

They name nothing that the world keeps a promise about, unless they only read: what an administrator may do, a stranger
may do as well until there are permissions, and a topic that was deleted on request is no broken promise.
"""

from __future__ import annotations

import dataclasses
import datetime
import typing
import uuid
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

from chronik.core.records.payload import KeyValue, build
from chronik.sim.chance import SimChance
from chronik.wire.reader import shape_of

_BITS = {"int8": 8, "int16": 16, "int32": 32, "int64": 64}
_NAMES = ("hostile", "hostile-2", "", ".", "..", "a b", "x" * 249, "x" * 250, "\x00", "näme", "9" * 30, "__hostile")
_NOT_A_NODE = (-1, 77, 2**31 - 1, -(2**31))
NUMBERS: dict[str, Sequence[int]] = {
    # Nodes and registrations that there are not.
    "broker_id": _NOT_A_NODE,
    "broker_ids": _NOT_A_NODE,
    "replicas": _NOT_A_NODE,
    "voter_id": _NOT_A_NODE,
    "broker_epoch": (-1, -2, 10**9, 2**63 - 1, -(2**63)),
    # Enough to get further than the first check.
    "num_partitions": (1, 0, -1, 2**31 - 1),
    "count": (1, 0, -1, 2**31 - 1),
    "replication_factor": (1, -1, 0, 2**15 - 1),
    "partition": (0, 1, -1, 2**31 - 1),
    "partition_index": (0, 1, -1, 2**31 - 1),
    "acks": (-1, 1, 0, 2**15 - 1),
    "key_type": (0, 1, 127),
    "resource_type": (2, 4, 8, 127),
    "election_type": (0, 2, -1, 127),  # not 1: an unclean election of everything loses records, as ordered
    "session_epoch": (-1, 0, 1, 2**31 - 1),
    "member_epoch": (0, 1, -1, -2, 2**31 - 1),
}


@cache
def _hints(kind: Any) -> dict[str, Any]:
    return typing.get_type_hints(kind)


class Absurd:
    """Draws them. `names` are topics and groups that may be named, `numbers` are values for fields of these names."""

    def __init__(
        self, chance: SimChance, names: Sequence[str] = (), numbers: Mapping[str, Sequence[int]] | None = None
    ) -> None:
        self._chance = chance
        self._names = (*_NAMES, *names)
        self._numbers = {**NUMBERS, **(numbers or {})}

    def fields(self, kind: Any) -> dict[str, Any]:
        """Values for all fields of a message."""
        return {field.name: self._value(kind, field) for field in dataclasses.fields(kind)}

    def message(self, kind: Any) -> Any:
        return kind(**self.fields(kind))

    def _value(self, kind: Any, field: dataclasses.Field[Any]) -> Any:
        _, is_array, nested, is_nullable = shape_of(_hints(kind)[field.name])
        wire_type = field.metadata.get("kafka_type") or ""
        if is_nullable and self._chance.happens(0.2):
            return None
        if is_array:
            count = self._chance.one_of((0, 1, 1, 2))
            return tuple(self.message(nested) if nested else self._one(field.name, wire_type) for _ in range(count))
        return self.message(nested) if nested else self._one(field.name, wire_type)

    def _one(self, name: str, wire_type: str) -> Any:
        chance = self._chance
        match wire_type:
            case "string":
                return chance.one_of(self._names)
            case "bool":
                return chance.happens(0.5)
            case "uuid":
                return uuid.UUID(bytes=chance.uuid())
            case "bytes":
                return bytes(chance.one_of((0, 1, 100)))
            case "records":
                return chance.one_of((b"", bytes(61), bytes(build([KeyValue(None, b"hostile")], 0))))
            case "uint16":
                return chance.one_of((0, 1, 2**16 - 1))
            case "float64":
                return chance.one_of((0.0, 1.0, -1.0, 0.5, 1e308, float("inf"), float("nan")))
            case "timedelta_i32":
                return datetime.timedelta(milliseconds=chance.one_of((0, 1, 100, 2**31 - 1, -1, -(2**31))))
            case "timedelta_i64":  # a longer time is more than Python's type holds
                return datetime.timedelta(milliseconds=chance.one_of((0, 1, 100, 10**15, -1, -(10**15))))
        return self.number(name, wire_type)

    def number(self, name: str, wire_type: str) -> int:
        high = (1 << (_BITS[wire_type] - 1)) - 1
        low = -high - 1
        drawn = self._chance.one_of(self._numbers.get(name) or (0, 1, -1, 2, 100, high, low))
        return max(low, min(drawn, high))
