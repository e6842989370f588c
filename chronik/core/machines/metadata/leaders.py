"""Which node leads a partition, and which replicas are in sync, after a change: the one place where that is decided.

A change says what is wanted (another in-sync set, other replicas, an election of some kind); what follows is worked
out in this order, as in Kafka's PartitionChangeBuilder:

1. A reassignment whose target is in sync is completed: what was to go is gone.
2. Who left an in-sync set that is now smaller than min.insync.replicas is remembered as eligible (KIP-966): as long as
   the set is that small nothing more becomes safe, so they have everything that is.
3. A leader is chosen: the one there is, else the first replica in sync, else (no replica in sync can lead) the first
that
   is eligible, else, only where unclean elections are allowed, the first that is alive at all, else none.
   A replica that came back with an empty disk while no node led has nothing to lead with, and is passed over; when all
   have lost their logs there is nothing left to wait for.
4. A replica that came back without what was not synced (`durability = "os"`) may lack records that were safe: it is
   neither in sync nor eligible any longer. If it was the last in sync, those that are eligible are waited for, and it
   leads only when none is left: what it has is then the most that is known of. Kafka elects its last known leader.

Unlike Kafka with KIP-966, the in-sync set never becomes empty: its last member stays in it without leading, which
also says who the last known leader was. While that member is dead it counts as eligible, not as in sync.
A smaller in-sync set alone does not begin a leader epoch, as in Kafka from 3.6 on (KAFKA-15021).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from enum import Enum
from typing import NamedTuple

from chronik.core.machines.metadata.image import MetadataImage, Topic
from chronik.core.machines.metadata.partition import Partition, Replicas
from chronik.core.machines.metadata.records import (
    LEADER_UNCHANGED,
    NO_LEADER,
    RECOVERED,
    RECOVERY_UNCHANGED,
    UNCLEAN,
    PartitionChangeRecord,
)


class ElectionKind(Enum):
    """How far a search for a leader goes."""

    ONLINE = "from those in sync or eligible, the present leader first"
    PREFERRED = "the same, but the first of the replicas before the present leader"
    UNCLEAN = "as online, then anyone alive: records may be lost"


class _Elected(NamedTuple):
    leader: int
    in_sync: Replicas
    eligible: Replicas
    is_unclean: bool = False
    lost: Replicas = ()


class PartitionChange:
    """A change of one partition: set what is wanted, then ask for the record."""

    def __init__(
        self,
        image: MetadataImage,
        topic: Topic,
        number: int,
        may_lead: Callable[[int], bool] | None = None,
        partition: Partition | None = None,
    ) -> None:
        self.topic = topic
        self.number = number
        self.partition = partition or topic.partitions[number]
        self.in_sync = self.partition.in_sync
        self.replicas = self.partition.replicas
        self.adding = self.partition.adding
        self.removing = self.partition.removing
        self.is_recovering = self.partition.is_recovering
        self.lost: int | None = None  # the broker whose copy does not count any longer: neither in sync nor eligible
        self.is_wiped = False  # that broker is there, with an empty disk
        self.is_shortened = False  # that broker is there, and may lack the last records it had
        config = image.topic_config(topic.name)
        self.election = ElectionKind.UNCLEAN if config.unclean_leader_election_enable else ElectionKind.ONLINE
        self._min_insync_replicas = config.min_insync_replicas  # of so many replicas as there are, at most
        self._may_lead = may_lead or image.is_active

    def record(self) -> PartitionChangeRecord | None:
        """What has to be written; None when everything is as it should be."""
        before = self.partition
        self._complete_move()
        elected = self._elected()
        if elected.leader != NO_LEADER and elected.in_sync != self.in_sync:
            # A replica that was elected alone may be all that is to stay.
            self.in_sync = elected.in_sync
            self._complete_move()
            elected = elected._replace(eligible=_only(elected.eligible, self.replicas))
        leader = LEADER_UNCHANGED if elected.leader == before.leader else elected.leader
        if leader == LEADER_UNCHANGED and any(replica not in self.replicas for replica in before.replicas):
            # Who is no replica any longer must not be taken for one: the epoch tells it.
            leader = before.leader
        is_recovering = self.is_recovering or elected.is_unclean
        recovery = UNCLEAN if is_recovering else RECOVERED
        record = PartitionChangeRecord(
            partition_id=self.number,
            topic_id=self.topic.id,
            isr=_if_new(elected.in_sync, before.in_sync),
            leader=leader,
            replicas=_if_new(self.replicas, before.replicas),
            removing_replicas=_if_new(self.removing, before.removing),
            adding_replicas=_if_new(self.adding, before.adding),
            leader_recovery_state=RECOVERY_UNCHANGED if is_recovering == before.is_recovering else recovery,
            eligible_leader_replicas=_if_new(elected.eligible, before.eligible),
            lost_replicas=_if_new(elected.lost, before.lost),
        )
        return None if record == PartitionChangeRecord(self.number, self.topic.id) else record

    def _complete_move(self) -> None:
        """When all replicas that are to stay are in sync, the others go."""
        if not (self.adding or self.removing):
            return
        replicas = _without(self.replicas, self.removing)
        in_sync = _without(self.in_sync, self.removing)
        if replicas and in_sync and all(replica in in_sync for replica in replicas):
            self.replicas, self.in_sync, self.adding, self.removing = replicas, in_sync, (), ()

    def _elected(self) -> _Elected:
        shortened = self._shortened()
        lost = self._lost_logs(shortened)
        if not _without(self._eligible(()), (*lost, *shortened)):
            shortened = ()  # no replica is left that may have more
        lost = _only(self.replicas, (*lost, *shortened))
        staying = _without(_only(self.in_sync, self.replicas), lost)
        alive = tuple(replica for replica in staying if self._may_lead(replica))
        eligible = _without(self._eligible(alive), lost)
        leader = self._first_of(alive or eligible)
        if leader is not None:
            return _Elected(leader, alive or (leader,), _without(eligible, (leader,)))
        if self.election is ElectionKind.UNCLEAN:
            for candidates in (shortened, _without(self.replicas, lost), self.replicas):
                leader = self._first_of(candidates)
                if leader is not None:
                    return _Elected(leader, (leader,), (), is_unclean=True)
        last = shortened or self._last_known(eligible, lost)
        return _Elected(NO_LEADER, last, _without(eligible, last), lost=lost)

    def _lost_logs(self, shortened: Replicas) -> Replicas:
        """The replicas without a log, as far as that is known; none when there is no log left to wait for."""
        wiped = (self.lost,) if self.is_wiped else ()
        lost = _only(self.replicas, (*_without(self.partition.lost, shortened), *wiped))
        return () if lost == self.replicas else lost

    def _shortened(self) -> Replicas:
        """The last one in sync, if it came back without its last records. While others are eligible, that is noted
        among those that lost their logs."""
        before = self.partition
        last = before.in_sync[0]
        if len(before.in_sync) > 1 or last not in self.replicas:
            return ()
        is_noted = _is_noted_as_shortened(before)
        if last == self.lost:
            is_empty = last in before.lost and not is_noted
            return (last,) if self.is_shortened and not is_empty else ()
        return (last,) if is_noted else ()

    def _eligible(self, in_sync: Replicas) -> Replicas:
        before = self.partition
        if len(in_sync) >= min(self._min_insync_replicas, len(self.replicas)):
            return ()
        was_too_small = len(before.in_sync) < min(self._min_insync_replicas, len(before.replicas))
        # A set that was large enough has no replicas beside it: those still noted there are from another time.
        known = before.eligible if was_too_small else ()
        return tuple(
            replica
            for replica in self.replicas
            if replica in (*known, *before.in_sync) and replica not in in_sync and replica != self.lost
        )

    def _first_of(self, candidates: Replicas) -> int | None:
        """The one to lead, of those that may."""
        order = (self.partition.leader, *self.replicas)
        if self.election is ElectionKind.PREFERRED:
            order = (self.replicas[0], *order)
        return next((replica for replica in order if replica in candidates and self._may_lead(replica)), None)

    def _last_known(self, eligible: Replicas, lost: Replicas) -> Replicas:
        """What stays in the in-sync set when no replica in it is alive."""
        for kept in (self.in_sync, self.partition.in_sync, eligible):
            staying = _without(_only(kept, self.replicas), (*lost, self.lost))
            if staying:
                return staying[:1]
        return self.partition.in_sync[:1] if self.partition.in_sync[0] in self.replicas else self.replicas[:1]


def left_by(
    image: MetadataImage, broker_id: int, *, is_lost: bool = False, is_wiped: bool = False, is_shortened: bool = False
) -> list[PartitionChangeRecord]:
    """A broker goes: it leaves all in-sync sets, and others lead. `is_lost`: no node counts on what it had any longer.
    `is_wiped`: it is there, and what it had is gone. `is_shortened`: it is there, and may lack its last records."""
    records: list[PartitionChangeRecord] = []
    for topic_id in image.holdings.topics_of(broker_id):
        for topic, number, partition in _partitions(image, topic_id):
            is_concerned = broker_id in partition.in_sync or (is_lost and broker_id in partition.eligible)
            is_marked = is_wiped and broker_id in partition.replicas and not partition.has_leader
            if not (is_concerned or is_marked):
                continue
            change = PartitionChange(image, topic, number, lambda other: other != broker_id and image.is_active(other))
            change.in_sync = _without(partition.in_sync, (broker_id,))
            change.lost = broker_id if is_lost else None
            change.is_wiped = is_wiped
            change.is_shortened = is_shortened
            records += _written(change)
    return records


def joined_by(image: MetadataImage, broker_id: int) -> list[PartitionChangeRecord]:
    """A broker is there (again): partitions without a leader may have one now."""
    records: list[PartitionChangeRecord] = []
    for topic_id in image.holdings.leaderless_topics():
        for topic, number, partition in _partitions(image, topic_id):
            if not partition.has_leader and broker_id in partition.replicas:
                change = PartitionChange(
                    image, topic, number, lambda other: other == broker_id or image.is_active(other)
                )
                records += _written(change)
    return records


def without_eligible(topic: Topic) -> Iterator[PartitionChangeRecord]:
    """Another min.insync.replicas: who is eligible was so by the old one, and more may become safe without them now.
    Not while they are waited for because the last one in sync was shortened: then no node leads."""
    for number, partition in enumerate(topic.partitions):
        if partition.eligible and not _is_noted_as_shortened(partition):
            yield PartitionChangeRecord(number, topic.id, eligible_leader_replicas=())


def _is_noted_as_shortened(partition: Partition) -> bool:
    """Of the last one in sync: one without any log would have made room for those that are eligible."""
    return partition.in_sync[0] in partition.lost and bool(partition.eligible)


def _partitions(image: MetadataImage, topic_id: bytes) -> Iterator[tuple[Topic, int, Partition]]:
    topic = image.topic_by_id(topic_id)
    if topic is not None:
        for number, partition in enumerate(topic.partitions):
            yield topic, number, partition


def _written(change: PartitionChange) -> list[PartitionChangeRecord]:
    record = change.record()
    return [] if record is None else [record]


def _without(replicas: Replicas, gone: tuple[int | None, ...]) -> Replicas:
    return tuple(replica for replica in replicas if replica not in gone)


def _only(replicas: Replicas, staying: Replicas) -> Replicas:
    return tuple(replica for replica in replicas if replica in staying)


def _if_new(wanted: Replicas, present: Replicas) -> Replicas | None:
    return None if wanted == present else wanted
