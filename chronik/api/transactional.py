"""What the requests of transactional producers have in common."""

from __future__ import annotations

from dataclasses import replace

from chronik.api.context import RequestContext, TransactionsDesk, VerificationDesk
from chronik.api.producer_ids import wait_for_producer_id
from chronik.core.errors import Code, Refused
from chronik.core.machines.transactions.commands import (
    EndTransaction,
    InitProducer,
    ProducerIdentity,
    ProducerIdNeeded,
)


def transactions(context: RequestContext) -> TransactionsDesk:
    """Raises Refused where this node coordinates none, with the one code that the Java client, librdkafka and
    kafka-python take as final and report at once: an unknown or 'not available' one makes some ask for ever."""
    if context.transactional.coordinator is None:
        raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not supported yet.")
    return context.transactional.coordinator


def verification(context: RequestContext) -> VerificationDesk:
    """Raises Refused, as `transactions`."""
    if context.transactional.verification is None:
        raise Refused(Code.TRANSACTIONAL_ID_AUTHORIZATION_FAILED, "Transactions are not supported yet.")
    return context.transactional.verification


def checked_id(transactional_id: str | None) -> str:
    """Raises Refused (INVALID_REQUEST)."""
    if not transactional_id:
        raise Refused(Code.INVALID_REQUEST, "An empty transactional id.")
    return transactional_id


def fenced_code(code: Code, version: int, fenced_from: int) -> Code:
    """PRODUCER_FENCED for clients that know it; those of versions before get INVALID_PRODUCER_EPOCH."""
    return Code.INVALID_PRODUCER_EPOCH if code is Code.PRODUCER_FENCED and version < fenced_from else code


async def ask_with_producer_id(context: RequestContext, command: InitProducer | EndTransaction) -> ProducerIdentity:
    """The answer; with a new producer id where the machine needs one. Raises Refused."""
    desk = transactions(context)
    answer = await desk.ask(command.transactional_id, command)
    if isinstance(answer, ProducerIdNeeded):
        with_id = replace(command, new_producer_id=await wait_for_producer_id(context))
        answer = await desk.ask(command.transactional_id, with_id)
    assert isinstance(answer, ProducerIdentity)  # it had one
    return answer


# Of Produce: clients that know TRANSACTION_ABORTABLE, and those of transaction version 2, which add no partitions.
ABORTABLE_FROM, IMPLICIT_FROM = 11, 12
# What a producer is to try again, answered with the one code that makes all of them do so and look for no other leader.
_AGAIN = (
    Code.NETWORK_EXCEPTION,
    Code.COORDINATOR_LOAD_IN_PROGRESS,
    Code.COORDINATOR_NOT_AVAILABLE,
    Code.NOT_COORDINATOR,
)


def unverified(code: Code, version: int) -> Refused:
    """The error for a producer that speaks this version of Produce when its coordinator does not confirm a transaction.
    One that still ends is common with transaction version 2, and those producers know its own code."""
    if code in _AGAIN or (code is Code.CONCURRENT_TRANSACTIONS and version < IMPLICIT_FROM):
        return Refused(Code.NOT_ENOUGH_REPLICAS, f"the transaction cannot be verified now: {code.name}")
    if code is Code.PRODUCER_FENCED:
        return Refused(Code.INVALID_PRODUCER_EPOCH, "another producer has this transactional id by now")
    if code is Code.CLUSTER_AUTHORIZATION_FAILED or (code is Code.TRANSACTION_ABORTABLE and version < ABORTABLE_FROM):
        return Refused(Code.INVALID_TXN_STATE, "the partition was not added to the transaction")
    return Refused(code)
