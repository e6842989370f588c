"""The quorum of the metadata log as this node takes part in it: carries out what the Raft machine says.

Every `Ready` is carried out in the order that `core/raft` demands, at once and without waiting; only the sync of the
log is left to group commit, and its end is told to the machine. Where the disk fails in between, nothing has been said
to anybody yet: the machine is thrown away and begins anew from what is on disk, as after a crash. Where it fails while
a snapshot takes the log's place, nobody knows what the log is, and this node is out until it is started again.

What it says to the others goes through `quorum_links`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import TYPE_CHECKING, Any

from chronik.core.config.node import NodeConfig
from chronik.core.errors import Code, Corrupt, Refused
from chronik.core.ports import Chance, Files
from chronik.core.raft import control_records, state_file
from chronik.core.raft import messages as m
from chronik.core.raft.control_records import Endpoint, Voter, VotersRecord
from chronik.core.raft.core import Raft
from chronik.core.raft.messages import LogPoint
from chronik.core.raft.quorum import Voters
from chronik.core.raft.quorum_log import QuorumLog
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.raft.ready import ElectionState, LeaderChange, Ready, Timeouts, VotersChange
from chronik.core.raft.view import QuorumView, describe
from chronik.core.replica.replica import Replica
from chronik.node.cluster.identity import CannotStart
from chronik.node.cluster.installation import Installation
from chronik.node.cluster.quorum_follower import QuorumFollower
from chronik.node.cluster.quorum_waits import AppliedWaits, QuorumWaits
from chronik.node.net.peers import Peers
from chronik.node.replication.purgatory import Purgatory
from chronik.node.replication.replicas import Replicas
from chronik.node.runtime.deadlines import Deadline
from chronik.node.runtime.steady_time import SteadyTime
from chronik.trace.metrics import Metrics

if TYPE_CHECKING:
    from chronik.node.cluster.quorum_links import Cargo, QuorumLinks

log = logging.getLogger(__name__)

LISTENER = "CONTROLLER"
ASK_AGAIN_MS = 50
FAILED_PAUSE_MS = 100  # after a disk that refused
FETCH_PAUSE_MS = 30  # after a fetch that came to nothing
RESIGN_MS_MAX = 500  # how long a leader that stops waits for the others to know
KRAFT_VERSIONS = (0, 1)


class Quorum:
    """This node as a voter or observer."""

    def __init__(
        self,
        replica: QuorumReplica,
        replicas: Replicas,
        files: Files,
        waiting: Purgatory,
        peers: Peers,
        time: SteadyTime,
        chance: Chance,
        metrics: Metrics,
        config: NodeConfig,
        cluster_id: str,
    ) -> None:
        """Raises Corrupt, OSError, CannotStart."""
        self.node_id = config.node_id
        self.cluster_id = cluster_id
        self.replica = replica
        self._replicas = replicas
        self._files = files
        self._waiting = waiting
        self._peers = peers
        self._time = time
        self._chance = chance
        self._metrics = metrics
        self._state_path = f"{replica.log.directory}/{state_file.FILE_NAME}"
        self._timeouts = Timeouts(
            config.quorum.controller_quorum_election_timeout_ms,
            config.quorum.controller_quorum_fetch_timeout_ms,
            config.quorum.controller_quorum_election_backoff_max_ms,
            ASK_AGAIN_MS,
        )
        self.log = QuorumLog(replica.log, files, _first_voters(config))
        replica.cut()  # a snapshot may have taken the place of a log that a crash left too short
        self.follower: QuorumFollower | None = None
        self._saved = self._read_election()
        self.high_watermark = -1
        self.raft = self._new_raft()
        self._was_leader = False
        self._is_acting = False
        self._is_running = False
        self._has_log_changed = False
        self._news = 0  # counts whatever a waiting fetch may want to know
        self._is_wake_planned = False
        self._readers: dict[Callable[[], None], None] = {}
        self.told_watermarks: dict[int, int] = {}  # by follower: the watermark in the last answer to it
        self.applied = AppliedWaits()
        self._fetching: object | None = None  # the fetch under way
        self._fetching_from: tuple[int | None, int] = (None, -1)
        self._fetch_pause: Deadline | None = None
        self._deadline: Deadline | None = None
        self._deadline_ms: int | None = None
        self._problem = ""  # the latest that was met; one that goes on is said once
        self._not_before_ms = 0  # what it does by itself waits so long: the disk has just refused it
        self.installation = Installation(self.log, replica, replicas)
        self._opened_links: QuorumLinks | None = None
        self._given_addresses: dict[int, tuple[str, int]] = {}  # with the change of voters that is just being made
        self._waits = QuorumWaits()
        replica.on_synced = self.log_grew

    # --- what others see

    @property
    def leader_id(self) -> int | None:
        return self.node_id if self.is_leader else _other(self.raft.leader, self.node_id)

    @property
    def epoch(self) -> int:
        return self.raft.epoch

    @property
    def is_leader(self) -> bool:
        return self._is_running and self.raft.is_leader

    @property
    def news(self) -> int:
        """Another number whenever the log, the watermark or the leader is another."""
        return self._news

    def describe(self) -> QuorumView:
        """Raises Refused: only the leader knows."""
        return describe(self.raft, self._time.now_ms())

    def address_of(self, node_id: int) -> tuple[str, int] | None:
        """Where another node is reached."""
        return self.log.voter_addresses.get(node_id) or self._peers.address_of(node_id)

    def read_snapshot_part(self, point: LogPoint, position: int, length: int) -> bytes:
        return self.log.snapshot_at(point).read(position, length)

    async def ask_view(self, timeout_ms: int) -> QuorumView:
        """What the leader sees, this node or another. Raises Unreachable, Refused."""
        leader = self.leader_id
        if leader is None:
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER, "no leader of the quorum is known")
        return self.describe() if leader == self.node_id else await self._links.ask_view(leader, timeout_ms)

    def start(self) -> None:
        """Take part from now on. A node alone leads when this returns. Raises Refused when its disk does not let it."""
        self._is_running = True
        self._peers.on_refused.append(self._refused)
        self._act(self.raft.tick)

    async def stop(self) -> None:
        """In good order: a leader tells the others, and waits a little until one of them knows."""
        if not self._is_running:
            return
        if self.raft.is_leader:
            self._act_quietly(self.raft.resign)
            if self._opened_links is not None:
                await self._opened_links.wait_until_answered(RESIGN_MS_MAX / 1000)
        self._end()

    def _end(self) -> None:
        self._is_running = False
        if self._refused in self._peers.on_refused:
            self._peers.on_refused.remove(self._refused)
        for deadline in (self._deadline, self._fetch_pause):
            if deadline is not None:
                self._waiting.cancel(deadline)
        self._deadline = self._fetch_pause = None
        self._waits.fail()
        self._plan_wake()

    def step(self, request: m.Request) -> Any:
        """What this node answers to another. Raises Refused while it takes no part."""
        (answer,) = self._act(lambda now_ms: self.raft.step(request, now_ms))
        return answer

    def log_grew(self) -> None:
        """More was written, or more of it is on disk."""
        if self._is_acting:
            self._has_log_changed = True
        elif self._is_running:
            self._act_quietly(self.raft.log_grew)
            self._tell()

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
        self._given_addresses = known
        try:
            self._act(change)
        finally:  # with the change they are in the log; without it nobody is there
            self._given_addresses = {}
        if is_waited_for and self.high_watermark < self.log.end_offset:
            await self._waits.wait_for(self.log.end_offset)

    def when_news(self, reader: Callable[[], None]) -> None:
        """Call the reader (soon) when something has changed, until `stop_reading`."""
        self._readers[reader] = None

    def stop_reading(self, reader: Callable[[], None]) -> None:
        self._readers.pop(reader, None)

    # --- the machine

    def _read_election(self) -> ElectionState:
        try:
            saved = state_file.decode(self._files.read_all(self._state_path))
            # An earlier process may have failed to sync its name: then the vote in it has not been given yet.
            self._files.open(self._state_path).sync()
            return saved
        except FileNotFoundError:
            return ElectionState(is_new=True)
        except Corrupt as problem:  # whom it voted for is not known, so it votes for nobody until it has caught up
            log.error("%s: this node has no vote until it has caught up", problem)
            return ElectionState(is_new=True)

    def _new_raft(self) -> Raft:
        now_ms = self._time.now_ms()
        raft = Raft(self.node_id, self._saved, self.log, self._timeouts, self._chance, now_ms)
        raft.high_watermark = max(raft.high_watermark, self.high_watermark)
        return raft

    def _act(self, act: Callable[[int], Ready], cargo: Cargo | None = None) -> list[m.Message]:
        """Let the machine do something, and do what follows from it. Returns its answers. Raises Refused."""
        if not self._is_running or self.replica.offline is not None:
            raise Refused(Code.KAFKA_STORAGE_ERROR, "this node takes no part in the quorum now")
        before = self.raft.leader, self.raft.epoch, self.high_watermark
        self._is_acting = True
        try:
            if self.installation.is_half_done:
                self.installation.finish(self._refill)
                raise OSError("a snapshot has only now taken the place of the log: ask again")
            answers = self._carry_out(act(self._time.now_ms()), cargo)
            while self._has_log_changed:
                self._has_log_changed = False
                self._tell()
                self._carry_out(self.raft.log_grew(self._time.now_ms()), None)
        except (OSError, Corrupt) as problem:  # nothing of it was said to anyone
            if str(problem) != self._problem:
                log.error("what the quorum decided cannot be written: %s", problem)
            self._problem = str(problem)
            self.raft = self._new_raft()
            self._not_before_ms = self._time.now_ms() + FAILED_PAUSE_MS
            self._pause_fetches()
            self._set_office()
            raise Refused(Code.KAFKA_STORAGE_ERROR, str(problem)) from problem
        except AssertionError:  # a promise of Raft is broken: better no voter than one that spoils the others' logs
            self._end()
            raise
        finally:
            self._is_acting = False
            if (self.raft.leader, self.raft.epoch, self.high_watermark) != before:
                self._tell()
            self._set_deadline()
        self._fetch()
        return answers

    def _carry_out(self, ready: Ready, cargo: Cargo | None) -> list[m.Message]:
        if ready.election is not None:
            self._files.replace(self._state_path, state_file.encode(ready.election))
            self._saved = ready.election
        if ready.high_watermark is not None and self._was_leader and not self.raft.is_leader:
            self._safe(ready.high_watermark)  # the last thing it knew as a leader: those who waited for it may know
        self._set_office()
        if ready.truncate_to is not None:
            self._truncate(ready.truncate_to)
        for record in ready.append:
            self._append(record)
        if ready.take and cargo is not None and cargo.content:
            self._take(cargo)
        if ready.install is not None:
            self.installation.begin(ready.install, self._refill)
        answers: list[m.Message] = []
        for to, message in ready.send:
            if isinstance(message, m.Request):
                self._links.ask(to, message, self._heard)
            else:
                answers.append(message)
        if ready.high_watermark is not None:
            self._safe(ready.high_watermark)
        return answers

    def _set_office(self) -> None:
        """The replica is led by whom the quorum elected; a node that resigned is notified before anything is cut."""
        raft = self.raft
        self.replica.set_office(raft.epoch, self.node_id if raft.is_leader else _other(raft.leader, self.node_id))
        if self._was_leader and not raft.is_leader:
            log.info("this node does not lead the quorum any more: epoch %d, leader %s", raft.epoch, raft.leader)
            if self.follower is not None:
                self.follower.resigned()
            self._waits.fail()
        elif raft.is_leader and not self._was_leader:
            log.info("this node leads the quorum in epoch %d", raft.epoch)
        self._was_leader = raft.is_leader

    def _truncate(self, end_offset: int) -> None:
        self._replicas.cut([(self.replica, end_offset, False)])
        if self.replica.log.end_offset > end_offset:
            raise OSError(f"the metadata log cannot be cut at {end_offset}")
        self.log.truncated()
        self._has_log_changed = True

    def _append(self, record: LeaderChange | VotersChange) -> None:
        replica = self.replica
        written = (
            control_records.leader_change(record) if isinstance(record, LeaderChange) else self.voters_record(record)
        )
        batch = control_records.build(
            [written], self._time.wall_ms(), base_offset=replica.log.end_offset, leader_epoch=self.raft.epoch
        )
        if not self._replicas.append_as_follower(replica, batch):
            raise OSError("the metadata log cannot be written")
        self.log.appended(batch)
        self._has_log_changed = True

    def voters_record(self, change: VotersChange) -> VotersRecord:
        """With the addresses of the voters, as far as they are known."""
        voters: list[Voter] = []
        for voter_id in change.voters:
            address = self._given_addresses.get(voter_id) or self.address_of(voter_id)
            endpoints = () if address is None else (Endpoint(LISTENER, *address),)
            voters.append(Voter(voter_id, control_records.NO_DIRECTORY, endpoints, KRAFT_VERSIONS))
        return VotersRecord(0, tuple(voters))

    def _take(self, cargo: Cargo) -> None:
        """Records that cannot be written are fetched again, after a while."""
        if cargo.snapshot is not None:
            self.log.take_part(cargo.snapshot, cargo.position, cargo.content)
            return
        if not self._replicas.append_as_follower(self.replica, cargo.content):
            self._pause_fetches()
        self.log.appended(cargo.content)  # all of it, or what there was room for
        self._has_log_changed = True

    def _refill(self, point: LogPoint) -> None:
        if self.follower is not None:
            self.follower.refill(point)
        self._has_log_changed = True

    def _safe(self, end_offset: int) -> None:
        before, self.high_watermark = self.high_watermark, max(self.high_watermark, end_offset)
        if self.follower is not None:
            try:
                self.follower.committed(end_offset)
            except OSError:  # it cannot be read now: the machine that comes next hears of it again
                self.high_watermark = before
                raise
        self.replica.set_watermark(end_offset)
        self._waiting.moved(self.replica)
        self._waits.safe(end_offset)

    # --- time

    def _set_deadline(self) -> None:
        # Whose disk failed takes no part: what is due would be refused, and be due again at once.
        takes_part = self._is_running and self.replica.offline is None
        due_ms = self.raft.next_deadline_ms() if takes_part else None
        if due_ms is not None:
            due_ms = max(due_ms, self._not_before_ms)
        if due_ms == self._deadline_ms:
            return
        if self._deadline is not None:
            self._waiting.cancel(self._deadline)
            self._deadline = None
        self._deadline_ms = due_ms
        if due_ms is not None:
            self._deadline = self._waiting.after_ms(due_ms - self._time.now_ms(), self._tick)

    def _tick(self) -> None:
        self._deadline = self._deadline_ms = None
        self._act_quietly(self.raft.tick)

    def _act_quietly(self, act: Callable[[int], Ready], cargo: Cargo | None = None) -> None:
        """For what nobody asked for: a disk that refuses is said in the log, and the machine tries again."""
        try:
            self._act(act, cargo)
        except Refused:
            self._set_deadline()
        except AssertionError:
            self._metrics.faults += 1
            log.exception("this node takes no part in the quorum any more")

    # --- the other nodes

    @property
    def _links(self) -> QuorumLinks:
        if self._opened_links is None:
            from chronik.node.cluster.quorum_links import QuorumLinks  # a node that is alone starts without it

            self._opened_links = QuorumLinks(self._peers, self._timeouts, self.cluster_id)
        return self._opened_links

    def _heard(self, answer: m.Answer) -> None:
        if self._is_running:
            self._act_quietly(lambda now_ms: self.raft.step(answer, now_ms))

    def _refused(self, node_id: int) -> None:
        """Nobody listens there: the leader's process is gone."""
        if self._is_running and node_id == self.raft.leader and node_id != self.node_id:
            self._act_quietly(self.raft.leader_gone)

    def _fetch(self) -> None:
        """Ask for more, if there is a node to ask and nothing is under way."""
        if not self._is_running or self._fetch_pause is not None:
            return
        if self.installation.is_half_done:  # nothing can be said of the log before that is done
            self._act_quietly(self.raft.tick)
            return
        source = self.raft.leader, self.raft.epoch
        if self._fetching is not None and self._fetching_from == source:
            return
        envelope = self.raft.next_fetch()
        if envelope is not None:
            token = self._fetching = object()
            self._fetching_from = source
            self._links.fetch(envelope.to, envelope.message, self.high_watermark, partial(self._fetched, token))

    def _fetched(self, token: object, answer: m.Answer | None, cargo: Cargo | None) -> None:
        if token is not self._fetching or not self._is_running:
            return
        self._fetching = None
        if answer is None or getattr(answer, "code", Code.NONE) is not Code.NONE:
            self._pause_fetches()
        if answer is not None:
            self._act_quietly(partial(self.raft.step, answer), cargo)

    def _pause_fetches(self) -> None:
        if self._fetch_pause is None:
            self._fetch_pause = self._waiting.after_ms(FETCH_PAUSE_MS, self._resume_fetches)

    def _resume_fetches(self) -> None:
        self._fetch_pause = None
        self._fetch()

    # --- fetches that wait here for news

    def _tell(self) -> None:
        self._news += 1
        self._plan_wake()

    def _plan_wake(self) -> None:
        if self._readers and not self._is_wake_planned:
            self._is_wake_planned = True
            asyncio.get_running_loop().call_soon(self._wake)

    def _wake(self) -> None:
        self._is_wake_planned = False
        for reader in list(self._readers):
            try:
                reader()
            except Exception:
                self._metrics.faults += 1
                log.exception("fault in a fetch that waited")

    def replica_offline(self, replica: Replica) -> None:
        """The disk failed. Of several, another is to lead; one alone keeps its office, and refuses everything."""
        if replica is not self.replica or not self._is_running:
            return
        if self.raft.voters.ids != (self.node_id,):
            ready = self.raft.resign(self._time.now_ms())
            for to, message in ready.send:
                if isinstance(message, m.EndEpoch):
                    self._links.ask(to, message, self._heard)
            self._set_office()
            self._end()


def _first_voters(config: NodeConfig) -> Voters:
    """Those that hold until the log or a snapshot names others. Raises CannotStart."""
    if not config.voters and not config.is_alone:
        # It would take itself for the whole cluster, and elect itself.
        raise CannotStart("the voters of the cluster that this node is to join are not known")
    return Voters(tuple(sorted(config.voters or {config.node_id: ("", 0)})))


def _other(leader: int | None, node_id: int) -> int | None:
    """The leader as a follower names it: it is not itself, though it may have resigned in this epoch."""
    return None if leader == node_id else leader
