"""Settings shared by all tests; fixtures live beside the tests that use them, and in chronik.testing."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator

import pytest
from hypothesis import settings

# A run must give the same answer on a busy machine as on an idle one: no deadline per example. And the same today as
# tomorrow, here as there: examples are the same each time (hypothesis does that of itself where the environment says
# CI, and nowhere else). CHRONIK_EXPLORE=1 looks for new ones.
settings.register_profile("chronik", deadline=None, print_blob=True, derandomize=True, database=None)
settings.register_profile("explore", deadline=None, print_blob=True, derandomize=False)
settings.load_profile("explore" if os.environ.get("CHRONIK_EXPLORE") else "chronik")

OURS_ALONE = ("tests/unit", "tests/tidy", "tests/sim")


def pytest_configure(config: pytest.Config) -> None:
    """Warnings are errors. But clients of other makers leave sockets to be collected, in whichever test that happens:
    where they take part, an unclosed socket says nothing about us."""
    if not all(argument.startswith(OURS_ALONE) for argument in config.args):
        config.addinivalue_line("filterwarnings", "ignore:unclosed:ResourceWarning")


@pytest.fixture
def hang_ups_count() -> Iterator[None]:
    """SIGHUP is not ignored, by a test or by what it starts, though all of this may run under `nohup`."""
    before = signal.signal(signal.SIGHUP, signal.SIG_DFL)
    yield
    signal.signal(signal.SIGHUP, before)
