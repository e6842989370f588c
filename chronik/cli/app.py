"""The whole command line as one typer application: every command, its help and the shell's completion."""

from __future__ import annotations

from typing import Annotated

import typer

from chronik import __version__
from chronik.cli import acl, bench, consume, lab, produce, quota, simulate, stalls, topic, transaction, user, where
from chronik.cli.cluster import commands as cluster
from chronik.cli.console import command as console
from chronik.cli.group import commands as group
from chronik.cli.pipeline import commands as pipeline
from chronik.cli.security_options import add_security_options
from chronik.cli.serve import command as serve
from chronik.cli.trace import command as trace
from chronik.cli.verify import command as verify
from chronik.cli.watch import command as watch

app = typer.Typer(
    name="chronik",
    help="Chronik: a Kafka-compatible event log that can tell where every message is.",
    epilog="[bold]Start here[/bold]\n\n  chronik serve\n\n  chronik topic create orders --partitions 3\n\n"
    "  echo hello | chronik produce orders\n\n  chronik consume orders --from-beginning --max-messages 1",
    rich_markup_mode="rich",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)
app.command("serve", epilog=serve.EXAMPLE)(serve.serve)
app.add_typer(cluster.app)
app.add_typer(topic.app)
app.add_typer(group.app)
app.add_typer(transaction.app)
app.add_typer(user.app)
app.add_typer(acl.app)
app.add_typer(quota.app)
app.command("produce", epilog=produce.EXAMPLE)(produce.produce)
app.command("consume", epilog=consume.EXAMPLE)(consume.consume)
app.command("console", epilog=console.EXAMPLE)(console.console)
app.command("watch", epilog=watch.EXAMPLE)(watch.watch)
app.command("stalls", epilog=stalls.EXAMPLE)(stalls.stalls)
app.add_typer(trace.app)
app.command("where", epilog=where.EXAMPLE)(where.where)
app.add_typer(verify.app)
app.command("lab", epilog=lab.EXAMPLE)(lab.lab)
app.add_typer(pipeline.app)
app.command("simulate", epilog=simulate.EXAMPLE)(simulate.simulate)
app.command("bench", epilog=bench.EXAMPLE, context_settings=bench.CONTEXT)(bench.bench)
add_security_options(app)


def _print_version(is_asked: bool) -> None:
    if is_asked:
        print(f"chronik {__version__}")
        raise typer.Exit


@app.callback()
def _root(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and end.")
    ] = False,
) -> None:
    """Chronik: a Kafka-compatible event log that can tell where every message is."""
