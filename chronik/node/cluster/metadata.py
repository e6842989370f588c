"""The cluster's metadata on this node: one image of what is safe, and on the node that leads the quorum the machine
that decides what comes next.

The image holds exactly the records below the quorum's watermark, so it never takes anything back. The leader of the
quorum is the controller: when the record that begins its epoch is safe, and so everything before it, it copies the
image and decides on the copy, ahead of what is committed. What it decided reaches the image when it is safe, and only
then are those that asked answered. When another node is elected, copy and machine are dropped, and requests that wait
get NOT_CONTROLLER.
"""

from __future__ import annotations

import asyncio
import logging
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import NamedTuple, TypeVar, cast

from chronik.core.config.topic import FOREVER_MS, UNLIMITED, TopicConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.machines.metadata.commands import CreateInternalTopic, MetadataCommand
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.machine import AnyMetadataCommand, MetadataMachine
from chronik.core.machines.metadata.records import MetadataRecord, decode, encode
from chronik.core.machines.metadata.sessions import (
    BalanceLookedAt,
    BrokerSeen,
    ControllerConfig,
    MetadataFact,
    TokensLookedAt,
)
from chronik.core.machines.metadata.snapshots import gone_since, records_of
from chronik.core.ports import Files
from chronik.core.raft import snapshot_file
from chronik.core.raft.control_records import VotersRecord
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.quorum import NOT_IN_THE_LOG
from chronik.core.raft.ready import VotersChange
from chronik.core.raft.roles import Leader
from chronik.core.records.payload import walk
from chronik.core.replica.replica import Replica
from chronik.node.cluster.quorum import Quorum
from chronik.node.machine_host import MachineHost
from chronik.node.net.peers import Unreachable
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.predicate_waits import PredicateWaits
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

# The metadata log keeps everything until a snapshot has it, in batches as large as one command makes them (a topic of
# 10,000 partitions).
METADATA_CONFIG = TopicConfig(
    max_message_bytes=512 * 1024 * 1024,
    retention_ms=UNLIMITED,
    retention_bytes=UNLIMITED,
    message_timestamp_after_max_ms=FOREVER_MS,
    segment_bytes=16 * 1024 * 1024,
)
SNAPSHOT_RECORDS = 50_000  # as many since the last one make a new snapshot worth while
CATCH_UP_LOOK_MS = 20
RECORDS_A_SLICE = 2_000  # encoded before others get their turn

# What a refusal of the log means to those that ask the controller.
CODES = {Code.NOT_LEADER_OR_FOLLOWER: Code.NOT_CONTROLLER}


class _Proposed(NamedTuple):
    """What the controller wrote, kept until it is safe."""

    start_offset: int
    end_offset: int
    records: list[MetadataRecord]


AnswerT = TypeVar("AnswerT")


