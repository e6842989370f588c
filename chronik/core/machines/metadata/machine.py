"""The metadata machine: decides what becomes of the cluster's topics, settings and brokers.

Its facts are the records of the metadata log, all of them durable, and its state is the MetadataImage they
build. Today one node asks it; the quorum puts the same machine behind a replicated log.
"""

from __future__ import annotations

from typing import Any

from chronik.core.machines.machine import Decision, LogRecord, Reply
from chronik.core.machines.metadata.commands import (
    AllocateProducerIds,
    AlterConfigs,
    CreateInternalTopic,
    CreatePartitions,
    CreateTopics,
    DeleteTopics,
    ProducerIdBlock,
    RegisterBroker,
)
from chronik.core.machines.metadata.configs import alter_configs
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import (
    METADATA_VERSION,
    BrokerEndpoint,
    BrokerFeature,
    FeatureLevelRecord,
    ProducerIdsRecord,
    RegisterBrokerRecord,
    decode,
    encode,
)
from chronik.core.machines.metadata.topics import create_internal_topic, create_partitions, create_topics, delete_topics

PRODUCER_ID_BLOCK_SIZE = 1000
PLAINTEXT = 0


class MetadataMachine:
    """Decide reads the image, apply changes it."""

    def __init__(self, image: MetadataImage) -> None:
        self.image = image

    def decide(self, ticket: int, command: Any, now_ms: int) -> Decision:
        """What follows from a command. Raises Refused where a command is about one thing and the answer is no."""
        facts, answer = self._decided(command)
        return Decision(facts, [Reply(ticket, answer)])

    def _decided(self, command: Any) -> tuple[list[Any], Any]:
        match command:
            case CreateTopics():
                return create_topics(self.image, command)
            case CreateInternalTopic():
                return create_internal_topic(self.image, command)
            case DeleteTopics():
                return delete_topics(self.image, command)
            case CreatePartitions():
                return create_partitions(self.image, command)
            case AlterConfigs():
                return alter_configs(self.image, command)
            case AllocateProducerIds():
                return self._allocate_producer_ids(command)
            case RegisterBroker():
                return self._register_broker(command)
        raise TypeError(f"no metadata command: {command!r}")

    def _allocate_producer_ids(self, command: AllocateProducerIds) -> tuple[list[Any], ProducerIdBlock]:
        broker = self.image.brokers.get(command.broker_id)
        block = ProducerIdBlock(self.image.next_producer_id, self.image.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
        epoch = -1 if broker is None else broker.epoch
        return [ProducerIdsRecord(command.broker_id, epoch, block.end_id)], block

    def _register_broker(self, command: RegisterBroker) -> tuple[list[Any], int]:
        facts: list[Any] = []
        if "metadata.version" not in self.image.features:
            facts.append(FeatureLevelRecord("metadata.version", METADATA_VERSION))
        # Larger at each registration, as the log's offset is in Kafka.
        epoch = self.image.version
        facts.append(
            RegisterBrokerRecord(
                broker_id=command.broker_id,
                incarnation_id=command.incarnation_id,
                broker_epoch=epoch,
                end_points=(BrokerEndpoint("PLAINTEXT", command.host, command.port, PLAINTEXT),),
                features=(BrokerFeature("metadata.version", METADATA_VERSION, METADATA_VERSION),),
                rack=command.rack,
                fenced=False,
                in_controlled_shutdown=False,
            )
        )
        return facts, epoch

    def expire(self, now_ms: int) -> Decision:
        return Decision()

    def next_deadline_ms(self) -> int | None:
        return None

    def apply(self, fact: Any) -> None:
        self.image.apply(fact)

    def encode(self, fact: Any) -> LogRecord:
        return LogRecord(key=None, value=encode(fact))

    def replay(self, record: LogRecord) -> None:
        if record.value is None:
            return
        fact = decode(record.value)
        if fact is not None:
            self.image.apply(fact)
