"""Brokers come, report, and go: registration, heartbeats, fencing, controlled shutdown (KIP-631, KIP-841).

A broker registers with the id of its incarnation and is given an epoch, with which it signs what it asks for
afterwards; one that uses an older one is an earlier process with the same number. It registers fenced: it leads nothing
and clients do not hear of it until it has followed the metadata up to its own registration.
"""

from __future__ import annotations

from dataclasses import replace

from chronik.core.access.principal import ANONYMOUS
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.configs import gaps_due, one_minimum
from chronik.core.machines.metadata.controller_commands import (
    BrokerGone,
    BrokerHeartbeat,
    HeartbeatAnswer,
    UnregisterBroker,
)
from chronik.core.machines.metadata.features import first_features, supported_features
from chronik.core.machines.metadata.image import Broker, MetadataImage
from chronik.core.machines.metadata.leaders import joined_by, left_by
from chronik.core.machines.metadata.records import (
    CLIENTS_END_POINT,
    FENCE,
    NODES_END_POINT,
    UNFENCE,
    BrokerEndpoint,
    BrokerRegistrationChangeRecord,
    RegisterBrokerRecord,
    UnregisterBrokerRecord,
)
from chronik.core.machines.metadata.sessions import (
    NOTHING_SEEN,
    BrokerSeen,
    BrokerSessions,
    ControllerConfig,
    MetadataFact,
)

PLAINTEXT = 0


def register_broker(
    image: MetadataImage, sessions: BrokerSessions, config: ControllerConfig, command: RegisterBroker, now_ms: int
) -> tuple[list[MetadataFact], int]:
    """The records of a registration, and the broker epoch. Raises Refused while another incarnation is alive."""
    existing = image.brokers.get(command.broker_id)
    is_amended = existing is not None and existing.incarnation_id == command.incarnation_id
    if existing is not None:
        _check_principal(image, existing, command)
    is_successor = existing is not None and _is_in_its_place(existing, command)
    if existing is not None and not (is_amended or is_successor) and sessions.is_heard_of(existing, now_ms, config):
        message = f"Another broker is registered with the id {command.broker_id}, and alive."
        raise Refused(Code.DUPLICATE_BROKER_REGISTRATION, message)
    # Without its log a broker has nothing to lead with: it starts fenced in any case.
    is_fenced = command.is_fenced or command.has_lost_its_log
    # Larger at each registration, as the log's offset is in Kafka.
    epoch = image.version
    is_shutting_down = False
    seen = BrokerSeen(command.broker_id, epoch, now_ms)
    if existing is not None and is_amended:
        # The same process again, as after an answer that was lost: nothing begins anew.
        epoch, is_fenced, is_shutting_down = existing.epoch, existing.is_fenced, existing.is_shutting_down
        seen = replace(sessions.of(existing) or seen, broker_epoch=epoch, seen_ms=now_ms)
    facts: list[MetadataFact] = [*first_features(image)]
    bound = "" if existing is None else existing.principal
    facts.append(_registered(command, epoch, is_fenced, is_shutting_down, bound))
    is_active = not (is_fenced or is_shutting_down)
    if command.has_lost_its_log and not is_amended:
        facts += left_by(image, command.broker_id, is_lost=True, is_wiped=True)
    elif command.has_lost_its_tail and not (is_active or is_amended):
        facts += left_by(image, command.broker_id, is_lost=True, is_shortened=True)
    elif not is_active:
        facts += left_by(image, command.broker_id)
    elif not image.is_active(command.broker_id):
        facts += joined_by(image, command.broker_id)
    if any(other != command.broker_id for other in image.brokers):
        facts += one_minimum(image)
    facts += gaps_due(image)
    return [*facts, seen], epoch


def _check_principal(image: MetadataImage, existing: Broker, command: RegisterBroker) -> None:
    """Raises Refused: this id is another's."""
    rules = image.node_config.security.node_principals
    if not rules.may_be(existing.id, command.principal, existing.principal):
        raise Refused(
            Code.CLUSTER_AUTHORIZATION_FAILED,
            f"{command.principal} may not be node {existing.id}, which is that of {existing.principal}",
        )


def _is_in_its_place(existing: Broker, command: RegisterBroker) -> bool:
    """Whether the broker that is registered must be gone, so that after a quick restart nothing waits for its session.

    A disk has one process at a time, and so has an address. A copy of a disk can only be elsewhere: it waits, and is
    refused as long as the other is heard of.
    """
    is_there = _nodes_end_point(command) == (existing.internal_host, existing.internal_port)
    return existing.epoch == command.previous_epoch and is_there


def _nodes_end_point(command: RegisterBroker) -> tuple[str, int]:
    return command.internal_host or command.host, command.internal_port or command.port


def _registered(
    command: RegisterBroker, epoch: int, is_fenced: bool, is_shutting_down: bool, bound: str
) -> RegisterBrokerRecord:
    return RegisterBrokerRecord(
        broker_id=command.broker_id,
        incarnation_id=command.incarnation_id,
        broker_epoch=epoch,
        end_points=(
            *(command.end_points or (BrokerEndpoint(CLIENTS_END_POINT, command.host, command.port, PLAINTEXT),)),
            BrokerEndpoint(NODES_END_POINT, *_nodes_end_point(command), PLAINTEXT),
        ),
        features=supported_features(),
        rack=command.rack,
        fenced=is_fenced,
        in_controlled_shutdown=is_shutting_down,
        principal=bound if command.principal == ANONYMOUS else str(command.principal),
    )


