"""Which brokers have been heard of lately. Nothing of it is in the log: a new controller gives every broker a whole
session to be heard of, so that a change of controllers fences none. The controller's own broker is alive as long as
a request asks: it is not expected to report.

A host drops its machine when it loses the leadership of the metadata log, and these sessions with it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar, TypeAlias

from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.image import Broker, MetadataImage
from chronik.core.machines.metadata.records import MetadataRecord

NOTHING_SEEN = -1


@dataclass(frozen=True, slots=True)
class ControllerConfig:
    """Which node the controller is, and its settings, by Kafka's names."""

    own_id: int
    broker_session_timeout_ms: int = 2_000
    broker_heartbeat_interval_ms: int = 500
    auto_leader_rebalance_enable: bool = True
    leader_imbalance_check_interval_ms: int = 300_000

    @classmethod
    def of(cls, node: NodeConfig) -> ControllerConfig:
        liveness = node.liveness
        return cls(
            own_id=node.node_id,
            broker_session_timeout_ms=liveness.broker_session_timeout_ms,
            broker_heartbeat_interval_ms=liveness.broker_heartbeat_interval_ms,
            auto_leader_rebalance_enable=liveness.auto_leader_rebalance_enable,
            leader_imbalance_check_interval_ms=liveness.leader_imbalance_check_interval_seconds * 1000,
        )

    @property
    def gone_after_ms(self) -> int:
        """How long a broker that refuses connections must have been silent to be taken for dead.

        No process listens there, but that may be our fault (a firewall between the two that rejects): as long as it
        reports it lives, and it reports every heartbeat interval. A quarter more is for a report that is late. Twice
        the interval would be on the safe side of nothing else, and half a second more without a leader."""
        return self.broker_heartbeat_interval_ms * 5 // 4


@dataclass(frozen=True, slots=True)
class BrokerSeen:
    """A broker was heard of, or (with NOTHING_SEEN) is given a session to be heard of in."""

    durable: ClassVar[bool] = False
    broker_id: int
    broker_epoch: int
    seen_ms: int
    seen_version: int = NOTHING_SEEN
    shut_down_version: int | None = None  # it may stop when the others have followed the metadata so far


@dataclass(frozen=True, slots=True)
class BalanceLookedAt:
    """Preferred leaders were looked after."""

    durable: ClassVar[bool] = False
    looked_ms: int


@dataclass(frozen=True, slots=True)
class TokensLookedAt:
    """Delegation tokens that are over were looked for."""

    durable: ClassVar[bool] = False
    looked_ms: int


# What can become true in the metadata machine: records of its log, and what is known of brokers' sessions.
MetadataFact: TypeAlias = MetadataRecord | BrokerSeen | BalanceLookedAt | TokensLookedAt


class BrokerSessions:
    """The last word of each broker, and when leaders were last balanced."""

    def __init__(self) -> None:
        self._seen: dict[int, BrokerSeen] = {}
        self.balanced_ms: int | None = None
        self._tokens_looked_ms: int | None = None

    def apply(self, fact: BrokerSeen | BalanceLookedAt | TokensLookedAt) -> None:
        match fact:
            case BrokerSeen():
                self._seen[fact.broker_id] = fact
            case BalanceLookedAt():
                self.balanced_ms = fact.looked_ms
            case TokensLookedAt():
                self._tokens_looked_ms = fact.looked_ms

    def are_tokens_due(self, image: MetadataImage, now_ms: int) -> bool:
        """Whether tokens that are over are to be looked for."""
        return bool(image.access.tokens) and now_ms >= self._tokens_due_ms(image)

    def _tokens_due_ms(self, image: MetadataImage) -> int:
        looked_ms = self._tokens_looked_ms
        interval_ms = image.node_config.delegation.delegation_token_expiry_check_interval_ms
        return 0 if looked_ms is None else looked_ms + interval_ms

    def of(self, broker: Broker) -> BrokerSeen | None:
        """The last word of this registration of a broker."""
        seen = self._seen.get(broker.id)
        return seen if seen is not None and seen.broker_epoch == broker.epoch else None

    def is_heard_of(self, broker: Broker, now_ms: int, config: ControllerConfig) -> bool:
        """A fenced broker has no session: another may take its place at once. So has the broker of this very node as
        long as it has not spoken: what is registered is then an earlier process of it."""
        seen = self.of(broker)
        if broker.is_fenced or seen is None:
            return False
        return broker.id == config.own_id or now_ms <= seen.seen_ms + config.broker_session_timeout_ms

    def unheard(self, image: MetadataImage, own_id: int) -> Iterator[Broker]:
        """Live brokers that have no session yet: this controller is new."""
        return (broker for broker in image.live_brokers() if broker.id != own_id and self.of(broker) is None)

    def stalest(self, image: MetadataImage, own_id: int) -> BrokerSeen | None:
        """The live broker that was not heard of for the longest time."""
        seen = [self.of(broker) for broker in image.live_brokers() if broker.id != own_id]
        return min((one for one in seen if one is not None), key=lambda one: (one.seen_ms, one.broker_id), default=None)

    def seen_by_all_active(self, image: MetadataImage, version: int) -> bool:
        """Whether all brokers that may lead have followed the metadata up to this version."""
        active = [broker for broker in image.brokers.values() if broker.is_active]
        return all((seen := self.of(broker)) is not None and seen.seen_version >= version for broker in active)

    def next_deadline_ms(self, image: MetadataImage, config: ControllerConfig) -> int | None:
        """When time alone has something to say next."""
        deadlines: list[int] = []
        if next(self.unheard(image, config.own_id), None) is not None:
            deadlines.append(0)
        stalest = self.stalest(image, config.own_id)
        if stalest is not None:
            deadlines.append(stalest.seen_ms + config.broker_session_timeout_ms + 1)
        if config.auto_leader_rebalance_enable and not image.holdings.is_balanced:
            is_new = self.balanced_ms is None
            deadlines.append(0 if is_new else (self.balanced_ms or 0) + config.leader_imbalance_check_interval_ms)
        if image.access.tokens:
            deadlines.append(self._tokens_due_ms(image))
        return min(deadlines, default=None)
