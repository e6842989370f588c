"""Settings shared by all tests; fixtures live beside the tests that use them, and in chronik.testing."""

from __future__ import annotations

from hypothesis import settings

# A run must give the same answer on a busy machine as on an idle one: no deadline per example.
settings.register_profile("chronik", deadline=None, print_blob=True)
settings.load_profile("chronik")
