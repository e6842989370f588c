"""Tests. A package only so that no `tests` folder of an installed library can take its place."""
