"""The quorum of the metadata log as this node takes part in it: carries out what the Raft machine says.

Every `Ready` is carried out in the order that `core/raft` demands, at once and without waiting; only the sync of the
log is left to group commit, and its end is reported to the machine. Where the disk fails in between, nothing has been
said to any node yet: the machine is thrown away and begins anew from what is on disk, as after a crash. Where it fails
while a snapshot takes the log's place, no node knows what the log is, and this node is out until it is started again.

What it says to the others goes through `quorum_links`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.ports import Chance, Files
from chronik.core.raft import messages as m
from chronik.core.raft.control_records import VotersRecord
from chronik.core.raft.core import Raft
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.quorum import Voters
from chronik.core.raft.quorum_log import QuorumLog
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.raft.ready import ElectionState, RaftSettings, Ready, VotersChange
from chronik.core.raft.view import QuorumView, describe
from chronik.core.replica.replica import Replica
from chronik.node.cluster.identity import CannotStart
from chronik.node.cluster.installation import Installation
from chronik.node.cluster.quorum_follower import QuorumFollower
from chronik.node.cluster.quorum_news import QuorumNews
from chronik.node.cluster.quorum_peers import QuorumPeers
from chronik.node.cluster.quorum_timers import FetchTurn, QuorumTimer
from chronik.node.cluster.quorum_waits import AppliedWaits, QuorumWaits
from chronik.node.cluster.quorum_writes import QuorumWrites
from chronik.node.cluster.vote_file import VoteFile
from chronik.node.net.peers import Peers
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.metrics import Metrics

if TYPE_CHECKING:
    from chronik.node.cluster.quorum_links import Cargo

log = logging.getLogger(__name__)

ASK_AGAIN_MS = 50
FAILED_PAUSE_MS = 100  # after a disk that refused
FETCH_PAUSE_MS = 30  # after a fetch that came to nothing
RESIGN_MS_MAX = 500  # how long a leader that stops waits for the others to know


@dataclass(frozen=True, slots=True)
class QuorumSetup:
    """What a quorum needs to know of a node's settings."""

    node_id: int
    cluster_id: str
    first_voters: Voters  # those that hold until the log or a snapshot names others
    settings: RaftSettings

    @classmethod
    def of(cls, config: NodeConfig, cluster_id: str) -> QuorumSetup:
        """Raises CannotStart."""
        if not config.voters and not config.is_alone:
            # It would take itself for the whole cluster, and elect itself.
            raise CannotStart("the voters of the cluster that this node is to join are not known")
        settings = RaftSettings(
            config.quorum.controller_quorum_election_timeout_ms,
            config.quorum.controller_quorum_fetch_timeout_ms,
            config.quorum.controller_quorum_election_backoff_max_ms,
            ASK_AGAIN_MS,
            config.quorum.controller_quorum_fetch_snapshot_max_bytes,
        )
        voters = Voters(tuple(sorted(config.voters or {config.node_id: ("", 0)})))
        return cls(config.node_id, cluster_id, voters, settings)


