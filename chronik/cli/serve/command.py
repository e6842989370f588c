"""`chronik serve` as typer sees it: its help, its completion, and what is wrong with arguments that are not plain."""

from __future__ import annotations

from typing import Annotated

import typer

from chronik.cli.options import example
from chronik.cli.serve.plain import SETTING_OF_OPTION, ServeRequest, start
from chronik.cli.values import parse_pairs

EXAMPLE = example(
    "chronik serve",
    "chronik serve --listen 0.0.0.0:9092 --advertise kafka.example:9092 --set num.partitions=3",
    "chronik serve --config secured.properties --add-user admin=@admin.password",
)


def serve(
    config: Annotated[
        str | None, typer.Option("--config", metavar="FILE", help="Settings in TOML, or Kafka's own server.properties.")
    ] = None,
    set_: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="One setting, under Kafka's name; repeat for more."),
    ] = None,
    node_id: Annotated[
        int | None,
        typer.Option("--node-id", min=0, metavar="N", help="This node's number in the cluster.", show_default="1"),
    ] = None,
    listen: Annotated[
        str | None,
        typer.Option("--listen", metavar="HOST:PORT", help="Where clients connect.", show_default="127.0.0.1:9092"),
    ] = None,
    advertise: Annotated[
        str | None,
        typer.Option("--advertise", metavar="HOST:PORT", help="The address that clients are given, if it is another."),
    ] = None,
    data_dir: Annotated[
        str | None,
        typer.Option("--data-dir", metavar="DIR", help="Where messages are kept.", show_default="./chronik-data"),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option("--http", metavar="HOST:PORT", help="Metrics and health.", show_default="127.0.0.1:9644"),
    ] = None,
    add_user: Annotated[
        list[str] | None,
        typer.Option(
            "--add-user",
            metavar="NAME[=@FILE]",
            help="A user to make at the first start, for SCRAM: the password is in FILE, in CHRONIK_USER_PASSWORD, or"
            " asked for. NAME=PASSWORD is seen in the process list. Repeatable.",
        ),
    ] = None,
    add_scram: Annotated[
        list[str] | None,
        typer.Option(
            "--add-scram",
            metavar="SPEC",
            help="The same, as Kafka's kafka-storage writes it: SCRAM-SHA-512=[name=alice,password=...].",
        ),
    ] = None,
) -> None:
    """Run a node until Ctrl-C. With no arguments it just works."""
    values = parse_pairs("--set", set_ or [])
    given = {"--node-id": node_id, "--listen": listen, "--advertise": advertise, "--data-dir": data_dir, "--http": http}
    values |= {SETTING_OF_OPTION[option]: str(value) for option, value in given.items() if value is not None}
    raise typer.Exit(start(ServeRequest(values, config, add_user or [], add_scram or [])))
