"""A machine of the simulated world and the node on it: started, stopped, killed, cut off from power, paused."""

from __future__ import annotations

from collections.abc import Callable

from chronik.core.config.node import NodeConfig
from chronik.core.errors import Corrupt, Refused
from chronik.core.ports import Doors
from chronik.node.cluster.identity import settle
from chronik.node.node import Node
from chronik.sim.chance import SimChance
from chronik.sim.checkers import Judge
from chronik.sim.clock import SimClock
from chronik.sim.files import SimDisk
from chronik.sim.loop import SimLoop, SimProcess
from chronik.sim.network import SimNetwork, Wires
from chronik.sim.plans import PORT, host_name
from chronik.sim.story import WorldStory

START_AGAIN_S = 1.0
STOP_S = 20.0  # a node that has not stopped by then is killed


class Host:
    """One machine. Its disk, clock and name stay; the process on it comes and goes."""

    def __init__(
        self,
        node_id: int,
        settings: dict[str, str],
        loop: SimLoop,
        wires: Wires,
        chance: SimChance,
        judge: Judge,
        story: WorldStory,
        snapshot_records: int | None = None,
    ) -> None:
        self.node_id = node_id
        self.name = host_name(node_id)
        self.address = (self.name, PORT)
        self.disk = SimDisk(chance.other("disk"))
        self.clock = SimClock(loop.time)
        self._chance = chance
        self._loop = loop
        self._wires = wires
        self._story = story
        self._config = NodeConfig.from_settings(
            {"node.id": str(node_id), "listeners": f"PLAINTEXT://{self.name}:{PORT}", "http.address": "", **settings}
        )
        self._snapshot_records = snapshot_records
        self.node: Node | None = None  # None: nothing runs here
        self.process: SimProcess | None = None
        self.graveyard: list[object] = []  # kept to the end: what is collected must not act on the world
        self.starts = 0
        self.last_look: Callable[[Host, Node], None] = lambda host, node: None  # before it is gone
        self.is_wanted = False  # whether it is to be running: then it is started again when it dies

    @property
    def is_up(self) -> bool:
        return self.node is not None and self.node.is_ready and self.process is not None and self.process.is_running

    # --- coming and going

    def start(self) -> None:
        """Start a process, and again if it cannot come up."""
        self.is_wanted = True
        if self.process is not None:
            return
        self.starts += 1
        self.process = SimProcess(f"{self.name}#{self.starts}")
        self.graveyard.append(self.process)
        self._wires.dark.discard(self.name)
        self._story.tell(self.name, "starts")
        self._loop.create_task(self._run(self.process), context=self.process.context)

    async def _run(self, process: SimProcess) -> None:
        chance = self._chance.other(f"process{self.starts}")
        try:
            identity = settle(self.disk, self._config.node_id, chance, self._config.server.cluster_id)
            network = SimNetwork(self._wires, self.name)
            self.node = Node(self._config, identity, Doors(self.disk, self.clock, network, chance), "/data")
            self.graveyard.append(self.node)
            if self._snapshot_records is not None:
                self.node.cluster.metadata.snapshot_records = self._snapshot_records
            await self.node.start()
            self._story.tell(self.name, "is ready")
        except (OSError, Refused) as problem:
            self._story.tell(self.name, f"cannot start: {problem}")
            self._loop.outside(0, self.kill)
        except Exception as problem:
            if isinstance(problem, Corrupt) and self.disk.is_troubled:  # it cannot open its own log now
                self._story.tell(self.name, f"cannot start: {problem}")
                self._loop.outside(0, self.kill)
                return
            raise self._story.break_promise(f"{self.name} cannot start: {problem!r}") from problem

    def stop(self, then: Callable[[], None]) -> None:
        """In order, as after SIGTERM."""
        if self.node is not None and self.node.is_ready and self.process is not None:
            self._story.tell(self.name, "is asked to stop")
            process = self.process
            self._loop.create_task(self._stop(self.node, then), context=process.context)
            self._loop.outside(STOP_S, lambda: self._stop_at_last(process, then))

    async def _stop(self, node: Node, then: Callable[[], None]) -> None:
        try:
            await node.stop()
            self._story.tell(self.name, "has stopped")
        except OSError as problem:
            self._story.tell(self.name, f"could not stop in order: {problem}")
        self.gone()
        then()

    def _stop_at_last(self, process: SimProcess, then: Callable[[], None]) -> None:
        if self.process is process:
            self._story.tell(self.name, f"has not stopped for {STOP_S} s")
            self.kill()
            then()

    def kill(self) -> None:
        """As kill -9: what was written is there."""
        if self.process is None:
            return
        self._story.tell(self.name, "is killed")
        self.gone()
        if self.is_wanted:
            self._loop.outside(START_AGAIN_S, self._start_again)

    def _start_again(self) -> None:
        if self.is_wanted:
            self.start()

    def power_cut(self, keeps: float = 0.5) -> None:
        """The machine is off: what was not synced is lost or torn, and no peer hears of it."""
        self._wires.host_lost_power(self.name)
        self.gone()
        self._story.tell(self.name, f"has no power: {self.disk.power_cut(keeps)}")

    def lose_disk(self) -> None:
        """The machine comes back with an empty disk."""
        self._wires.host_lost_power(self.name)
        self.gone()
        self.disk.wipe()
        self._story.tell(self.name, "has lost its disk")

    def gone(self) -> None:
        """Nothing of this process happens any more."""
        if self.node is not None:
            self.last_look(self, self.node)
        if self.process is not None:
            self.process.kill()
        self.process = self.node = None
        self._wires.process_died(self.name)
        self.disk.process_died()

    def pause(self) -> None:
        if self.process is not None and not self.process.is_paused:
            self._story.tell(self.name, "is paused")
            self.process.is_paused = True

    def resume(self) -> None:
        if self.process is not None and self.process.is_paused:
            self._story.tell(self.name, "goes on")
            self._loop.resume(self.process)
