"""The way to the controller, wherever it is: here, or on another node by Kafka's own requests.

Controllers come and go. A caller does not notice, but for the time it takes: as long as none is known, or the
one that was known is gone, the question waits for the next. So a question may be decided twice, when only its answer
was lost; no command that is asked here is harmed by that: a broker may register twice, a block of ids may be lost, a
topic that is there already counts as made by the one that asked, and an in-sync set carries the epoch it belongs to.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import replace
from typing import Protocol, TypeVar, cast

from chronik.api.applied import APPLIED_MS_MAX
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.access_changes import AlterUserScramCredentials
from chronik.core.machines.metadata.commands import (
    ANY_BROKER_EPOCH,
    AllocateProducerIds,
    CreatedTopic,
    CreateInternalTopic,
    CreateTopics,
    MetadataCommand,
    RegisterBroker,
)
from chronik.core.machines.metadata.controller_commands import AlterPartitions, BrokerHeartbeat
from chronik.core.machines.metadata.image import MetadataImage
from chronik.node.net.peers import Peers, Unreachable

ASK_MS = 5_000  # how long a question waits for a controller, all tries together
TRY_MS = 2_000  # one try: a controller that was paused must not hold up what the next could answer
POLL_MS = 20  # how often the next controller is looked for
PURPOSE = "controller"
# What nodes ask by themselves. Anything else is a client's request, which is passed on as a whole.
OF_NODES = (
    RegisterBroker,
    BrokerHeartbeat,
    AlterPartitions,
    AllocateProducerIds,
    CreateTopics,
    CreateInternalTopic,
    AlterUserScramCredentials,  # the first users, which no client could make
)

AnswerT = TypeVar("AnswerT")


class LocalMetadata(Protocol):
    """This node's part in the cluster's metadata (node/cluster/metadata.py)."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def controller_id(self) -> int | None: ...

    @property
    def controller_epoch(self) -> int: ...

    def ask_here(self, command: MetadataCommand[AnswerT]) -> asyncio.Future[AnswerT]: ...

    async def wait_until_applied(self, timeout_ms: int) -> None: ...

    async def wait_for(self, is_there: Callable[[], bool], timeout_ms: int) -> bool: ...


class ControllerLink:
    """What handlers and the parts of this node ask for a change of the cluster's metadata."""

    def __init__(self, metadata: LocalMetadata, peers: Peers, node_id: int) -> None:
        self._metadata = metadata
        self._peers = peers
        self._node_id = node_id

    @property
    def image(self) -> MetadataImage:
        return self._metadata.image

    @property
    def is_controller(self) -> bool:
        return self._metadata.is_controller

    @property
    def controller_id(self) -> int | None:
        return self._metadata.controller_id

    @property
    def controller_epoch(self) -> int:
        return self._metadata.controller_epoch

    def ask_here(self, command: MetadataCommand[AnswerT]) -> asyncio.Future[AnswerT]:
        return self._metadata.ask_here(command)

    async def wait_until_applied(self, timeout_ms: int) -> None:
        await self._metadata.wait_until_applied(timeout_ms)

    async def ask(self, command: MetadataCommand[AnswerT], timeout_ms: int = ASK_MS) -> AnswerT:
        """The controller's answer; what it created is in this node's image then. Raises Refused: NOT_CONTROLLER when
        no controller could be asked in time."""
        if type(command) not in OF_NODES:
            return await self._metadata.ask_here(command)
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        problem = "no controller is known"
        while (left_ms := round((until - loop.time()) * 1000)) > 0:
            try:
                answer = await self._ask_once(command, min(left_ms, TRY_MS))
            except Refused as refused:
                if refused.code != Code.NOT_CONTROLLER:
                    raise
                problem = refused.message or problem
            except Unreachable as unreachable:
                problem = str(unreachable)
            else:
                await self._wait_until_seen(answer, command, until)
                return answer
            await asyncio.sleep(POLL_MS / 1000)
        raise Refused(Code.NOT_CONTROLLER, f"no controller answered in {timeout_ms} ms: {problem}")

    def _signed(self, command: MetadataCommand[AnswerT]) -> MetadataCommand[AnswerT]:
        """On the way to another node a request carries this broker's epoch."""
        own = self.image.brokers.get(self._node_id)
        if isinstance(command, AllocateProducerIds) and command.broker_epoch == ANY_BROKER_EPOCH and own is not None:
            return cast("MetadataCommand[AnswerT]", replace(command, broker_epoch=own.epoch))
        return command

    async def _ask_once(self, command: MetadataCommand[AnswerT], timeout_ms: int) -> AnswerT:
        """Raises Refused, Unreachable."""
        if self._metadata.is_controller:
            try:
                async with asyncio.timeout(timeout_ms / 1000):
                    return await self._metadata.ask_here(command)
            except TimeoutError as problem:
                raise Unreachable(f"this node is the controller, and nothing was safe in {timeout_ms} ms") from problem
        controller_id = self._metadata.controller_id
        if controller_id is None or controller_id == self._node_id:
            raise Refused(Code.NOT_CONTROLLER)
        from chronik.node.cluster.controller_requests import asking  # a node that is alone starts without these

        asked = asking(self._signed(command), self.image.cluster_id)
        link = self._peers.link(controller_id, PURPOSE)
        return cast("AnswerT", asked.answer(await link.ask(asked.api_key, asked.request, timeout_ms=timeout_ms)))

    async def _wait_until_seen(self, answer: object, command: MetadataCommand[object], until: float) -> None:
        """Until this node's image has the topics that were created, or time is up: then others see them first."""
        if isinstance(command, CreateTopics) and command.validate_only:
            return
        created = answer if isinstance(answer, tuple) else (answer,)
        there = (Code.NONE, Code.TOPIC_ALREADY_EXISTS)
        names = [one.name for one in created if isinstance(one, CreatedTopic) and one.outcome.code in there]

        def is_seen() -> bool:
            return all(self.image.topic(name) is not None for name in names)

        if is_seen():
            if names and self._metadata.is_controller:  # one that is asked over the wire has waited itself
                await self._metadata.wait_until_applied(APPLIED_MS_MAX)
            return
        left_ms = round((until - asyncio.get_running_loop().time()) * 1000)
        await self._metadata.wait_for(is_seen, max(left_ms, 0))
