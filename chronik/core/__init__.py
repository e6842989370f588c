"""Ring 0: deterministic. It is given the time, its files and its dice, and never waits."""
