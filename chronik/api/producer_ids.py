"""New producer ids, of the blocks that the controller has given this node."""

from __future__ import annotations

from chronik.api.context import RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import AllocateProducerIds, ProducerIdBlock


async def wait_for_producer_id(context: RequestContext) -> int:
    """Raises Refused (COORDINATOR_LOAD_IN_PROGRESS: a producer is to ask again)."""
    producer_id = context.producer_ids.take()
    while producer_id is None:
        context.producer_ids.add(await _block(context))
        producer_id = context.producer_ids.take()
    return producer_id


async def _block(context: RequestContext) -> ProducerIdBlock:
    """Ids for this node. While there is no controller to give it some, a producer is to ask again, as in Kafka."""
    try:
        return await context.metadata.ask(AllocateProducerIds(context.node_id))
    except Refused as refused:
        if refused.code in (Code.NOT_CONTROLLER, Code.STALE_BROKER_EPOCH):
            raise Refused(Code.COORDINATOR_LOAD_IN_PROGRESS, refused.message) from refused
        raise
