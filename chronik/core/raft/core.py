"""The Raft machine: one voter or observer. See the package for the contract, `roles` for the transitions."""

from __future__ import annotations

from dataclasses import replace

from chronik.core.errors import Code, Refused
from chronik.core.ports import Chance
from chronik.core.raft import messages as m
from chronik.core.raft.divergence import NeedsSnapshot, RaftDivergence, Same, compare, cut_at
from chronik.core.raft.messages import LogPoint, Message
from chronik.core.raft.progress import Progress
from chronik.core.raft.quorum import Voters
from chronik.core.raft.reach import EPOCH_MAX, EpochReach
from chronik.core.raft.ready import ElectionState, Envelope, LeaderChange, RaftLog, RaftSettings, Ready, VotersChange
from chronik.core.raft.roles import Candidate, Follower, Leader, Prospective, Resigned, Role, Transfer, Unattached

SNAPSHOT_BYTES_A_FETCH = 1024 * 1024
OBSERVER_SILENCE_MS_MAX = 300_000


class Raft:
    """It is given the time, its log and its dice, and never waits. Work to do collects in a `Ready` until it is
    taken."""

    def __init__(
        self, node_id: int, election: ElectionState, log: RaftLog, settings: RaftSettings, chance: Chance, now_ms: int
    ) -> None:
        self.node_id = node_id
        self.election = election
        # Not known until a leader says so, but what a snapshot replaced was safe.
        self.high_watermark = log.start_offset if log.start_offset > 0 else -1
        self._log = log
        self._settings = settings
        self._chance = chance
        self._now_ms = now_ms
        self._reach = EpochReach(settings.fetch_ms)
        self._ready = Ready()
        self.has_caught_up = False  # in this life: it had all that a leader called safe in its own epoch
        if election.epoch < log.latest_epoch:
            # The file with the election was lost. That epoch had its leader, so it needs no vote of ours: we may have
            # given it already.
            self._elect(ElectionState(log.latest_epoch, node_id, None))
        self.role: Role = self._role_at_start()

    def _role_at_start(self) -> Role:
        if self._is_alone:
            return Unattached(self._now_ms)  # no other to wait for
        if self.leader is not None and self.leader != self.node_id:
            return Follower(self.leader, self._give_up_at_ms())
        if self.election.is_new and self._log.end_offset == 0:
            # A cluster that begins has no leader to wait for; should there be one, the pre-vote says so.
            return Unattached(self._now_ms + self._chance.below(max(self._settings.election_ms // 4, 1)))
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
        to empty logs only, and stands only with an empty log and while no voter is known to object. A cluster that
        starts for the first time is elected in this way; see docs/decisions/0014 for what that leaves open.
        """
        return self.election.is_new

    @property
    def may_stand(self) -> bool:
        """A voter may, and one that was removed until that is safe (Raft, section 4.2.2).

        It may be the only one with the record that removes it. The others cannot be elected against its longer log, and
        none could if it did not stand. Where there is no later epoch, nothing stands.
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

    # --- what others ask

    def next_fetch(self) -> Envelope | None:
        """What to ask next, and whom: a follower its leader, an observer without one any voter."""
        if self._log.synced_offset < self._log.end_offset:
            return None  # a fetch says that all before it is on disk
        match self.role:
            case Follower(leader, transfer=None):
                return Envelope(leader, m.Fetch(self.node_id, self.epoch, self._log_end))
            case Follower(leader, transfer=Transfer(snapshot, position)):
                bytes_max = self._settings.snapshot_fetch_bytes_max
                ask = m.FetchSnapshot(self.node_id, self.epoch, snapshot, position, bytes_max)
                return Envelope(leader, ask)
            case Unattached() if not self.is_voter:
                voter = self.voters.ids[self._chance.below(len(self.voters.ids))]
                return Envelope(voter, m.Fetch(self.node_id, self.epoch, self._log_end))
        return None

    def next_deadline_ms(self) -> int | None:
        """When `tick` is next worth calling."""
        match self.role:
            case Unattached(election_at_ms):
                return election_at_ms if self.may_stand else None
            case Prospective(until_ms, ask_again_at_ms):
                return min(until_ms, ask_again_at_ms)
            case Candidate(until_ms, ask_again_at_ms, _, retry_at_ms):
                return retry_at_ms if retry_at_ms is not None else min(until_ms, ask_again_at_ms)
            case Leader(announce_at_ms=announce_at_ms) as role:
                return min(announce_at_ms, self._majority_until_ms(role))
            case Follower(_, fetch_until_ms):
                return fetch_until_ms
            case Resigned(election_at_ms, announce_at_ms):
                return min(election_at_ms, announce_at_ms)

    # --- what happens

    def tick(self, now_ms: int) -> Ready:
        """Time has passed."""
        self._now_ms = now_ms
        match self.role:
            case Unattached(at_ms) | Follower(_, at_ms) if now_ms >= at_ms:
                if self.may_stand:
                    self._ask_around()
                else:
                    self.role = Unattached(at_ms)  # an observer asks any voter which node leads
            case Prospective() | Candidate() as role:
                self._tick_election(role)
            case Leader() as role:
                self._tick_leader(role)
            case Resigned() as role:
                self._tick_resigned(role)
        return self._take()

    def step(self, message: Message, now_ms: int) -> Ready:
        """A message has come."""
        self._now_ms = now_ms
        match message:
            case m.Vote():
                self._on_vote(message)
            case m.VoteAnswer():
                self._on_vote_answer(message)
            case m.BeginEpoch():
                self._on_begin_epoch(message)
            case m.BeginEpochAnswer():
                self._hear_of(message.epoch, message.leader)
            case m.EndEpoch():
                self._on_end_epoch(message)
            case m.EndEpochAnswer():
                self._on_end_epoch_answer(message)
            case m.Fetch():
                self._on_fetch(message)
            case m.RaftFetchAnswer():
                self._on_fetch_answer(message)
            case m.FetchSnapshot():
                self._on_fetch_snapshot(message)
            case m.FetchSnapshotAnswer():
                self._on_fetch_snapshot_answer(message)
        return self._take()

    def log_grew(self, now_ms: int) -> Ready:
        """The log has changed, or more of it is on disk: for a leader, that counts like a follower's fetch."""
        self._now_ms = now_ms
        match self.role:
            case Leader() as role:
                self._raise_watermark(role)
            case Follower(leader_high_watermark=leader_watermark):
                self._set_watermark(min(leader_watermark, self._log.end_offset))
        return self._take()

    def leader_gone(self, now_ms: int) -> Ready:
        """The host of this node knows that the leader's process has ended: there is no need to miss it first.

        No harm is done if that is not so: those that still hear the leader do not help to unseat it (KIP-996).
        """
        self._now_ms = now_ms
        if isinstance(self.role, Follower):
            self.role.has_fetched = False  # so it may support another
            if self.may_stand:
                self._ask_around()
        return self._take()

    def resign(self, now_ms: int) -> Ready:
        """Give up leading, in good order: the voter with most of the log is asked to stand at once."""
        self._now_ms = now_ms
        if isinstance(self.role, Leader):
            self._resign(self.role)
        return self._take()

    def add_voter(self, node_id: int, now_ms: int) -> Ready:
        """Let an observer vote that has caught up (KIP-853). Raises Refused."""
        self._now_ms = now_ms
        role = self._may_change_voters()
        if node_id in self.voters:
            raise Refused(Code.DUPLICATE_VOTER, f"node {node_id} is a voter already")
        if not self._is_up_to_date(role, node_id):
            # Else the watermark could stand still until the new voter has the whole log (Raft, section 4.2.1).
            raise Refused(Code.REQUEST_TIMED_OUT, f"node {node_id} has not caught up with the leader")
        return self._change_voters(self.voters.with_voter(node_id))

    def remove_voter(self, node_id: int, now_ms: int) -> Ready:
        """Let a voter vote no more; also this leader itself, which resigns as soon as that is safe. Raises Refused."""
        self._now_ms = now_ms
        role = self._may_change_voters()
        if node_id not in self.voters:
            raise Refused(Code.VOTER_NOT_FOUND, f"node {node_id} is no voter")
        if len(self.voters.ids) == 1:
            raise Refused(Code.INVALID_REQUEST, "the last voter cannot be removed")
        left = self.voters.without_voter(node_id)
        if sum(self._is_up_to_date(role, voter) for voter in left.ids) < left.majority:
            raise Refused(Code.REQUEST_TIMED_OUT, f"without node {node_id} too few voters would have caught up")
        return self._change_voters(left)

    def _is_up_to_date(self, role: Leader, node_id: int) -> bool:
        caught_up_ms = role.progress.of(node_id).caught_up_ms
        return node_id == self.node_id or (caught_up_ms >= 0 and self._now_ms - caught_up_ms <= self._majority_ms)

    # --- elections

    def _ask_around(self) -> None:
        """Find out whether a majority would vote for this node, without an epoch being spent on it."""
        again_at_ms = self._now_ms + self._settings.ask_again_ms
        self._ask(Prospective(self._election_at_ms(), again_at_ms, {self.node_id: True}))

    def _stand(self) -> None:
        """Begin the next epoch as a candidate (Raft, 5.2)."""
        self._settle()  # one that is new stands only when a majority has nothing either: the history begins here
        self._elect(ElectionState(self.epoch + 1, self.node_id, None))
        again_at_ms = self._now_ms + self._settings.ask_again_ms
        self._ask(Candidate(self._election_at_ms(), again_at_ms, {self.node_id: True}))

    def _ask(self, role: Prospective | Candidate) -> None:
        self.role = role
        ask = m.Vote(self.node_id, self.epoch, self._log_end, isinstance(role, Prospective))
        for voter in self.voters.others(self.node_id):
            # Who would not vote for this node may change its mind, when it misses its leader too. A vote is for good.
            if voter not in role.granted or (ask.is_pre_vote and not role.granted[voter]):
                self._send(voter, ask)
        self._count(role)

    def _count(self, role: Prospective | Candidate) -> None:
        if self.is_new and len(role.granted) < len(self.voters.ids) and self._now_ms < role.until_ms:
            return  # who has not answered yet may have what this node has lost
        if self.is_new and not all(role.granted.values()):
            return  # nor against anyone who objects: it asks again
        match self.voters.outcome(role.granted), role:
            case True, Prospective():
                self._stand()
            case True, Candidate(granted=granted):
                self._lead(tuple(voter for voter in self.voters.ids if granted.get(voter)))
            case False, Prospective():
                self._wait_for_leader()
            case False, Candidate(retry_at_ms=None) as lost:
                lost.retry_at_ms = self._now_ms + 1 + self._chance.below(self._settings.backoff_max_ms)

    def _wait_for_leader(self) -> None:
        """Nothing wants this node now: believe in the leader it knew, or wait for the next chance."""
        if self.leader is not None and self.leader != self.node_id:
            self.role = Follower(self.leader, self._give_up_at_ms())
        else:
            self.role = Unattached(self._election_at_ms())

    def _tick_election(self, role: Prospective | Candidate) -> None:
        match role:
            case Candidate(retry_at_ms=int(retry_at_ms)):
                if self._now_ms >= retry_at_ms:
                    self._ask_around()
            case Candidate(until_ms) if self._now_ms >= until_ms:
                self._ask_around()
            case Prospective(until_ms) if self._now_ms >= until_ms:
                if self.is_new:
                    self._count(role)  # with those that have answered
                if self.role is role:
                    self._wait_for_leader()
            case _ if self._now_ms >= role.ask_again_at_ms:
                role.ask_again_at_ms = self._now_ms + self._settings.ask_again_ms
                self._ask(role)

    def _on_vote(self, vote: m.Vote) -> None:
        objection = self._objection(vote)
        if objection is not Code.NONE:
            answer = m.VoteAnswer(self.node_id, self.epoch, self.leader, False, vote.is_pre_vote, objection)
            self._send(vote.sender, answer)
            return
        self._hear_of(vote.epoch, None)
        is_granted = self._would_vote(vote)
        if is_granted and not vote.is_pre_vote:
            self._settle()  # where it is new, all logs are empty as far as anyone knows: the history begins here
            if self.election.voted_for is None:
                self._elect(ElectionState(self.epoch, vote.sender, None))
            self.role = Unattached(self._election_at_ms())
        self._send(vote.sender, m.VoteAnswer(self.node_id, self.epoch, self.leader, is_granted, vote.is_pre_vote))

    def _would_vote(self, vote: m.Vote) -> bool:
        """A node that is no voter votes as well: the candidate may know of a later change of voters (KIP-853)."""
        if vote.log_end < self._log_end:
            return False  # only for a log that has everything ours has (Raft, 5.4.1)
        if self.is_new and vote.log_end.end_offset > 0:
            return False  # or had, before the disk was lost
        if vote.is_pre_vote:
            # Of two that ask at once one gives way, or they would both stand and split the vote. Kafka lets them.
            is_rival = (
                isinstance(self.role, Prospective) and vote.log_end == self._log_end and self.node_id < vote.sender
            )
            # A node that still hears its leader does not help to unseat it (KIP-996).
            return not self._hears_leader and not is_rival
        return self.leader is None and self.election.voted_for in (None, vote.sender)

    def _on_vote_answer(self, answer: m.VoteAnswer) -> None:
        self._hear_of(answer.epoch, answer.leader)
        match self.role:
            case (Prospective() | Candidate()) as role if answer.epoch == self.epoch:
                if answer.is_pre_vote == isinstance(role, Prospective):
                    role.granted[answer.sender] = answer.is_granted
                    self._count(role)

    # --- leading

    def _lead(self, granting: tuple[int, ...]) -> None:
        self._elect(ElectionState(self.epoch, self.election.voted_for, self.node_id))
        role = Leader(self._log.end_offset, self._now_ms, self._now_ms, Progress(self.node_id))
        self.role = role
        self._ready.append.append(LeaderChange(self.node_id, self.epoch, self.voters.ids, granting))
        self._announce(role)

    def _announce(self, role: Leader) -> None:
        """Tell the voters that have not fetched lately; those that have know."""
        every_ms = self._settings.fetch_ms // 2
        role.announce_at_ms = self._now_ms + every_ms
        for voter in self.voters.others(self.node_id):
            fetched_ms = role.progress.of(voter).fetched_ms
            if fetched_ms < 0 or self._now_ms - fetched_ms >= every_ms:
                self._send(voter, m.BeginEpoch(self.node_id, self.epoch))
        role.progress.forget_silent(self.voters, self._now_ms - OBSERVER_SILENCE_MS_MAX)

    @property
    def _majority_ms(self) -> int:
        """A leader that has not been fetched from by a majority for this long has lost it (check-quorum)."""
        return self._settings.fetch_ms * 3 // 2

    def _majority_until_ms(self, role: Leader) -> int:
        return max(role.since_ms, role.progress.heard_ms(self.voters, self._now_ms)) + self._majority_ms

    def _tick_leader(self, role: Leader) -> None:
        if self._now_ms >= self._majority_until_ms(role):
            self._resign(role)
        elif self._now_ms >= role.announce_at_ms:
            self._announce(role)

    def _leading(self, epoch: int) -> Leader | Code:
        """This node as the leader of that epoch, or why it is not."""
        if epoch > self.epoch:
            return Code.UNKNOWN_LEADER_EPOCH
        if epoch < self.epoch:
            return Code.FENCED_LEADER_EPOCH
        return self.role if isinstance(self.role, Leader) else Code.NOT_LEADER_OR_FOLLOWER

    def _on_fetch(self, fetch: m.Fetch) -> None:
        if fetch.sender != m.NO_NODE and fetch.sender != self.node_id:
            # An observer that is ahead of its leader, by a lie or by an election that came to nothing, follows no
            # leader until the others are there as well; and the leader never asks an observer which epoch it has.
            # Kafka's leader does not listen here.
            self._hear_of(self._reach.toward(self.epoch, fetch.epoch, self._now_ms), None)
        answer = m.RaftFetchAnswer(self.node_id, self.epoch, self.leader, fetch.log_end)
        match self._leading(fetch.epoch):
            case Leader() if min(fetch.log_end) < 0 or fetch.sender == self.node_id:
                answer = replace(answer, code=Code.INVALID_REQUEST)
            case Leader() as role:
                answer = self._answer_to_fetch(role, fetch, answer)
            case code:
                answer = replace(answer, code=code)
        self._send(fetch.sender, answer)

    def _answer_to_fetch(self, role: Leader, fetch: m.Fetch, answer: m.RaftFetchAnswer) -> m.RaftFetchAnswer:
        match compare(self._log, fetch.log_end):
            case NeedsSnapshot(snapshot):
                return replace(answer, snapshot=snapshot)
            case RaftDivergence(agreed):
                return replace(answer, diverging=agreed)
            case Same():
                if fetch.sender != m.NO_NODE:
                    arrived_ms = self._now_ms if fetch.arrived_ms is None else fetch.arrived_ms
                    where = fetch.log_end.end_offset, self._log.end_offset
                    role.progress.note_fetch(fetch.sender, *where, arrived_ms, fetch.followed_ms)
                    self._raise_watermark(role)
                return replace(answer, high_watermark=self.high_watermark)

    def _on_fetch_snapshot(self, fetch: m.FetchSnapshot) -> None:
        answer = m.FetchSnapshotAnswer(self.node_id, self.epoch, self.leader, fetch.snapshot, fetch.position)
        size_bytes = self._log.snapshot_bytes(fetch.snapshot)
        match self._leading(fetch.epoch):
            case Code() as code:
                answer = replace(answer, code=code)
            case _ if size_bytes is None:
                answer = replace(answer, code=Code.SNAPSHOT_NOT_FOUND)
            case _ if not 0 <= fetch.position < size_bytes:
                answer = replace(answer, code=Code.POSITION_OUT_OF_RANGE)
            case _ if fetch.bytes_max <= 0 or fetch.sender == self.node_id:
                answer = replace(answer, code=Code.INVALID_REQUEST)
            case role:
                if fetch.sender != m.NO_NODE:
                    role.progress.note_alive(fetch.sender, self._now_ms)
                end_position = min(fetch.position + min(fetch.bytes_max, SNAPSHOT_BYTES_A_FETCH), size_bytes)
                answer = replace(answer, end_position=end_position, size_bytes=size_bytes)
        self._send(fetch.sender, answer)

    def _raise_watermark(self, role: Leader) -> None:
        safe = role.progress.safe_offset(self.voters, self._log.synced_offset)
        # What earlier epochs left is safe only together with something of this one (Raft, 5.4.2).
        if safe > role.epoch_start_offset:
            self._set_watermark(safe)
            self._caught_up()
        if not self.is_voter and self._log.voters.offset < self.high_watermark:
            self._resign(role)  # it was removed, and that is safe now (Raft, section 4.2.2)

    def _may_change_voters(self) -> Leader:
        """One change at a time, and none before this epoch has a safe record: else two majorities might not meet."""
        role = self.role
        if not isinstance(role, Leader):
            raise Refused(Code.NOT_LEADER_OR_FOLLOWER, "only the leader of the quorum changes its voters")
        if self.high_watermark <= role.epoch_start_offset:
            raise Refused(Code.REQUEST_TIMED_OUT, f"nothing of epoch {self.epoch} is safe yet")
        if self._log.voters.offset >= self.high_watermark:
            raise Refused(Code.REQUEST_TIMED_OUT, f"the change of voters at {self._log.voters.offset} is not safe yet")
        return role

    def _change_voters(self, voters: Voters) -> Ready:
        self._ready.append.append(VotersChange(self.epoch, voters.ids))
        return self._take()

    def _resign(self, role: Leader) -> None:
        ranked = role.progress.ranked(self.voters)
        resigned = Resigned(self._election_at_ms(), self._now_ms, ranked, ranked)
        self.role = resigned
        self._tick_resigned(resigned)

    def _tick_resigned(self, role: Resigned) -> None:
        if self._now_ms >= role.election_at_ms:
            if self.epoch < EPOCH_MAX:
                self._elect(
                    ElectionState(self.epoch + 1, None, None)
                )  # its own epoch is over: it must not lead it again
            self.role = Unattached(self._election_at_ms())
        elif self._now_ms >= role.announce_at_ms:
            role.announce_at_ms = self._now_ms + self._settings.ask_again_ms
            for voter in role.unaware:
                self._send(voter, m.EndEpoch(self.node_id, self.epoch, role.successors))

    def _on_end_epoch_answer(self, answer: m.EndEpochAnswer) -> None:
        self._hear_of(answer.epoch, answer.leader)
        if isinstance(self.role, Resigned) and answer.epoch == self.epoch:
            self.role.unaware = tuple(voter for voter in self.role.unaware if voter != answer.sender)

    # --- following

    def _on_begin_epoch(self, begin: m.BeginEpoch) -> None:
        code = self._objection(begin)
        if code is Code.NONE:
            self._hear_from_leader(begin.epoch, begin.sender)
            if self.leader != begin.sender:
                code = Code.INVALID_REQUEST  # this epoch has its leader, as Kafka answers it
        self._send(begin.sender, m.BeginEpochAnswer(self.node_id, self.epoch, self.leader, code))

    def _on_end_epoch(self, end: m.EndEpoch) -> None:
        code = self._objection(end)
        if code is Code.NONE:
            self._hear_of(end.epoch, end.sender)
            if self.leader != end.sender:
                code = Code.INVALID_REQUEST
        self._send(end.sender, m.EndEpochAnswer(self.node_id, self.epoch, self.leader, code))
        if code is not Code.NONE or not isinstance(self.role, Follower | Prospective) or not self.may_stand:
            return
        if self.is_new:
            return  # the leader may count on what this node has lost
        rank = end.successors.index(self.node_id) if self.node_id in end.successors else len(end.successors)
        if rank == 0:
            self._stand()  # the leader itself asked for an election: no voter needs to be asked whether one is wanted
        elif isinstance(self.role, Follower):
            wait_ms = min(rank * self._settings.election_ms // 2, self._settings.fetch_ms)
            self.role.fetch_until_ms = min(self.role.fetch_until_ms, self._now_ms + wait_ms)
            self.role.has_fetched = False  # its leader is gone, so it may support another

    def _following(self, answer: m.RaftFetchAnswer | m.FetchSnapshotAnswer) -> Follower | None:
        """This node as the follower of who answered; None when it is not that any more."""
        if answer.code is Code.NONE:
            self._hear_from_leader(answer.epoch, answer.sender)
        else:
            self._hear_of(answer.epoch, answer.leader)
        is_from_leader = answer.epoch == self.epoch and answer.sender == self.leader
        return self.role if is_from_leader and isinstance(self.role, Follower) else None

    def _on_fetch_answer(self, answer: m.RaftFetchAnswer) -> None:
        role = self._following(answer)
        # An answer to an earlier question says nothing about the log as it is now.
        if role is None or answer.code is not Code.NONE or answer.asked != self._log_end or role.transfer is not None:
            return
        self._renew(role)
        if answer.diverging is not None:
            self._ready.truncate_to = self._checked_cut(cut_at(self._log, answer.diverging))
        elif answer.snapshot is not None:
            role.transfer = Transfer(answer.snapshot)
        else:
            self._ready.take = True
            role.leader_high_watermark = max(role.leader_high_watermark, answer.high_watermark)
            self._set_watermark(min(role.leader_high_watermark, self._log.end_offset))
            # Until something of its own epoch is safe, a leader does not know how much is (Raft, 5.4.2).
            safe, of_earlier_epochs = answer.high_watermark, self._log.end_offset_for(self.epoch - 1).end_offset
            # The second: a snapshot may hold all that there is of this epoch, and then nothing more need ever come.
            if of_earlier_epochs < safe <= answer.asked.end_offset or answer.asked == m.LogPoint(self.epoch, safe):
                self._caught_up()

    def _on_fetch_snapshot_answer(self, answer: m.FetchSnapshotAnswer) -> None:
        role = self._following(answer)
        if role is None or role.transfer is None:
            return
        if (role.transfer.snapshot, role.transfer.position) != (answer.snapshot, answer.position):
            return
        if answer.code in (Code.SNAPSHOT_NOT_FOUND, Code.POSITION_OUT_OF_RANGE):
            role.transfer = None  # the leader has a later one by now: the next fetch tells which
        elif answer.code is Code.NONE:
            self._renew(role)
            self._ready.take = True
            role.transfer.position = answer.end_position
            if answer.end_position == answer.size_bytes:
                role.transfer = None
                self._ready.install = answer.snapshot
                self._set_watermark(self._checked_cut(answer.snapshot.end_offset))

    def _caught_up(self) -> None:
        self.has_caught_up = True
        self._settle()

    def _renew(self, role: Follower) -> None:
        role.fetch_until_ms = self._give_up_at_ms()
        role.has_fetched = True

    def _checked_cut(self, offset: int) -> int:
        if offset < self.high_watermark:
            raise AssertionError(f"asked to cut at {offset} what is safe below {self.high_watermark}")
        return offset

    # --- epochs

    def _hear_of(self, epoch: int, leader: int | None) -> None:
        """Any message tells the sender's epoch, and perhaps its leader.

        An epoch has one leader, so of two that are claimed one is not: this node itself if it was elected, else the one
        that it has fetched from with success. One that it merely heard of gives way, or a packet could leave this
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
        listened to only while this node hears no leader: else the leader brings the change, and no leader is unseated
        by a voter that there may not be.
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
        return self._now_ms + self._settings.election_ms + self._chance.below(self._settings.election_ms)

    def _give_up_at_ms(self) -> int:
        return self._now_ms + self._settings.fetch_ms

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
