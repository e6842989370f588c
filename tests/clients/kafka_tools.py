"""Kafka's own command-line tools: which there are, and how one is run to its end."""

from __future__ import annotations

import copy
import subprocess
from pathlib import Path

from tests.clients.jvm import jars_of, java_command

TOOL_SECONDS_MAX = 60.0

CLASSES = {
    "kafka-acls": "org.apache.kafka.tools.AclCommand",
    "kafka-broker-api-versions": "org.apache.kafka.tools.BrokerApiVersionsCommand",
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-console-consumer": "org.apache.kafka.tools.consumer.ConsoleConsumer",
    "kafka-console-producer": "org.apache.kafka.tools.ConsoleProducer",
    "kafka-consumer-groups": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-consumer-perf-test": "org.apache.kafka.tools.ConsumerPerformance",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
    "kafka-delete-records": "org.apache.kafka.tools.DeleteRecordsCommand",
    "kafka-dump-log": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-features": "org.apache.kafka.tools.FeatureCommand",
    "kafka-get-offsets": "org.apache.kafka.tools.GetOffsetShell",
    "kafka-groups": "org.apache.kafka.tools.GroupsCommand",
    "kafka-leader-election": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-log-dirs": "org.apache.kafka.tools.LogDirsCommand",
    "kafka-metadata-quorum": "org.apache.kafka.tools.MetadataQuorumCommand",
    "kafka-producer-perf-test": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics": "org.apache.kafka.tools.TopicCommand",
    "kafka-transactions": "org.apache.kafka.tools.TransactionsCommand",
}


class Tool:
    """Runs a tool to its end and gives what it printed; a failure is an error that carries what it said."""

    def __init__(self, bootstrap: str, folder: Path) -> None:
        self._bootstrap = bootstrap
        # The classes that one run has loaded, kept for the others: it halves the time that each takes.
        archive = folder / "classes.jsa"
        self._flags = [f"-XX:ArchiveClassesAtExit={archive}"]
        self("kafka-topics", "--list")
        self._flags = [f"-XX:SharedArchiveFile={archive}"]

    @classmethod
    def without_archive(cls, bootstrap: str) -> Tool:
        """For a node where a tool has to log in, and so cannot be run without arguments."""
        made = cls.__new__(cls)
        made._bootstrap, made._flags = bootstrap, []
        return made

    def at(self, bootstrap: str) -> Tool:
        """The same, told of another node."""
        other = copy.copy(self)
        other._bootstrap = bootstrap
        return other

    def __call__(self, name: str, *arguments: str, stdin: str = "") -> str:
        """A tool that is told where the node is: tool("kafka-topics", "--list")."""
        return self.alone(name, "--bootstrap-server", self._bootstrap, *arguments, stdin=stdin)

    def alone(self, name: str, *arguments: str, stdin: str = "") -> str:
        """A tool that is not."""
        command = [*java_command(jars_of("tools"), CLASSES[name], *self._flags), *arguments]
        done = subprocess.run(
            command, input=stdin, capture_output=True, text=True, timeout=TOOL_SECONDS_MAX, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
        return done.stdout


def rows(table: str) -> list[dict[str, str]]:
    """The rows of a table that a tool printed, by column name."""
    lines = [line.split() for line in table.splitlines() if line.strip()]
    return [dict(zip(lines[0], line, strict=False)) for line in lines[1:]]
