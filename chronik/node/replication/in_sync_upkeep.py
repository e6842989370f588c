"""Keeps the in-sync sets of the partitions this node leads as they should be, by asking the controller.

A follower's progress may let it in: that is looked at when it happens. Falling behind shows only in time: all
partitions with followers are looked at a few times in `replica.lag.time.max.ms`. All that is due goes to the controller
in one request. What it refuses is looked at afresh, with what the metadata says then. What is led here and cannot be
served (its disk failed) is given up: one of those in sync is to lead it, and that is asked until it is done.

    answer                                     what follows
    done                                       the set counts as the controller has it now
    INELIGIBLE_REPLICA, OPERATION_NOT_...      the set is as it was, and is looked at later
    INVALID_UPDATE_VERSION, FENCED_...,        newer metadata is on its way: until it is here, both sets count
    UNKNOWN_TOPIC_..., NEW_LEADER_ELECTED
    no controller, or anything else            asked again, a little later
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from chronik.core.config.sections.replication import ReplicationConfig
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.controller_commands import AlteredPartition, AlterPartitions, InSyncChange
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.partition import Partition
from chronik.core.ports import Clock
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.deadlines import Deadline, Deadlines
from chronik.trace.metrics import Metrics

log = logging.getLogger(__name__)

LOOKS_PER_LAG = 4
LOOK_MS_MAX = 1_000  # how long a partition with a replica about to join waits for the next look
AGAIN_MS = 200
SLICE = 500  # partitions looked at before others get their turn
NOT_TAKEN = (Code.INELIGIBLE_REPLICA, Code.OPERATION_NOT_ATTEMPTED)
SUPERSEDED = (
    Code.INVALID_UPDATE_VERSION,
    Code.FENCED_LEADER_EPOCH,
    Code.UNKNOWN_TOPIC_OR_PARTITION,
    Code.UNKNOWN_TOPIC_ID,
    Code.NEW_LEADER_ELECTED,
    Code.INVALID_REQUEST,
)

# A change, and what it is of: a replica that leads here, or what cannot be served.
Wanted = tuple[Replica | TopicPartition, InSyncChange]


class InSyncUpkeep:
    """One request to the controller at a time, for all partitions."""

    def __init__(
        self,
        image: MetadataImage,
        replicas: Replicas,
        deadlines: Deadlines,
        clock: Clock,
        config: ReplicationConfig,
        metrics: Metrics,
        *,
        node_id: int,
        broker_epoch: Callable[[], int],
        ask: Callable[[Any], Awaitable[Any]],
    ) -> None:
        self._image = image
        self._replicas = replicas
        self._deadlines = deadlines
        self._clock = clock
        self._config = config
        self._metrics = metrics
        self._node_id = node_id
        self._broker_epoch = broker_epoch
        self._ask = ask
        self._due: dict[Replica, None] = {}  # to be looked at now
        # Cannot be served here, and perhaps is led here; and whether that was said already.
        self._given_up: dict[TopicPartition, bool] = {}
        self._unanswered: dict[Replica, InSyncChange] = {}  # asked, and no node knows whether it was done
        self._is_started = False
        self._asking: asyncio.Task[None] | None = None
        self._looking: asyncio.Task[None] | None = None
        self._again: Deadline | None = None

    def start(self) -> None:
        self._is_started = True
        loop = asyncio.get_running_loop()
        self._looking = loop.create_task(self._look_now_and_then(), name="in-sync-upkeep")
        self._looking.add_done_callback(self._ended)

    async def stop(self) -> None:
        self._is_started = False
        if self._again is not None:
            self._deadlines.cancel(self._again)
        tasks = [task for task in (self._looking, self._asking) if task is not None]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def _ended(self, task: asyncio.Task[None]) -> None:
        if not task.cancelled() and task.exception() is not None:
            self._metrics.faults += 1
            log.error("fault in the upkeep of in-sync sets", exc_info=task.exception())

    # --- what is due

    def look_at(self, replica: Replica) -> None:
        """Something happened that may change its set."""
        self._due[replica] = None
        self._begin()

    def look_whether_served(self, replica: Replica) -> None:
        """What cannot be served here is better led by another."""
        if replica.offline is not None:
            self._given_up.setdefault(TopicPartition(replica.topic, replica.partition), False)
            self._begin()

    async def _look_now_and_then(self) -> None:
        look_ms = max(1, self._config.replica_lag_time_max_ms // LOOKS_PER_LAG)
        waited_ms = 0
        while True:
            pause_ms = min(look_ms, LOOK_MS_MAX)
            await asyncio.sleep(pause_ms / 1000)
            waited_ms += pause_ms
            is_full = waited_ms >= look_ms
            if is_full:
                waited_ms = 0
            await self._look(is_full=is_full)

    async def _look(self, *, is_full: bool) -> None:
        for count, replica in enumerate(list(self._replicas.held())):
            if count % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            in_sync = replica.in_sync
            if in_sync is None or not in_sync.followers:
                continue
            # Else, with the first record after a long silence, every follower would look as late as the silence was
            # long.
            in_sync.note_caught_up(replica.log.end_offset, self._clock.monotonic_ms())
            if is_full or in_sync.is_waiting_for_joiners:
                self._due[replica] = None
        if is_full:  # also what was never opened, and what no follower could take over last time
            for name in self._replicas.partitions.offline():
                self._given_up.setdefault(TopicPartition(*name), False)
        self._begin()

    def _begin(self) -> None:
        if self._is_started and self._asking is None and (self._due or self._given_up or self._unanswered):
            self._asking = asyncio.get_running_loop().create_task(self._run(), name="in-sync-change")
            self._asking.add_done_callback(self._ended)

    # --- asking

    async def _run(self) -> None:
        try:
            while self._due or self._given_up or self._unanswered:
                wanted: list[Wanted] = [*self._handovers(), *self._asked_again(), *self._changes()]
                if wanted and not await self._alter(wanted):
                    self._again = self._deadlines.after_ms(AGAIN_MS, self._begin)
                    return
        finally:
            self._asking = None

    def _changes(self) -> list[tuple[Replica, InSyncChange]]:
        due, self._due = self._due, {}
        able = {broker.id: broker.epoch for broker in self._image.brokers.values() if broker.is_active}
        wanted: list[tuple[Replica, InSyncChange]] = []
        for replica in due:
            in_sync = replica.in_sync
            if in_sync is None or replica.offline is not None:
                continue
            members = in_sync.change_due(
                replica.log.end_offset,
                replica.high_watermark,
                replica.epoch_start,
                self._clock.monotonic_ms(),
                self._config.replica_lag_time_max_ms,
                able,
                replica.log.start_offset,
            )
            if members is not None:
                log.info("%s-%d: in sync are to be %s", replica.topic, replica.partition, list(members))
                in_sync.asked(members)
                wanted.append((replica, self._change(replica, members)))
            # Nothing waits any more for one that will not join. Only now: the watermark must not pass one that does.
            if replica.recount():
                self._replicas.purgatory.moved(replica)
        return wanted

    def _asked_again(self) -> list[tuple[Replica, InSyncChange]]:
        """The same once more, unless the metadata has said meanwhile what holds."""
        unanswered, self._unanswered = self._unanswered, {}
        return [
            (replica, self._change(replica, tuple(member for member, _ in change.in_sync)))
            for replica, change in unanswered.items()
            if replica.in_sync is not None
            and replica.offline is None
            and (replica.leader_epoch, replica.partition_epoch) == (change.leader_epoch, change.partition_epoch)
        ]

    def _handovers(self) -> list[tuple[TopicPartition, InSyncChange]]:
        """Sets without this node, of what the metadata says it leads; and of what is damaged here while others lead:
        it can be fetched anew once no node counts on this copy."""
        given_up, self._given_up = self._given_up, {}
        image = self._image
        wanted: list[tuple[TopicPartition, InSyncChange]] = []
        for (name, number), was_said in given_up.items():
            topic, placed = image.topic(name), image.partition(name, number)
            if topic is None or placed is None or not self._is_to_be_given_up(name, number, placed):
                continue
            others = [image.brokers[member] for member in placed.in_sync if image.is_active(member)]
            members = tuple((broker.id, broker.epoch) for broker in others if broker.id != self._node_id)
            if members:
                if placed.leader == self._node_id:
                    text = "%s-%d cannot be served here: another of %s is to lead it"
                else:
                    text = "%s-%d is damaged here: only %s are to count"
                if not was_said:
                    log.warning(text, name, number, [member for member, _ in members])
                epochs = placed.leader_epoch, placed.partition_epoch
                change = InSyncChange(topic.id, number, *epochs, members)
                wanted.append((TopicPartition(name, number), change))
        return wanted

    def _is_to_be_given_up(self, name: str, number: int, placed: Partition) -> bool:
        if placed.leader == self._node_id:
            return True
        counts = self._node_id in placed.in_sync or self._node_id in placed.eligible
        return placed.has_leader and counts and self._replicas.partitions.is_damaged(name, number)

    def _change(self, replica: Replica, members: tuple[int, ...]) -> InSyncChange:
        assert replica.in_sync is not None  # it leads
        followers = replica.in_sync.followers
        epochs = {node_id: follower.broker_epoch for node_id, follower in followers.items()}
        epochs[self._node_id] = self._broker_epoch()
        return InSyncChange(
            topic_id=replica.topic_id,
            partition=replica.partition,
            leader_epoch=replica.leader_epoch,
            partition_epoch=replica.partition_epoch,
            in_sync=tuple((member, epochs[member]) for member in members),
        )

    async def _alter(self, wanted: list[Wanted]) -> bool:
        """Ask the controller for all of them. False when there was none to ask, or it had no answer."""
        command = AlterPartitions(self._node_id, self._broker_epoch(), tuple(change for _, change in wanted))
        try:
            answers: tuple[AlteredPartition, ...] = await self._ask(command)
        except Refused as refused:
            log.debug("in-sync sets stay as they are for now: %s", refused)
            for asked, change in wanted:
                if isinstance(asked, Replica):
                    self._not_answered(asked, change)
                else:
                    self._given_up[asked] = True
            return False
        is_done = True
        for (asked, change), answer in zip(wanted, answers, strict=True):
            if isinstance(asked, Replica):
                is_done = self._answered(asked, change, answer) and is_done
            elif answer.outcome.code:  # whatever it is: newer metadata says what to ask for, or that it is settled
                self._given_up[asked] = True
                is_done = False
        return is_done

    def _not_answered(self, replica: Replica, change: InSyncChange) -> None:
        """Perhaps it was done and only the answer is lost: both sets count until it is known which holds, and the
        same is asked again."""
        if replica.offline is None:
            self._unanswered[replica] = change

    def _answered(self, replica: Replica, change: InSyncChange, answer: AlteredPartition) -> bool:
        """Take the controller's answer in. False when it has to be asked again."""
        in_sync = replica.in_sync
        if in_sync is None or replica.leader_epoch != change.leader_epoch or replica.offline is not None:
            return True  # it leads no more, or anew: the metadata has said all
        code = answer.outcome.code
        if not code:
            log.info("%s-%d: in sync are %s", replica.topic, replica.partition, list(answer.in_sync))
            before = in_sync.in_sync
            if replica.partition_epoch < answer.partition_epoch and not set(before) <= set(answer.in_sync):
                # A replica leaves. `wanted` stands until the metadata says so, with the settings that came before it: a
                # smaller set held against an older `min.insync.replicas` would promise what no other node has.
                return True
            if replica.in_sync_decided(answer.in_sync, answer.partition_epoch):
                self._replicas.purgatory.moved(replica)
            elif in_sync.wanted is not None and replica.partition_epoch >= answer.partition_epoch:
                in_sync.refused()  # nothing was to be changed, or the metadata came first
                replica.recount()
            self._replicas.partitions.in_sync_changed(replica, before)
            return True
        if code in SUPERSEDED and replica.partition_epoch == change.partition_epoch:
            return True  # `wanted` stands until the metadata is here
        in_sync.refused()
        if replica.recount():
            self._replicas.purgatory.moved(replica)
        if code in NOT_TAKEN or code in SUPERSEDED:
            return True  # the next look decides
        log.debug("%s-%d: %s", replica.topic, replica.partition, answer.outcome.message)
        self._due[replica] = None
        return False
