"""Time that passes while nothing happens: hours without a client, and wall clocks that jump by a day.

What expires, is cleaned or is stored by age has its turn then: producers, retention, tombstones, snapshots. It comes
when all is quiet, after the first audit: a producer that is forgotten must not be in the middle of a retry.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

from chronik.sim.chance import SimChance

if TYPE_CHECKING:
    from chronik.sim.world import World

WITH_IDLE_TIME = 0.06  # of all worlds
DAY_MS = 24 * 3600 * 1000
DAYS_MAX = 5  # records are kept for seven days, and commits too
ALONE_S = 3 * 3600.0
TOGETHER_S = 120.0  # nodes have much to say to each other also when nothing happens
# An hour of three nodes costs as much as twenty worlds, even of nodes that say little.
FOR_HOURS_TOGETHER = 0.08  # of the worlds with several nodes and idle time
HOURS_TOGETHER_S = 5400.0
OF_FEW_WORDS = {
    "broker.heartbeat.interval.ms": "3000",
    "broker.session.timeout.ms": "9000",
    "controller.quorum.fetch.timeout.ms": "6000",
    "replica.fetch.wait.max.ms": "5000",
    "replica.lag.time.max.ms": "30000",
}
PAUSE_S = 20.0  # before and after a jump; what was given up and is still on its way has arrived by then


class IdleTime:
    """Whether a world has it, and how much."""

    def __init__(self, chance: SimChance, node_count: int) -> None:
        self._chance = chance
        self.seconds = 0.0
        self.days = 0
        self.settings: dict[str, str] = {}  # of all nodes
        if chance.happens(WITH_IDLE_TIME):
            self.seconds = chance.between(0.2, 1.0) * (ALONE_S if node_count == 1 else TOGETHER_S)
            self.days = chance.below(DAYS_MAX + 1)
            if node_count > 1 and chance.happens(FOR_HOURS_TOGETHER):
                self.seconds *= HOURS_TOGETHER_S / TOGETHER_S
                self.settings = OF_FEW_WORDS

    async def pass_by(self, world: World) -> None:
        """Nothing but the nodes lives meanwhile."""
        if not self.seconds:
            return
        world.story.tell("world", f"is idle for {self.seconds:.0f} s, and clocks jump by {self.days} days")
        await asyncio.sleep(PAUSE_S)
        for _ in range(self.days):
            for host in world.hosts:  # not all at one moment
                host.clock.skew_ms += DAY_MS
                await asyncio.sleep(self._chance.between(0.0, PAUSE_S / len(world.hosts)))
        await asyncio.sleep(self.seconds)
