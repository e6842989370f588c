"""Changes of quotas become records, where they change anything. What requests make of it: tests/unit/api."""

from __future__ import annotations

import pytest

from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.quota_changes import (
    CHANGES_MAX,
    AlterClientQuotas,
    QuotaChange,
    alter_client_quotas,
)

ALICE = (("user", "alice"),)


def image_with(*values: tuple[str, float]) -> MetadataImage:
    image = MetadataImage("a-test-cluster", NodeConfig())
    facts, _ = alter_client_quotas(image, AlterClientQuotas((QuotaChange(ALICE, values),)))
    for fact in facts:
        image.apply(fact)
    return image


def test_what_is_so_already_is_no_record() -> None:
    image = image_with(("producer_byte_rate", 5.0))
    again = AlterClientQuotas((QuotaChange(ALICE, (("producer_byte_rate", 5.0), ("consumer_byte_rate", None))),))
    assert alter_client_quotas(image, again)[0] == []


def test_what_is_taken_away_need_not_be_known() -> None:
    """A newer version may have set it: an older one can still take it away."""
    image = image_with(("producer_byte_rate", 5.0))
    image.quotas.set(ALICE, "some_new_rate", 1.0)
    facts, outcomes = alter_client_quotas(image, AlterClientQuotas((QuotaChange(ALICE, (("some_new_rate", None),)),)))
    assert [(fact.key, fact.remove) for fact in facts] == [("some_new_rate", True)]
    assert outcomes[0].code is Code.NONE


def test_one_command_changes_so_many_and_no_more() -> None:
    many = tuple((f"key {number}", 1.0) for number in range(CHANGES_MAX + 1))
    with pytest.raises(Refused) as refused:
        alter_client_quotas(image_with(), AlterClientQuotas((QuotaChange(ALICE, many),)))
    assert refused.value.code is Code.INVALID_REQUEST
