"""What DescribeQuorum (55) shows: which node leads, how far the log is safe, and how far each replica is (KIP-836)."""

from __future__ import annotations

from typing import NamedTuple

from chronik.core.errors import Code, Refused
from chronik.core.raft.core import Raft
from chronik.core.raft.quorum import Voters
from chronik.core.raft.roles import Leader

NOT_SETTLED = -1


class ReplicaView(NamedTuple):
    """One replica. Times are of the clock the machine is given, -1 when unknown; of the leader itself they are now.
    That of the last fetch is when its sender surely followed (`Fetch.followed_ms`), a moment before it came."""

    node_id: int
    end_offset: int
    fetched_ms: int
    caught_up_ms: int


class QuorumView(NamedTuple):
    leader: int
    epoch: int
    high_watermark: int  # -1: this leader does not know yet what is safe, as its own first record is not
    voters: tuple[ReplicaView, ...]
    observers: tuple[ReplicaView, ...]

    @property
    def contact_ms(self) -> int:
        """How long ago a majority of the voters was last in touch with this leader. None of them has elected another
        before that."""
        now_ms = next(each.fetched_ms for each in (*self.voters, *self.observers) if each.node_id == self.leader)
        voters = Voters(tuple(voter.node_id for voter in self.voters))
        return now_ms - voters.reached_by_majority({voter.node_id: voter.fetched_ms for voter in self.voters})


def describe(raft: Raft, now_ms: int) -> QuorumView:
    """As the leader sees it: nothing else knows."""
    role = raft.role
    if not isinstance(role, Leader):
        raise Refused(Code.NOT_LEADER_OR_FOLLOWER, "only the leader of the quorum knows how far the others are")

    def replica(node_id: int) -> ReplicaView:
        if node_id == raft.node_id:
            return ReplicaView(node_id, raft.end_offset, now_ms, now_ms)
        peer = role.progress.of(node_id)
        return ReplicaView(node_id, peer.end_offset, peer.contact_ms, peer.caught_up_ms)

    voters = raft.voters
    observers = role.progress.observers(voters)
    if raft.node_id not in voters:  # removed, and leading until that is safe
        observers = tuple(sorted((*observers, raft.node_id)))
    # What another leader committed may be beyond the watermark that a new one has heard of (Raft, 5.4.2 and 8).
    is_settled = raft.high_watermark > role.epoch_start_offset
    return QuorumView(
        raft.node_id,
        raft.epoch,
        raft.high_watermark if is_settled else NOT_SETTLED,
        tuple(replica(voter) for voter in voters.ids),
        tuple(replica(observer) for observer in observers),
    )