class Quorum:
    """This node as a voter or observer."""

    def __init__(
        self,
        replica: QuorumReplica,
        replicas: Replicas,
        files: Files,
        purgatory: Purgatory,
        peers: Peers,
        time: SteadyTime,
        chance: Chance,
        metrics: Metrics,
        setup: QuorumSetup,
    ) -> None:
        """`log_grew` is to be called when more of the replica's log is on disk. Raises Corrupt, OSError."""
        self.replica = replica
        self.log = QuorumLog(replica.log, files, setup.first_voters)
        replica.cut()  # a snapshot may have taken the place of a log that a crash left too short
        self._purgatory = purgatory
        self._time = time
        self._metrics = metrics
        self._vote = VoteFile(files, replica.log.directory)
        self._peers = QuorumPeers(peers, self.log, setup.settings, setup.cluster_id)
        self._writes = QuorumWrites(self.log, replica, replicas, self._peers.address_of)
        self._news = QuorumNews(metrics)
        self._timer = QuorumTimer(purgatory, time, lambda: self._act_quietly(self.raft.tick))
        self._turn = FetchTurn(purgatory, self._fetch)
        self._waits = QuorumWaits()
        self.applied = AppliedWaits()
        self.high_watermark = -1
        self._make_raft = partial(_make_raft, setup.node_id, self.log, setup.settings, chance)
        self.raft = self._new_raft()
        self._follower: QuorumFollower | None = None  # while this node takes part
        self._was_leader = False
        self._is_acting = False
        self._problem = ""  # the latest that was met; one that goes on is said once

    # --- what others see

    @property
    def node_id(self) -> int:
        return self.raft.node_id

    @property
    def cluster_id(self) -> str:
        return self._peers.cluster_id

    @property
    def is_running(self) -> bool:
        """Whether this node takes part."""
        return self._follower is not None

    @property
    def installation(self) -> Installation:
        return self._writes.installation

    @property
    def last_answers(self) -> dict[int, m.LastAnswer]:
        """By follower, to its fetches of the metadata log."""
        return self._news.last_answers

    def now_ms(self) -> int:
        """In the time of the quorum."""
        return self._time.now_ms()

    @property
    def leader_id(self) -> int | None:
        return self.node_id if self.is_leader else _other(self.raft.leader, self.node_id)

    @property
    def epoch(self) -> int:
        return self.raft.epoch

    @property
    def is_leader(self) -> bool:
        return self.is_running and self.raft.is_leader

    def describe(self) -> QuorumView:
        """Raises Refused: only the leader knows."""
        return describe(self.raft, self._time.now_ms())

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where another node is reached."""
        return self._peers.address_of(node_id)

    def read_snapshot_part(self, point: LogPoint, position: int, length: int) -> bytes:
        return self.log.snapshot_at(point).read(position, length)

    async def ask_view(self, timeout_ms: int) -> QuorumView:
        """What the leader sees, this node or another. Raises Unreachable, Refused."""
        leader = self.leader_id
        if leader is None:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER, "no leader of the quorum is known")
        if leader == self.node_id:
            return self.describe()
        return await self._peers.links.ask_view(leader, timeout_ms)

    def start(self, follower: QuorumFollower) -> None:
        """Take part from now on; `follower` lives by what is committed. A node alone leads when this returns. Raises
        Refused when its disk does not let it."""
        self._follower = follower
        self._peers.listen(self._refused)
        self._act(self.raft.tick)

    async def stop(self) -> None:
        """In good order: a leader tells the others, and waits a little until one of them knows."""
        if not self.is_running:
            return
        if self.raft.is_leader:
            self._act_quietly(self.raft.resign)
            await self._peers.wait_until_answered(RESIGN_MS_MAX / 1000)
        self._end()

    def _end(self) -> None:
        self._follower = None
        self._peers.stop_listening(self._refused)
        self._timer.cancel()
        self._turn.cancel()
        self._waits.fail()
        self._news.wake_soon()

    def step(self, request: m.Request) -> Any:
        """What this node answers to another. Raises Refused while it takes no part."""
        (answer,) = self._act(lambda now_ms: self.raft.step(request, now_ms))
        return answer

    def log_grew(self) -> None:
        """More was written, or more of it is on disk."""
        if self._is_acting:
            self._writes.has_changed = True
        elif self.is_running:
            self._act_quietly(self.raft.log_grew)
            self._news.publish()

    async def add_voter(self, node_id: int, address: tuple[str, int] | None, *, is_waited_for: bool = True) -> None:
        """Raises Refused."""
        known = {node_id: address} if address is not None else {}
        await self._change_voters(lambda now_ms: self.raft.add_voter(node_id, now_ms), known, is_waited_for)

    async def remove_voter(self, node_id: int) -> None:
        """Raises Refused."""
        await self._change_voters(lambda now_ms: self.raft.remove_voter(node_id, now_ms), {}, True)

    async def _change_voters(
        self, change: Callable[[int], Ready], known: dict[int, tuple[str, int]], is_waited_for: bool
    ) -> None:
        self._writes.given_addresses = known
        try:
            self._act(change)
        finally:  # with the change they are in the log; without it nothing is there
            self._writes.given_addresses = {}
        if is_waited_for and self.high_watermark < self.log.end_offset:
            await self._waits.wait_for(self.log.end_offset)

    def when_news(self, reader: Callable[[], None]) -> None:
        """Call the reader (soon) when something has changed, until `stop_reading`."""
        self._news.add_reader(reader)

    def stop_reading(self, reader: Callable[[], None]) -> None:
        self._news.remove_reader(reader)

    # --- the machine

    def _new_raft(self) -> Raft:
        raft = self._make_raft(self._vote.saved, self._time.now_ms())
        raft.high_watermark = max(raft.high_watermark, self.high_watermark)
        return raft

    def _act(self, act: Callable[[int], Ready], cargo: Cargo | None = None) -> list[m.Message]:
        """Let the machine do something, and do what follows from it. Returns its answers. Raises Refused."""
        if not self.is_running or self.replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, "this node takes no part in the quorum now")
        before = self.raft.leader, self.raft.epoch, self.high_watermark
        self._is_acting = True
        try:
            if self.installation.is_half_done:
                self.installation.finish(self._refill)
                raise OSError("a snapshot has only now taken the place of the log: ask again")
            answers = self._carry_out(act(self._time.now_ms()), cargo)
            while self._writes.has_changed:
                self._writes.has_changed = False
                self._news.publish()
                self._carry_out(self.raft.log_grew(self._time.now_ms()), None)
        except (OSError, Corrupt) as problem:  # nothing of it was said to anyone
            if str(problem) != self._problem:
                log.error("what the quorum decided cannot be written: %s", problem)
            self._problem = str(problem)
            self.raft = self._new_raft()
            self._timer.hold_off(FAILED_PAUSE_MS)
            self._turn.pause(FETCH_PAUSE_MS)
            self._set_office()
            raise Refused(Code.KAFKA_STORAGE_ERROR, str(problem)) from problem
        except AssertionError:  # a promise of Raft is broken: better no voter than one that spoils the others' logs
            self._end()
            raise
        finally:
            self._is_acting = False
            if (self.raft.leader, self.raft.epoch, self.high_watermark) != before:
                self._news.publish()
            self._set_deadline()
        self._fetch()
        return answers

    def _carry_out(self, ready: Ready, cargo: Cargo | None) -> list[m.Message]:
        if ready.election is not None:
            self._vote.save(ready.election)
        if ready.high_watermark is not None and self._was_leader and not self.raft.is_leader:
            self._safe(ready.high_watermark)  # the last thing it knew as a leader: those that waited for it may know
        self._set_office()
        if ready.truncate_to is not None:
            self._writes.truncate(ready.truncate_to)
        for record in ready.append:
            self._writes.append(record, self.raft.epoch, self._time.wall_ms())
        if ready.take and cargo is not None and cargo.content and not self._writes.take(cargo):
            self._turn.pause(FETCH_PAUSE_MS)
        if ready.install is not None:
            self.installation.begin(ready.install, self._refill)
        answers: list[m.Message] = []
        for to, message in ready.send:
            if isinstance(message, m.Request):
                self._peers.links.ask(to, message, self._heard)
            else:
                answers.append(message)
        if ready.high_watermark is not None:
            self._safe(ready.high_watermark)
        return answers

    def _set_office(self) -> None:
        """The replica is led by the node that the quorum elected; a node that resigned is notified before anything is
        cut."""
        raft = self.raft
        self.replica.set_office(raft.epoch, self.node_id if raft.is_leader else _other(raft.leader, self.node_id))
        if self._was_leader and not raft.is_leader:
            log.info("this node does not lead the quorum any more: epoch %d, leader %s", raft.epoch, raft.leader)
            if self._follower is not None:
                self._follower.resigned()
            self._waits.fail()
        elif raft.is_leader and not self._was_leader:
            log.info("this node leads the quorum in epoch %d", raft.epoch)
        self._was_leader = raft.is_leader

    def voters_record(self, change: VotersChange) -> VotersRecord:
        return self._writes.voters_record(change)

    def _refill(self, point: LogPoint) -> None:
        if self._follower is not None:
            self._follower.refill(point)
        self._writes.has_changed = True

    def _safe(self, end_offset: int) -> None:
        before, self.high_watermark = self.high_watermark, max(self.high_watermark, end_offset)
        if self._follower is not None:
            try:
                self._follower.committed(end_offset)
            except OSError:  # it cannot be read now: the machine that comes next hears of it again
                self.high_watermark = before
                raise
        self.replica.set_watermark(end_offset)
        self._purgatory.moved(self.replica)
        self._waits.safe(end_offset)

    # --- time

    def _set_deadline(self) -> None:
        # Whose disk failed takes no part: what is due would be refused, and be due again at once.
        takes_part = self.is_running and self.replica.offline is None
        due_ms = self.raft.next_deadline_ms() if takes_part else None
        self._timer.set(due_ms)

    def _act_quietly(self, act: Callable[[int], Ready], cargo: Cargo | None = None) -> None:
        """For what nothing asked for: a disk that refuses is said in the log, and the machine tries again."""
        try:
            self._act(act, cargo)
        except Refused:
            self._set_deadline()
        except AssertionError:
            self._metrics.faults += 1
            log.exception("this node takes no part in the quorum any more")

    # --- the other nodes

    def _heard(self, answer: m.Answer) -> None:
        if self.is_running:
            self._act_quietly(lambda now_ms: self.raft.step(answer, now_ms))

    def _refused(self, node_id: int) -> None:
        """Nothing listens there: the leader's process is gone."""
        if self.is_running and node_id == self.raft.leader and node_id != self.node_id:
            self._act_quietly(self.raft.leader_gone)

    def _fetch(self) -> None:
        """Ask for more, if there is a node to ask and nothing is under way."""
        if not self.is_running or self._turn.is_paused:
            return
        if self.installation.is_half_done:  # nothing can be said of the log before that is done
            self._act_quietly(self.raft.tick)
            return
        source = self.raft.leader, self.raft.epoch
        if self._turn.is_under_way(source):
            return
        envelope = self.raft.next_fetch()
        if envelope is not None:
            token = self._turn.begin(source)
            self._peers.links.fetch(envelope.to, envelope.message, self.high_watermark, partial(self._fetched, token))

    def _fetched(self, token: object, answer: m.Answer | None, cargo: Cargo | None) -> None:
        if not self.is_running or not self._turn.end(token):
            return
        if answer is None or getattr(answer, "code", Code.NONE) is not Code.NONE:
            self._turn.pause(FETCH_PAUSE_MS)
        if answer is not None:
            self._act_quietly(partial(self.raft.step, answer), cargo)

    def replica_offline(self, replica: Replica) -> None:
        """The disk failed. Of several, another is to lead; one alone keeps its office, and refuses everything."""
        if replica is not self.replica or not self.is_running:
            return
        if self.raft.voters.ids != (self.node_id,):
            ready = self.raft.resign(self._time.now_ms())
            for to, message in ready.send:
                if isinstance(message, m.EndEpoch):
                    self._peers.links.ask(to, message, self._heard)
            self._set_office()
            self._end()


def _make_raft(
    node_id: int, log: QuorumLog, settings: RaftSettings, chance: Chance, saved: ElectionState, now_ms: int
) -> Raft:
    return Raft(node_id, saved, log, settings, chance, now_ms)


def _other(leader: int | None, node_id: int) -> int | None:
    """The leader as a follower names it: it is not itself, though it may have resigned in this epoch."""
    return None if leader == node_id else leader
