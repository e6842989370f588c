"""Apache Kafka as a System."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tests.bench.systems.kafka import jars
from tests.bench.systems.kafka.server import KafkaCluster, KafkaServer
from tests.bench.systems.system import Cluster, Server


class Kafka:
    """Raises NoKafka where it cannot be had."""

    name = "kafka"

    def __init__(self) -> None:
        jars.bring()
        self.version = jars.version()

    def server(self, directory: Path, settings: Mapping[str, str]) -> Server:
        server = KafkaServer(directory, settings)
        server.wait_until_formatted()
        return server

    def cluster(self, directory: Path, settings: Mapping[str, str]) -> Cluster:
        return KafkaCluster(directory, settings)
