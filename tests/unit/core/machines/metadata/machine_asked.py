"""A metadata machine that can be asked: facts are applied at once, as a host would."""

from __future__ import annotations

import copy
from collections.abc import Iterable, Mapping
from typing import Any

from chronik.core.config.node import NodeConfig
from chronik.core.machines.metadata.commands import RegisterBroker
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import MetadataMachine
from chronik.core.machines.metadata.sessions import ControllerConfig


class Asked:
    """A machine, what it has written to its log, and a short way to ask it."""

    def __init__(
        self,
        settings: Mapping[str, str] | None = None,
        brokers: Iterable[int] = (1,),
        racks: Mapping[int, str] | None = None,
        controller: ControllerConfig | None = None,
    ) -> None:
        self.config = NodeConfig.from_settings(settings or {})
        self.machine = MetadataMachine(MetadataImage("cluster", self.config), controller)
        self.log: list[Any] = []
        self.now_ms = 0
        for broker_id in brokers:
            rack = (racks or {}).get(broker_id)
            self.ask(RegisterBroker(broker_id, bytes(16), "host", 9000 + broker_id, rack))

    @property
    def image(self) -> MetadataImage:
        return self.machine.image

    def ask(self, command: Any) -> Any:
        """The answer. The facts behind it are applied and logged."""
        decision = self.machine.decide(5, command, self.now_ms)
        self.take(decision.facts)
        [reply] = decision.replies
        assert reply.ticket == 5
        return reply.answer

    def expire(self) -> list[Any]:
        """What time alone brings about now, one decision after the other until there is nothing left to decide."""
        facts: list[Any] = []
        while (deadline_ms := self.machine.next_deadline_ms()) is not None and deadline_ms <= self.now_ms:
            decision = self.machine.expire(self.now_ms)
            assert decision.facts, "a deadline that has passed must lead to something"
            self.take(decision.facts)
            facts += decision.facts
        return facts

    def take(self, facts: Iterable[Any]) -> None:
        for fact in facts:
            if fact.durable:
                self.log.append(self.machine.encode(fact))
            self.machine.apply(fact)

    def replayed(self) -> MetadataMachine:
        """Another machine that read the same log."""
        machine = MetadataMachine(MetadataImage("cluster", self.config))
        for record in self.log:
            machine.replay(record)
        return machine


def topic_id(number: int) -> bytes:
    return number.to_bytes(16, "big")


def content(image: MetadataImage) -> dict[str, Any]:
    """Everything an image says, to compare it with another."""
    return {
        "brokers": dict(image.brokers),
        "topics": {name: (topic.id, list(topic.partitions)) for name, topic in image.topics.items()},
        "by id": {topic.id: image.topic_by_id(topic.id) is topic for topic in image.topics.values()},
        "colliding": {name: image.colliding(name) for name in image.topics},
        "topic configs": {name: (dict(image.topic_overrides(name)), image.topic_config(name)) for name in image.topics},
        "broker configs": {name: dict(image.broker_overrides(name)) for name in ("", *map(str, image.brokers))},
        "node": image.node_config,
        "features": dict(image.features),
        "holdings": copy.deepcopy(image.holdings.content()),
        "next producer id": image.next_producer_id,
        "version": image.version,
    }
