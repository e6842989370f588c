"""kio is loaded without what only tests need, and leaves it to whatever does need it."""

from __future__ import annotations

import subprocess
import sys

import pytest

from chronik.wire.light import without_hypothesis


@pytest.mark.parametrize("module", ["kio.schema.metadata.v12.request", "chronik.shell.main"])
def test_the_first_import_does_without_hypothesis(module: str) -> None:
    program = f"""
import sys
from chronik.wire.light import without_hypothesis

with without_hypothesis():
    import {module}
assert "hypothesis" not in sys.modules, "kio brought Hypothesis along"
import hypothesis.strategies  # it can still be had
"""

    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)

    assert not done.returncode, done.stderr


def test_who_has_hypothesis_keeps_it() -> None:
    import hypothesis

    with without_hypothesis():
        assert sys.modules["hypothesis"] is hypothesis

    assert sys.modules["hypothesis"] is hypothesis
