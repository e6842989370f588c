"""A cluster for tests of what a node asks its controller.

Node 1 has a real image and real links, node 2 answers with the real handlers over a real machine. Whoever is the
controller, the machine is the same; what it decides is committed at once, and node 1's image has it at once too, unless
the test holds it back.
"""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable
from dataclasses import replace
from typing import Any

from chronik.api.context import Caller, RequestContext
from chronik.api.table import module_of
from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import MetadataMachine
from chronik.core.machines.metadata.sessions import ControllerConfig
from chronik.node.cluster.controller_link import ControllerLink
from chronik.node.runtime.predicate_waits import PredicateWaits
from chronik.wire.codec import decode_request, encode_response
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import node_id_of
from tests.unit.api.fake_context import CLUSTER_ID, fake_context
from tests.unit.node.peer_world import Other, World

SETTINGS = {
    "node.id": "1",
    "listeners": "PLAINTEXT://127.0.0.1:9092",
    "advertised.listeners": "PLAINTEXT://public:19092",
    "cluster.id": CLUSTER_ID,
    "controller.quorum.voters": "1@node1:9092,2@node2:9092",
    "broker.rack": "r1",
}


class Metadata:
    """One node's view: the image it has, and whether it is the controller."""

    def __init__(self, cluster: Controlled, node_id: int, image: MetadataImage) -> None:
        self._cluster = cluster
        self._node_id = node_id
        self.image = image
        self.on_applied: list[Callable[[list[Any]], None]] = []
        self.waited_ms: list[int] = []
        self.waits = PredicateWaits()

    @property
    def is_controller(self) -> bool:
        return self._cluster.controller_id == self._node_id

    @property
    def controller_id(self) -> int | None:
        return self._cluster.controller_id if self._cluster.is_known else None

    @property
    def controller_epoch(self) -> int:
        return self._cluster.controller_epoch

    def ask_here(self, command: Any) -> asyncio.Future[Any]:
        if not self.is_controller:
            raise Refused(Code.NOT_CONTROLLER)
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        answer = self._cluster.tell(command)
        if not self._cluster.is_stuck:
            future.set_result(answer)
        return future

    async def ask(self, command: Any) -> Any:
        return await self.ask_here(command)

    async def wait_until_applied(self, timeout_ms: int) -> None:
        self.waited_ms.append(timeout_ms)

    async def wait_for(self, is_there: Callable[[], bool], timeout_ms: int) -> bool:
        return await self.waits.wait_for(is_there, timeout_ms)


class Controlled:
    """The machine, node 1's metadata and the way from there to the controller, and node 2 as the controller."""

    def __init__(self, world: World, *, is_alone: bool = False, **settings: str) -> None:
        given = {"node.id": "1"} if is_alone else SETTINGS
        self.config = NodeConfig.from_settings({**given, **{key.replace("_", "."): settings[key] for key in settings}})
        self.world = world
        self.controller_id = 1 if is_alone else 2
        self.controller_epoch = 1
        self.session_timeout_ms = 2_000  # by the controller's file
        self.is_known = True
        self.is_stuck = False
        self.is_held_back = False
        self.asked: list[Any] = []
        self._later: list[Any] = []
        decided_on = MetadataImage(CLUSTER_ID, NodeConfig())
        self.machine = MetadataMachine(decided_on, self._controller_config())
        self.metadata = Metadata(self, 1, MetadataImage(CLUSTER_ID, self.config))
        self.two = Metadata(self, 2, decided_on)
        self.link = ControllerLink(self.metadata, world.peers, 1)
        self._context: RequestContext = replace(fake_context(), node_id=2, metadata=self.two)
        world.two.hear = self.hear

    @property
    def image(self) -> MetadataImage:
        return self.metadata.image

    def tell(self, command: Any) -> Any:
        self.asked.append(command)
        decision = self.machine.decide(0, command, round(self.world.loop.time() * 1000))
        self.take(decision.facts)
        return decision.replies[0].answer

    def _controller_config(self) -> ControllerConfig:
        return ControllerConfig(self.controller_id, broker_session_timeout_ms=self.session_timeout_ms)

    def elect(self) -> None:
        """Another controller has read the metadata log, and has heard of nobody yet."""
        self.controller_epoch += 1
        self.machine = MetadataMachine(self.machine.image, self._controller_config())
        self.take(self.machine.expire(round(self.world.loop.time() * 1000)).facts)

    def take(self, facts: list[Any]) -> None:
        for fact in facts:
            self.machine.apply(fact)
        self._later += [fact for fact in facts if fact.durable]
        if not self.is_held_back:
            self.let_go()

    def let_go(self) -> None:
        """Node 1 gets to see everything that was committed."""
        facts, self._later = self._later, []
        for fact in facts:
            self.image.apply(fact)
        for told in self.metadata.on_applied if facts else ():
            told(facts)
        self.metadata.waits.look_again()

    def hear(self, other: Other, header: RequestHeader, frame: bytes) -> None:
        asyncio.get_running_loop().create_task(self._answer(other, header, frame))

    async def _answer(self, other: Other, header: RequestHeader, frame: bytes) -> None:
        module = module_of(header.api_key)
        request = decode_request(header.api_key, header.version, frame, header.body, module.REQUEST)
        try:
            response = module.handle(
                request, Caller("", "", header.version, 1, True, node_id_of(header.client_id)), self._context
            )
            response = await response if inspect.isawaitable(response) else response
        except Refused as refused:
            response = module.refuse(request, refused.code, refused.message)
        other.say(encode_response(header.api_key, header.version, header.correlation_id, response))

    def times_asked(self, kind: type) -> int:
        return sum(isinstance(command, kind) for command in self.asked)
