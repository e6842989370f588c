"""The Chance door: the operating system's dice."""

from __future__ import annotations

import secrets
import uuid


class RealChance:
    """Random numbers that cannot be foreseen."""

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

    def uuid(self) -> bytes:
        return uuid.uuid4().bytes
