"""A stateful application, run by the Python that has quixstreams: quix_count.py BOOTSTRAP STATE_FOLDER REPLICAS."""

from __future__ import annotations

import sys
from typing import Any

from quixstreams import Application, State
from quixstreams.models import TopicConfig


def add_up(value: int, state: State) -> int:
    """The sum of all values of this key so far."""
    total: int = state.get("total", 0) + value
    state.set("total", total)
    return total


def main(bootstrap: str, state_folder: str, replicas: int) -> None:
    # On a busy machine the member is not taken for dead: its records would be added once more.
    consumer: dict[str, Any] = {"session.timeout.ms": 60_000}
    application = Application(
        broker_address=bootstrap,
        consumer_group="sums",
        state_dir=state_folder,
        auto_offset_reset="earliest",
        commit_interval=0.2,
        processing_guarantee="at-least-once",
        consumer_extra_config=consumer,
    )
    config = TopicConfig(num_partitions=2, replication_factor=replicas)
    numbers = application.topic("numbers", key_deserializer="str", value_deserializer="json", config=config)
    sums = application.topic("sums", key_serializer="str", value_serializer="json", config=config)
    application.dataframe(numbers).apply(add_up, stateful=True).to_topic(sums)
    application.run()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2], int(sys.argv[3]))
