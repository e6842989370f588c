"""What a quota can be about: a user, a client id, both together, or an address; each by name, or all that have none of
their own (Kafka's defaults). Which keys each can have, and which entities a filter finds, as Kafka's controller has it.
"""

from __future__ import annotations

import ipaddress
from collections.abc import Iterable, Mapping
from enum import Enum, IntEnum
from typing import NamedTuple, TypeAlias

from chronik.core.config.definitions import INT_MAX, LONG_MAX
from chronik.core.errors import Code, Refused

USER, CLIENT_ID, IP = "user", "client-id", "ip"
ENTITY_TYPES = (USER, CLIENT_ID, IP)

# Pairs of a type and a name, by type; the name None is the default.
QuotaEntity: TypeAlias = tuple[tuple[str, str | None], ...]

NAME_BYTES_MAX = 8_192  # Kafka has no limit of its own


class QuotaKey(Enum):
    """What can be limited, under Kafka's names."""

    PRODUCE = "producer_byte_rate"
    FETCH = "consumer_byte_rate"
    REQUEST = "request_percentage"
    CONTROLLER_MUTATION = "controller_mutation_rate"
    CONNECTION_CREATION = "connection_creation_rate"


_OF_CLIENTS = frozenset((QuotaKey.PRODUCE, QuotaKey.FETCH, QuotaKey.REQUEST, QuotaKey.CONTROLLER_MUTATION))
_OF_ADDRESSES = frozenset((QuotaKey.CONNECTION_CREATION,))
_WHOLE_NUMBERS = {QuotaKey.PRODUCE: LONG_MAX, QuotaKey.FETCH: LONG_MAX, QuotaKey.CONNECTION_CREATION: INT_MAX}
_KIND_OF_NUMBER = {LONG_MAX: "LONG", INT_MAX: "INT"}
_FRACTION = 1e-6


class QuotaMatch(IntEnum):
    """How a filter means a name, in the numbers of DescribeClientQuotas."""

    EXACT = 0
    DEFAULT = 1
    SPECIFIED = 2  # any name, and the default


class QuotaFilterPart(NamedTuple):
    """What a filter says of one type of entity."""

    entity_type: str
    match_type: int
    match: str | None


def entity_of(pairs: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    return tuple(sorted(pairs, key=lambda pair: pair[0]))


def check_entity(pairs: Iterable[tuple[str, str | None]]) -> QuotaEntity:
    """The entity, if there can be one. Raises Refused (INVALID_REQUEST)."""
    entity = entity_of(pairs)
    seen: set[str] = set()
    if not entity:
        raise Refused(Code.INVALID_REQUEST, "Invalid empty client quota entity")
    for entity_type, name in entity:
        if entity_type in seen:
            raise Refused(
                Code.INVALID_REQUEST, f"Invalid empty client quota entity, duplicate entity entry {entity_type}"
            )
        if entity_type not in ENTITY_TYPES:
            raise Refused(Code.INVALID_REQUEST, f"Unhandled client quota entity type: {entity_type}")
        if name is not None and not name:
            raise Refused(Code.INVALID_REQUEST, f"Empty {entity_type} not supported")
        if name is not None and len(name.encode()) > NAME_BYTES_MAX:
            raise Refused(Code.INVALID_REQUEST, f"a {entity_type} has at most {NAME_BYTES_MAX} bytes")
        seen.add(entity_type)
    if IP in seen:
        if len(seen) > 1:
            raise Refused(Code.INVALID_REQUEST, "Invalid quota entity combination: an ip stands alone")
        name = entity[0][1]
        if name is not None and not _is_address(name):  # Kafka takes names of hosts too, and resolves them
            raise Refused(Code.INVALID_REQUEST, f"{name} is not a valid IP or resolvable host.")
    return entity


def _is_address(text: str) -> bool:
    try:
        ipaddress.ip_address(text)
    except ValueError:
        return False
    return True


def check_key(entity: QuotaEntity, key: str) -> QuotaKey:
    """Raises Refused (INVALID_REQUEST): an entity of this kind has no such quota."""
    allowed = _OF_ADDRESSES if entity[0][0] == IP else _OF_CLIENTS
    known = next((one for one in allowed if one.value == key), None)
    if known is None:
        raise Refused(Code.INVALID_REQUEST, f"Invalid configuration key {key}")
    return known


def check_value(key: QuotaKey, value: float) -> None:
    """Raises Refused (INVALID_REQUEST)."""
    if not value > 0:  # NaN too
        raise Refused(Code.INVALID_REQUEST, f"Quota {key.value} must be greater than 0")
    largest = _WHOLE_NUMBERS.get(key)
    if largest is None:
        return
    if value > largest:
        raise Refused(
            Code.INVALID_REQUEST, f"Proposed value for {key.value} is too large for a {_KIND_OF_NUMBER[largest]}."
        )
    if abs(value % 1.0) > _FRACTION:
        raise Refused(Code.INVALID_REQUEST, f"{key.value} cannot be a fractional value.")


class QuotaFilter:
    """Finds entities, as DescribeClientQuotas says: all of its parts must match, and `strict` means that an entity has
    nothing else. Without parts it finds all; strict, none."""

    def __init__(self, parts: Iterable[QuotaFilterPart], *, strict: bool) -> None:
        """Raises Refused."""
        self._exact: dict[str, str | None] = {}
        self._any: dict[str, None] = {}
        self._strict = strict
        for part in parts:
            self._add(part)
        named = {*self._exact, *self._any}
        if IP in named and len(named) > 1:
            raise Refused(
                Code.INVALID_REQUEST,
                "Invalid entity filter component combination. IP filter component should not be used with user or"
                " clientId filter component.",
            )

    def _add(self, part: QuotaFilterPart) -> None:
        entity_type, match_type, match = part
        if not entity_type:
            raise Refused(Code.INVALID_REQUEST, "Invalid empty entity type.")
        if entity_type in self._exact or entity_type in self._any:
            raise Refused(
                Code.INVALID_REQUEST, f"Entity type {entity_type} cannot appear more than once in the filter."
            )
        if entity_type not in ENTITY_TYPES:
            raise Refused(Code.UNSUPPORTED_VERSION, f"Unsupported entity type {entity_type}")
        if match_type == QuotaMatch.EXACT:
            if match is None:
                raise Refused(Code.INVALID_REQUEST, "Request specified MATCH_TYPE_EXACT, but set match string to null.")
            self._exact[entity_type] = match
            return
        if match_type not in (QuotaMatch.DEFAULT, QuotaMatch.SPECIFIED):
            raise Refused(Code.INVALID_REQUEST, f"Unknown match type {match_type}")
        if match is not None:
            name = QuotaMatch(match_type).name
            raise Refused(
                Code.INVALID_REQUEST, f"Request specified MATCH_TYPE_{name}, but also specified a match string."
            )
        if match_type == QuotaMatch.DEFAULT:
            self._exact[entity_type] = None
        else:
            self._any[entity_type] = None

    def finds(self, entity: QuotaEntity) -> bool:
        names: Mapping[str, str | None] = dict(entity)
        count = len(self._exact) + len(self._any)
        if self._strict and (not count or len(names) != count):
            return False
        return all(kind in names and names[kind] == name for kind, name in self._exact.items()) and all(
            kind in names for kind in self._any
        )
