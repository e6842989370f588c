"""The cluster that a run is done on: its topic made and removed, its ends asked for, and whether it is a chronik."""

from __future__ import annotations

import contextlib
import logging
import time
from collections.abc import Callable, Mapping, Sequence
from functools import cached_property
from typing import TYPE_CHECKING, Any

from chronik.client.connecting import unanswered
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import Inspections, NotChronik
from chronik.client.inspect_request import cluster as look_at_cluster
from chronik.client.inspect_request import states as look_at_states
from chronik.client.request import Address, NoAnswer
from chronik.client.security import in_force
from chronik.trace.inspections import StateView
from chronik.trace.leading import sure_leaders
from chronik.verify.errors import RunCannotStart
from chronik.verify.settings import REPLICATION

if TYPE_CHECKING:
    from confluent_kafka.admin import AdminClient

ANSWER_S = 15.0
OFFSETS_S = 4.0  # librdkafka asks the leader that it knew, and does not look for another while it waits
LOOK_S = 3.0
POLL_S = 0.05
LEADER_S = 30.0
TRACE = "chronik.trace"
LATEST = -1  # Kafka's number for the end of a log, where otherwise a time stands


def led_ends(looks: Inspections[StateView], topic: str, ends: Mapping[int, int]) -> dict[int, tuple[int, int]]:
    """Watermark and end of the log of each partition, where its leader is known for sure. A leader that was just asked
    for the end, said 0 and has not even opened a log has none."""
    sure = sure_leaders(looks, looks.silent)
    led = {number: (seen.watermark, seen.next_offset) for (name, number), seen in sure.items() if name == topic}
    held = {copy.partition for look in looks.values() for copy in look.copies if copy.topic == topic}
    closed = [seen for look in looks.values() for seen in look.unopened if seen.topic == topic and seen.leader >= 0]
    for seen in closed:
        is_sure = not any(node in looks.silent for node in seen.in_sync)
        if is_sure and ends.get(seen.partition) == 0 and seen.partition not in held:
            led.setdefault(seen.partition, (0, 0))
    return led


