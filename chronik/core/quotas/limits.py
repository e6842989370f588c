"""The quotas that are set: a part of the metadata image."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import NamedTuple

from chronik.core.quotas.entities import CLIENT_ID, IP, USER, QuotaEntity, QuotaFilter, QuotaKey, entity_of


class Limit(NamedTuple):
    """A client's limit, and with whom it is shared: all of a user, all of a client id, or of both; "" is any."""

    value: float
    user: str
    client_id: str


class QuotaLimits:
    """By entity and key. Changed by `set` and `remove` only, which the image calls."""

    def __init__(self) -> None:
        self._by_entity: dict[QuotaEntity, dict[str, float]] = {}
        self._keys: dict[str, int] = {}  # how many entities have each
        self.is_in_use = False  # whether there are any: all that a request costs where there are none

    def copy(self) -> QuotaLimits:
        other = QuotaLimits()
        other._by_entity = {entity: dict(values) for entity, values in self._by_entity.items()}
        other._keys = dict(self._keys)
        other.is_in_use = self.is_in_use
        return other

    def clear(self) -> None:
        self._by_entity.clear()
        self._keys.clear()
        self.is_in_use = False

    def __eq__(self, other: object) -> bool:
        return isinstance(other, QuotaLimits) and self._by_entity == other._by_entity

    __hash__ = None  # type: ignore[assignment]  # it changes

    def set(self, entity: QuotaEntity, key: str, value: float) -> None:
        values = self._by_entity.setdefault(entity, {})
        if key not in values:
            self._keys[key] = self._keys.get(key, 0) + 1
        values[key] = value
        self.is_in_use = True

    def remove(self, entity: QuotaEntity, key: str) -> None:
        values = self._by_entity.get(entity, {})
        if key not in values:
            return
        del values[key]
        if not values:
            del self._by_entity[entity]
        self._keys[key] -= 1
        if not self._keys[key]:
            del self._keys[key]
        self.is_in_use = bool(self._by_entity)

    def has(self, key: QuotaKey) -> bool:
        """Whether any entity has such a quota."""
        return key.value in self._keys

    def of(self, entity: QuotaEntity) -> Mapping[str, float]:
        return self._by_entity.get(entity, {})

    def items(self) -> Iterator[tuple[QuotaEntity, Mapping[str, float]]]:
        yield from self._by_entity.items()

    def found_by(self, wanted: QuotaFilter) -> list[tuple[QuotaEntity, Mapping[str, float]]]:
        return [(entity, values) for entity, values in self._by_entity.items() if wanted.finds(entity)]

    def limit_of(self, key: QuotaKey, user: str, client_id: str) -> Limit | None:
        """The first that is set, in the order of Kafka's ClientQuotaManager. A client without an id has only those of
        its user."""
        if not self.has(key):
            return None
        for by_user, by_client in _PRECEDENCE:
            if by_client is not None and not client_id:
                continue
            pairs = []
            if by_user is not None:
                pairs.append((USER, user if by_user else None))
            if by_client is not None:
                pairs.append((CLIENT_ID, client_id if by_client else None))
            value = self._by_entity.get(entity_of(pairs), {}).get(key.value)
            if value is not None:
                return Limit(value, user if by_user is not None else "", client_id if by_client is not None else "")
        return None

    def connection_rate_of(self, host: str) -> float | None:
        """Connections that an address may open in a second."""
        key = QuotaKey.CONNECTION_CREATION
        if not self.has(key):
            return None
        own = self._by_entity.get(((IP, host),), {}).get(key.value)
        return own if own is not None else self._by_entity.get(((IP, None),), {}).get(key.value)


# Of user and client id: by its name (True), by the default (False), or whatever it is (None).
_PRECEDENCE = (
    (True, True),
    (True, False),
    (True, None),
    (False, True),
    (False, False),
    (False, None),
    (None, True),
    (None, False),
)
