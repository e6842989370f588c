"""WriteTxnMarkers (27), versions 1-2. A transaction's coordinator has its partitions marked: committed, or aborted.

A marker is answered when it is on every in-sync replica: then the transaction is decided here for good, and the last
stable offset has passed it. With transaction version 2 a marker that comes again is known for what it is (KIP-1228);
with the earlier ones it is written again, and the coordinator begins no other transaction of that producer before all
markers of the last one are answered.

An administrator may send it too, to end a transaction that hangs (KIP-664): without access control every client is one,
as in Kafka. What a coordinator has to say of that transaction later is taken all the same.

On a partition of `__consumer_offsets` the group coordinator writes it, for it decides about the offsets of the
transaction. While that one is reading its log the answer is NOT_LEADER_OR_FOLLOWER, and the marker comes again.
"""

from __future__ import annotations

import asyncio

from kio.schema.write_txn_markers.v2.request import WritableTxnMarker, WriteTxnMarkersRequest
from kio.schema.write_txn_markers.v2.response import (
    WritableTxnMarkerPartitionResult,
    WritableTxnMarkerResult,
    WritableTxnMarkerTopicResult,
    WriteTxnMarkersResponse,
)

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.names import OFFSETS_TOPIC, is_internal
from chronik.core.records.control import Marker
from chronik.core.replica.replica import ACKS_ALL

REQUEST = WriteTxnMarkersRequest
RESPONSE = WriteTxnMarkersResponse

REPLICATED_WITHIN_MS = 30_000  # else the coordinator hears REQUEST_TIMED_OUT, and sends it again


async def handle(request: WriteTxnMarkersRequest, caller: Caller, context: RequestContext) -> WriteTxnMarkersResponse:
    asked = [
        [[_write(marker, topic.name, index, context) for index in topic.partition_indexes] for topic in marker.topics]
        for marker in request.markers
    ]
    await asyncio.gather(*(outcome for topics in asked for partitions in topics for outcome in partitions))
    codes = [[[outcome.result() for outcome in partitions] for partitions in topics] for topics in asked]
    return _response(request, codes)


def _write(marker: WritableTxnMarker, topic: str, partition: int, context: RequestContext) -> asyncio.Future[Code]:
    outcome: asyncio.Future[Code] = asyncio.get_running_loop().create_future()
    try:
        ending = Marker(marker.transaction_result, marker.coordinator_epoch)
        who = marker.producer_id, marker.producer_epoch
        if topic == OFFSETS_TOPIC:
            replica, appended = context.groups.append_marker(partition, ending, *who, marker.transaction_version)
        elif is_internal(topic):
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, f"{topic} takes part in no transaction")
        else:
            replica = context.replicas.leader(topic, partition)
            appended = context.replicas.append_marker(replica, ending, *who, marker.transaction_version)
    except Refused as refusal:
        outcome.set_result(refusal.code)
        return outcome
    if appended.is_new:
        context.observation.observer.transaction_marked(replica, *who, ending, appended.base_offset)

    def replicated(code: Code) -> None:
        if not outcome.done():
            outcome.set_result(code)

    context.waiting.when_safe(replica, appended.last_offset + 1, ACKS_ALL, REPLICATED_WITHIN_MS, replicated)
    return outcome


def _response(request: WriteTxnMarkersRequest, codes: list[list[list[Code]]]) -> WriteTxnMarkersResponse:
    return WriteTxnMarkersResponse(
        markers=tuple(
            WritableTxnMarkerResult(
                producer_id=marker.producer_id,
                topics=tuple(
                    WritableTxnMarkerTopicResult(
                        name=topic.name,
                        partitions=tuple(
                            WritableTxnMarkerPartitionResult(partition_index=index, error_code=code)
                            for index, code in zip(topic.partition_indexes, of_partitions, strict=True)
                        ),
                    )
                    for topic, of_partitions in zip(marker.topics, of_topics, strict=True)
                ),
            )
            for marker, of_topics in zip(request.markers, codes, strict=True)
        )
    )


def refuse(request: WriteTxnMarkersRequest, code: Code, message: str | None) -> WriteTxnMarkersResponse:
    codes = [[[code] * len(topic.partition_indexes) for topic in marker.topics] for marker in request.markers]
    return _response(request, codes)