class VerifyCluster:
    """Asked through librdkafka's admin client, whatever the run's client is: that one is to be tested, not this."""

    def __init__(self, bootstrap: str, addresses: Sequence[Address]) -> None:
        self.addresses = addresses
        self._bootstrap = bootstrap

    @cached_property
    def _version(self) -> str | NoAnswer:
        try:
            return look_at_cluster(self.addresses, LOOK_S).version
        except NoAnswer as problem:
            return problem

    @property
    def version_words(self) -> str:
        """Which product and version it is; one that does not say is not taken for another Kafka."""
        told = self._version
        if isinstance(told, NotChronik):
            return "another Kafka"
        return f"not known: {told}" if isinstance(told, NoAnswer) else f"chronik {told}"

    @property
    def is_chronik(self) -> bool:
        """Whether it is known to be one."""
        return isinstance(self._version, str)

    @cached_property
    def _admin(self) -> AdminClient:
        from confluent_kafka.admin import AdminClient

        return AdminClient(self._client_settings())

    def _client_settings(self) -> dict[str, Any]:
        quiet = logging.getLogger("chronik.verify.librdkafka")
        quiet.addHandler(logging.NullHandler())
        quiet.propagate = False
        return {
            "bootstrap.servers": self._bootstrap,
            "client.id": "chronik-verify",
            "log_level": 0,
            "logger": quiet,
        } | in_force().for_librdkafka()

    def _answer(self, ask: Callable[[], Any], doing: str) -> Any:
        """The result of one admin request. Raises RunCannotStart with what was being done."""
        from confluent_kafka import KafkaException

        try:
            asked = ask()
            future = next(iter(asked.values())) if isinstance(asked, dict) else asked
            return future.result()
        except KafkaException as refused:
            error = refused.args[0]
            words = error.str().removeprefix("Broker: ").removeprefix("Local: ").strip()
            raise RunCannotStart(f"cannot {doing}: {words} ({error.name()})") from refused
        except (ValueError, OverflowError) as wrong:  # a number that librdkafka does not even send
            raise RunCannotStart(f"cannot {doing}: {wrong}") from wrong

    def nodes(self) -> int:
        return len(self._metadata().brokers)

    def partitions(self, topic: str) -> int | None:
        """How many the topic has; None when there is no such topic."""
        from confluent_kafka import KafkaError

        found = self._metadata().topics.get(topic)
        if found is None or (found.error is not None and found.error.code() == KafkaError.UNKNOWN_TOPIC_OR_PART):
            return None
        if found.error is not None:
            raise RunCannotStart(
                f"cannot look at topic {topic}: {found.error.str()} ({found.error.name()})", "try again"
            )
        return len(found.partitions)

    def _metadata(self) -> Any:
        from confluent_kafka import KafkaException

        try:
            return self._admin.list_topics(timeout=ANSWER_S)
        except KafkaException as problem:
            silent = ChronikError(
                f"no Kafka node answers at {self._bootstrap}: {problem.args[0].str()}", "start one with `chronik serve`"
            )
            words = unanswered(self._bootstrap, silent)
            raise RunCannotStart(words.message, words.hint) from problem

    def create(self, topic: str, partitions: int, replication: int | None) -> int:
        """Makes the topic, traced if the cluster can do that, and waits until it is led. Returns its replication."""
        from confluent_kafka.admin import NewTopic

        copies = replication or min(REPLICATION, self.nodes())
        wanted = NewTopic(topic, partitions, copies, config={TRACE: "true"} if self.is_chronik else {})
        self._answer(
            lambda: self._admin.create_topics([wanted], request_timeout=ANSWER_S),
            f"create a topic with {partitions} partitions and {copies} replicas",
        )
        self._wait_until_led(topic, partitions)
        return copies

    def _wait_until_led(self, topic: str, partitions: int) -> None:
        deadline = time.monotonic() + LEADER_S
        while True:
            found = self._metadata().topics.get(topic)
            if found is not None and sum(part.leader >= 0 for part in found.partitions.values()) == partitions:
                return
            if time.monotonic() > deadline:
                raise RunCannotStart(f"topic {topic} has partitions without a leader", "see `chronik topic describe`")
            time.sleep(POLL_S)

    def trace(self, topic: str, is_on: bool) -> None:
        """Switches a topic's trace on, or back to what it would be without us."""
        from confluent_kafka.admin import AlterConfigOpType, ConfigEntry, ConfigResource, ResourceType

        operation = AlterConfigOpType.SET if is_on else AlterConfigOpType.DELETE
        entry = ConfigEntry(TRACE, "true" if is_on else None, incremental_operation=operation)
        resource = ConfigResource(ResourceType.TOPIC, topic, incremental_configs=[entry])
        self._answer(
            lambda: self._admin.incremental_alter_configs([resource], request_timeout=ANSWER_S),
            f"trace topic {topic}" if is_on else f"switch the trace of topic {topic} off again",
        )

    def is_traced(self, topic: str) -> bool:
        from confluent_kafka.admin import ConfigResource, ResourceType

        resource = ConfigResource(ResourceType.TOPIC, topic)
        entries = self._answer(
            lambda: self._admin.describe_configs([resource], request_timeout=ANSWER_S),
            f"read the settings of topic {topic}",
        )
        return TRACE in entries and entries[TRACE].value == "true"

    def delete(self, topic: str, group: str | None) -> None:
        """A run's own topic and group. A group that stays is not worth a word: it may never have come to be."""
        try:
            self._answer(lambda: self._admin.delete_topics([topic], request_timeout=ANSWER_S), f"delete topic {topic}")
        finally:
            if group is not None:
                with contextlib.suppress(RunCannotStart):
                    self._answer(
                        lambda: self._admin.delete_consumer_groups([group], request_timeout=ANSWER_S),
                        f"delete group {group}",
                    )

    def ends(self, topic: str, partitions: int) -> dict[int, int]:
        """Where each partition ends for consumers: its high watermark. Those that nothing answers for are left out."""
        from confluent_kafka import KafkaException, TopicPartition
        from confluent_kafka.admin import OffsetSpec

        spec = OffsetSpec(LATEST)  # type: ignore[abstract]  # its __new__ gives the right kind
        asked = {TopicPartition(topic, partition): spec for partition in range(partitions)}
        found = {}
        for place, future in self._admin.list_offsets(asked, request_timeout=OFFSETS_S).items():
            try:
                offset = future.result().offset
            except KafkaException:
                continue  # no leader just now: who asks sees that it is not there
            if offset >= 0:  # librdkafka says -1001, and no error, when the leader it knew is gone
                found[place.partition] = offset
        if len(found) < partitions:
            del self._admin  # the next one asks anew which node leads
        return found

    def is_all_visible(self, topic: str, ends: Mapping[int, int]) -> bool:
        """Whether it is known that no log has more than consumers are given, those being their ends. Another Kafka does
        not tell."""
        logs = self.log_ends(topic, ends)
        return bool(ends) and all(logs.get(partition) == end for partition, end in ends.items())

    def log_ends(self, topic: str, ends: Mapping[int, int]) -> dict[int, int]:
        """Where each partition's log ends, as far as it surely has a leader that says so: another Kafka does not tell.
        `ends` are what the leaders were just asked for."""
        return {partition: next_offset for partition, (_, next_offset) in self.led(topic, ends, LOOK_S).items()}

    def led(self, topic: str, ends: Mapping[int, int], timeout_s: float) -> dict[int, tuple[int, int]]:
        """The same, watermark and end."""
        if not self.is_chronik:
            return {}
        try:
            looks = look_at_states(self.addresses, timeout_s, [topic])
        except NoAnswer:
            return {}
        return led_ends(looks, topic, ends)

    def committed(self, group: str, topic: str) -> dict[int, int]:
        """What a group has committed and no open transaction can change. Raises RunCannotStart."""
        from confluent_kafka import ConsumerGroupTopicPartitions

        asked = self._answer(
            lambda: self._admin.list_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group)], require_stable=True, request_timeout=ANSWER_S
            ),
            f"read the offsets of group {group}",
        )
        return {each.partition: each.offset for each in asked.topic_partitions if each.topic == topic}

    def commit(self, group: str, topic: str, offsets: Mapping[int, int]) -> None:
        """Lets a group begin there."""
        from confluent_kafka import ConsumerGroupTopicPartitions, TopicPartition

        wanted = [TopicPartition(topic, partition, offset) for partition, offset in offsets.items()]
        self._answer(
            lambda: self._admin.alter_consumer_group_offsets(
                [ConsumerGroupTopicPartitions(group, wanted)], request_timeout=ANSWER_S
            ),
            f"let group {group} begin at the end of {topic}",
        )
