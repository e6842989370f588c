"""What a `Ready` has written to the metadata log of this node: cuts, control records, what was fetched, a snapshot in
the log's place.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from chronik.core.raft import control_records
from chronik.core.raft.control_records import Endpoint, Voter, VotersRecord
from chronik.core.raft.quorum_log import QuorumLog
from chronik.core.raft.quorum_replica import QuorumReplica
from chronik.core.raft.ready import LeaderChange, VotersChange
from chronik.node.cluster.installation import Installation
from chronik.node.replication.replicas import Replicas

if TYPE_CHECKING:
    from chronik.node.cluster.quorum_links import Cargo

LISTENER = "CONTROLLER"
KRAFT_VERSIONS = (0, 1)
Address = tuple[str, int]


class QuorumWrites:
    """Changes the log, and remembers that it did (`has_changed`) until the machine has heard of it."""

    def __init__(
        self,
        quorum_log: QuorumLog,
        replica: QuorumReplica,
        replicas: Replicas,
        address_of: Callable[[int], Address | None],
    ) -> None:
        self._log = quorum_log
        self._replica = replica
        self._replicas = replicas
        self._address_of = address_of
        self.installation = Installation(quorum_log, replica, replicas)
        self.has_changed = False
        self.given_addresses: dict[int, Address] = {}  # with the change of voters that is just being made

    def truncate(self, end_offset: int) -> None:
        """Raises OSError."""
        self._replicas.cut([(self._replica, end_offset, False)])
        if self._replica.log.end_offset > end_offset:
            raise OSError(f"the metadata log cannot be cut at {end_offset}")
        self._log.truncated()
        self.has_changed = True

    def append(self, record: LeaderChange | VotersChange, epoch: int, wall_ms: int) -> None:
        """Raises OSError."""
        control = (
            control_records.leader_change(record) if isinstance(record, LeaderChange) else self.voters_record(record)
        )
        batch = control_records.build([control], wall_ms, base_offset=self._replica.log.end_offset, leader_epoch=epoch)
        if not self._replicas.append_as_follower(self._replica, batch):
            raise OSError("the metadata log cannot be written")
        self._log.appended(batch)
        self.has_changed = True

    def voters_record(self, change: VotersChange) -> VotersRecord:
        """With the addresses of the voters, as far as they are known."""
        voters: list[Voter] = []
        for voter_id in change.voters:
            address = self.given_addresses.get(voter_id) or self._address_of(voter_id)
            endpoints = () if address is None else (Endpoint(LISTENER, *address),)
            voters.append(Voter(voter_id, control_records.NO_DIRECTORY, endpoints, KRAFT_VERSIONS))
        return VotersRecord(0, tuple(voters))

    def take(self, cargo: Cargo) -> bool:
        """What was fetched. False when not all of it could be written: it is to be fetched again, after a while."""
        if cargo.snapshot is not None:
            self._log.take_part(cargo.snapshot, cargo.position, cargo.content)
            return True
        is_whole = self._replicas.append_as_follower(self._replica, cargo.content)
        self._log.appended(cargo.content)  # all of it, or what there was room for
        self.has_changed = True
        return is_whole
