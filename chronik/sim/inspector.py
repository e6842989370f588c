"""Looks inside the nodes between any two moments, and knows what no client can: what is so.

It reads the nodes' own objects and the bytes on their disks, and changes nothing. Only a node that has done something
since the last look is looked at, and of that only what has changed.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from chronik.core.machines.metadata.image import MetadataImage, Partition
from chronik.core.machines.metadata.names import METADATA_TOPIC, OFFSETS_TOPIC
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.coordinators.runtime import partition_of
from chronik.node.node import Node
from chronik.sim.checkers import CheckedCoordinator, Judge
from chronik.sim.copies import Copies, CopySight, Key
from chronik.sim.hints import Placed
from chronik.sim.host import Host
from chronik.sim.plans import host_name
from chronik.sim.quorum_checks import QuorumChecks
from chronik.sim.sessions import SimSessions
from chronik.sim.story import WorldStory
from chronik.sim.tails import LogTail


class Inspector:
    """Checks every node after every event. It is the judge's truth."""

    def __init__(
        self, hosts: Sequence[Host], judge: Judge, story: WorldStory, voter_ids: Sequence[int] | None = None
    ) -> None:
        self._hosts = hosts
        self._voter_ids = sorted(voter_ids or [host.node_id for host in hosts])  # while no vote is being moved
        self._judge = judge
        self._story = story
        self.copies = Copies(story)
        self.quorum = QuorumChecks(story)
        self._sessions = SimSessions(judge.holders)
        for host in hosts:
            host.last_look = self._look_at_sessions  # what it wrote in its last moment outlives it
        self._lives: dict[int, int] = {}  # which of a node's processes was looked at last
        self._tails: dict[int, dict[Key, LogTail]] = {}
        self._objects: dict[int, dict[Key, Replica]] = {}
        self._glimpses: dict[int, dict[Replica, Glimpse]] = {}  # what was so at the last look, of the same processes
        self._places: dict[TopicPartition, Partition] = {}  # the newest that any image has
        self._versions: dict[int, int] = {}
        self._moved_away: set[tuple[TopicPartition, int]] = set()  # copies that the metadata took from a node
        self.lossy_topics: set[str] = set()  # their leaders may be elected uncleanly: what was safe may be lost

    def look(self) -> None:
        """Raises Violation."""
        for host in self._hosts:
            node, running = host.node, host.process
            if node is None or running is None or not running.has_run:
                continue
            running.has_run = False
            if self._lives.get(host.node_id) != host.starts:
                self._lives[host.node_id] = host.starts
                self._versions.pop(host.node_id, None)
                self._tails[host.node_id] = {}
                self._objects[host.node_id] = {}
                self._glimpses[host.node_id] = {}
                self.copies.process_ended(host.node_id)
            self._look_at(host, node)

    def _look_at(self, host: Host, node: Node) -> None:
        if node.metrics.faults:
            raise self._story.break_promise(f"{host.name} counted a fault")
        image, quorum = node.image, node.cluster.quorum
        if quorum.is_leader:
            self.quorum.leads(host.node_id, quorum.epoch)
        if self._versions.get(host.node_id) != image.version:
            self._versions[host.node_id] = image.version
            self.quorum.image_at(host.node_id, image.version, image)
            self._look_at_image(image)
        self._look_at_sessions(host, node)
        glimpses, held_count = self._glimpses[host.node_id], 0
        for replica in node.replicas.held():
            held_count += 1
            if replica is quorum.replica and quorum.installation.is_half_done:
                continue  # several files, and something ran out between them: the node says nothing of it either
            glimpse = glimpse_of(replica)
            if glimpses.get(replica) != glimpse:
                glimpses[replica] = glimpse
                self._look_at_copy(host, replica)
        if held_count != len(self._objects[host.node_id]):
            self._some_were_dropped(host, node)

    def _look_at_copy(self, host: Host, replica: Replica) -> None:
        key, sight = (replica.topic_id, replica.partition), sight_of(replica)
        if sight == self.copies.last_seen(key, host.node_id):
            return
        name = TopicPartition(replica.topic, replica.partition)
        if self._objects[host.node_id].setdefault(key, replica) is not replica:
            self._objects[host.node_id][key] = replica
            self._begins_anew(host, name, key)
        if self._is_fetched_anew(host, replica, name):
            self.copies.begins_anew(key, host.node_id)
        self.copies.saw(host.node_id, str(name), key, sight, may_lose=name.topic in self.lossy_topics)
        if not replica.log.config.may_have_gaps and host.node_id not in self._judge.damage.get(name, ()):
            self._follow(host, replica, name, key, sight)

    def _is_fetched_anew(self, host: Host, replica: Replica, name: TopicPartition) -> bool:
        """A copy of a compacted topic that ended below tombstones which are gone gives up all it has, with its
        watermark. Not while it is counted on."""
        before, place = (
            self.copies.last_seen((replica.topic_id, replica.partition), host.node_id),
            self._places.get(name),
        )
        if before is None or place is None or replica.is_leader or not replica.log.config.may_have_gaps:
            return False
        is_counted_on = host.node_id in (*place.in_sync, *place.eligible)
        return replica.log.end_offset < before.watermark and not is_counted_on

    def _some_were_dropped(self, host: Host, node: Node) -> None:
        """Of topics that are deleted, or moved to other nodes. If they come back, they begin anew."""
        held = {(replica.topic_id, replica.partition) for replica in node.replicas.held()}
        for key in [key for key in self._objects[host.node_id] if key not in held]:
            del self._objects[host.node_id][key]
            self._tails[host.node_id].pop(key, None)
            self.copies.dropped(key, host.node_id)

    def _look_at_sessions(self, host: Host, node: Node) -> None:
        self._sessions.look(host.node_id, node.groups.machines(), host.clock.monotonic_ms())

    def _begins_anew(self, host: Host, name: TopicPartition, key: Key) -> None:
        """A damaged copy was given up, and is fetched from its leader; or it was moved away and back between two looks.
        Nothing else may take the place of a copy."""
        if (name, host.node_id) in self._moved_away:
            self.copies.dropped(key, host.node_id)
            self._tails[host.node_id].pop(key, None)
        if host.node_id in self._judge.damage.get(name, ()):
            self._judge.repaired(name, host.node_id)
            place = self._places.get(name)
            is_let_go = place is not None and host.node_id not in (*place.in_sync, *place.eligible)
            self.copies.begins_anew(key, host.node_id, is_let_go=is_let_go)
            self._tails[host.node_id].pop(key, None)

    def _follow(self, host: Host, replica: Replica, name: TopicPartition, key: Key, sight: CopySight) -> None:
        tails = self._tails[host.node_id]
        tail = tails.get(key)
        if tail is None:
            tail = tails[key] = LogTail(host.disk, replica.log.directory, sight.start_offset)
        grown = list(tail.grown(sight.end_offset))
        # A snapshot took the place of the log, or it begins where the leader's does: in the middle of a batch.
        if tail.offset < max(sight.start_offset, sight.end_offset):
            tail = tails[key] = LogTail(host.disk, replica.log.directory, sight.start_offset)
            grown = list(tail.grown(sight.end_offset))
        for header in grown:
            if len(self._hosts) > 1:  # a node alone may write something else in the place of what a power cut took
                self.copies.batch(host.node_id, str(name), key, header)
        for header, is_durable in tail.passed(sight.watermark):
            # A leader does not know any more which epochs were below its log start, and cannot tell a follower that it
            # has another history there. Nothing reads that, here or there.
            if header.next_offset <= sight.start_offset:
                continue
            if name.topic not in self.lossy_topics:
                self.copies.safe_batch(host.node_id, str(name), key, header)
            # A majority of the quorum is enough; the leader's own disk need not be part of it.
            if replica.is_synced and not is_durable and name.topic != METADATA_TOPIC:
                raise self._story.break_promise(
                    f"{host.name}: the watermark of {name} is {sight.watermark}, and its disk has not synced the batch"
                    f" at {header.base_offset}"
                )
        if tail.offset < sight.end_offset:
            raise self._story.break_promise(
                f"{host.name}: {name} ends at {sight.end_offset}, and its files at {tail.offset}"
            )

    def _look_at_image(self, image: MetadataImage) -> None:
        for topic in image.topics.values():
            for number, partition in enumerate(topic.partitions):
                name = TopicPartition(topic.name, number)
                self._judge.hints.had(name, partition.leader, partition.leader_epoch)
                known = self._places.get(name)
                if known is None or known.partition_epoch <= partition.partition_epoch:
                    if known is not None and known.replicas != partition.replicas:
                        gone = [node_id for node_id in known.replicas if node_id not in partition.replicas]
                        self._moved_away.update((name, node_id) for node_id in gone)
                    self._places[name] = partition
                    if name.topic not in self.lossy_topics:
                        self._look_at_eligible(name, (topic.id, number), partition)

    def _look_at_eligible(self, name: TopicPartition, key: Key, partition: Partition) -> None:
        waited_for = () if partition.has_leader else partition.in_sync
        counted_on = {*partition.eligible, *waited_for} - {*partition.lost} - self._judge.damage.get(name, set())
        self.copies.may_lead(str(name), key, tuple(sorted(counted_on)))

    def places(self) -> Iterable[Partition]:
        """Every partition as the newest image has it."""
        return self._places.values()

    def leaders(self) -> list[Host]:
        """The nodes that lead something, as the newest image has it, or the quorum; one that leads more comes more
        often."""
        up = {host.node_id: host for host in self._hosts if host.is_up}
        leads = [up[place.leader] for _, place in sorted(self._places.items()) if place.leader in up]
        return leads + [host for host in up.values() if host.node is not None and host.node.cluster.quorum.is_leader]

    def has_all(self, host: Host) -> bool:
        """Whether a node is up and in sync wherever it has a copy, and others have that too."""
        mine = [place for place in self._places.values() if host.node_id in place.replicas]
        return host.is_up and all(host.node_id in place.in_sync and len(place.in_sync) > 1 for place in mine)

    def is_calm(self) -> bool:
        """Whether every node has all that it should have, and those that are to vote do."""
        nodes = [host.node for host in self._hosts if host.node is not None]
        do_all_vote = all(sorted(node.cluster.quorum.raft.voters.ids) == self._voter_ids for node in nodes)
        return do_all_vote and all(map(self.has_all, self._hosts))

    def newest_place(self, name: TopicPartition) -> Partition | None:
        """Where a partition is, by the newest metadata that any node has."""
        return self._places.get(name)

    # --- the truth

    def in_sync(self, name: TopicPartition) -> tuple[int, ...]:
        place = self._places.get(name)
        return place.in_sync if place is not None else ()

    def leader_epoch(self, name: TopicPartition) -> int:
        place = self._places.get(name)
        return place.leader_epoch if place is not None else 0

    def hidden_end(self, name: TopicPartition) -> int:
        nodes = [host.node for host in self._hosts if host.node is not None]
        copies = [copy for node in nodes for copy in node.replicas.held() if (copy.topic, copy.partition) == name]
        return max((copy.log.end_offset for copy in copies if copy.is_leader), default=0)

    def coordinator(self, group: str) -> CheckedCoordinator:
        name = self.log_of(group)
        if name is None:
            return CheckedCoordinator("", 0)
        return CheckedCoordinator(host_name(self._places[name].leader), self._places[name].leader_epoch)

    def placed(self, address: tuple[str, int], name: TopicPartition) -> Placed | None:
        nodes = [host.node for host in self._hosts if host.address == address and host.node is not None]
        topic = nodes[0].image.topics.get(name.topic) if nodes else None
        if topic is None or name.partition >= len(topic.partitions):
            return None
        return Placed(topic.id, topic.partitions[name.partition].leader_epoch)

    def log_of(self, group: str) -> TopicPartition | None:
        count = sum(name.topic == OFFSETS_TOPIC for name in self._places)
        return TopicPartition(OFFSETS_TOPIC, partition_of(group, count)) if count else None


Glimpse = tuple[object, ...]


def glimpse_of(replica: Replica) -> Glimpse:
    """All that a sight is made of, and nothing made of it: most looks find it as it was."""
    log, in_sync = replica.log, replica.in_sync
    return (
        log,
        log.config,
        log.start_offset,
        log.synced_offset,
        log.end_offset,
        replica.high_watermark,
        replica.leader_epoch,
        replica.is_leader,
        None if in_sync is None else (in_sync.in_sync, in_sync.wanted),
    )


def sight_of(replica: Replica) -> CopySight:
    """What there is to see of a copy."""
    log = replica.log
    return CopySight(
        log.start_offset,
        replica.high_watermark,
        log.synced_offset if replica.is_synced else log.end_offset,
        log.end_offset,
        replica.leader_epoch,
        replica.is_leader,
        replica.in_sync.maximal if replica.in_sync is not None else (),
    )
