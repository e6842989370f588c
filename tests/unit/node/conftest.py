"""What tests of the node share."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest


@pytest.fixture
def quiet() -> Iterator[None]:
    """What goes wrong in the test is meant to; the log need not say so."""
    logging.disable(logging.ERROR)
    yield
    logging.disable(logging.NOTSET)
