"""Requests that reached a node where they do not belong: sent on, and the answer brought back.

Three kinds. Batches for partitions that are led elsewhere go to their leaders. What changes the cluster goes to the
controller. And where all nodes have one address, so that a client cannot choose, everything goes where it belongs
(`one_address`). A request that comes from a node is never sent on: two nodes that each take the other for the leader
would send it to and fro. It is refused, and the node that sent it on looks again.

While a partition has no leader, or its leader has just died, a batch waits for a moment until the metadata names
another: an election takes less time than a client's refusal, its new look at the metadata and its second try, and
clients of some makers have few tries. So does one for a topic that this node does not know, until it knows what the
controller does: who creates a topic at one node and writes at another must not be told that there is none, least of all
with acks=0, when it is not told at all. Batches that wait go in the order in which they came, before any that come
later. Those with acks=0 also go again when their leader refuses them, in their turn (`turns`).
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import fields, is_dataclass
from functools import partial
from types import ModuleType
from typing import Any, NamedTuple, Protocol

from chronik.api.call import Call
from chronik.api.context import PendingProduce, RemotePartition, RequestContext
from chronik.api.table import Destination, at, module_of
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.image import MetadataImage, Topic
from chronik.core.machines.metadata.partition import Partition
from chronik.core.records.batch import read_header, read_producer_id
from chronik.core.replica.batch_order import Leadership
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.net.peers import NotSent, Peers, Unreachable
from chronik.node.routing.acks0_sequencer import Acks0Sequencer, Returned
from chronik.node.routing.asked import Asked, Relayed
from chronik.node.routing.logger_requests import alter_loggers, names_loggers
from chronik.node.routing.one_address import OneAddress
from chronik.node.routing.routes import Route, Routes
from chronik.node.runtime.deadlines import Deadline, Deadlines
from chronik.trace.metrics import Metrics
from chronik.wire import forwarded_produce as wire
from chronik.wire.codec import decode_response
from chronik.wire.produce import PartitionAnswer
from chronik.wire.versions import FETCH

log = logging.getLogger(__name__)

LEADER_WAIT_MS = 1000
# A leader that is given as long as its client gives it answers in that time; this is for the way there and back. An
# answer of ours that came sooner than the leader's would make a batch that is safe look as if it had failed (F24).
SLACK_MS = 10_000
AGAIN_MS = 10
LEADER_ONLY = 1  # acks
NOT_KNOWN_THERE = (
    Code.NOT_LEADER_OR_FOLLOWER,
    Code.LEADER_NOT_AVAILABLE,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
)
CONTROLLER_WAIT_MS = 20_000
CONTROLLER_RETRY_MS = 20
CATCH_UP_MS = 5000
ASK_MS = 4000  # a node that is named; who asks waits 5 s

CONTROLLER_BOUND = at(Destination.CONTROLLER)
NOWHERE_ELSE = at(Destination.ANYWHERE)


class ClusterMetadata(Protocol):
    """What forwarding needs to know of the metadata (node/cluster/metadata.py)."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def controller_id(self) -> int | None: ...

    async def wait_until_caught_up(self, timeout_ms: int) -> bool:
        """Until the image has all that the controller had committed when this was asked; False when time is up."""


class _Parked(NamedTuple):
    """A batch that waits for another leader than the one there was."""

    produce: PendingProduce
    part: RemotePartition
    seen: Partition | None
    deadline: Deadline


