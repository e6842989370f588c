"""Our table of requests beside Kafka's own: the same operations on the same resources (`kafka_rights` has the facts).
That each counts, and no other, is walked in test_authorization."""

from __future__ import annotations

import pytest

from chronik.api.table import ROWS
from chronik.wire.versions import APIS
from tests.unit.api import test_authorization as walked
from tests.unit.api.kafka_rights import CORRECTED, DOCUMENTED, needed

KAFKAS = {"TRANSACTIONAL_ID": "TransactionalId"}


def shown(name: str) -> str:
    return KAFKAS.get(name, name.replace("_", " ").title().replace(" ", ""))


@pytest.mark.parametrize("api_key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_a_request_needs_what_kafka_says(api_key: int) -> None:
    ours = {(shown(need.operation.name), shown(need.resource_type.name)) for need in ROWS[api_key].needs}
    assert ours == needed(api_key)


def test_every_request_is_on_kafkas_page_or_is_said_to_be_missing_there() -> None:
    assert set(APIS) == set(DOCUMENTED) | {key for key in CORRECTED if key not in DOCUMENTED}


@pytest.mark.parametrize("api_key", sorted(APIS), ids=lambda key: APIS[key].name)
def test_what_is_walked_are_kafkas_rights(api_key: int) -> None:
    """What test_authorization says that a request needs is among them: the walk cannot go astray with the code."""
    api = APIS[api_key].name
    rights = [walked.WHOLE[api]] if api in walked.WHOLE else []
    rights += [walked.PARTS[api]] if api in walked.PARTS else []
    rights += walked.SEVERAL.get(api, ())
    assert {(shown(operation.name), shown(kind.name)) for operation, kind in rights} <= needed(api_key)
