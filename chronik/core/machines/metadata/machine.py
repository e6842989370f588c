"""The metadata machine: decides what becomes of the cluster's topics, settings and brokers.

Its durable facts are the records of the metadata log, and its state is the MetadataImage they build. It also watches
over the brokers of a cluster: which was heard of lately is volatile. A node that is alone is its own controller, and
sends no reports, so that time changes nothing there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias, assert_never

from chronik.core.machines.machine import Decision, LogMarker, LogRecord, Reply
from chronik.core.machines.metadata.access_changes import (
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    alter_user_scram_credentials,
    create_acls,
    delete_acls,
)
from chronik.core.machines.metadata.brokers import (
    broker_gone,
    checked_epoch,
    heartbeat,
    register_broker,
    sessions_expired,
    unregister_broker,
)
from chronik.core.machines.metadata.commands import (
    ANY_BROKER_EPOCH,
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
from chronik.core.machines.metadata.controller_commands import (
    AlterPartitions,
    AlterReassignments,
    BrokerGone,
    BrokerHeartbeat,
    ElectLeaders,
    UnregisterBroker,
)
from chronik.core.machines.metadata.elections import balance_due, elect_leaders
from chronik.core.machines.metadata.features import UpdateFeatures, update_features
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.in_sync_changes import alter_partitions
from chronik.core.machines.metadata.quota_changes import AlterClientQuotas, alter_client_quotas
from chronik.core.machines.metadata.reassignments import alter_reassignments
from chronik.core.machines.metadata.records import (
    MetadataRecord,
    ProducerIdsRecord,
    decode,
    encode,
)
from chronik.core.machines.metadata.sessions import (
    BalanceLookedAt,
    BrokerSeen,
    BrokerSessions,
    ControllerConfig,
    MetadataFact,
    TokensLookedAt,
)
from chronik.core.machines.metadata.token_changes import (
    CreateToken,
    ExpireToken,
    RenewToken,
    create_token,
    expire_token,
    renew_token,
    tokens_over,
)
from chronik.core.machines.metadata.topics import create_internal_topic, create_partitions, create_topics, delete_topics

PRODUCER_ID_BLOCK_SIZE = 1000

AnyOtherCommand: TypeAlias = (
    CreateTopics
    | CreateInternalTopic
    | DeleteTopics
    | CreatePartitions
    | AlterConfigs
    | CreateAcls
    | DeleteAcls
    | AlterUserScramCredentials
    | AlterClientQuotas
    | UpdateFeatures
    | AllocateProducerIds
    | RegisterBroker
    | BrokerHeartbeat
    | BrokerGone
    | UnregisterBroker
    | AlterPartitions
    | ElectLeaders
    | AlterReassignments
)
AnyMetadataCommand: TypeAlias = AnyOtherCommand | CreateToken | RenewToken | ExpireToken


class MetadataMachine:
    """Decide reads the image, apply changes it."""

    def __init__(self, image: MetadataImage, controller: ControllerConfig | None = None) -> None:
        self.image = image
        self.controller = controller or ControllerConfig.of(image.node_config)
        self.sessions = BrokerSessions()

    def decide(
        self, ticket: int, command: AnyMetadataCommand, now_ms: int, wall_ms: int | None = None
    ) -> Decision[MetadataFact]:
        """What follows from a command. Raises Refused where a command is about one thing and the answer is no.
        Only tokens have times that outlive the process, by the wall clock."""
        if isinstance(command, CreateToken | RenewToken | ExpireToken):
            facts, answer = self._decided_of_token(command, now_ms if wall_ms is None else wall_ms)
        else:
            facts, answer = self._decided(command, now_ms)
        return Decision([*facts], [Reply(ticket, answer)])

    def _decided_of_token(
        self, command: CreateToken | RenewToken | ExpireToken, wall_ms: int
    ) -> tuple[Sequence[MetadataFact], object]:
        match command:
            case CreateToken():
                return create_token(self.image, command, wall_ms)
            case RenewToken():
                return renew_token(self.image, command, wall_ms)
            case ExpireToken():
                return expire_token(self.image, command, wall_ms)

    def _decided(self, command: AnyOtherCommand, now_ms: int) -> tuple[Sequence[MetadataFact], object]:
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
            case CreateAcls():
                return create_acls(self.image, command)
            case DeleteAcls():
                return delete_acls(self.image, command)
            case AlterUserScramCredentials():
                return alter_user_scram_credentials(self.image, command)
            case AlterClientQuotas():
                return alter_client_quotas(self.image, command)
            case UpdateFeatures():
                return update_features(self.image, command)
            case AllocateProducerIds():
                return self._allocate_producer_ids(command)
            case RegisterBroker():
                return register_broker(self.image, self.sessions, self.controller, command, now_ms)
            case BrokerHeartbeat():
                return heartbeat(self.image, self.sessions, command, now_ms)
            case BrokerGone():
                return broker_gone(self.image, self.sessions, self.controller, command, now_ms)
            case UnregisterBroker():
                return unregister_broker(self.image, command)
            case AlterPartitions():
                return alter_partitions(self.image, command)
            case ElectLeaders():
                return elect_leaders(self.image, command)
            case AlterReassignments():
                return alter_reassignments(self.image, command)
        assert_never(command)

    def _allocate_producer_ids(self, command: AllocateProducerIds) -> tuple[list[MetadataRecord], ProducerIdBlock]:
        broker = self.image.brokers.get(command.broker_id)
        if command.broker_epoch != ANY_BROKER_EPOCH:
            broker = checked_epoch(self.image, command.broker_id, command.broker_epoch)
        block = ProducerIdBlock(self.image.next_producer_id, self.image.next_producer_id + PRODUCER_ID_BLOCK_SIZE)
        epoch = -1 if broker is None else broker.epoch
        return [ProducerIdsRecord(command.broker_id, epoch, block.end_id)], block

    def expire(self, now_ms: int, wall_ms: int | None = None) -> Decision[MetadataFact]:
        """Brokers that fell silent are fenced, one a call; leaders go back to the preferred replicas; tokens that are
        over are removed."""
        if self.sessions.are_tokens_due(self.image, now_ms):
            over = tokens_over(self.image, now_ms if wall_ms is None else wall_ms)
            return Decision([*over, TokensLookedAt(now_ms)])
        facts = sessions_expired(self.image, self.sessions, self.controller, now_ms)
        return Decision(facts or balance_due(self.image, self.sessions, self.controller, now_ms))

    def next_deadline_ms(self) -> int | None:
        return self.sessions.next_deadline_ms(self.image, self.controller)

    def apply(self, fact: MetadataFact) -> None:
        if isinstance(fact, BrokerSeen | BalanceLookedAt | TokensLookedAt):
            self.sessions.apply(fact)
        else:
            self.image.apply(fact)

    def encode(self, fact: MetadataFact) -> LogRecord:
        assert not isinstance(fact, BrokerSeen | BalanceLookedAt | TokensLookedAt)  # they are not durable
        return LogRecord(key=None, value=encode(fact))

    def replay(self, record: LogRecord) -> None:
        if record.value is None:
            return
        fact = decode(record.value)
        if fact is not None:
            self.image.apply(fact)

    def decided(self, marker: LogMarker) -> list[MetadataFact]:
        return []  # nothing is written to this log in a transaction