class Forwarding:
    """Sends on what belongs elsewhere."""

    def __init__(
        self,
        node_id: int,
        cluster: ClusterMetadata,
        groups: GroupCoordinator,
        peers: Peers,
        deadlines: Deadlines,
        metrics: Metrics,
    ) -> None:
        self._node_id = node_id
        self._cluster = cluster
        self._deadlines = deadlines
        self._metrics = metrics
        self._peers = peers
        self._routes = Routes(peers)
        self._parked: dict[int, _Parked] = {}  # in the order in which they came
        self._parked_total = 0
        self._again: dict[
            Acks0Sequencer, tuple[Route, Deadline]
        ] = {}  # what was refused with acks=0 and goes again in a moment
        self._continued: Route | None = None  # while a batch is tried again: its client may have hung up meanwhile
        self._news: asyncio.Task[None] | None = None  # finds out what the controller knows
        self._one_address = OneAddress(node_id, cluster.image, groups)
        self.taken = CONTROLLER_BOUND  # the requests that are to be shown to `handle` or `fetch`

    # --- what the house tells

    def metadata_applied(self, facts: list[Any]) -> None:
        """The image changed; the replicas have been told before."""
        image = self._cluster.image
        is_shared = self._one_address.is_in_use
        self.taken = at(*Destination) - NOWHERE_ELSE if is_shared else CONTROLLER_BOUND
        if len(self._routes):
            # A node that is out will not answer: waiting for it would only make the client wait. The controller does,
            # whatever becomes of its broker; without its answer what it has done would be asked of it once more.
            controller_id = self._cluster.controller_id
            self._routes.drop_where(lambda node_id: node_id != controller_id and _is_out(image, node_id))
        for ticket, parked in list(self._parked.items()):
            now = self._placed(parked.part)
            if now is None:
                if parked.seen is not None:  # deleted
                    self._give_up(ticket)
            elif now.has_leader and _leadership(now) != _leadership(parked.seen):
                self._unpark(ticket)
                parked.produce.again(parked.part)
        for turns in list(self._again):  # perhaps to another leader, before any that come later
            self._go_on(turns)

    def connection_closed(self, connection_id: int) -> None:
        self._routes.connection_closed(connection_id)
        for ticket, parked in list(self._parked.items()):
            if parked.produce.call.caller.connection_id == connection_id:
                self._unpark(ticket)

    @property
    def is_controller(self) -> bool:
        return self._cluster.is_controller

    # --- batches

    def produce(self, produce: PendingProduce, parts: list[RemotePartition]) -> None:
        """Send each partition's batch to its leader. Every part is settled once, or tried again."""
        by_leader: dict[int, list[RemotePartition]] = {}
        route = self._continued or self._routes.of(produce.call.caller.connection_id)
        for part in parts:
            placed = self._placed(part)
            turns = route.turns(part.topic, part.partition) if produce.request.acks == 0 else None
            if turns is not None and turns.must_wait(_leadership(placed)):
                turns.hold(produce, part)
            elif turns is None and not _goes_in_order(produce, part, placed):
                self._refuse(produce, part, Code.NOT_LEADER_OR_FOLLOWER)
            elif placed is None:
                self._wait_for_news(produce, part, route)
            elif not placed.has_leader:
                self._park(produce, part, placed, route)
            elif placed.leader == self._node_id:  # it is not ready to lead
                self._refuse(produce, part, Code.NOT_LEADER_OR_FOLLOWER)
            else:
                by_leader.setdefault(placed.leader, []).append(part)
                if turns is not None:
                    turns.under_way += 1
        for leader, theirs in by_leader.items():
            self._send(produce, leader, theirs, route)

    def _send(self, produce: PendingProduce, leader: int, parts: list[RemotePartition], route: Route) -> None:
        request, header = produce.request, produce.call.header
        topics: dict[str | bytes, list[RemotePartition]] = {}
        for part in parts:
            topics.setdefault(part.topic, []).append(part)
        ordered = [part for own in topics.values() for part in own]
        # A client that wants no answer gets none; this node wants one, as a leader that does not know yet that it leads
        # would lose the batch.
        sent = request._replace(
            acks=request.acks or LEADER_ONLY,
            topics=[(topic, [(part.partition, part.records) for part in own]) for topic, own in topics.items()],
        )
        pieces = wire.encode(header.version, header.correlation_id, header.client_id, sent)
        seen = [self._placed(part) for part in ordered]
        timeout_ms = max(request.timeout_ms, 0) + SLACK_MS
        answer = route.write(leader, pieces, timeout_ms)
        answer.add_done_callback(partial(self._answered, produce, ordered, seen, route))

    def _answered(
        self,
        produce: PendingProduce,
        parts: list[RemotePartition],
        seen: list[Partition | None],
        route: Route,
        answer: asyncio.Future[memoryview],
    ) -> None:
        unsettled = list(parts)
        try:
            problem = answer.exception()
            if isinstance(problem, NotSent) and not route.is_closed:
                for part, placed in zip(parts, seen, strict=True):
                    unsettled.pop(0)
                    self._never_left(produce, part, placed, route)
            elif isinstance(problem, Unreachable):
                for part in parts:
                    unsettled.pop(0)
                    self._refuse(produce, part, Code.NOT_LEADER_OR_FOLLOWER)
            elif problem is not None:
                raise problem
            else:
                answers = self._told(produce, answer.result())
                for part, placed, told in zip(parts, seen, answers, strict=True):
                    unsettled.pop(0)
                    if produce.request.acks == 0:
                        self._in_turn(produce, part, placed, told, route)
                    elif told.error_code == Code.OUT_OF_ORDER_SEQUENCE_NUMBER:
                        # Batches before it may have been refused here, by a leader that stepped down, and come again:
                        # it has overtaken them. Told to look for the leader, the client sends all of them once more, in
                        # order; told of a gap, it would begin a new epoch, and what had arrived would be there twice.
                        self._refuse(produce, part, Code.NOT_LEADER_OR_FOLLOWER)
                    else:
                        produce.settle(part, told)
        except Exception:
            self._metrics.faults += 1
            log.exception("fault in the answer to batches that were sent on")
            for part in unsettled:
                self._refuse(produce, part, Code.UNKNOWN_SERVER_ERROR)
        if produce.request.acks == 0:
            for part in parts:
                self._next(route, route.turns(part.topic, part.partition))

    def _never_left(self, produce: PendingProduce, part: RemotePartition, seen: Partition | None, route: Route) -> None:
        if produce.request.acks == 0:
            told = PartitionAnswer(part.partition, Code.NOT_LEADER_OR_FOLLOWER, -1, -1, -1)
            self._send_again(produce, part, told, route)
        else:
            self._park(produce, part, seen, route)

    def _in_turn(
        self,
        produce: PendingProduce,
        part: RemotePartition,
        seen: Partition | None,
        told: PartitionAnswer,
        route: Route,
    ) -> None:
        if told.error_code in NOT_KNOWN_THERE:
            self._send_again(produce, part, told, route)
            return
        if not told.error_code:
            for late in route.turns(part.topic, part.partition).taken(_leadership(seen)):
                late.produce.settle(late.part, late.told)  # its client is hung up on
        produce.settle(part, told)

    def _send_again(self, produce: PendingProduce, part: RemotePartition, told: PartitionAnswer, route: Route) -> None:
        """The client would never know: so the leader is given a moment to learn that it leads."""
        now = asyncio.get_running_loop().time()
        if part.until is None:
            part.until = now + LEADER_WAIT_MS / 1000
        if now < part.until:
            route.turns(part.topic, part.partition).refused(Returned(produce, part, told))
        else:
            produce.settle(part, told)

    def _next(self, route: Route, turns: Acks0Sequencer) -> None:
        """One of them is not under way any longer."""
        turns.under_way -= 1
        if turns.has_refused:
            if not turns.under_way:
                deadline = self._deadlines.after_ms(AGAIN_MS, lambda: self._go_on(turns))
                self._again[turns] = route, deadline
        elif turns.has_held:
            self._let_go(route, turns)

    def _go_on(self, turns: Acks0Sequencer) -> None:
        route, deadline = self._again.pop(turns)
        self._deadlines.cancel(deadline)
        self._let_go(route, turns)

    def _let_go(self, route: Route, turns: Acks0Sequencer) -> None:
        """Try all that wait, in their order: with the first under way, the others may have to wait again."""
        for produce, part in turns.let_go():
            self._continued = route
            try:
                produce.again(part)
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in a batch that goes again")
            finally:
                self._continued = None

    @staticmethod
    def _told(produce: PendingProduce, frame: memoryview) -> list[PartitionAnswer]:
        topics = wire.parse(frame, produce.call.header.version).topics
        return [told for _, answers in topics for told in answers]

    @staticmethod
    def _refuse(produce: PendingProduce, part: RemotePartition, code: Code) -> None:
        produce.settle(part, PartitionAnswer(part.partition, code, -1, -1, -1))

    def _park(self, produce: PendingProduce, part: RemotePartition, seen: Partition | None, route: Route) -> None:
        """Until the metadata names another leader, or time is up, or the client hangs up."""
        if route.is_closed:
            self._late(produce, part)
            return
        loop = asyncio.get_running_loop()
        if part.until is None:
            part.until = loop.time() + min(LEADER_WAIT_MS, max(produce.request.timeout_ms, 0)) / 1000
        now = self._placed(part)
        if now is not None and now.has_leader and _leadership(now) != _leadership(seen):
            produce.again(part)  # it was named while the batch was on its way to the one before
            return
        left_ms = int((part.until - loop.time()) * 1000)
        if left_ms <= 0:
            self._late(produce, part)
            return
        _waits(produce, part)
        ticket = self._parked_total = self._parked_total + 1
        deadline = self._deadlines.after_ms(left_ms, lambda: self._give_up(ticket))
        self._parked[ticket] = _Parked(produce, part, seen, deadline)

    def _wait_for_news(self, produce: PendingProduce, part: RemotePartition, route: Route) -> None:
        """Nobody knows of it here: until this node knows what the controller knew a moment ago."""
        if self._cluster.is_controller:
            self._late(produce, part)
            return
        self._park(produce, part, None, route)
        if self._news is None:
            self._look_for_news()

    def _look_for_news(self) -> None:
        self._news = asyncio.get_running_loop().create_task(self._catch_up(self._parked_total), name="news")
        self._news.add_done_callback(self._looked)

    def _looked(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._metrics.faults += 1
            log.error("fault while finding out what the controller knows", exc_info=task.exception())

    def close(self) -> None:
        """Nobody is waited for any longer."""
        if self._news is not None:
            self._news.cancel()

    async def _catch_up(self, last_ticket: int) -> None:
        try:
            await self._cluster.wait_until_caught_up(LEADER_WAIT_MS)
        finally:
            self._news = None
        unknown = [ticket for ticket, parked in self._parked.items() if parked.seen is None]
        for ticket in unknown:
            parked = self._parked.get(ticket)
            if parked is not None and self._placed(parked.part) is None and ticket <= last_ticket:
                self._give_up(ticket)
        later = any(parked.seen is None for parked in self._parked.values())
        if later and self._news is None:
            self._look_for_news()

    def _unpark(self, ticket: int) -> None:
        self._deadlines.cancel(self._parked.pop(ticket).deadline)

    def _give_up(self, ticket: int) -> None:
        parked = self._parked[ticket]
        self._unpark(ticket)
        self._late(parked.produce, parked.part)

    def _late(self, produce: PendingProduce, part: RemotePartition) -> None:
        placed = self._placed(part)
        if placed is not None:
            code = Code.NOT_LEADER_OR_FOLLOWER if placed.has_leader else Code.LEADER_NOT_AVAILABLE
        elif isinstance(part.topic, bytes):
            code = Code.UNKNOWN_TOPIC_ID
        else:
            code = Code.UNKNOWN_TOPIC_OR_PARTITION
        self._refuse(produce, part, code)

    def _placed(self, part: RemotePartition) -> Partition | None:
        image = self._cluster.image
        topic: Topic | None
        topic = image.topic_by_id(part.topic) if isinstance(part.topic, bytes) else image.topic(part.topic)
        if topic is None or not 0 <= part.partition < len(topic.partitions):
            return None
        return topic.partitions[part.partition]

    # --- everything else

    def handle(self, module: ModuleType, request: Any, call: Call, context: RequestContext) -> Coroutine[Any, Any, Any]:
        """The response of the module, or a `Relayed` one. Raises Refused."""
        route = self._routes.of(call.caller.connection_id)  # now: later, the connection may be gone
        asked = Asked(module, call, context, route)
        if names_loggers(call.header, request):
            return alter_loggers(asked, request, self._by_controller)
        if call.header.api_key in CONTROLLER_BOUND:
            return self._by_controller(asked, request, call.frame)
        return self._one_address.handle(asked, request)

    def fetch(self, call: Call, context: RequestContext) -> Callable[[], None] | None:
        """As api.fetch's `start`."""
        route = self._routes.of(call.caller.connection_id)
        return self._one_address.fetch(Asked(module_of(FETCH), call, context, route))

    def ask_node(self, node_id: int, call: Call) -> Awaitable[memoryview]:
        """Another node's whole answer to this request. Raises Refused (BROKER_NOT_AVAILABLE)."""
        if self._peers.address_of(node_id) is None:
            raise Refused(Code.BROKER_NOT_AVAILABLE, f"node {node_id} is not known here")
        return _reached(self._routes.of(call.caller.connection_id).ask(node_id, (call.frame,), ASK_MS))

    async def _by_controller(self, asked: Asked, request: Any, frame: memoryview) -> Any:
        """To the present controller, or the next one. A controller that is lost half-way is asked again elsewhere, as
        Kafka does: a client may then be told that its topic exists already."""
        loop = asyncio.get_running_loop()
        until = loop.time() + CONTROLLER_WAIT_MS / 1000
        while True:
            try:
                if self._cluster.is_controller:
                    return await asked.here(request)
                controller_id = self._cluster.controller_id
                if controller_id is not None and controller_id != self._node_id:
                    left_ms = max(1, int((until - loop.time()) * 1000))
                    answer = await asked.route.ask(controller_id, (frame,), left_ms)
                    if not _says(
                        decode_response(asked.header.api_key, asked.header.version, answer), Code.NOT_CONTROLLER
                    ):
                        # So that the client sees here what it has changed there.
                        await self._cluster.wait_until_caught_up(CATCH_UP_MS)
                        return Relayed(answer)
            except Unreachable as problem:
                log.debug("%s", problem)
            except Refused as refusal:
                if refusal.code is not Code.NOT_CONTROLLER:
                    raise
            if asked.route.is_closed or loop.time() >= until:
                raise Refused(Code.NOT_CONTROLLER, "there is no controller at the moment")
            await asyncio.sleep(CONTROLLER_RETRY_MS / 1000)


async def _reached(asking: Awaitable[memoryview]) -> memoryview:
    """Raises Refused."""
    try:
        return await asking
    except Unreachable as problem:
        raise Refused(Code.BROKER_NOT_AVAILABLE, str(problem)) from problem


def _is_out(image: MetadataImage, node_id: int) -> bool:
    broker = image.brokers.get(node_id)
    return broker is None or broker.is_fenced


def _goes_in_order(produce: PendingProduce, part: RemotePartition, placed: Partition | None) -> bool:
    """Whether it may go to this leader; then it is on its way (core/replica/batch_order)."""
    order = produce.call.caller.order
    if order is None or read_producer_id(part.records) < 0:
        return True
    header = read_header(part.records)
    leadership = _leadership(placed) if placed is not None and placed.has_leader else None
    if not order.comes(part.topic, part.partition, header, leadership):
        return False
    order.goes(part.topic, part.partition, header, leadership)
    return True


def _waits(produce: PendingProduce, part: RemotePartition) -> None:
    """Nobody has it: what comes behind it must not go anywhere before it does."""
    order = produce.call.caller.order
    if order is not None and produce.request.acks != 0 and read_producer_id(part.records) >= 0:
        order.goes(part.topic, part.partition, read_header(part.records), None)


def _leadership(placed: Partition | None) -> Leadership | None:
    return None if placed is None else (placed.leader, placed.leader_epoch)


def _says(message: Any, code: Code) -> bool:
    """Whether the code stands anywhere in a response."""
    if isinstance(message, tuple):
        return any(_says(one, code) for one in message)
    if not is_dataclass(message):
        return False
    if getattr(message, "error_code", Code.NONE) == code:
        return True
    return any(_says(getattr(message, field.name), code) for field in fields(message))
