"""What follows from altering settings: records, and how it went with each topic, broker or group.

One resource changes as a whole or not at all.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping

from chronik.core.config.definitions import LIST, BadConfig, Setting, unknown_key
from chronik.core.config.group import GROUP_SETTINGS, GroupSettings
from chronik.core.config.node import NODE_SETTINGS
from chronik.core.config.topic import TOPIC_SETTINGS, TopicConfig
from chronik.core.config.without_effect import WITHOUT_EFFECT
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import (
    DONE,
    AlterConfigs,
    ChangeOutcome,
    ConfigChange,
    ConfigOperation,
    ResourceType,
)
from chronik.core.machines.metadata.elections import allowed_elections
from chronik.core.machines.metadata.image import ALL_BROKERS, MetadataImage
from chronik.core.machines.metadata.leaders import without_eligible
from chronik.core.machines.metadata.names import problem_with
from chronik.core.machines.metadata.records import ConfigRecord, MetadataRecord, PartitionChangeRecord

GROUP_ID_LENGTH_MAX = 32_767
GROUPS_WITH_SETTINGS_MAX = 100_000
GAPS = "chronik.gaps"
POLICY = "cleanup.policy"
DEFAULT_POLICY = "log.cleanup.policy"
MIN_IN_SYNC = "min.insync.replicas"
UNCLEAN = "unclean.leader.election.enable"


def alter_configs(
    image: MetadataImage, command: AlterConfigs
) -> tuple[list[MetadataRecord], tuple[ChangeOutcome, ...]]:
    """Records for the resources whose change is right, and how it went with each."""
    times_named = Counter((change.resource_type, change.resource_name) for change in command.changes)
    records: list[MetadataRecord] = []
    results: list[ChangeOutcome] = []
    for change in command.changes:
        try:
            if times_named[change.resource_type, change.resource_name] > 1:
                raise Refused(Code.INVALID_REQUEST, "Each resource must appear at most once.")
            records += _altered(image, change, command.replace_all)
        except Refused as refused:
            results.append(ChangeOutcome(refused.code, refused.message))
        else:
            results.append(DONE)
    if command.validate_only:
        return [], tuple(results)
    records = [*records, *_eligible_anew(image, records)]
    return [*records, *_gaps_now(image, records), *_elected_now(image, records)], tuple(results)


def one_minimum(image: MetadataImage) -> list[MetadataRecord]:
    """Where there are several brokers, one `min.insync.replicas` must hold for all of them: what the controller has in
    its file, until it is altered. Who may lead (the controller says) and what is safe (a leader says) hang on it, and
    with two numbers an acknowledged record could be lost. Kafka does the same for eligible leaders (KIP-966)."""
    if MIN_IN_SYNC in image.broker_overrides(ALL_BROKERS):
        return []
    number = str(image.node_config.log.min_insync_replicas)
    record = ConfigRecord(ResourceType.BROKER, ALL_BROKERS, MIN_IN_SYNC, number)
    of_one = [
        ConfigRecord(kind, name, MIN_IN_SYNC, None)
        for kind, name, values in image.overrides()
        if kind == ResourceType.BROKER and MIN_IN_SYNC in values
    ]
    return [record, *of_one, *_eligible_anew(image, [record])]


def gaps_due(image: MetadataImage) -> list[ConfigRecord]:
    """Marks for the topics that a default lets be compacted: the controller's own, or one that was altered for all
    brokers or for one. No node compacts a topic before it has its mark (`TopicConfig.may_be_compacted`), and no topic
    loses it: another default, or a node whose file has another, forgets nothing of the gaps that there are. Topics with
    a policy of their own say it by that."""
    if not _is_compacted_by_default(image):
        return []
    names = [name for name in sorted(image.topics) if POLICY not in image.topic_overrides(name)]
    return [gaps_mark(name) for name in names if not image.topic_config(name).chronik_gaps]


def gaps_mark(topic: str) -> ConfigRecord:
    return ConfigRecord(ResourceType.TOPIC, topic, GAPS, "true")


def needs_gaps_mark(image: MetadataImage, config: TopicConfig, overrides: Mapping[str, str]) -> bool:
    """Whether a topic with these settings may be compacted, on any node, and nothing in the metadata says so yet."""
    return not config.chronik_gaps and POLICY not in overrides and _is_compacted_by_default(image)


def _is_compacted_by_default(image: MetadataImage) -> bool:
    """Whether any node has it so, as far as this one knows."""
    altered = (values.get(DEFAULT_POLICY, "") for kind, _, values in image.overrides() if kind == ResourceType.BROKER)
    return "compact" in image.node_config.log.log_cleanup_policy or any("compact" in value for value in altered)


def _gaps_now(image: MetadataImage, records: list[MetadataRecord]) -> list[ConfigRecord]:
    """The marks that another default asks for, and those that the old one asked for."""
    if not any(isinstance(record, ConfigRecord) and record.name == DEFAULT_POLICY for record in records):
        return []
    ahead = image.copy()
    for record in [*records, *gaps_due(image)]:
        ahead.apply(record)
    return [*gaps_due(image), *gaps_due(ahead)]


def _eligible_anew(image: MetadataImage, records: list[MetadataRecord]) -> Iterator[PartitionChangeRecord]:
    """Who is an eligible leader hangs on min.insync.replicas (KIP-966): with another number it begins anew."""
    altered = [record for record in records if isinstance(record, ConfigRecord) and record.name == MIN_IN_SYNC]
    is_for_all = any(record.resource_type == ResourceType.BROKER for record in altered)
    names = sorted(image.topics) if is_for_all else [record.resource_name for record in altered]
    for name in names:
        yield from without_eligible(image.topics[name])


def _elected_now(image: MetadataImage, records: list[MetadataRecord]) -> list[PartitionChangeRecord]:
    """Where unclean elections are allowed from now on, partitions that no node leads need not wait any longer. (Kafka
    looks for them every five minutes.) Decided by an image that has the new settings, as this one will."""
    is_altered = any(isinstance(record, ConfigRecord) and record.name == UNCLEAN for record in records)
    if not is_altered or next(image.holdings.leaderless_topics(), None) is None:
        return []
    ahead = image.copy()
    for record in records:
        ahead.apply(record)
    return allowed_elections(ahead)


def _altered(image: MetadataImage, change: ConfigChange, replace_all: bool) -> list[ConfigRecord]:
    present, settings = _resource(image, change)
    wanted = _left_of(change, present) if replace_all else dict(present)
    named: dict[str, None] = {}
    for key, operation, value in change.operations:
        if key in named:
            raise Refused(Code.INVALID_REQUEST, f"Error due to duplicate config keys: {key}")
        named[key] = None
        new_value = _operated(image, change, settings, wanted.get(key), key, operation, value)
        if new_value is None:
            wanted.pop(key, None)
        else:
            wanted[key] = new_value
    if change.resource_type == ResourceType.TOPIC:
        will_be = _check_topic(image, wanted)
        had_gaps = image.topic_config(change.resource_name).may_have_gaps
        if not will_be.chronik_gaps and (had_gaps or needs_gaps_mark(image, will_be, wanted)):
            wanted[GAPS] = "true"  # what compaction took out stays out: readers of its logs must know
    elif change.resource_type == ResourceType.GROUP:
        _check_group(image, wanted)
    else:
        _check_broker(image, change.resource_name, wanted, named)
    changed = [key for key in sorted({**present, **wanted}) if present.get(key) != wanted.get(key)]
    return [ConfigRecord(change.resource_type, change.resource_name, key, wanted.get(key)) for key in changed]


def _left_of(change: ConfigChange, present: Mapping[str, str]) -> dict[str, str]:
    """What stays when a request names all that a resource shall have (AlterConfigs, 33). The minimum of all brokers was
    set by the cluster: a client that does not know of it does not mean to remove it."""
    is_for_all = change.resource_type == ResourceType.BROKER and change.resource_name == ALL_BROKERS
    return {MIN_IN_SYNC: present[MIN_IN_SYNC]} if is_for_all and MIN_IN_SYNC in present else {}


def _resource(image: MetadataImage, change: ConfigChange) -> tuple[Mapping[str, str], Mapping[str, Setting]]:
    """The settings a resource has of its own now, and the table of those it may have. Raises Refused."""
    name = change.resource_name
    if change.resource_type == ResourceType.TOPIC:
        problem = problem_with(name)
        if problem is not None:
            raise Refused(Code.INVALID_TOPIC_EXCEPTION, problem)
        if image.topic(name) is None:
            raise Refused(Code.UNKNOWN_TOPIC_OR_PARTITION, f"The topic '{name}' does not exist.")
        return image.topic_overrides(name), TOPIC_SETTINGS
    if change.resource_type == ResourceType.BROKER:
        if name != ALL_BROKERS:
            if not (name.isascii() and name.isdigit()):
                raise Refused(Code.INVALID_REQUEST, f"Node id must be an integer, but it is: {name}")
            if int(name) not in image.brokers:
                raise Refused(Code.BROKER_ID_NOT_REGISTERED, f"No broker with id {name} found.")
        return image.broker_overrides(name), NODE_SETTINGS
    if change.resource_type == ResourceType.GROUP:
        if not name:
            raise Refused(Code.INVALID_REQUEST, "Default group resources are not allowed.")
        if len(name) > GROUP_ID_LENGTH_MAX:
            raise Refused(Code.INVALID_REQUEST, f"A group id of {len(name)} characters.")
        if not image.group_overrides(name) and image.group_overrides_count >= GROUPS_WITH_SETTINGS_MAX:
            raise Refused(
                Code.INVALID_REQUEST, f"{GROUPS_WITH_SETTINGS_MAX} groups have settings of their own already."
            )
        return image.group_overrides(name), GROUP_SETTINGS
    raise Refused(Code.INVALID_REQUEST, f"Unsupported resource type {change.resource_type}.")


def _operated(
    image: MetadataImage,
    change: ConfigChange,
    settings: Mapping[str, Setting],
    present: str | None,
    key: str,
    operation: int,
    value: str | None,
) -> str | None:
    """The value of one key after one operation; None when it goes back to its default."""
    if operation == ConfigOperation.DELETE:
        return None
    if value is None:
        raise Refused(Code.INVALID_REQUEST, f"Null value not supported for : {key}")
    if operation == ConfigOperation.SET:
        return value
    if operation not in (ConfigOperation.APPEND, ConfigOperation.SUBTRACT):
        raise Refused(Code.INVALID_REQUEST, f"Unknown operation type {operation}.")
    known = settings.get(key)
    if known is None or known.type is not LIST:
        message = f"Can't {ConfigOperation(operation).name} to key {key} because its type is not LIST."
        raise Refused(Code.INVALID_CONFIG, message)
    if present is None:
        is_topic = change.resource_type == ResourceType.TOPIC
        node = image.node_config
        in_force = node.topic_default(key) if is_topic else node.value_of(key)
        present = known.show(in_force) or ""
    parts = [part for part in present.split(",") if part]
    for item in value.split(","):
        if operation == ConfigOperation.SUBTRACT and item in parts:
            parts.remove(item)
        elif operation == ConfigOperation.APPEND and item not in parts:
            parts.append(item)
    return ",".join(parts)


def _check_topic(image: MetadataImage, wanted: Mapping[str, str]) -> TopicConfig:
    try:
        return TopicConfig.from_overrides(image.node_config, wanted).checked()
    except BadConfig as problem:
        raise Refused(Code.INVALID_CONFIG, problem.message) from problem


def _check_group(image: MetadataImage, wanted: Mapping[str, str]) -> None:
    try:
        groups = image.node_config.groups
        GroupSettings.from_overrides(groups, wanted).checked(groups)
    except BadConfig as problem:
        raise Refused(Code.INVALID_CONFIG, problem.message) from problem


def _check_broker(image: MetadataImage, name: str, wanted: Mapping[str, str], named: Mapping[str, None]) -> None:
    """A broker's bad setting is INVALID_REQUEST, as in Kafka (KAFKA-13609)."""
    try:
        for key in named:
            if key in WITHOUT_EFFECT:
                continue
            if key not in NODE_SETTINGS:
                raise unknown_key(key, NODE_SETTINGS, "broker")
            if not NODE_SETTINGS[key].is_dynamic:
                raise BadConfig(key, f"Cannot update these configs dynamically: {key}")
        _check_one_minimum(image, name, wanted)
        for_all = wanted if name == ALL_BROKERS else image.broker_overrides(ALL_BROKERS)
        own = {} if name == ALL_BROKERS else wanted
        image.node_config.with_dynamic(for_all, own).checked()
    except BadConfig as problem:
        raise Refused(Code.INVALID_REQUEST, problem.message) from problem


def _check_one_minimum(image: MetadataImage, name: str, wanted: Mapping[str, str]) -> None:
    if name != ALL_BROKERS and MIN_IN_SYNC in wanted:
        message = f"{MIN_IN_SYNC} cannot be altered for one broker: set it for all of them, or for a topic."
        raise Refused(Code.INVALID_CONFIG, message)
    if name == ALL_BROKERS and MIN_IN_SYNC not in wanted and MIN_IN_SYNC in image.broker_overrides(ALL_BROKERS):
        raise Refused(Code.INVALID_CONFIG, f"{MIN_IN_SYNC} of all brokers cannot be removed: set it to another number.")
