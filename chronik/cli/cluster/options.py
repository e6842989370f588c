"""What the `chronik cluster` commands have in common."""

from __future__ import annotations

from typing import Annotated

import typer

DEFAULT_DIRECTORY = "chronik-cluster"

DataDir = Annotated[str, typer.Option("--data-dir", metavar="DIR", help="The cluster's directory.")]
NodeNumber = Annotated[int, typer.Argument(metavar="N", help="The node's number.")]
