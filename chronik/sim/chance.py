"""The Chance door, and all other dice of a world: each part of it has its own, made from the seed and a name."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import TypeVar

T = TypeVar("T")


class SimChance:
    """Dice that fall the same way every time. A throw in one part of the world does not change those of another."""

    def __init__(self, seed: int, name: str) -> None:
        self._seed = seed
        self._name = name
        self._dice = random.Random(f"{seed}/{name}")

    def other(self, name: str) -> SimChance:
        """Dice of their own for a part of this part."""
        return SimChance(self._seed, f"{self._name}/{name}")

    def below(self, bound: int) -> int:
        return self._dice.randrange(bound)

    def uuid(self) -> bytes:
        drawn = bytearray(self._dice.randbytes(16))
        drawn[6] = drawn[6] & 0x0F | 0x40
        drawn[8] = drawn[8] & 0x3F | 0x80
        return bytes(drawn)

    def between(self, low: float, high: float) -> float:
        return low + (high - low) * self._dice.random()

    def happens(self, probability: float) -> bool:
        return self._dice.random() < probability

    def one_of(self, choices: Sequence[T]) -> T:
        return choices[self._dice.randrange(len(choices))]

    def weighted(self, weights: dict[T, int]) -> T:
        return self._dice.choices(list(weights), list(weights.values()))[0]
