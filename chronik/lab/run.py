"""A cluster of the lab while it runs: nodes with a fault built in, clients, and what the stall finder makes of it."""

from __future__ import annotations

import signal
import time
from dataclasses import dataclass, field

from chronik.client.request import NoAnswer
from chronik.inspect.trace_history import TraceHistory
from chronik.lab.gallery import Exhibit
from chronik.lab.loads import Load, LoadCounts
from chronik.local_cluster import processes
from chronik.local_cluster.directory import ClusterDirectory
from chronik.local_cluster.making import HOST, PORT_DEFAULT, ClusterPlan, make
from chronik.local_cluster.processes import Launched
from chronik.shell.interrupts import Interrupts
from chronik.shell.ports import is_taken
from chronik.trace.stalls import find
from chronik.trace.verdicts import Verdict

NODES = 3
SETTINGS = {
    "chronik.trace": "true",
    "group.initial.rebalance.delay.ms": "0",
}


@dataclass
class LabRun:
    """One exhibit, from its start to its end."""

    exhibit: Exhibit
    data_dir: str
    port: int | None = None
    is_loaded: bool = True
    verdicts: list[Verdict] = field(default_factory=list)  # as of the last look
    named_after_s: float | None = None  # since the clients began; of the first verdict with the right cause
    others: list[Verdict] = field(default_factory=list)  # with another cause, whenever that was

    def open(self, interrupts: Interrupts | None = None) -> None:
        """Raises ChronikError, KeyboardInterrupt."""
        plan = ClusterPlan(NODES, self._port(), {**SETTINGS, **self.exhibit.settings}, None)
        self.cluster: ClusterDirectory = make(self.data_dir, plan)
        faulty = ("chronik.lab.node", "--fault", self.exhibit.name)
        modules = dict.fromkeys(self.exhibit.faulty_nodes, faulty)
        addresses = [node.address for node in self.cluster.nodes.values()]
        self._gathering = TraceHistory(addresses)
        self._load = Load([f"{host}:{port}" for host, port in addresses], self.exhibit.habits)
        nodes = self.cluster.nodes.values()
        heard = interrupts or Interrupts()
        self._launched: dict[int, Launched] = processes.launch(self.cluster, nodes, heard, modules)
        try:
            if self.is_loaded:
                self._load.start()
        except BaseException:  # Ctrl-C too
            self.close()
            raise
        self._began_at = time.monotonic()

    def _port(self) -> int:
        """The usual one if it is free: then no other command needs an option for it."""
        if self.port is not None:
            return self.port
        usual = range(PORT_DEFAULT, PORT_DEFAULT + NODES)
        return 0 if any(is_taken(HOST, each) for each in usual) else PORT_DEFAULT

    @property
    def counts(self) -> LoadCounts:
        return self._load.counts

    @property
    def seconds(self) -> float:
        """Since the clients began."""
        return time.monotonic() - self._began_at

    def look(self) -> list[Verdict]:
        """What stalls now. Raises NoAnswer."""
        events, now_us = self._gathering.look()
        self.verdicts = find(events, now_us)
        for verdict in self.verdicts:
            if verdict.cause is self.exhibit.cause:
                self.named_after_s = self.seconds if self.named_after_s is None else self.named_after_s
            elif all(known.cause is not verdict.cause for known in self.others):
                self.others.append(verdict)
        return self.verdicts

    def try_look(self) -> str | None:
        """Look; if nothing answers, why."""
        try:
            self.look()
        except NoAnswer as problem:
            return str(problem)
        return None

    @property
    def is_right(self) -> bool:
        """Whether the fault has been called what it is, and nothing else; or nothing, if there is none."""
        is_named = self.exhibit.cause is None or self.named_after_s is not None
        return is_named and not self.others

    def ended(self) -> list[int]:
        """Nodes that are gone, which no fault of the gallery brings about."""
        return [node_id for node_id, each in self._launched.items() if each.ended() is not None]

    def close(self) -> None:
        try:
            self._load.stop()
        finally:  # also after a second Ctrl-C: nodes are in sessions of their own, and would run on
            for node in self.cluster.nodes.values():
                processes.send(node, signal.SIGTERM)
        for each in self._launched.values():
            each.end()
