"""Where the `chronik` command begins, and the one place where its errors are printed.

A plain `chronik serve` takes a short way that imports neither typer nor rich: a node is to acknowledge its first
message within half a second of being started. All else, also `serve --help` and mistakes, goes through typer.
"""

from __future__ import annotations

import os
import sys

from chronik.cli.errors import CliError

EXIT_BAD_INPUT = 2


def main() -> int:
    try:
        return _dispatch(sys.argv[1:])
    except CliError as error:
        _print_error(error)
        return EXIT_BAD_INPUT


def _dispatch(arguments: list[str]) -> int:
    if arguments[:1] == ["serve"] and "_CHRONIK_COMPLETE" not in os.environ:
        from chronik.cli import serve

        request = serve.read_plainly(arguments[1:])
        if request is not None:
            return serve.start(request)
    from chronik.cli.app import app

    app(prog_name="chronik")  # ends in SystemExit
    return 0


def _print_error(error: CliError) -> None:
    label = "error:"
    if sys.stderr.isatty() and "NO_COLOR" not in os.environ:
        label = f"\x1b[1;31m{label}\x1b[0m"
    print(f"{label} {error}", file=sys.stderr)
