"""`chronik topic`: create, list, describe, alter and delete topics."""

from __future__ import annotations

import sys
from typing import Annotated, Any

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, TopicName, Yes, example
from chronik.cli.output import counted, is_confirmed, print_json, print_line, print_note, print_table
from chronik.cli.values import parse_pairs
from chronik.client import suggest
from chronik.client.admin import ClusterAdmin, TopicState
from chronik.client.connecting import parse_addresses
from chronik.client.errors import ChronikError, RefusedByNode
from chronik.inspect.topic_rows import messages, partition_row, trouble
from chronik.inspect.watermarks import Monitor, monitor

app = typer.Typer(name="topic", help="Create, list, describe, alter and delete topics.", no_args_is_help=True)

PARTITIONS_MAX = 100_000  # librdkafka sends no more
REPLICATION_MAX = 10_000

ConfigPairs = Annotated[
    list[str] | None, typer.Option("--config", metavar="KEY=VALUE", help="A topic setting; repeat for more.")
]


@app.command(epilog=example("chronik topic create orders --partitions 3 --config retention.ms=86400000"))
def create(
    name: Annotated[str, typer.Argument(metavar="TOPIC")],
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=PARTITIONS_MAX, metavar="N", help="How many; the node's default if not given."),
    ] = None,
    replication: Annotated[
        int | None,
        typer.Option(
            min=1, max=REPLICATION_MAX, metavar="N", help="Copies of each partition; the node's default if not given."
        ),
    ] = None,
    config: ConfigPairs = None,
    if_not_exists: Annotated[
        bool, typer.Option("--if-not-exists", help="Leave a topic of that name as it is.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Create a topic."""
    from confluent_kafka import KafkaError

    settings = parse_pairs("--config", config or [])
    cluster = ClusterAdmin(bootstrap)
    is_new = True
    try:
        cluster.create_topic(name, partitions, replication, settings)
    except RefusedByNode as refused:
        if refused.code == KafkaError.TOPIC_ALREADY_EXISTS:
            if not if_not_exists:
                raise ChronikError(f"topic {name} already exists", "see it with `chronik topic describe`") from None
            is_new = False
        else:
            raise _better(refused, dict(settings)) from None
    topic = cluster.topic(name)
    if as_json:
        print_json(_as_json(topic) | {"created": is_new})
    else:
        verb = "created" if is_new else "exists already:"
        print_line(
            f"{verb} topic {name}: {counted(len(topic.partitions), 'partition')}, replication {topic.replication}"
        )


@app.command("list", epilog=example("chronik topic list"))
def list_topics(
    internal: Annotated[
        bool, typer.Option("--internal", help="Also topics that the cluster keeps for itself.")
    ] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """List the topics, and which of them have partitions in trouble."""
    found, doubt = ClusterAdmin(bootstrap).topics_now()
    topics = [topic for topic in found if internal or not topic.is_internal]
    if doubt is not None:
        print_note(f"these may not be all, nor still there: {doubt}")
    if as_json:
        print_json(
            [
                {
                    "topic": topic.name,
                    "partitions": len(topic.partitions),
                    "replication": topic.replication,
                    "state": trouble(topic) or "ok",
                }
                for topic in topics
            ]
        )
    elif topics:
        print_table(
            ["topic", "partitions", "replication", "state"],
            [(topic.name, len(topic.partitions), topic.replication, trouble(topic) or "ok") for topic in topics],
        )
    elif doubt is None:
        print_line("no topics; create one with `chronik topic create NAME`")


@app.command(epilog=example("chronik topic describe orders"))
def describe(
    name: TopicName,
    every: Annotated[bool, typer.Option("--all", help="All settings, also those left at their default.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Show a topic's partitions with leader, replicas, offsets and each follower's lag, and its settings that differ
    from the default."""
    cluster = ClusterAdmin(bootstrap)
    topic = cluster.topic(name)
    keys = [(name, partition.partition) for partition in topic.partitions]
    starts, ends = cluster.start_offsets(keys), cluster.end_offsets(keys)
    configs = {key: value for key, value in cluster.configs(name).items() if every or value.source != "default"}
    watched = monitor(parse_addresses(bootstrap), name)
    partitions = [
        partition_row(part, starts.get((name, part.partition)), ends.get((name, part.partition)), watched)
        for part in topic.partitions
    ]
    if as_json:
        settings = {key: {"value": config.value, "set_by": config.source} for key, config in configs.items()}
        print_json(_as_json(topic) | {"id": topic.id, "partitions": partitions, "config": settings})
        return
    print_line(f"topic {name}: {counted(len(partitions), 'partition')}, replication {topic.replication}, id {topic.id}")
    if wrong := trouble(topic):
        print_line(wrong)
    _print_partitions(partitions, watched)
    if configs:
        print_table(
            ["setting", "value", "set by"], [(key, config.value, config.source) for key, config in configs.items()]
        )
    else:
        print_line("all settings are at their default (--all shows them)")


def _print_partitions(partitions: list[dict[str, Any]], watched: Monitor | None) -> None:
    who = ["partition", "leader", "replicas", "in_sync"]
    if watched is None:
        offsets = ["start_offset", "end_offset", "messages"]
    else:
        offsets = ["log_start_offset", "last_stable_offset", "high_watermark", "next_offset", "gap", "messages"]
    titles = [column.removesuffix("_offset").replace("_", " ") for column in [*who, *offsets]]
    print_table(titles, [[row[column] for column in [*who, *offsets]] for row in partitions])
    followers = [(row["partition"], follower) for row in partitions for follower in row.get("followers", [])]
    if followers:
        print_table(
            ["partition", "follower", "in sync", "has all below", "lag in records", "lag in ms"],
            [(number, str(each["node"]), *list(each.values())[1:]) for number, each in followers],
        )
    for node_id, reason in ({} if watched is None else watched.silent).items():
        print_note(f"node {node_id} does not answer: {reason}")
    if watched is not None and watched.unsure:
        print_note(
            f"partition {', '.join(map(str, watched.unsure))}: a node says that it leads, but it is not in touch with "
            "the cluster, and another may lead since; what it says is not shown"
        )


@app.command(epilog=example("chronik topic alter orders --config retention.ms=3600000 --partitions 6"))
def alter(
    name: TopicName,
    config: ConfigPairs = None,
    delete_config: Annotated[
        list[str] | None, typer.Option(metavar="KEY", help="Back to the default; repeat for more.")
    ] = None,
    partitions: Annotated[
        int | None,
        typer.Option(min=1, max=PARTITIONS_MAX, metavar="N", help="The new number of partitions: only more than now."),
    ] = None,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Change a topic's settings, or give it more partitions."""
    settings: dict[str, str | None] = {**parse_pairs("--config", config or []), **dict.fromkeys(delete_config or [])}
    if not settings and partitions is None:
        raise ChronikError("nothing to alter", "give --config, --delete-config or --partitions")
    cluster = ClusterAdmin(bootstrap)
    before = len(cluster.topic(name).partitions)
    if partitions is not None and partitions <= before:
        raise ChronikError(f"topic {name} has {counted(before, 'partition')} already", "partitions can only be added")
    if delete_config:
        _refuse_unknown(cluster, name, delete_config)
    if settings:
        _alter_config(cluster, name, settings)
    if partitions is not None:
        cluster.add_partitions(name, partitions)
    if as_json:
        print_json({"topic": name, "partitions": partitions or before, "config": settings})
        return
    for key, value in settings.items():
        print_line(f"{key} is back at its default" if value is None else f"{key} is now {value}")
    if partitions is not None:
        print_line(f"topic {name} has {partitions} partitions now, it had {before}")


@app.command(epilog=example("chronik topic delete orders --yes"))
def delete(
    names: Annotated[list[str], typer.Argument(metavar="TOPIC...")],
    yes: Yes = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Delete topics and all their messages."""
    cluster = ClusterAdmin(bootstrap)
    topics = [cluster.topic(name) for name in dict.fromkeys(names)]
    if not yes:
        _confirm(cluster, topics)
    for topic in topics:
        cluster.delete_topic(topic.name)
        if not as_json:
            print_line(f"deleted topic {topic.name}")
    if as_json:
        print_json({"deleted": [topic.name for topic in topics]})


def _confirm(cluster: ClusterAdmin, topics: list[TopicState]) -> None:
    if not sys.stdin.isatty():
        raise ChronikError("nothing deleted: there is no terminal to ask", "say --yes")
    for topic in topics:
        keys = [(topic.name, partition.partition) for partition in topic.partitions]
        starts, ends = cluster.start_offsets(keys), cluster.end_offsets(keys)
        print_note(f"{topic.name}: {counted(len(keys), 'partition')}, {messages(starts, ends)}")
    if not is_confirmed("Delete for good?"):
        print_note("nothing deleted")
        raise typer.Exit(1)


def _refuse_unknown(cluster: ClusterAdmin, name: str, keys: list[str]) -> None:
    """Kafka takes the deletion of a setting that does not exist as done; a typing error should not look like success.
    Other Kafkas have settings that we have not, so the cluster is asked for the names."""
    known = cluster.configs(name)
    for key in keys:
        if key not in known:
            raise suggest.unknown("topic config", key, known, f"`chronik topic describe {name} --all` lists the names")


def _alter_config(cluster: ClusterAdmin, name: str, settings: dict[str, str | None]) -> None:
    try:
        cluster.alter_topic_configs(name, settings)
    except RefusedByNode as refused:
        raise _better(refused, settings) from None


def _better(refused: RefusedByNode, settings: dict[str, str | None]) -> ChronikError:
    """A refusal over settings becomes the name of the wrong one and its nearest right name, where that is the cause."""
    from confluent_kafka import KafkaError

    if refused.code not in (KafkaError.INVALID_CONFIG, KafkaError.INVALID_REQUEST):
        return refused
    return suggest.unknown_topic_config(settings) or refused


def _as_json(topic: TopicState) -> dict[str, Any]:
    return {"topic": topic.name, "partitions": len(topic.partitions), "replication": topic.replication}
