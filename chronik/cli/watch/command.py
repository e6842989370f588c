"""`chronik watch`: a live view of a cluster's partitions, groups and stalls.

textual takes a fifth of a second to load and msgspec a twentieth: they are imported when the command runs.
"""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import console, print_json
from chronik.client.connecting import complete_topic, no_answer, parse_addresses
from chronik.client.errors import ChronikError

if TYPE_CHECKING:
    from chronik.inspect.live_model import LiveView
    from chronik.inspect.poller import Eye

EXAMPLE = example("chronik watch", "chronik watch --topic orders", "chronik watch --once --json")


def watch(
    topics: Annotated[
        list[str] | None,
        typer.Option(
            "--topic", "-t", metavar="TOPIC", autocompletion=complete_topic, help="Only this topic (repeatable)."
        ),
    ] = None,
    interval: Annotated[float, typer.Option(min=0.1, max=3600.0, metavar="SECONDS", help="How often to look.")] = 1.0,
    once: Annotated[bool, typer.Option("--once", help="Print one table and end; rates are of one interval.")] = False,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Watch a cluster live: offsets, gaps, in-sync sets, lags and rates of every partition, groups, and what stalls.

    In the view, ? shows the keys. With --json one look is printed, as with --once.
    """
    is_live = not (once or as_json)
    if is_live and not (sys.stdin.isatty() and sys.stdout.isatty()):
        raise ChronikError("there is no terminal to draw on", "say --once or --json")
    from chronik.inspect.live_source import Looker
    from chronik.inspect.poller import Eye

    eye = Eye(Looker(parse_addresses(bootstrap), topics or ()), interval)
    first = _first_view(eye, bootstrap)
    _refuse_unknown_topics(topics or [], first, bootstrap)
    if is_live:
        _show_live(bootstrap, first, eye)
        return
    eye.pause()
    second = _first_view(eye, bootstrap)
    if as_json:
        from chronik.inspect.live_json import as_json as written

        print_json(written(second))
    else:
        from chronik.cli.watch.report import print_view

        print_view(second, console())


def _first_view(eye: Eye, bootstrap: str) -> LiveView:
    """One look, or the error of a command: only a view that is open waits for a cluster to come back."""
    from chronik.client.inspect_request import NotChronik
    from chronik.inspect.poller import Away, Broken

    match eye.see():
        case Broken(error):
            raise error
        case Away(NotChronik() as problem):
            raise ChronikError(
                str(problem), "watch asks what only chronik tells; `chronik topic describe` works with any Kafka"
            )
        case Away():
            raise no_answer(bootstrap)
        case view:
            return view


def _refuse_unknown_topics(topics: list[str], view: LiveView, bootstrap: str) -> None:
    missing = [topic for topic in topics if topic not in {row.topic for row in view.rows}]
    if missing:
        from chronik.client.admin import ClusterAdmin

        raise ClusterAdmin(bootstrap).unknown_topic(missing[0], "`chronik topic list` lists the topics")


def _show_live(bootstrap: str, first: LiveView, eye: Eye) -> None:
    from chronik.cli.watch.app import WatchApp

    app = WatchApp(bootstrap, first, eye)
    app.run()
    if app.fault is not None:
        raise app.fault
