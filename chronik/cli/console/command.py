"""`chronik console`: serves the web console, until Ctrl-C."""

from __future__ import annotations

import os
import signal
import sys
import threading
import webbrowser
from typing import Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import print_json, print_line, print_note
from chronik.client.connecting import parse_addresses
from chronik.client.errors import ChronikError

EXAMPLE = example(
    "chronik console", "chronik console --bootstrap kafka-1:9092,kafka-2:9092 --open", "chronik console --read-only"
)
DEFAULT_PORT = 9640


def console(
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    host: Annotated[
        str, typer.Option(metavar="HOST", help="The address to listen on. There are no logins yet: keep it local.")
    ] = "127.0.0.1",
    port: Annotated[
        int | None,
        typer.Option(min=0, max=65_535, metavar="P", help="0 for a free one.", show_default=str(DEFAULT_PORT)),
    ] = None,
    read_only: Annotated[bool, typer.Option("--read-only", help="Show everything, change nothing.")] = False,
    open_: Annotated[bool, typer.Option("--open", help="Open it in a browser.")] = False,
    allow_host: Annotated[
        list[str] | None, typer.Option(metavar="NAME", help="A further name that it goes by; repeat for more.")
    ] = None,
    search_rate: Annotated[
        float, typer.Option(min=0.1, max=10_000, metavar="MB/S", help="How fast searches may read, in all.")
    ] = 20.0,
    until_stdin_ends: Annotated[
        bool, typer.Option("--until-stdin-ends", help="End when standard input does.", hidden=True)
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Show a cluster in a browser: topics, messages and each one's story, groups, and what stalls. Of any Kafka."""
    parse_addresses(bootstrap)  # what is no address is refused now, not in the browser
    from chronik.console.server import ConsoleSettings, listen, serve

    try:
        listening = listen(host, DEFAULT_PORT if port is None else port)
    except OSError as problem:
        raise ChronikError(
            f"{host}:{DEFAULT_PORT if port is None else port} cannot be listened on: {problem.strerror or problem}",
            "give another --port, or 0 for a free one",
        ) from None
    with listening:
        found = listening.getsockname()[1]
        url = f"http://{f'[{host}]' if ':' in host else host}:{found}/"
        if as_json:
            print_json({"url": url, "bootstrap": bootstrap, "read_only": read_only})
        else:
            print_line(f"console: {url}")
            print_note("Ctrl-C ends it")
        if open_:
            webbrowser.open(url)
        if until_stdin_ends:
            threading.Thread(target=_end_with_stdin, daemon=True).start()
        serve(
            ConsoleSettings(bootstrap, host, tuple(allow_host or ()), read_only, round(search_rate * 1_000_000)),
            listening,
        )


def _end_with_stdin() -> None:
    """What started this holds the other end of the pipe: however it ends, so does this."""
    sys.stdin.buffer.read()
    os.kill(os.getpid(), signal.SIGTERM)
