"""Which fault met which state how often, so that a state that no fault ever meets is seen.

A fault is counted with `world.coverage.met(name, host)` just before it happens; the states are looked at there and
then. A new kind of fault adds its names to `FAULTS` with `register`, so that it is in the table before it ever
happened; a new state is one more line in `STATES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import TYPE_CHECKING

from chronik.core.log.compaction import CLEANED_SUFFIX, SWAP_SUFFIX
from chronik.core.machines.groups.consumer_group import ConsumerGroup
from chronik.core.machines.metadata.partition import Partition
from chronik.core.raft.quorum_log import PART_SUFFIX
from chronik.core.raft.roles import Candidate, Prospective
from chronik.node.node import Node
from chronik.sim.copies import CopySight
from chronik.sim.host import Host
from chronik.sim.replay import rebalancing
from chronik.sim.voters import VoterChanges

if TYPE_CHECKING:
    from chronik.sim.world import World

State = Callable[["World", Host], bool]
Table = dict[str, dict[str, int]]  # by fault, then by state

ANY = "at all"  # how often the fault happened, whatever the state

FAULTS: dict[str, None] = {}  # in the order of the table


def register(*names: str) -> None:
    """These faults are to be seen in the table, also when they never happen."""
    FAULTS.update(dict.fromkeys(names))


class Coverage:
    """Counts for one world. It looks at everything and changes nothing."""

    def __init__(self, world: World) -> None:
        self._world = world
        self.table: Table = {}

    def met(self, fault: str, host: Host) -> None:
        """The fault is about to hit this host."""
        row = self.table.setdefault(fault, {})
        row[ANY] = row.get(ANY, 0) + 1
        for name, is_so in STATES.items():
            if is_so(self._world, host):
                row[name] = row.get(name, 0) + 1


def summed(tables: Iterable[Table]) -> Table:
    """All faults by all states, with a zero where they never met."""
    total: Table = {fault: dict.fromkeys((ANY, *STATES), 0) for fault in FAULTS}
    for table in tables:
        for fault, row in table.items():
            counts = total.setdefault(fault, dict.fromkeys((ANY, *STATES), 0))
            for state, count in row.items():
                counts[state] += count
    return total


def never_met(table: Table) -> list[tuple[str, str]]:
    """The faults and states that have not met. A fault that never happened is named once."""
    missed: list[tuple[str, str]] = []
    for fault, row in table.items():
        if not row[ANY]:
            missed.append((fault, ANY))
        else:
            missed += [(fault, state) for state, count in row.items() if not count]
    return missed


def unreached(table: Table) -> list[str]:
    """The states that no fault has met."""
    return [state for state in STATES if not any(row[state] for row in table.values())]


# --- states of the node that is hit


def _leads(world: World, host: Host) -> bool:
    return any(sight.is_leader and len(sight.counted) > 1 for sight in _sights(world, host))


def _follows(world: World, host: Host) -> bool:
    return any(not sight.is_leader for sight in _sights(world, host))


def _controls(world: World, host: Host) -> bool:
    return host.node is not None and host.node.cluster.quorum.is_leader


def _is_starting(world: World, host: Host) -> bool:
    return host.process is not None and (host.node is None or not host.node.is_ready)


def _has_unsynced(world: World, host: Host) -> bool:
    return any(sight.durable_end_offset < sight.end_offset for sight in _sights(world, host))


def _has_rolled(world: World, host: Host) -> bool:
    """A segment was closed, and is not synced yet."""
    newest: dict[str, str] = {}
    for path in host.disk.paths(".log"):
        directory = path.rpartition("/")[0]
        before = newest.get(directory)
        if before is not None:
            content = host.disk.contents[before]
            if content.durable is None or len(content.durable) < len(content.written):
                return True
        newest[directory] = path
    return False


def _compacts(world: World, host: Host) -> bool:
    return any(path.endswith((CLEANED_SUFFIX, SWAP_SUFFIX)) for path in host.disk.contents)


def _installs_snapshot(world: World, host: Host) -> bool:
    return any(path.endswith(PART_SUFFIX) for path in host.disk.contents)


# --- states of the cluster


def _elects(world: World, host: Host) -> bool:
    return any(isinstance(node.cluster.quorum.raft.role, Candidate | Prospective) for node in _nodes(world))


def _lacks_controller(world: World, host: Host) -> bool:
    return not any(node.cluster.quorum.is_leader for node in _nodes(world))


def _has_orphan(world: World, host: Host) -> bool:
    return any(not place.has_leader for place in _places(world))


def _is_shrunk(world: World, host: Host) -> bool:
    return any(len(place.in_sync) < len(place.replicas) for place in _places(world))


def _has_eligible(world: World, host: Host) -> bool:
    return any(place.eligible for place in _places(world))


def _is_recovering(world: World, host: Host) -> bool:
    return any(place.is_recovering for place in _places(world))


def _is_moving(world: World, host: Host) -> bool:
    return any(place.is_moving for place in _places(world))


def _parts(world: World, host: Host) -> bool:
    """A follower has what its leader has not: it is to be cut off."""
    return any(
        not sight.is_leader and sight.end_offset > leader.end_offset
        for leader, sights in _led(world)
        for sight in sights
    )


def _catches_up(world: World, host: Host) -> bool:
    return any(
        not sight.is_leader and sight.end_offset < leader.watermark
        for leader, sights in _led(world)
        for sight in sights
    )


def _rebalances(world: World, host: Host) -> bool:
    machines = [machine for node in _nodes(world) for machine in node.groups.machines()]
    groups = [group for machine in machines for group in machine.groups.values()]
    return any(rebalancing(machine) for machine in machines) or any(
        not current.is_reconciled_to(group.target_epoch)
        for group in groups
        if isinstance(group, ConsumerGroup)
        for current in group.currents.values()
    )


def _changes_voters(world: World, host: Host) -> bool:
    return any(isinstance(client, VoterChanges) and client.is_under_way for client in world.population.clients)


def _has_other_down(world: World, host: Host) -> bool:
    return any(not other.is_up for other in world.hosts if other is not host)


def _is_cut(world: World, host: Host) -> bool:
    return any(mood.is_cut for mood in world.wires.moods.values())


def _has_disk_trouble(world: World, host: Host) -> bool:
    return any(other.disk.is_troubled for other in world.hosts)


def _is_calm(world: World, host: Host) -> bool:
    return world.inspector.is_calm()


STATES: dict[str, State] = {
    "leader": _leads,
    "follower": _follows,
    "controller": _controls,
    "starting": _is_starting,
    "unsynced": _has_unsynced,
    "rolled": _has_rolled,
    "compacting": _compacts,
    "snapshot": _installs_snapshot,
    "election": _elects,
    "no controller": _lacks_controller,
    "no leader": _has_orphan,
    "isr shrunk": _is_shrunk,
    "eligible": _has_eligible,
    "unclean": _is_recovering,
    "reassigning": _is_moving,
    "truncating": _parts,
    "lagging": _catches_up,
    "rebalancing": _rebalances,
    "voters": _changes_voters,
    "other down": _has_other_down,
    "cut": _is_cut,
    "disk trouble": _has_disk_trouble,
    "calm": _is_calm,
}


def _nodes(world: World) -> list[Node]:
    return [host.node for host in world.hosts if host.node is not None]


def _places(world: World) -> Iterable[Partition]:
    return world.inspector.places()


def _sights(world: World, host: Host) -> Iterator[CopySight]:
    for sights in world.inspector.copies.partitions():
        if host.node_id in sights:
            yield sights[host.node_id]


def _led(world: World) -> Iterator[tuple[CopySight, Iterable[CopySight]]]:
    """The copies of each partition, with that of its newest leader."""
    for sights in world.inspector.copies.partitions():
        leaders = [sight for sight in sights.values() if sight.is_leader]
        if leaders:
            yield max(leaders, key=lambda sight: sight.leader_epoch), sights.values()