class Metadata:
    """The image of what is safe, and the controller when this node is it."""

    def __init__(
        self,
        image: MetadataImage,
        quorum: Quorum,
        replicas: Replicas,
        waiting: Purgatory,
        time: SteadyTime,
        files: Files,
        metrics: Metrics,
        controller: ControllerConfig,
        snapshot_records: int = SNAPSHOT_RECORDS,
        subscribers: Sequence[Callable[[list[MetadataFact]], None]] = (),
    ) -> None:
        """Raises Corrupt: the snapshot on disk cannot be read."""
        self.image = image
        self._subscribers = subscribers
        self._quorum = quorum
        self._replicas = replicas
        self._waiting = waiting
        self._time = time
        self._files = files
        self._metrics = metrics
        self._controller = controller
        self.snapshot_records = snapshot_records
        self._host: MachineHost[AnyMetadataCommand, MetadataFact] | None = None
        self._proposed: deque[_Proposed] = deque()
        self._waits = PredicateWaits()
        self._snapshotting: asyncio.Task[None] | None = None
        if quorum.log.snapshot is not None:
            image.refill(self._read(quorum.log.snapshot), quorum.log.snapshot.end_offset)

    @property
    def replica(self) -> Replica:
        """That of the metadata log."""
        return self._quorum.replica

    # --- which node is the controller

    @property
    def is_controller(self) -> bool:
        return self._host is not None and self._quorum.is_leader

    @property
    def controller_id(self) -> int | None:
        return self._quorum.leader_id

    @property
    def controller_epoch(self) -> int:
        """Each controller has one of its own."""
        return self._quorum.epoch

    def ask_here(self, command: MetadataCommand[AnswerT]) -> asyncio.Future[AnswerT]:
        """What the controller decides, when that is safe and in the image. Raises Refused: NOT_CONTROLLER here, or at
        the end when it is lost."""
        if self._host is None or not self._quorum.is_leader:
            raise Refused(Code.NOT_CONTROLLER)
        # Records of the quorum itself have offsets too, and nothing else tells the machine of them.
        machine = self._host.machine
        assert isinstance(machine, MetadataMachine)  # made below
        machine.image.version = self._quorum.log.end_offset
        if isinstance(command, CreateInternalTopic):
            asked: object = replace(command, voter_count=len(self._quorum.raft.voters.ids))
        else:
            asked = command
        return cast("asyncio.Future[AnswerT]", self._host.ask(cast("AnyMetadataCommand", asked)))

    def _take_office(self) -> None:
        copy = self.image.copy()
        machine = MetadataMachine(copy, self._controller)
        self._host = MachineHost(
            machine, self._quorum.replica, self._replicas, self._waiting, self._time, self._decided, CODES
        )
        log.info("this node is the controller: epoch %d, metadata up to offset %d", self._quorum.epoch, copy.version)
        self._host.begin()

    def _decided(self, facts: list[MetadataFact]) -> None:
        """The machine has written these, and goes on from there."""
        durable = [fact for fact in facts if not isinstance(fact, BrokerSeen | BalanceLookedAt | TokensLookedAt)]
        if durable:
            end_offset = self._quorum.log.end_offset
            self._proposed.append(_Proposed(end_offset - len(durable), end_offset, durable))
            self._quorum.log_grew()

    def resigned(self) -> None:
        host, self._host = self._host, None
        self._proposed.clear()
        if host is not None:
            host.close(Code.NOT_CONTROLLER)
            self._waiting.lost(self._quorum.replica, Code.NOT_CONTROLLER)
            self._quorum.applied.look_again()

    # --- what is safe

    def committed(self, end_offset: int) -> None:
        """Everything below is safe: take it in, then tell."""
        facts: list[MetadataFact] = []
        image = self.image
        try:
            while image.version < end_offset:
                if self._proposed and self._proposed[0].start_offset == image.version:
                    proposed = self._proposed.popleft()
                    self._apply(proposed.records, facts, proposed.end_offset)
                else:
                    until = min(end_offset, self._proposed[0].start_offset) if self._proposed else end_offset
                    self._read_log(until, facts)
        finally:  # what was applied before a read failed is reported too: it is not read again
            self._tell(facts)
        if self._host is None and self._quorum.is_leader:
            role = self._quorum.raft.role
            if isinstance(role, Leader) and end_offset > role.epoch_start_offset:
                self._take_office()
        self._snapshot_if_due()

    def _apply(self, records: list[MetadataRecord], facts: list[MetadataFact], end_offset: int) -> None:
        for record in records:
            self.image.apply(record)
        facts += records
        self.image.version = end_offset

    def _read_log(self, end_offset: int, facts: list[MetadataFact]) -> None:
        try:
            for header, batch in self._quorum.log.batches(self.image.version, end_offset):
                values = () if header.is_control else (record.value for record in walk(batch))
                known = [decode(value) for value in values if value is not None]
                self._apply([fact for fact in known if fact is not None], facts, header.next_offset)
        except (Corrupt, OSError) as problem:  # the state of the cluster is not known: this node is out
            self._replicas.read_failed(self._quorum.replica, problem)
            raise

    def _tell(self, facts: list[MetadataFact]) -> None:
        if facts:
            for notify in self._subscribers:
                try:
                    notify(facts)
                except Exception:  # the others, and those that wait for an answer, must hear of it all the same
                    self._metrics.faults += 1
                    log.exception("fault in a subscriber to committed metadata")
        self._quorum.applied.look_again()  # a broker may have been fenced
        self._waits.look_again()

    async def wait_for(self, is_there: Callable[[], bool], timeout_ms: int) -> bool:
        """Until the image has it, or False when the time is over."""
        return await self._waits.wait_for(is_there, timeout_ms)

    async def wait_until_applied(self, timeout_ms: int) -> None:
        """On the controller: until the live brokers have applied all that this node has, or time is up. What is asked
        of any of them afterwards finds it there; Kafka answers at once, and the next request may not."""
        await self._quorum.applied.wait_for(self.image.version, self._live_followers, timeout_ms)

    def _live_followers(self) -> list[int]:
        """None once this node is the controller no more: nothing tells it anything then."""
        if not self.is_controller:
            return []
        own = self._quorum.node_id
        return [broker.id for broker in self.image.brokers.values() if not broker.is_fenced and broker.id != own]

    @property
    def is_caught_up(self) -> bool:
        """Whether the image has had all that was safe, as a leader knew it, since this node started."""
        return self._quorum.raft.has_caught_up and (self.is_controller or not self._quorum.raft.is_leader)

    async def wait_until_started(self) -> None:
        """Until this node knows what the cluster is like."""
        while not self.is_caught_up:
            await self.wait_for(lambda: self.is_caught_up, CATCH_UP_LOOK_MS)

    async def wait_until_caught_up(self, timeout_ms: int) -> bool:
        """Until the image has all that the controller had committed when this was asked; False when time is up."""
        loop = asyncio.get_running_loop()
        until = loop.time() + timeout_ms / 1000
        while (left_ms := round((until - loop.time()) * 1000)) > 0:
            if self.is_controller:
                return True
            try:
                seen = await self._quorum.ask_view(left_ms)
            except (Unreachable, Refused):
                seen = None
            if seen is None or seen.high_watermark < 0:  # just elected: it does not know yet what is committed
                await asyncio.sleep(CATCH_UP_LOOK_MS / 1000)
                continue
            left_ms = round((until - loop.time()) * 1000)
            return await self.wait_for(partial(self._is_at, seen.high_watermark), max(left_ms, 0))
        return False

    async def wait_until_current(self, timeout_ms: int, contact_ms: int = 0) -> bool:
        """Until the image surely has all that was committed when this was asked (or `contact_ms` before that): the
        leader of the quorum says how far it is, and a majority of the voters has been in touch with it since, so there
        is no other that has committed more. False when time is up: this node, or its leader, may be cut off."""
        loop = asyncio.get_running_loop()
        asked_s = loop.time()
        until = asked_s + timeout_ms / 1000
        while (left_ms := round((until - loop.time()) * 1000)) > 0:
            passed_ms = (loop.time() - asked_s) * 1000
            try:
                seen = await self._quorum.ask_view(left_ms)
            except (Unreachable, Refused):
                seen = None
            if seen is not None and seen.high_watermark >= 0 and seen.contact_ms <= passed_ms + contact_ms:
                left_ms = round((until - loop.time()) * 1000)
                return await self.wait_for(partial(self._is_at, seen.high_watermark), max(left_ms, 0))
            await asyncio.sleep(CATCH_UP_LOOK_MS / 1000)
        return False

    def _is_at(self, end_offset: int) -> bool:
        return self.image.version >= end_offset

    # --- snapshots

    def refill(self, point: LogPoint) -> None:
        """This node fell behind: a snapshot says what is safe."""
        before = self.image.copy()
        records = self._read(point)
        self.image.refill(records, point.end_offset)
        self._tell([*gone_since(before, self.image), *records])

    def _read(self, point: LogPoint) -> list[MetadataRecord]:
        known = [decode(value) for value in snapshot_file.decode(self._quorum.log.read_snapshot(point)).values]
        return [fact for fact in known if fact is not None]

    def _snapshot_if_due(self) -> None:
        latest = self._quorum.log.snapshot
        since = self.image.version - (0 if latest is None else latest.end_offset)
        if since >= self.snapshot_records and self._snapshotting is None and self._quorum.replica.offline is None:
            work = self._write_snapshot(self.image.copy())
            self._snapshotting = asyncio.get_running_loop().create_task(work, name="metadata-snapshot")

    async def _write_snapshot(self, image: MetadataImage) -> None:
        """In slices, so that nothing waits for it; the image is a copy, so nothing of it changes meanwhile."""
        quorum = self._quorum
        try:
            point = LogPoint(quorum.log.epoch_at(image.version - 1), image.version)
            voters = self._voters_at(point)
            values: list[bytes] = []
            for count, record in enumerate(records_of(image)):
                values.append(encode(record))
                if count % RECORDS_A_SLICE == RECORDS_A_SLICE - 1:
                    await asyncio.sleep(0)
            pieces: list[bytes] = []
            for piece in snapshot_file.encode(point, values, voters, self._time.wall_ms()):
                pieces.append(piece)
                await asyncio.sleep(0)
            await self._files.replace_later(quorum.log.snapshot_path(point), b"".join(pieces))
            latest = quorum.log.snapshot
            if latest is None or latest.end_offset < point.end_offset:
                quorum.log.snapshot_written(point)
                log.info("snapshot of the metadata up to offset %d: %d records", point.end_offset, len(values))
        except OSError as problem:  # the disk is full, say: tried again with the next record that is safe
            log.warning("no snapshot of the metadata could be written: %s", problem)
        except Exception:
            self._metrics.faults += 1
            log.exception("fault in a snapshot of the metadata")
        finally:
            self._snapshotting = None

    def _voters_at(self, point: LogPoint) -> VotersRecord | None:
        """Those that the log has changed below this point; None while the configured ones hold."""
        at = self._quorum.log.voters
        if at.offset == NOT_IN_THE_LOG:
            return None
        voters = at.voters if at.offset < point.end_offset else at.before
        return None if voters is None else self._quorum.voters_record(VotersChange(point.epoch, voters.ids))

    async def stop(self) -> None:
        task = self._snapshotting
        if task is not None:
            task.cancel()
            await asyncio.gather(task, return_exceptions=True)
        if self._host is not None:
            self._host.close(Code.NOT_CONTROLLER)
            self._host = None
