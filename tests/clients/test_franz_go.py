"""franz-go against the node under test: each check of go/main.go is a test here."""

from __future__ import annotations

import pytest

from tests.clients.checks import Outcomes, names_in
from tests.clients.jvm import CLIENTS
from tests.clients.support import FRANZ_GO, needs

needs("franz-go", is_bonus=True)


@pytest.fixture(scope="module")
def outcomes(bootstrap: str) -> Outcomes:
    return Outcomes([str(FRANZ_GO), bootstrap])


@pytest.mark.parametrize("check", names_in(CLIENTS / "go" / "main.go"))
def test_franz_go(outcomes: Outcomes, check: str) -> None:
    outcomes.must_hold(check)
