"""A request does not become several times dearer without anybody noticing."""

from __future__ import annotations

from pathlib import Path

from tests.bench.guard import FACTOR_MAX, KNOWN_COST, cost_of_a_request


def test_a_request_costs_the_node_about_what_it_did(tmp_path: Path) -> None:
    # Against a loop of Python in the same run, and with a wide margin: a slow or busy machine fails nothing.
    assert cost_of_a_request(tmp_path) < FACTOR_MAX * KNOWN_COST
