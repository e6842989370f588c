"""The node that all client tests talk to, and topics and names on it that no other test uses."""

from __future__ import annotations

import os
import uuid
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest

from tests.clients.apache_kafka import apache_kafka
from tests.clients.jvm import jars_of
from tests.clients.support import create_topic

# Kafka's defaults wait seconds for members that might still come; two members of a test are there already.
NODE_CONFIG: Mapping[str, str] = {
    "auto.create.topics.enable": "true",
    "group.initial.rebalance.delay.ms": "0",
    "quota.window.num": "2",  # so that a client may take what it may in one second at once, not in ten
    "group.consumer.heartbeat.interval.ms": "300",
    "group.consumer.min.heartbeat.interval.ms": "300",
}


@pytest.fixture(scope="session")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The address of the node under test: ours, or Apache Kafka with CHRONIK_TEST_PEER=kafka."""
    if os.environ.get("CHRONIK_TEST_PEER") == "kafka":
        with apache_kafka(jars_of("tools"), tmp_path_factory.mktemp("kafka"), NODE_CONFIG) as address:
            yield address
    else:
        from chronik.testing import node

        with node(config=dict(NODE_CONFIG)) as running:
            yield running.bootstrap
            log = Path(running.log_path).read_text()
        # A client may try again and never show it: whatever the node says about itself must be in order too.
        own = [line for line in log.splitlines() if " chronik.audit: " not in line]  # that has names of clients
        assert not [line for line in own if "fault" in line or "ERROR" in line or "WARN" in line], log


@pytest.fixture
def name() -> str:
    """A name that no other test uses."""
    return _new_name()


@pytest.fixture
def make_topic(bootstrap: str) -> Callable[..., str]:
    """Creates a topic of a new name: make_topic(partitions, **{"max.message.bytes": "1000"})."""
    return lambda partitions=1, **config: create_topic(bootstrap, _new_name(), partitions, config)


def _new_name() -> str:
    return f"t-{uuid.uuid4().hex[:12]}"
