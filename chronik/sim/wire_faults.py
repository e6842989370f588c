"""What goes wrong between hosts: resets, cuts one way and both, splits of the cluster, slow and lossy wires."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from chronik.sim.chance import SimChance
from chronik.sim.host import Host
from chronik.sim.network import GIVEN_UP, WireMood

if TYPE_CHECKING:
    from chronik.sim.world import World

GIVEN_UP_SOON = 0.6  # by impatient senders, who say the same on another connection while the first copy is under way
Pairs = list[tuple[str, str]]  # from, to


class WireFaults:
    """Each method is one kind of fault, and sees to its end."""

    def __init__(self, world: World, chance: SimChance) -> None:
        self._world = world
        self._chance = chance

    def _tell(self, what: str) -> None:
        self._world.story.tell("faults", what)

    def _clients(self) -> list[str]:
        return [client.network.host for client in self._world.population.clients]

    def _peers(self, host: Host) -> list[str]:
        return [other.name for other in self._world.hosts if other is not host]

    # --- any world

    def reset(self, host: Host) -> None:
        ends = [pair for pair in self._world.wires.connections if host.name in (pair[0].host, pair[1].host)]
        if ends:
            client, server = self._chance.one_of(ends)
            both = self._chance.one_of(((client, server), (client,), (server,)))
            self._tell(f"the connection of {client.host} to {server.host} is reset, {len(both)} hear of it")
            for end in both:
                end.reset()

    def cut(self, host: Host) -> None:
        """One way or both, from one other host or from all."""
        others = self._clients() + self._peers(host)
        chosen = others if self._chance.happens(0.3) else [self._chance.one_of(others)]
        ways = self._chance.one_of(("in", "out", "both"))
        self._tell(f"{host.name} is cut off ({ways}) from {', '.join(chosen)}")
        self._cut(_between([host.name], chosen, ways))

    def slow_wire(self, host: Host) -> None:
        mood = WireMood(delay_s=(0.001, self._chance.between(0.05, 1.5)), bytes_per_s=self._chance.between(5e3, 1e6))
        self._tell(f"the wires to and from {host.name} are slow")
        self._moody(_between([host.name], self._clients() + self._peers(host), "both"), mood)

    def lossy_wire(self, host: Host) -> None:
        given_up = self._world.wires.strays.one_of((GIVEN_UP, GIVEN_UP_SOON))
        mood = WireMood(loss=self._chance.between(0.02, 0.3), given_up=given_up)
        self._tell(f"the wires to and from {host.name} lose {mood.loss:.0%}")
        self._moody(_between([host.name], self._clients() + self._peers(host), "both"), mood)

    # --- among nodes

    def isolate(self, host: Host) -> None:
        """From all other nodes; clients may reach it."""
        ways = self._chance.one_of(("in", "out", "both", "both"))
        self._tell(f"{host.name} is cut off ({ways}) from all other nodes")
        self._cut(_between([host.name], self._peers(host), ways))

    def split(self, host: Host) -> None:
        """Two parts that do not hear each other, and every client on one side or in between."""
        names = [other.name for other in self._world.hosts]
        size = 1 + self._chance.below(len(names) - 1)
        one = [host.name, *self._peers(host)[: size - 1]]
        other = [name for name in names if name not in one]
        sides = {name: self._chance.one_of((one, other, [])) for name in self._clients()}
        self._tell(f"{', '.join(one)} are split from {', '.join(other)}")
        pairs = _between(one, other, "both")
        for client, side in sides.items():
            pairs += _between([client], side, "both")
        self._cut(pairs)

    # --- how they begin and end

    def _cut(self, pairs: Pairs) -> None:
        for pair in pairs:
            self._world.wires.mood(*pair).is_cut = True
        self._later(8.0, pairs, is_cut=False)

    def _moody(self, pairs: Pairs, mood: WireMood) -> None:
        for pair in pairs:
            self._world.wires.moods[pair] = replace(mood, is_cut=self._world.wires.mood(*pair).is_cut)
        self._later(6.0, pairs, is_cut=None)

    def _later(self, most_s: float, pairs: Pairs, *, is_cut: bool | None) -> None:
        self._world.loop.outside(self._chance.between(0.5, most_s), lambda: self._good_again(pairs, is_cut))

    def _good_again(self, pairs: Pairs, is_cut: bool | None) -> None:
        wires = self._world.wires
        self._tell("the network is whole again" if is_cut is False else "the wires are good again")
        for pair in pairs:
            mood = wires.mood(*pair)
            wires.moods[pair] = replace(mood, is_cut=False) if is_cut is False else WireMood(is_cut=mood.is_cut)
        wires.go_on()


def _between(some: list[str], others: list[str], ways: str) -> Pairs:
    """The ways 'in' to some, 'out' of them, or both."""
    pairs = [(other, one) for one in some for other in others if ways != "out"]
    return pairs + [(one, other) for one in some for other in others if ways != "in"]
