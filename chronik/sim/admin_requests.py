"""The requests of an administrator, each for one partition, topic or setting, and what their answers say of it."""

from __future__ import annotations

from chronik.core.errors import Code
from chronik.core.machines.metadata.commands import ConfigOperation, ResourceType
from chronik.core.types import TopicPartition
from chronik.sim.client import SimClient, milliseconds
from chronik.sim.link import part_of
from chronik.sim.orders import OrderedSetting
from chronik.sim.routes import Address

TIMEOUT_MS = 5000
PREFERRED, UNCLEAN = 0, 1


async def reassign(client: SimClient, name: TopicPartition, replicas: tuple[int, ...] | None) -> Code:
    """None takes a move back. Raises OSError."""
    topic = part_of("alter_partition_reassignments", "topics")
    partition = part_of("alter_partition_reassignments", "topics", "partitions")
    wanted = partition(partition_index=name.partition, replicas=replicas)
    answer = await client.ask(
        "alter_partition_reassignments",
        timeout=milliseconds(TIMEOUT_MS),
        allow_replication_factor_change=True,
        topics=(topic(name=name.topic, partitions=(wanted,)),),
    )
    return answer.error_code or answer.responses[0].partitions[0].error_code  # type: ignore[no-any-return]


async def elect(client: SimClient, name: TopicPartition | None, election: int) -> Code:
    """None: all partitions. Raises OSError."""
    topic = part_of("elect_leaders", "topic_partitions")
    wanted = None if name is None else (topic(topic=name.topic, partitions=(name.partition,)),)
    answer = await client.ask(
        "elect_leaders", election_type=election, topic_partitions=wanted, timeout=milliseconds(TIMEOUT_MS)
    )
    if answer.error_code != Code.NONE or name is None or not answer.replica_election_results:
        return answer.error_code  # type: ignore[no-any-return]
    return answer.replica_election_results[0].partition_result[0].error_code  # type: ignore[no-any-return]


async def create_partitions(client: SimClient, topic: str, count: int) -> Code:
    """Raises OSError."""
    wanted = part_of("create_partitions", "topics")(name=topic, count=count, assignments=None)
    answer = await client.ask(
        "create_partitions", topics=(wanted,), timeout=milliseconds(TIMEOUT_MS), validate_only=False
    )
    return answer.results[0].error_code  # type: ignore[no-any-return]


async def delete_records(client: SimClient, name: TopicPartition, offset: int) -> tuple[Code, int]:
    """Also where the log begins then. Raises OSError and TryAgain."""
    topic, partition = part_of("delete_records", "topics"), part_of("delete_records", "topics", "partitions")
    wanted = partition(partition_index=name.partition, offset=offset)
    answer = await client.ask(
        "delete_records",
        await client.leader_of(name),
        topics=(topic(name=name.topic, partitions=(wanted,)),),
        timeout=milliseconds(TIMEOUT_MS),
    )
    part = answer.topics[0].partitions[0]
    return part.error_code, part.low_watermark


async def alter_config(client: SimClient, setting: OrderedSetting, value: str | None) -> Code:
    """None takes it back. Raises OSError."""
    resource = part_of("incremental_alter_configs", "resources")
    config = part_of("incremental_alter_configs", "resources", "configs")
    operation = ConfigOperation.DELETE if value is None else ConfigOperation.SET
    wanted = resource(
        resource_type=setting.resource_type,
        resource_name=setting.resource_name,
        configs=(config(name=setting.key, config_operation=operation, value=value),),
    )
    answer = await client.ask("incremental_alter_configs", resources=(wanted,), validate_only=False)
    return answer.responses[0].error_code  # type: ignore[no-any-return]


async def described_config(client: SimClient, setting: OrderedSetting, node: Address) -> tuple[Code, str | None]:
    """What one node says was altered; None: nothing, it has its default. Raises OSError."""
    kind = part_of("describe_configs", "resources")
    wanted = kind(
        resource_type=setting.resource_type, resource_name=setting.resource_name, configuration_keys=(setting.key,)
    )
    answer = await client.ask(
        "describe_configs", node, resources=(wanted,), include_synonyms=False, include_documentation=False
    )
    result = answer.results[0]
    own = ALTERED_FOR_TOPIC if setting.resource_type == ResourceType.TOPIC else ALTERED_FOR_ALL
    values = [config.value for config in result.configs if config.config_source == own]
    return result.error_code, values[0] if values else None


ALTERED_FOR_TOPIC, ALTERED_FOR_ALL = 1, 3  # where a value comes from, in Kafka's numbers
