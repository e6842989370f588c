"""Looks inside the nodes between any two moments, and knows what no client can: what is so.

It reads the nodes' own objects and the bytes on their disks, and changes nothing. Only a node that has done something
since the last look is looked at, and of that only what has changed.
"""

from __future__ import annotations

from collections.abc import Sequence

from chronik.core.machines.metadata.image import MetadataImage, Partition
from chronik.core.machines.metadata.names import METADATA_TOPIC, OFFSETS_TOPIC
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.coordinators import partition_of
from chronik.node.node import Node
from chronik.sim.checkers import Coordinator, Judge
from chronik.sim.copies import Copies, Key, Sight
from chronik.sim.host import Host
from chronik.sim.plans import host_name
from chronik.sim.quorum_checks import QuorumChecks
from chronik.sim.sessions import Sessions
from chronik.sim.story import Story
from chronik.sim.tails import Tail


class Inspector:
    """Checks every node after every event. It is the judge's truth."""

    def __init__(self, hosts: Sequence[Host], judge: Judge, story: Story) -> None:
        self._hosts = hosts
        self._judge = judge
        self._story = story
        self.copies = Copies(story)
        self.quorum = QuorumChecks(story)
        self._sessions = Sessions(judge.holders)
        for host in hosts:
            host.last_look = self._look_at_sessions  # what it wrote in its last moment outlives it
        self._lives: dict[int, int] = {}  # which of a node's processes was looked at last
        self._tails: dict[int, dict[Key, Tail]] = {}
        self._objects: dict[int, dict[Key, Replica]] = {}
        self._places: dict[TopicPartition, Partition] = {}  # the newest that any image has
        self._versions: dict[int, int] = {}

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
                self.copies.process_ended(host.node_id)
            self._look_at(host, node)

    def _look_at(self, host: Host, node: Node) -> None:
        if node.metrics.faults:
            raise self._story.break_promise(f"{host.name} counted a fault")
        image, quorum = node.image, node.quorum
        if quorum.is_leader:
            self.quorum.leads(host.node_id, quorum.epoch)
        if self._versions.get(host.node_id) != image.version:
            self._versions[host.node_id] = image.version
            self.quorum.image_at(host.node_id, image.version, image)
            self._look_at_image(image)
        self._look_at_sessions(host, node)
        for replica in node.replicas.held():
            key = replica.topic_id, replica.partition
            sight = sight_of(replica)
            if sight != self.copies.last_seen(key, host.node_id):
                name = TopicPartition(replica.topic, replica.partition)
                if self._objects[host.node_id].setdefault(key, replica) is not replica:
                    self._objects[host.node_id][key] = replica
                    self._begins_anew(host, name, key)
                self.copies.saw(host.node_id, str(name), key, sight)
                if not replica.log.config.may_have_gaps and host.node_id not in self._judge.damage.get(name, ()):
                    self._follow(host, replica, name, key, sight)

    def _look_at_sessions(self, host: Host, node: Node) -> None:
        self._sessions.look(host.node_id, node.coordinators.machines(), host.clock.monotonic_ms())

    def _begins_anew(self, host: Host, name: TopicPartition, key: Key) -> None:
        """A damaged copy was given up, and is fetched from its leader. Nothing else may take the place of a copy."""
        if host.node_id in self._judge.damage.get(name, ()):
            self._judge.repaired(name, host.node_id)
            self.copies.begins_anew(key, host.node_id)
            self._tails[host.node_id].pop(key, None)

    def _follow(self, host: Host, replica: Replica, name: TopicPartition, key: Key, sight: Sight) -> None:
        tails = self._tails[host.node_id]
        tail = tails.get(key)
        if tail is None:
            tail = tails[key] = Tail(host.disk, replica.log.directory)
        grown = list(tail.grown(sight.end_offset))
        if tail.offset < sight.start_offset:  # a snapshot took the place of the log
            tail = tails[key] = Tail(host.disk, replica.log.directory)
            grown = list(tail.grown(sight.end_offset))
        for header in grown:
            if len(self._hosts) > 1:  # a node alone may write something else in the place of what a power cut took
                self.copies.batch(host.node_id, str(name), key, header)
        for header, is_durable in tail.passed(sight.watermark):
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
                known = self._places.get(name)
                if known is None or known.partition_epoch <= partition.partition_epoch:
                    self._places[name] = partition

    def leaders(self) -> list[Host]:
        """The nodes that lead something, as the newest image has it, or the quorum; one that leads more comes more
        often."""
        up = {host.node_id: host for host in self._hosts if host.is_up}
        leads = [up[place.leader] for _, place in sorted(self._places.items()) if place.leader in up]
        return leads + [host for host in up.values() if host.node is not None and host.node.quorum.is_leader]

    def has_all(self, host: Host) -> bool:
        """Whether a node is up and in sync wherever it has a copy, and others have that too."""
        mine = [place for place in self._places.values() if host.node_id in place.replicas]
        return host.is_up and all(host.node_id in place.in_sync and len(place.in_sync) > 1 for place in mine)

    def is_calm(self) -> bool:
        """Whether every node has all that it should have, and a vote."""
        nodes = [host.node for host in self._hosts if host.node is not None]
        do_all_vote = all(len(node.quorum.raft.voters.ids) == len(self._hosts) for node in nodes)
        return do_all_vote and all(map(self.has_all, self._hosts))

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

    def coordinator(self, group: str) -> Coordinator:
        name = self.log_of(group)
        if name is None:
            return Coordinator("", 0)
        return Coordinator(host_name(self._places[name].leader), self._places[name].leader_epoch)

    def log_of(self, group: str) -> TopicPartition | None:
        count = sum(name.topic == OFFSETS_TOPIC for name in self._places)
        return TopicPartition(OFFSETS_TOPIC, partition_of(group, count)) if count else None


def sight_of(replica: Replica) -> Sight:
    """What there is to see of a copy."""
    log = replica.log
    return Sight(
        log.start_offset,
        replica.high_watermark,
        log.synced_offset if replica.is_synced else log.end_offset,
        log.end_offset,
        replica.leader_epoch,
        replica.is_leader,
        replica.in_sync.maximal if replica.in_sync is not None else (),
    )
