"""One number of a node's metrics."""

from __future__ import annotations

import urllib.request

from prometheus_client.parser import text_string_to_metric_families

from chronik.testing import RunningNode


def metric(running: RunningNode, name: str) -> float:
    """The value of a metric without labels."""
    with urllib.request.urlopen(f"{running.http_url}/metrics", timeout=30.0) as answer:
        text = answer.read().decode()
    samples = [sample for family in text_string_to_metric_families(text) for sample in family.samples]
    (value,) = [sample.value for sample in samples if sample.name == name and not sample.labels]
    return float(value)