def checked_epoch(image: MetadataImage, broker_id: int, broker_epoch: int) -> Broker:
    """The broker that signs with this epoch. Raises Refused for one that has been replaced, or is not registered."""
    broker = image.brokers.get(broker_id)
    if broker is None:
        raise Refused(Code.STALE_BROKER_EPOCH, f"No broker registration found for broker id {broker_id}")
    if broker.epoch != broker_epoch:
        message = f"Expected broker epoch {broker.epoch}, but got broker epoch {broker_epoch}"
        raise Refused(Code.STALE_BROKER_EPOCH, message)
    return broker


def heartbeat(
    image: MetadataImage, sessions: BrokerSessions, command: BrokerHeartbeat, now_ms: int
) -> tuple[list[MetadataFact], HeartbeatAnswer]:
    """What follows from a word of a broker: it may join, go, or just stay. Raises Refused."""
    broker = checked_epoch(image, command.broker_id, command.broker_epoch)
    seen = sessions.of(broker)
    is_caught_up = command.seen_version > broker.epoch
    shut_down_version = None
    is_fenced, should_shut_down = broker.is_fenced, False
    facts: list[MetadataFact] = []
    if broker.is_fenced:
        should_shut_down = command.wants_shut_down
        if not (command.wants_shut_down or command.wants_fence or broker.is_shutting_down) and is_caught_up:
            facts = unfenced(image, broker)
            is_fenced = False
    elif broker.is_shutting_down:
        # It has left all in-sync sets. The others must know it before it goes, or clients would be sent to it.
        shut_down_version = image.version if seen is None else seen.shut_down_version
        shut_down_version = image.version if shut_down_version is None else shut_down_version
        if not image.holdings.leads(broker.id) and sessions.seen_by_all_active(image, shut_down_version):
            is_fenced, should_shut_down = True, True
            facts = fenced(image, broker)
    elif command.wants_fence or (command.wants_shut_down and not image.holdings.leads(broker.id)):
        is_fenced, should_shut_down = True, command.wants_shut_down
        facts = fenced(image, broker)
    elif command.wants_shut_down:
        facts = [BrokerRegistrationChangeRecord(broker.id, broker.epoch, in_controlled_shutdown=1)]
        facts += left_by(image, broker.id)
        shut_down_version = image.version + len(facts)
    if broker.id == image.node_config.node_id:  # the controller itself, perhaps a new one with another file
        facts += gaps_due(image)
    seen_version = max(command.seen_version, NOTHING_SEEN if seen is None else seen.seen_version)
    facts.append(BrokerSeen(broker.id, broker.epoch, now_ms, seen_version, shut_down_version))
    return facts, HeartbeatAnswer(is_caught_up, is_fenced, should_shut_down)


def fenced(image: MetadataImage, broker: Broker) -> list[MetadataFact]:
    """A broker may serve no client any longer: others lead, then it is fenced."""
    return [*left_by(image, broker.id), BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=FENCE)]


def unfenced(image: MetadataImage, broker: Broker) -> list[MetadataFact]:
    """A broker may serve: it is unfenced, then leads what waited for it."""
    record = BrokerRegistrationChangeRecord(broker.id, broker.epoch, fenced=UNFENCE)
    return [record, *joined_by(image, broker.id)]


def unregister_broker(image: MetadataImage, command: UnregisterBroker) -> tuple[list[MetadataFact], None]:
    """A broker that will not come back is no longer eligible for anything. One that is alive registers again, with all
    it has: what no other node has waits for it. Raises Refused."""
    broker = image.brokers.get(command.broker_id)
    if broker is None:
        message = f"Broker ID {command.broker_id} is not currently registered"
        raise Refused(Code.BROKER_ID_NOT_REGISTERED, message)
    left = left_by(image, broker.id, is_lost=broker.is_fenced)
    return [*left, UnregisterBrokerRecord(broker.id, broker.epoch)], None


def sessions_expired(
    image: MetadataImage, sessions: BrokerSessions, config: ControllerConfig, now_ms: int
) -> list[MetadataFact]:
    """One broker that was silent for too long is fenced; one at a time, so that each sees what the last one left."""
    begun = [BrokerSeen(broker.id, broker.epoch, now_ms) for broker in sessions.unheard(image, config.own_id)]
    if begun:
        return list(begun)
    stalest = sessions.stalest(image, config.own_id)
    if stalest is None or now_ms <= stalest.seen_ms + config.broker_session_timeout_ms:
        return []
    return fenced(image, image.brokers[stalest.broker_id])


def broker_gone(
    image: MetadataImage, sessions: BrokerSessions, config: ControllerConfig, command: BrokerGone, now_ms: int
) -> tuple[list[MetadataFact], int]:
    """A broker that refuses connections is fenced before its session is over, unless it was heard of lately. One that
    this controller never heard of has nothing to say for itself."""
    broker = image.brokers.get(command.broker_id)
    if broker is None or broker.is_fenced or broker.id == config.own_id:
        return [], 0
    seen = sessions.of(broker)
    if seen is not None and seen.seen_version != NOTHING_SEEN:
        wait_ms = seen.seen_ms + config.gone_after_ms - now_ms
        if wait_ms > 0:
            return [], wait_ms
    return fenced(image, broker), 0
