"""What is traced, as the settings say: followed in the metadata, so that it holds on every node and after every start.

While something is, it is also recorded once a second how things stand: partitions that this node leads, groups that it
coordinates, fetches that wait. What has not changed since, and is as it should be, is recorded less often.
"""

from __future__ import annotations

import asyncio
import logging
from typing import TYPE_CHECKING, Any

from chronik.core.machines.metadata.commands import ResourceType
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import OFFSETS_TOPIC
from chronik.core.machines.metadata.records import ConfigRecord, RegisterBrokerRecord, RemoveTopicRecord
from chronik.core.ports import Clock
from chronik.core.replica.replica import Replica
from chronik.node.coordinators.group_coordinator import GroupCoordinator
from chronik.node.coordinators.transaction_coordinator import TransactionCoordinator
from chronik.node.observe.trace_store import TraceStore
from chronik.node.replication.replicas import Replicas
from chronik.trace.metrics import Metrics
from chronik.trace.recorder import Recorder

if TYPE_CHECKING:
    from chronik.trace.events import GroupSeen

log = logging.getLogger(__name__)

LOOK_S = 1.0
UNCHANGED_MS = 3_000  # how often what stays as it is is recorded
SLICE = 200  # partitions looked at before others get their turn
SETTING = "chronik.trace"


class Tracing:
    """Switches this node's recorder and its store, and looks around while it is on."""

    def __init__(
        self,
        recorder: Recorder,
        store: TraceStore,
        image: MetadataImage,
        replicas: Replicas,
        groups: GroupCoordinator,
        transactions: TransactionCoordinator,
        clock: Clock,
        metrics: Metrics,
    ) -> None:
        self._recorder = recorder
        self._store = store
        self._image = image
        self._replicas = replicas
        self._groups = groups
        self._transactions = transactions
        self._clock = clock
        self._metrics = metrics
        self._is_started = False
        self._task: asyncio.Task[None] | None = None
        self._recorded: dict[Replica, tuple[Any, int]] = {}  # what was last recorded of a partition, and when
        self._groups_recorded: dict[str, tuple[GroupSeen, int]] = {}

    def start(self) -> None:
        """The image is what holds now."""
        self._is_started = True
        self._follow_settings()

    def flush(self) -> None:
        """Have everything stored that can be."""
        self._store.flush()

    def stop(self) -> None:
        self._is_started = False
        self._store.stop()
        if self._task is not None:
            self._task.cancel()
            self._task = None

    # --- what is traced

    def metadata_applied(self, facts: list[Any]) -> None:
        # A snapshot has no records for settings that were taken back, but registrations it always has.
        if self._is_started and any(
            isinstance(fact, ConfigRecord | RemoveTopicRecord | RegisterBrokerRecord) for fact in facts
        ):
            self._follow_settings()

    def _follow_settings(self) -> None:
        is_all, exceptions = what_is_traced(self._image)
        recorder = self._recorder
        is_on = is_all or bool(exceptions)
        if is_on and self._image.node_config.trace.chronik_trace_store:
            self._store.start()  # first: it is to have all of it
        else:
            self._store.stop()
        if (is_all, exceptions) != (recorder.is_all, recorder.exceptions):
            recorder.switch(is_all=is_all, exceptions=exceptions)
            if recorder.steps is not None:
                recorder.steps.begin_watermarks(self._replicas.held())
            self._groups.trace_from_now()
            log.info("traced: %s", described(is_all, exceptions))
        if is_on and self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._run(), name="tracing")
        elif not is_on and self._task is not None:
            self._task.cancel()
            self._task = None
            self._recorded.clear()
            self._groups_recorded.clear()

    # --- how things stand

    async def _run(self) -> None:
        while True:
            await asyncio.sleep(LOOK_S)
            try:
                await self.look()
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in telling the trace how things stand")

    async def look(self) -> None:
        """Tell how things stand now."""
        steps = self._recorder.steps
        if steps is None:
            return
        # They load msgspec, as tracing does.
        from chronik.node.observe.partition_states import groups_seen, partition_seen, transactions_seen

        clock, node_id = self._clock, self._recorder.node_id
        self._recorder.seal_if_due()  # where no watermark moves, nothing else looks whether there are many batches
        steps.tell_waiting()
        recorded_now: dict[Replica, tuple[Any, int]] = {}
        replicas = list(self._replicas.held())
        steps.keep_watermarks(replicas)
        for number, replica in enumerate(replicas):
            if number % SLICE == SLICE - 1:
                await asyncio.sleep(0)
            if replica.in_sync is None or replica.offline is not None or not steps.wants(replica.topic):
                continue
            now_ms = clock.monotonic_ms()
            replica.in_sync.note_caught_up(replica.log.end_offset, now_ms)
            mark, last = marked(replica), self._recorded.get(replica)
            if mark is not None and last is not None and last[0] == mark and now_ms - last[1] < UNCHANGED_MS:
                recorded_now[replica] = last
                continue
            recorded_now[replica] = (mark, now_ms)
            steps.add(partition_seen(replica, node_id, clock.now_us(), now_ms, is_traced=True))
        self._recorded = recorded_now
        self._tell_groups(groups_seen(self._groups, self._image, node_id, clock.now_us()))
        for seen in transactions_seen(self._transactions, self._image, node_id, clock.now_us()):
            if any(topic == OFFSETS_TOPIC or steps.wants(topic) for topic, _ in seen.partitions):
                steps.add(seen)

    def _tell_groups(self, groups: list[GroupSeen]) -> None:
        steps, now_ms = self._recorder.steps, self._clock.monotonic_ms()
        recorded_now: dict[str, tuple[GroupSeen, int]] = {}
        for seen in groups:
            if steps is None or not self._concerns(seen):
                continue
            last = self._groups_recorded.get(seen.group)
            if last is not None and is_same_group(last[0], seen) and now_ms - last[1] < UNCHANGED_MS:
                recorded_now[seen.group] = last
                continue
            recorded_now[seen.group] = (seen, now_ms)
            steps.add(seen)
        self._groups_recorded = recorded_now

    def _concerns(self, seen: GroupSeen) -> bool:
        """Whether a group reads a topic that is traced. If all are, so are groups that read none yet."""
        wants = self._recorder.wants
        if self._recorder.is_all or any(wants(offset.topic) for offset in seen.offsets):
            return True
        return any(wants(topic) for member in seen.members for topic, _ in member.assigned)


