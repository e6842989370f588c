"""Ring 0: deterministic. Told the time, handed its files and its dice, and never waits."""
