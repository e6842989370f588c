"""The Files door in memory that the simulator has, for tests of everything that reads and writes files."""

from __future__ import annotations

from chronik.sim.memory_files import Content, MemoryFile, MemoryFiles

__all__ = ["Content", "MemoryFile", "MemoryFiles"]