def what_is_traced(image: MetadataImage) -> tuple[bool, frozenset[str]]:
    """Whether all topics are, by the node's setting, and which have another of their own."""
    is_all = image.node_config.trace.chronik_trace
    own = [name for kind, name, values in image.overrides() if kind is ResourceType.TOPIC and SETTING in values]
    return is_all, frozenset(name for name in own if image.topic_config(name).chronik_trace != is_all)


def described(is_all: bool, exceptions: frozenset[str]) -> str:
    names = ", ".join(sorted(exceptions))
    if is_all:
        return f"everything but {names}" if names else "everything"
    return names or "nothing"


def marked(replica: Replica) -> Any:
    """What a partition that is as it should be looks like, to see whether it changed; None when it is not."""
    in_sync, end_offset = replica.in_sync, replica.log.end_offset
    if in_sync is None or replica.high_watermark < end_offset or len(in_sync.in_sync) < in_sync.replica_count:
        return None
    if any(follower.durable_end_offset < end_offset for follower in in_sync.followers.values()):
        return None
    if replica.last_stable_offset < replica.high_watermark:
        return None
    return end_offset, replica.log.start_offset, replica.leader_epoch, replica.partition_epoch


def is_same_group(before: GroupSeen, now: GroupSeen) -> bool:
    """Whether nothing happened in a group that is at rest."""
    is_at_rest = now.state in ("Stable", "Empty") and now.state == before.state
    return is_at_rest and (before.generation, before.members, before.offsets) == (
        now.generation,
        now.members,
        now.offsets,
    )
