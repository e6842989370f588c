"""The options that many commands share, declared once so that they look the same everywhere."""

from __future__ import annotations

from typing import Annotated

import typer

from chronik.client.connecting import DEFAULT_BOOTSTRAP, complete_topic

__all__ = ["DEFAULT_BOOTSTRAP", "AsJson", "Bootstrap", "DryRun", "TopicName", "Yes"]

Bootstrap = Annotated[
    str,
    typer.Option(
        "--bootstrap",
        "-b",
        envvar="CHRONIK_BOOTSTRAP",
        metavar="HOST:PORT",
        help="Any node of the cluster, or several with commas.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON, and nothing else, on standard output.")]
TopicName = Annotated[str, typer.Argument(metavar="TOPIC", autocompletion=complete_topic)]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Say what would be done, and do nothing.")]
Yes = Annotated[bool, typer.Option("--yes", "-y", help="Do not ask.")]


def example(*lines: str) -> str:
    """The epilog of a command's help: commands that can be pasted."""
    return "\n\n".join(
        ["[bold]Example[/bold]" if len(lines) == 1 else "[bold]Examples[/bold]", *(f"  {line}" for line in lines)]
    )
