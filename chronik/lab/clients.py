"""What all clients of the lab have in common: their settings, their topics and their end."""

from __future__ import annotations

import logging
import threading
from collections.abc import Mapping
from typing import Any

PARTITIONS = 3
CLIENT_END_S = 5.0
CREATE_TIMEOUT_S = 20.0


def settings_of(bootstrap: str, client_id: str) -> dict[str, Any]:
    quiet = logging.getLogger("chronik.lab.librdkafka")
    quiet.addHandler(logging.NullHandler())
    quiet.propagate = False
    return {"bootstrap.servers": bootstrap, "client.id": client_id, "log_level": 0, "logger": quiet}


def create_topic(bootstrap: str, topic: str, config: Mapping[str, str] | None = None) -> None:
    """With three partitions on three nodes; one that is there already is fine."""
    from confluent_kafka import KafkaError, KafkaException
    from confluent_kafka.admin import AdminClient, NewTopic

    admin = AdminClient(settings_of(bootstrap, "chronik-cli"))
    try:
        wanted = NewTopic(topic, PARTITIONS, -1, config=dict(config or {}))
        admin.create_topics([wanted])[topic].result(CREATE_TIMEOUT_S)
    except KafkaException as problem:
        if problem.args[0].code() != KafkaError.TOPIC_ALREADY_EXISTS:
            raise


def close(consumer: Any) -> None:
    """A fault may keep it from ending in order: then it ends with this program."""
    closing = threading.Thread(target=consumer.close, daemon=True)
    closing.start()
    closing.join(CLIENT_END_S / 2)
