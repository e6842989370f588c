"""Kafka's kafka-configs sets and takes away the SCRAM credentials of users; its kafka-acls finds no authorizer."""

from __future__ import annotations

import pytest
from confluent_kafka.admin import AdminClient

from tests.clients.kafka_tools import Tool
from tests.clients.support import needs

needs("kafka tools")


@pytest.fixture(scope="module")
def tool(bootstrap: str, tmp_path_factory: pytest.TempPathFactory) -> Tool:
    return Tool(bootstrap, tmp_path_factory.mktemp("archive"))


def test_kafka_configs_sets_and_deletes_the_credentials_of_a_user(tool: Tool, bootstrap: str, name: str) -> None:
    user = ("--entity-type", "users", "--entity-name", name)
    tool("kafka-configs", "--alter", "--add-config", "SCRAM-SHA-256=[iterations=8192,password=secret]", *user)
    tool("kafka-configs", "--alter", "--add-config", "SCRAM-SHA-512=[password=secret]", *user)
    assert credentials(bootstrap, name) == {"SCRAM_SHA_256": 8192, "SCRAM_SHA_512": 4096}

    tool("kafka-configs", "--alter", "--delete-config", "SCRAM-SHA-256", *user)
    assert credentials(bootstrap, name) == {"SCRAM_SHA_512": 4096}

    tool("kafka-configs", "--alter", "--delete-config", "SCRAM-SHA-512", *user)
    with pytest.raises(RuntimeError, match="ResourceNotFoundException"):
        tool("kafka-configs", "--alter", "--delete-config", "SCRAM-SHA-512", *user)


def credentials(bootstrap: str, name: str) -> dict[str, int]:
    admin = AdminClient({"bootstrap.servers": bootstrap})
    described = admin.describe_user_scram_credentials([name])
    assert isinstance(described, dict)
    infos = described[name].result(timeout=30).scram_credential_infos
    return {info.mechanism.name: info.iterations for info in infos}


def test_without_an_authorizer_kafka_acls_says_so(tool: Tool) -> None:
    with pytest.raises(RuntimeError, match="No Authorizer is configured"):
        tool("kafka-acls", "--list")
    with pytest.raises(RuntimeError, match="No Authorizer is configured"):
        tool("kafka-acls", "--add", "--allow-principal", "User:alice", "--operation", "Read", "--topic", "orders")
