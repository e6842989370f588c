"""Changes of clients' quotas (KIP-546), with the checks of Kafka's controller and in their order.

Of one entity either all is changed or nothing; one that is refused does not hold back the others.
"""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import DONE, ChangeOutcome, MetadataCommand
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import ClientQuotaRecord, quota_record
from chronik.core.quotas.entities import QuotaEntity, check_entity, check_key, check_value, entity_of

CHANGES_MAX = 10_000  # of one command: they become one batch


@dataclass(frozen=True, slots=True)
class QuotaChange:
    """What is to become of the quotas of one entity: values by key, None to take one away. Keys may come twice."""

    entity: tuple[tuple[str, str | None], ...]
    values: tuple[tuple[str, float | None], ...]


@dataclass(frozen=True, slots=True)
class AlterClientQuotas(MetadataCommand[tuple[ChangeOutcome, ...]]):
    """Answer: a tuple of ChangeOutcome, one for each change."""

    changes: tuple[QuotaChange, ...]
    validate_only: bool = False


def alter_client_quotas(
    image: MetadataImage, command: AlterClientQuotas
) -> tuple[list[ClientQuotaRecord], tuple[ChangeOutcome, ...]]:
    """Raises Refused."""
    if sum(len(change.values) for change in command.changes) > CHANGES_MAX:  # Kafka has no limit here
        raise Refused(Code.INVALID_REQUEST, f"at most {CHANGES_MAX} quotas can be altered at once")
    facts: list[ClientQuotaRecord] = []
    outcomes: list[ChangeOutcome] = []
    seen: set[QuotaEntity] = set()
    for change in command.changes:
        try:
            facts += _records(image, change, seen)
        except Refused as refused:
            outcomes.append(ChangeOutcome(refused.code, refused.message))
        else:
            outcomes.append(DONE)
    return ([] if command.validate_only else facts), tuple(outcomes)


def _records(image: MetadataImage, change: QuotaChange, seen: set[QuotaEntity]) -> list[ClientQuotaRecord]:
    named = entity_of(change.entity)
    if named in seen:
        raise Refused(Code.INVALID_REQUEST, f"Ignoring duplicate entity {dict(named)}")
    seen.add(named)
    values: dict[str, float | None] = {}
    for key, value in change.values:
        if key in values:
            raise Refused(
                Code.INVALID_REQUEST, f"Duplicate quota key {key} not updating quota for this entity {dict(named)}"
            )
        values[key] = value
    entity = check_entity(named)
    present = image.quotas.of(entity)
    records = []
    for key, value in values.items():
        if value is not None:
            check_value(check_key(entity, key), value)
        if value != present.get(key):
            records.append(quota_record(entity, key, value))
    return records
