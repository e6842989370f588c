"""kio without Hypothesis.

Where Hypothesis is installed, kio imports it too, to tell it about its types. That takes longer than all the rest of a
node, and of a planning process of Spark, which is started anew for each streaming query.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager


@contextmanager
def without_hypothesis() -> Iterator[None]:
    """Around the first import of kio, which then finds no Hypothesis and does without. Later imports find it again."""
    is_hidden = "hypothesis" not in sys.modules
    if is_hidden:
        sys.modules["hypothesis"] = None  # type: ignore[assignment]  # None makes the import fail
    try:
        yield
    finally:
        if is_hidden:
            del sys.modules["hypothesis"]
