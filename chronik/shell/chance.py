"""The Chance door: the operating system's dice."""

from __future__ import annotations

import secrets
import uuid


class RealChance:
    """Random numbers nobody can foresee."""

    def below(self, bound: int) -> int:
        return secrets.randbelow(bound)

    def uuid(self) -> bytes:
        return uuid.uuid4().bytes
