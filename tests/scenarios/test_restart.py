"""A node that stops and starts again over the same disk: offsets go on, nothing moves back, nobody is forgotten."""

from __future__ import annotations

import pytest

from chronik.core.errors import Code
from tests.scenarios.one_partition import EARLIEST, LATEST, first_partition, get, listed, replica_of, send
from tests.unit.api.house_context import Asked, HouseContext, run
from tests.unit.core.fakes import MemoryFiles
from tests.unit.core.log.logs import batch_of


def outcome(asked: Asked) -> tuple[int, int]:
    """Error code and base offset of the only partition."""
    [answer] = asked.response.responses[0].partition_responses
    return answer.error_code, answer.base_offset


def checkpoint(context: HouseContext) -> None:
    context.house.checkpoints.write(context.house.replicas.held())


def numbered(sequence: int, epoch: int = 0) -> bytes:
    """A batch of an idempotent producer."""
    return bytes(batch_of(2, producer_id=7, producer_epoch=epoch, sequence=sequence))


@run()
async def test_offsets_go_on_where_the_log_ends_not_where_the_checkpoint_saw_it(context: HouseContext) -> None:
    send(context, bytes(batch_of(3)))
    await context.settle()
    checkpoint(context)
    send(context, bytes(batch_of(2)))
    await context.settle()

    again = HouseContext(files=context.house.files)
    assert (listed(again, EARLIEST), listed(again, LATEST)) == (0, 5)
    asked = send(again)
    await again.settle()

    assert outcome(asked) == (0, 5)
    assert first_partition(get(again, 0)).records.count(b"value") == 6


@run()
async def test_what_a_restart_shows_to_consumers_survives_a_power_cut(context: HouseContext) -> None:
    """It was written before a kill and never synced: shown, it must not be lost later."""
    files = context.house.files
    replica = replica_of(context)
    context.house.replicas.logs.directories.mark(replica)
    replica.append(batch_of(4), 1, context.house.clock.now_ms())  # and the process dies before the sync
    files.kill()

    shown = listed(HouseContext(files=files), LATEST)
    files.crash()

    assert shown == 4
    assert listed(HouseContext(files=files), LATEST) == 4


@run()
async def test_deleted_records_stay_deleted(context: HouseContext) -> None:
    send(context, bytes(batch_of(5)))
    await context.settle()
    replica_of(context).delete_records(3)
    checkpoint(context)

    again = HouseContext(files=context.house.files)

    assert (listed(again, EARLIEST), listed(again, LATEST)) == (3, 5)
    assert first_partition(get(again, 2)).error_code == Code.OFFSET_OUT_OF_RANGE


@pytest.mark.parametrize("is_orderly", [True, False])
def test_a_producer_is_known_after_a_restart(is_orderly: bool) -> None:
    """Each of its last five batches: a retry gets the first offsets, the next is taken, a gap is not."""
    files = MemoryFiles()

    @run(files=files)
    async def before(context: HouseContext) -> None:
        for number in range(7):
            send(context, numbered(2 * number))
        await context.settle()
        if is_orderly:
            context.house.replicas.logs.close_all()
            checkpoint(context)
            context.house.checkpoints.stopped()

    @run(files=files)
    async def after(context: HouseContext) -> None:
        retries = [send(context, numbered(2 * number)) for number in range(2, 7)]
        gap = send(context, numbered(20))
        due = send(context, numbered(14))
        await context.settle()
        assert [outcome(asked) for asked in retries] == [(0, 2 * number) for number in range(2, 7)]
        assert outcome(gap) == (Code.OUT_OF_ORDER_SEQUENCE_NUMBER, -1)
        assert outcome(due) == (0, 14)

    before()
    after()


@run()
async def test_a_retry_of_what_is_safe_here_only_waits_for_the_others_with_acks_all(context: HouseContext) -> None:
    replica = replica_of(context)
    replica.lead(0, 1, (1, 2), (1, 2), 0)
    send(context, numbered(0), acks=-1)
    await context.settle()
    assert replica.durable_end_offset == 2

    retried = send(context, numbered(0), acks=-1)
    of_this_node = send(context, numbered(0), acks=1)

    assert retried.answers == []
    assert outcome(of_this_node) == (0, 0)
    replica.follower_fetched(2, 2, 0)
    context.house.waiting.moved(replica)
    assert outcome(retried) == (0, 0)
