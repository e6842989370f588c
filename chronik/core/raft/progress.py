"""How far the replicas are that fetch from a leader: what is safe, who still listens, who may become a voter."""

from __future__ import annotations

from dataclasses import dataclass

from chronik.core.raft.quorum import Voters


@dataclass(slots=True)
class PeerProgress:
    """What a leader knows of one replica."""

    end_offset: int = -1  # it has everything below this on disk; -1: not heard of in this epoch
    fetched_ms: int = -1  # when its last fetch came
    contact_ms: int = -1  # when it surely followed this leader, however long its last fetch was on the way
    caught_up_ms: int = -1  # when it last had all there was
    leader_end_offset: int = -1  # where the leader's log ended at its last fetch


class Progress:
    """All replicas but the leader, voters or not."""

    def __init__(self, leader: int) -> None:
        self._leader = leader
        self._peers: dict[int, PeerProgress] = {}

    def of(self, node_id: int) -> PeerProgress:
        return self._peers.get(node_id) or PeerProgress()

    def note_fetch(
        self, node_id: int, fetch_offset: int, leader_end_offset: int, now_ms: int, contact_ms: int | None = None
    ) -> None:
        """A fetch that came at `now_ms`, and its sender followed at `contact_ms`."""
        peer = self._peers.setdefault(node_id, PeerProgress())
        if fetch_offset >= leader_end_offset:
            peer.caught_up_ms = now_ms
        elif 0 <= peer.leader_end_offset <= fetch_offset:
            # The leader wrote meanwhile, but all there was at the last fetch has arrived.
            peer.caught_up_ms = max(peer.caught_up_ms, peer.fetched_ms)
        # It may go back, when a disk was lost: then the replica does not have what it had. The watermark stays.
        peer.end_offset = fetch_offset
        peer.leader_end_offset = leader_end_offset
        peer.fetched_ms = now_ms
        peer.contact_ms = max(peer.contact_ms, now_ms if contact_ms is None else contact_ms)

    def note_alive(self, node_id: int, now_ms: int) -> None:
        """It fetches a snapshot: it is there, though it has nothing of the log yet."""
        self._peers.setdefault(node_id, PeerProgress()).fetched_ms = now_ms

    def safe_offset(self, voters: Voters, synced_offset: int) -> int:
        """What a majority of the voters has on disk. The leader counts where it is one of them."""
        ends = {node_id: peer.end_offset for node_id, peer in self._peers.items()}
        return voters.reached_by_majority({**ends, self._leader: synced_offset})

    def heard_ms(self, voters: Voters, now_ms: int) -> int:
        """Until when a majority of the voters was there."""
        fetched = {node_id: peer.fetched_ms for node_id, peer in self._peers.items()}
        return voters.reached_by_majority({**fetched, self._leader: now_ms})

    def ranked(self, voters: Voters) -> tuple[int, ...]:
        """The other voters, who has most of the log first."""
        return tuple(sorted(voters.others(self._leader), key=lambda voter: -self.of(voter).end_offset))

    def observers(self, voters: Voters) -> tuple[int, ...]:
        """Who fetches without a vote."""
        return tuple(node_id for node_id in sorted(self._peers) if node_id not in voters)

    def forget_silent(self, voters: Voters, before_ms: int) -> None:
        """Observers come and go: those that have not been heard of since then are gone."""
        for node_id in self.observers(voters):
            if self._peers[node_id].fetched_ms < before_ms:
                del self._peers[node_id]
