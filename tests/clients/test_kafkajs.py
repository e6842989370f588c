"""kafkajs against the node under test: each check of node/checks.js is a test here."""

from __future__ import annotations

import pytest

from tests.clients.checks import Outcomes, names_in
from tests.clients.jvm import CLIENTS
from tests.clients.support import needs

needs("kafkajs")

PROGRAM = CLIENTS / "node" / "checks.js"


@pytest.fixture(scope="module")
def outcomes(bootstrap: str) -> Outcomes:
    return Outcomes(["node", str(PROGRAM), bootstrap])


@pytest.mark.parametrize("check", names_in(PROGRAM))
def test_kafkajs(outcomes: Outcomes, check: str) -> None:
    outcomes.must_hold(check)
