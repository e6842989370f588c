"""InitProducerId."""

from __future__ import annotations

import asyncio
import datetime
from typing import Any

import pytest
from kio.schema.init_producer_id.v5.request import InitProducerIdRequest

from chronik.api import init_producer_id
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import AllocateProducerIds
from tests.unit.api.fake_context import ask, caller, fake_context, metadata_of


def request(transactional_id: str | None = None, producer_id: int = -1, epoch: int = -1) -> Any:
    return InitProducerIdRequest(
        transactional_id=transactional_id,
        transaction_timeout=datetime.timedelta(0),
        producer_id=producer_id,
        producer_epoch=epoch,
    )


def test_every_producer_gets_an_id_of_its_own() -> None:
    context = fake_context()

    answers = [ask(init_producer_id, request(), context, version=4) for _ in range(3)]

    assert [(one.error_code, one.producer_id, one.producer_epoch) for one in answers] == [
        (Code.NONE, 0, 0),
        (Code.NONE, 1, 0),
        (Code.NONE, 2, 0),
    ]
    assert metadata_of(context).asked == [AllocateProducerIds(1)]


def test_a_new_block_is_allocated_when_one_is_used_up() -> None:
    context = fake_context()

    ids = [ask(init_producer_id, request(), context, version=4).producer_id for _ in range(1001)]

    assert ids == list(range(1001))
    assert len(metadata_of(context).asked) == 2


def test_producers_that_come_at_once_share_no_id() -> None:
    context = fake_context()

    async def all_at_once() -> list[Any]:
        return await asyncio.gather(*(init_producer_id.handle(request(), caller(4), context) for _ in range(50)))

    answers = asyncio.run(all_at_once())

    assert len({one.producer_id for one in answers}) == 50


def test_an_idempotent_producer_that_names_its_id_gets_a_new_one() -> None:
    answer = ask(init_producer_id, request(producer_id=77, epoch=3), fake_context(), version=4)

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (Code.NONE, 0, 0)


@pytest.mark.parametrize(("producer_id", "epoch"), [(77, -1), (-1, 3)])
def test_an_id_without_its_epoch_is_refused(producer_id: int, epoch: int) -> None:
    answer = ask(init_producer_id, request(producer_id=producer_id, epoch=epoch), fake_context(), version=4)

    assert (answer.error_code, answer.producer_id) == (Code.INVALID_REQUEST, -1)


def test_a_transactional_producer_is_refused_for_good() -> None:
    answer = ask(init_producer_id, request("t"), fake_context(), version=4)

    assert answer.error_code is Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED
    assert ask(init_producer_id, request(""), fake_context(), version=4).error_code is Code.INVALID_REQUEST


@pytest.mark.parametrize(
    ("reason", "code"),
    [
        (Code.NOT_CONTROLLER, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.STALE_BROKER_EPOCH, Code.COORDINATOR_LOAD_IN_PROGRESS),
        (Code.KAFKA_STORAGE_ERROR, Code.KAFKA_STORAGE_ERROR),
    ],
)
def test_when_no_block_can_be_had_the_producer_is_told(reason: Code, code: Code) -> None:
    """In words that it knows: it asks again as long as there is no controller."""
    context = fake_context()
    metadata_of(context).refusing = Refused(reason)

    answer = ask(init_producer_id, request(), context, version=4)

    assert (answer.error_code, answer.producer_id, answer.producer_epoch) == (code, -1, -1)
