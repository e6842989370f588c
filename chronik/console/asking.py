"""The questions that pages ask a cluster when they are opened, beside what the poller sees. They block: pages ask them
on threads."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from chronik.client import inspect_request, trace_switch
from chronik.client.admin import REQUEST_TIMEOUT_S, ClusterAdmin, ConfigValue
from chronik.client.connecting import parse_addresses
from chronik.client.errors import ChronikError
from chronik.client.inspect_request import Inspections
from chronik.client.request import Address, NoAnswer, ask
from chronik.client.sending import NewMessage, send_one
from chronik.client.trace_switch import plain_looks
from chronik.client.transactions import OPEN_STATES, TransactionAdmin, TransactionDescription, TransactionListing
from chronik.console.kafka_source import row_of
from chronik.console.pages.settings import ConfigShown, FeatureShown, QuorumShown, VoterShown, source_words
from chronik.console.pages.trace import ASKED_MAX, SHOWN_KINDS
from chronik.console.sight import Partition, Sight
from chronik.console.words import time_of
from chronik.inspect.find_record import At
from chronik.inspect.gather_record import Gatherer
from chronik.inspect.group_offsets import (
    Move,
    Target,
    existing_group,
    member_row,
    plan_all,
    progress_rows,
    refuse_live_members,
    summary_row,
    total_lag,
)
from chronik.inspect.live_model import Row
from chronik.inspect.read_record import RecordReading, read
from chronik.inspect.record_format import ShownRecord
from chronik.inspect.record_story import story_of
from chronik.trace.inspections import EventsView
from chronik.trace.story import RecordStory

ASK_TIMEOUT_S = 5.0


@dataclass(frozen=True)
class GroupTold:
    """A group as its coordinator tells it now."""

    summary: dict[str, Any]
    members: list[dict[str, Any]]
    partitions: list[dict[str, Any]]
    lag: int
    untold: list[str]


class ClusterQuestions:
    """One cluster. The client is made when it is first needed, and kept: it finds other nodes when one goes away."""

    def __init__(self, bootstrap: str, make: Callable[[str], ClusterAdmin] = ClusterAdmin) -> None:
        self.bootstrap = bootstrap
        self._make = make
        self._guard = threading.Lock()
        self._kept: ClusterAdmin | None = None

    def admin(self) -> ClusterAdmin:
        """Raises ChronikError."""
        with self._guard:
            if self._kept is None:
                self._kept = self._make(self.bootstrap)
            return self._kept

    def rows(self, sight: Sight, topic: str) -> tuple[Row, ...]:
        """The partitions of a topic, as they were seen; what the poller did not ask for is asked now. Raises
        ChronikError for a topic that is not there."""
        seen = sight.by_topic.get(topic, ())
        if seen and (sight.is_chronik or any(row.watermark is not None for row in seen)):
            return seen
        admin = self.admin()
        state = admin.topic(topic)
        if sight.is_chronik:  # made since the last look
            return tuple(row_of(state, part, None, None) for part in state.partitions)
        places = [(topic, part.partition) for part in state.partitions]
        starts, ends = admin.start_offsets(places), admin.end_offsets(places)
        return tuple(
            row_of(state, part, starts.get((topic, part.partition)), ends.get((topic, part.partition)))
            for part in state.partitions
        )

    def clear(self, topic: str, partition: int | None, before: int | None) -> None:
        """Delete records: of one partition or all, before an offset or all there are now. Raises ChronikError."""
        admin = self.admin()
        partitions = [part.partition for part in admin.topic(topic).partitions]
        if partition is not None and partition not in partitions:
            raise ChronikError(f"{topic} has no partition {partition}")
        if before is not None and partition is None:
            raise ChronikError("an offset is one of a partition", "say which partition")
        places = [(topic, number) for number in (partitions if partition is None else [partition])]
        if before is not None:
            ends: dict[Partition, int | None] = dict.fromkeys(places, before)
        else:
            ends = admin.end_offsets(places)
        unknown = [number for (_, number), end in ends.items() if end is None]
        if unknown:
            raise ChronikError(f"nothing was deleted: where partition {unknown[0]} ends is not known", "try again")
        admin.clear_records({place: end for place, end in ends.items() if end is not None})

    def topic_configs(self, topic: str) -> dict[str, ConfigValue] | str:
        """Or why they are not known."""
        try:
            return self.admin().configs(topic)
        except ChronikError as problem:
            return str(problem)

    def group(self, name: str) -> GroupTold:
        """Raises ChronikError."""
        admin = self.admin()
        group, committed = existing_group(admin, name)
        partitions = progress_rows(admin, group, committed)
        lag, untold = total_lag(partitions)
        return GroupTold(summary_row(group), [member_row(member) for member in group.members], partitions, lag, untold)

    def plan_reset(self, name: str, target: Target, topic: str) -> list[Move]:
        """What a reset would change. Raises ChronikError."""
        admin = self.admin()
        group, committed = existing_group(admin, name)
        refuse_live_members(group, "reset")
        chosen = sorted(place for place in committed if not topic or place[0] == topic)
        if topic and not chosen:
            chosen = [(topic, part.partition) for part in admin.topic(topic).partitions]
        if not chosen:
            raise ChronikError(f"group {name} has committed nothing", "say which topic")
        return plan_all(admin, chosen, committed, target)

    def delete_group(self, name: str) -> None:
        """Raises ChronikError."""
        group, _ = existing_group(self.admin(), name)
        refuse_live_members(group, "deleted")
        self.admin().delete_group(name)

    # --- transactions

    def transactions(self, only: str) -> list[TransactionListing]:
        """Raises ChronikError, also where a node does not answer: a list without its transactions would say that they
        are not there."""
        return TransactionAdmin(self.bootstrap).listed(OPEN_STATES if only == "open" else ())

    def transaction(self, transactional_id: str) -> tuple[TransactionDescription, dict[Partition, int | None]]:
        """With the stable offsets of its partitions. Raises ChronikError."""
        found = TransactionAdmin(self.bootstrap).existing(transactional_id)
        return found, self.admin().stable_offsets(found.partitions)

    def abort(self, transactional_id: str) -> None:
        """Raises ChronikError."""
        cluster = TransactionAdmin(self.bootstrap)
        cluster.abort_open(cluster.existing(transactional_id))

    # --- records

    def story(self, topic: str, partition: int, offset: int) -> tuple[RecordStory, ShownRecord | None]:
        """Raises ChronikError."""
        return story_of(Gatherer(self.admin(), topic), At(partition, offset))

    def record(self, topic: str, partition: int, offset: int) -> RecordReading:
        return read(self.bootstrap, topic, partition, offset)

    def produce(self, topic: str, message: NewMessage) -> tuple[int, int]:
        """The partition and the offset at which all in-sync replicas have it. Raises ChronikError."""
        self.admin().topic(topic)  # one that is not there is not made by a slip of the keyboard
        return send_one(self.bootstrap, topic, message)

    def send_again(self, topic: str, partition: int, offset: int, to: str) -> tuple[int, int]:
        """The same key, value and headers, to any topic, as a new record. Raises ChronikError."""
        found = self.record(topic, partition, offset)
        if found.record is None:
            raise ChronikError("there is no record to be sent again", found.problem)
        old = found.record
        return self.produce(to, NewMessage(old.key, old.value, tuple(old.headers)))

    # --- the trace

    def events(self, sight: Sight, topic: str) -> Inspections[EventsView]:
        """The newest that each node has of one topic, or of all. Raises ChronikError where there is no trace."""
        with plain_looks(self.bootstrap):
            return inspect_request.events(
                self.addresses_of(sight), ASK_TIMEOUT_S, [topic] if topic else None, last=ASKED_MAX,
                kinds=list(SHOWN_KINDS),
            )  # fmt: skip

    def switch_trace(self, topic: str, *, is_on: bool) -> None:
        """Of one topic, or of all. Raises ChronikError."""
        addresses = parse_addresses(self.bootstrap)
        with plain_looks(self.bootstrap):
            if topic:
                trace_switch.switch_topic(addresses, self.bootstrap, topic, is_on=is_on)
            else:
                trace_switch.switch_all(addresses, is_on=is_on)

    # --- settings

    def node_configs(self, node: int) -> list[ConfigShown]:
        """Raises ChronikError."""
        from confluent_kafka.admin import ConfigResource, ConfigSource, ResourceType

        admin = self.admin()
        resource = ConfigResource(ResourceType.BROKER, str(node))
        entries = admin.answer(lambda: admin.admin.describe_configs([resource], request_timeout=REQUEST_TIMEOUT_S))
        found = []
        for name, entry in sorted(entries.items()):
            value = "(not shown: it is a secret)" if entry.is_sensitive else entry.value
            source = source_words(ConfigSource(entry.source).name)
            found.append(ConfigShown(name, value, source, bool(entry.is_read_only)))
        return found

    def alter_node_config(self, node: int, key: str, value: str | None) -> None:
        """None puts it back to what the node's file or the default says. Raises ChronikError."""
        known = {config.name: config for config in self.node_configs(node)}
        if key not in known:
            raise ChronikError(f"no config {key}", "the list of all of them is on this page")
        if known[key].is_read_only:
            raise ChronikError(f"{key} cannot be changed while the node runs", "set it in the node's file")
        self.admin().alter_node_configs(node, {key: value})

    def quorum(self, addresses: Sequence[Address]) -> QuorumShown:
        """Raises NoAnswer."""
        from kio.schema.describe_quorum.v1.request import DescribeQuorumRequest, PartitionData, TopicData

        request = DescribeQuorumRequest(
            topics=(TopicData(topic_name="__cluster_metadata", partitions=(PartitionData(partition_index=0),)),)
        )
        told = _first(addresses, request)
        if told.error_code or not told.topics or told.topics[0].partitions[0].error_code:
            raise NoAnswer("the node did not describe the quorum")
        part = told.topics[0].partitions[0]
        top = max((voter.log_end_offset for voter in (*part.current_voters, *part.observers)), default=0)
        voters = [
            _voter(each, "leader" if each.replica_id == part.leader_id else "voter", top)
            for each in part.current_voters
        ]
        voters += [_voter(each, "observer", top) for each in part.observers]
        return QuorumShown(part.leader_id, part.leader_epoch, part.high_watermark, tuple(voters))

    def features(self, addresses: Sequence[Address]) -> list[FeatureShown]:
        """Raises NoAnswer."""
        from kio.schema.api_versions.v3.request import ApiVersionsRequest

        request = ApiVersionsRequest(client_software_name="chronik-console", client_software_version="1")
        told = _first(addresses, request)
        levels = {feature.name: feature.max_version_level for feature in told.finalized_features}
        return [
            FeatureShown(feature.name, levels.get(feature.name, 0), f"{feature.min_version} to {feature.max_version}")
            for feature in sorted(told.supported_features, key=lambda feature: feature.name)
        ]

    def addresses_of(self, sight: Sight) -> list[Address]:
        answering = ",".join(node.address for node in sight.nodes if node.answers)
        return parse_addresses(answering or self.bootstrap)


def _voter(each: Any, role: str, top: int) -> VoterShown:
    at = each.last_caught_up_timestamp
    at_ms = at.timestamp() * 1000 if hasattr(at, "timestamp") else at
    is_known = at_ms is not None and at_ms > 0
    return VoterShown(
        each.replica_id,
        role,
        each.log_end_offset,
        max(top - each.log_end_offset, 0),
        time_of(at_ms) if is_known else None,
    )


def _first(addresses: Sequence[Address], request: Any) -> Any:
    """The first answer. Raises NoAnswer."""
    problem = NoAnswer("there is no address to ask")
    for address in addresses:
        try:
            return ask(address, request, ASK_TIMEOUT_S)
        except NoAnswer as met:
            problem = met
    raise problem
