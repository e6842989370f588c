"""What a node of the quorum knows: its epoch, its role, how far the log is safe; and how it learns of epochs."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.ports import Chance
from chronik.core.raft import messages as m
from chronik.core.raft.messages import LogPoint, Message
from chronik.core.raft.quorum import Voters
from chronik.core.raft.reach import EPOCH_MAX, EpochReach
from chronik.core.raft.ready import ElectionState, Envelope, RaftLog, Ready, Timeouts
from chronik.core.raft.roles import Follower, Leader, Prospective, Role, Unattached


class NodeState:
    """The base of `Raft`, which moves it. Work to do collects in a `Ready` until it is taken."""

    def __init__(
        self, node_id: int, election: ElectionState, log: RaftLog, timeouts: Timeouts, chance: Chance, now_ms: int
    ) -> None:
        self.node_id = node_id
        self.election = election
        # Not known until a leader says so, but what a snapshot replaced was safe.
        self.high_watermark = log.start_offset if log.start_offset > 0 else -1
        self._log = log
        self._timeouts = timeouts
        self._chance = chance
        self._now_ms = now_ms
        self._reach = EpochReach(timeouts.fetch_ms)
        self._ready = Ready()
        self.has_caught_up = False  # in this life: it had all that a leader called safe in its own epoch
        if election.epoch < log.latest_epoch:
            # The file with the election was lost. That epoch had its leader, so it needs no vote of ours: we may have
            # given it already.
            self._elect(ElectionState(log.latest_epoch, node_id, None))
        self.role: Role = self._role_at_start()

    def _role_at_start(self) -> Role:
        if self._is_alone:
            return Unattached(self._now_ms)  # nobody to wait for
        if self.leader is not None and self.leader != self.node_id:
            return Follower(self.leader, self._give_up_at_ms())
        if self.election.is_new and self._log.end_offset == 0:
            # A cluster that begins has no leader to wait for; should there be one, the pre-vote says so.
            return Unattached(self._now_ms + self._chance.below(max(self._timeouts.election_ms // 4, 1)))
        # A node that led before the restart does not go on in that epoch: it may have lost records that were not
        # synced, and would write others in their place.
        return Unattached(self._election_at_ms())

    @property
    def epoch(self) -> int:
        return self.election.epoch

    @property
    def leader(self) -> int | None:
        """Which node leads this epoch, as far as this node knows. This node itself also after it has resigned."""
        return self.election.leader

    @property
    def is_leader(self) -> bool:
        return isinstance(self.role, Leader)

    @property
    def voters(self) -> Voters:
        """In force as soon as their record is in the log, and no longer when it is cut off (KIP-853)."""
        return self._log.voters.voters

    @property
    def is_voter(self) -> bool:
        return self.node_id in self.voters

    @property
    def is_new(self) -> bool:
        """Whether this node began with an empty disk and has not caught up since.

        Raft counts on disks that keep what they were given. A voter whose disk was lost would help to elect a log that
        lacks what it once had itself, and what was safe with its help would be gone. So one that is new grants its vote
        to empty logs only, and stands only with an empty log and while nobody is known to object. A cluster that
        starts for the first time is elected in this way; see docs/decisions/0014 for what that leaves open.
        """
        return self.election.is_new

    @property
    def may_stand(self) -> bool:
        """A voter may, and one that was removed until that is safe (Raft, section 4.2.2).

        It may be the only one with the record that removes it. The others cannot be elected against its longer log, and
        nobody could if it did not stand. Where there is no later epoch, nothing stands.
        """
        if self.epoch >= EPOCH_MAX:
            return False
        offset, voters, before = self._log.voters
        is_removal_open = before is not None and self.node_id in before and offset >= self.high_watermark
        is_trusted = not self.is_new or self._log.end_offset == 0 or self._is_alone
        return (self.node_id in voters or is_removal_open) and is_trusted

    @property
    def end_offset(self) -> int:
        return self._log.end_offset

    @property
    def _log_end(self) -> LogPoint:
        return LogPoint(self._log.latest_epoch, self._log.end_offset)

    # --- epochs

    def _hear_of(self, epoch: int, leader: int | None) -> None:
        """Any message tells the sender's epoch, and perhaps its leader.

        An epoch has one leader, so of two that are claimed one is not: this node itself if it was elected, else the one
        that it has fetched from with success. One that it was merely told of gives way, or a packet could leave this
        node with a leader that there never was.
        """
        if epoch < self.epoch or epoch > EPOCH_MAX:
            return
        if leader == self.node_id and not isinstance(self.role, Leader):
            leader = None  # an echo of an epoch that this node has given up
        if epoch > self.epoch:
            self._elect(ElectionState(epoch, None, leader))
            if leader is None:
                self.role = Unattached(self._election_at_ms())
            else:
                self.role = Follower(leader, self._give_up_at_ms())
        elif leader is not None and leader != self.leader and not self._is_leader_known:
            self._elect(ElectionState(epoch, self.election.voted_for, leader))
            self.role = Follower(leader, self._give_up_at_ms())

    def _objection(self, request: m.Vote | m.BeginEpoch | m.EndEpoch) -> Code:
        """Why a request that may change this node's epoch, vote or leader is not listened to; NONE when it is."""
        if request.sender < 0 or request.sender == self.node_id or request.epoch < 0:
            return Code.INVALID_REQUEST
        if isinstance(request, m.Vote):
            # A candidate's epoch is its own: nothing in its log is of that epoch yet.
            is_possible = request.log_end.epoch < request.epoch + request.is_pre_vote
            if min(request.log_end) < 0 or not is_possible:
                return Code.INVALID_REQUEST
        if request.epoch < self.epoch:
            return Code.FENCED_LEADER_EPOCH
        if not self._is_heeded(request):
            return Code.INCONSISTENT_VOTER_SET
        if not self._reach.take(self.epoch, request.epoch, self._now_ms):
            return Code.UNKNOWN_LEADER_EPOCH
        return Code.NONE

    def _is_heeded(self, request: m.Vote | m.BeginEpoch | m.EndEpoch) -> bool:
        """Whether the sender is a voter as far as this node knows, or may be one by a change that is not here yet.

        Such a change is in the sender's log and not in this one, so the sender's log is longer (KIP-853). It is
        listened to only while this node hears no leader: else the leader brings the change, and nobody is unseated by a
        voter that there may not be.
        """
        _, voters, before = self._log.voters
        if request.sender in voters or (before is not None and request.sender in before):
            return True
        if self._hears_leader:
            return False
        match request:
            case m.Vote(log_end=log_end):
                return log_end > self._log_end
            case m.BeginEpoch():
                return True
            case m.EndEpoch():
                return False  # it would only save time

    @property
    def _is_leader_known(self) -> bool:
        """Whether this node knows by itself which node leads this epoch, not by hearsay. Also after it has resigned."""
        return self.leader == self.node_id or self._hears_leader

    @property
    def _hears_leader(self) -> bool:
        return isinstance(self.role, Leader) or (isinstance(self.role, Follower) and self.role.has_fetched)

    def _hear_from_leader(self, epoch: int, leader: int) -> None:
        self._hear_of(epoch, leader)
        if epoch == self.epoch and isinstance(self.role, Unattached | Prospective):
            self.role = Follower(leader, self._give_up_at_ms())  # it is there after all

    @property
    def _is_alone(self) -> bool:
        return self.voters.ids == (self.node_id,)

    def _election_at_ms(self) -> int:
        # Somewhere in [1, 2) timeouts, so that two voters seldom stand at the same time (Raft, 5.2).
        return self._now_ms + self._timeouts.election_ms + self._chance.below(self._timeouts.election_ms)

    def _give_up_at_ms(self) -> int:
        return self._now_ms + self._timeouts.fetch_ms

    # --- work to do

    def _elect(self, election: ElectionState) -> None:
        self.election = election._replace(is_new=self.election.is_new)
        self._ready.election = self.election

    def _settle(self) -> None:
        """From now on this node has its say about logs."""
        if self.is_new:
            self.election = self.election._replace(is_new=False)
            self._ready.election = self.election

    def _set_watermark(self, offset: int) -> None:
        if offset > self.high_watermark:  # never back (L3)
            self.high_watermark = offset
            self._ready.high_watermark = offset

    def _send(self, to: int, message: Message) -> None:
        self._ready.send.append(Envelope(to, message))

    def _take(self) -> Ready:
        ready, self._ready = self._ready, Ready()
        return ready
