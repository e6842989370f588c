"""`chronik trace`: switch the trace on and off, see how it is, and follow it live."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import console, print_json, print_line, print_note, print_table
from chronik.client.connecting import complete_topic, parse_addresses
from chronik.client.errors import ChronikError
from chronik.shell.interrupts import Interrupts

if TYPE_CHECKING:
    from chronik.trace.events import AnyEvent
    from chronik.trace.inspections import Traces

app = typer.Typer(
    name="trace", help="See what happens to messages, step by step: switch the trace on, and follow it.",
    no_args_is_help=True,
)  # fmt: skip

POLL_S = 0.25
LOOK_TIMEOUT_S = 5.0

OneTopic = Annotated[
    str | None, typer.Option("--topic", "-t", metavar="TOPIC", autocompletion=complete_topic, help="Only this topic.")
]
Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC", autocompletion=complete_topic, help="Only this topic; repeat for more."
    ),
]


@app.command(epilog=example("chronik trace on", "chronik trace on --topic orders"))
def on(topic: OneTopic = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Trace every topic, or one, on all nodes from now on. It is a setting of the cluster: it survives restarts."""
    _switch(topic, bootstrap, as_json, is_on=True)


@app.command(epilog=example("chronik trace off", "chronik trace off --topic orders"))
def off(topic: OneTopic = None, bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Stop tracing every topic, or one. What was traced stays where it is."""
    _switch(topic, bootstrap, as_json, is_on=False)


def _switch(topic: str | None, bootstrap: str, as_json: bool, *, is_on: bool) -> None:
    from chronik.client import trace_switch as switch
    from chronik.client.inspect_request import cluster
    from chronik.client.trace_switch import plain_looks

    addresses = parse_addresses(bootstrap)
    otherwise: list[str] = []
    with plain_looks(bootstrap):
        cluster(addresses, LOOK_TIMEOUT_S)  # nothing is set on a cluster that would not know what it means
        if topic is None:
            by_node, otherwise = switch.switch_all(addresses, is_on=is_on)
        else:
            by_node = switch.switch_topic(addresses, bootstrap, topic, is_on=is_on)
    if as_json:
        print_json(
            {"topic": topic, "on": is_on, "nodes": list(by_node), "silent": by_node.silent, "taken_back": otherwise}
        )
        return
    what = "every topic" if topic is None else f"topic {topic}"
    state = "on" if is_on else "off"
    print_line(f"tracing is {state} for {what}, on {_nodes(by_node)}")
    if otherwise:
        print_line(f"also for {', '.join(otherwise)}, of which something else was said before")
    _print_silent(by_node.silent)
    if is_on:
        print_line(f"follow it with `chronik trace tail{'' if topic is None else f' --topic {topic}'}`")


@app.command(epilog=example("chronik trace status", "chronik trace status --json"))
def status(bootstrap: Bootstrap = DEFAULT_BOOTSTRAP, as_json: AsJson = False) -> None:
    """Show which topics are traced, and how many events each node has of them."""
    from chronik.client.trace_switch import how_it_is, plain_looks

    with plain_looks(bootstrap):
        by_node = how_it_is(parse_addresses(bootstrap))
    if as_json:
        print_json({"nodes": [_status_row(node_id, seen.traces) for node_id, seen in by_node.items()],
                    "silent": by_node.silent})  # fmt: skip
        return
    words = list(dict.fromkeys(_traced(seen.traces) for seen in by_node.values()))
    print_line(f"traced: {words[0]}" if len(words) == 1 else "the nodes do not agree on what is traced (yet)")
    rows = [(str(node_id), _traced(seen.traces), seen.traces.added, seen.traces.kept, seen.traces.is_stored)
            for node_id, seen in by_node.items()]  # fmt: skip
    print_table(["node", "traced", "events", "in memory", "stored"], rows)
    _print_silent(by_node.silent)
    if not any(seen.traces.is_on for seen in by_node.values()):
        print_line("switch it on with `chronik trace on`")


def _status_row(node_id: int, traces: Traces) -> dict[str, Any]:
    return {
        "node": node_id,
        "on": traces.is_on,
        "all_topics": traces.is_all,
        "exceptions": list(traces.exceptions),
        "events": traces.added,
        "in_memory": traces.kept,
        "stored": traces.is_stored,
    }


def _traced(traces: Traces) -> str:
    if traces.is_all:
        return "every topic" + (f" but {', '.join(traces.exceptions)}" if traces.exceptions else "")
    return ", ".join(traces.exceptions) or "nothing"


def _nodes(node_ids: Iterable[int]) -> str:
    ids = [str(node_id) for node_id in node_ids]
    return f"node{'s' if len(ids) > 1 else ''} {', '.join(ids)}"


def _print_silent(silent: dict[int, str]) -> None:
    for node_id, reason in silent.items():
        print_note(f"node {node_id} does not answer, and hears of it when it is back: {reason}")


# --- following


@app.command(
    epilog=example(
        "chronik trace tail",
        "chronik trace tail --topic orders --kind refused --kind leader_changed",
        "chronik trace tail --last 1000 --no-follow --json",
    )
)
def tail(
    topic: Topics = None,
    kind: Annotated[
        list[str] | None, typer.Option(metavar="KIND", help="Only this kind of event; repeat for more.")
    ] = None,
    last: Annotated[int, typer.Option("--last", "-n", min=0, max=5000, metavar="N", help="Begin so far back.")] = 10,
    state: Annotated[
        bool, typer.Option("--state", help="Also how partitions and groups stand, once a second.")
    ] = False,
    follow: Annotated[bool, typer.Option(help="Go on with what comes.")] = True,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: Annotated[bool, typer.Option("--json", help="One JSON object a line, as the trace topic has it.")] = False,
) -> None:
    """Follow what all nodes trace, live: produced, replicated, fetched, refused, led and committed.

    Events of groups are of no topic, and are shown whatever topics are asked for."""
    kinds = _kinds(kind, has_state=state)
    interrupts = Interrupts()
    interrupts.listen()
    from chronik.inspect.event_follower import EventFollower

    follower = EventFollower(parse_addresses(bootstrap), bootstrap, topic, kinds, _printer(as_json), print_note)
    follower.begin(last)
    while follow and not interrupts.is_ending:
        if not follower.step():
            time.sleep(POLL_S)


def _kinds(asked: list[str] | None, *, has_state: bool) -> list[str]:
    """What is shown. Newer nodes may know more kinds: they are not asked for them."""
    from chronik.inspect.event_lines import KINDS, STATE_KINDS

    for kind in asked or []:
        if kind not in KINDS:
            raise ChronikError(f"there is no kind {kind}", f"there are {', '.join(KINDS)}")
    return [kind for kind in KINDS if (kind in asked if asked else has_state or kind not in STATE_KINDS)]


def _printer(as_json: bool) -> Callable[[Sequence[AnyEvent]], None]:
    if as_json:
        from chronik.trace.lines import to_lines

        def print_as_json(events: Sequence[AnyEvent]) -> None:
            for event in events:
                sys.stdout.write(to_lines([event]).decode())
            sys.stdout.flush()

        return print_as_json
    from rich.text import Text

    from chronik.inspect import event_lines as lines

    shown = console()

    def print_for_people(events: Sequence[AnyEvent]) -> None:
        for event in events:
            line = lines.line_of(event)
            text = Text()
            text.append(f"{lines.clock_time(event.at_us)}  node {event.node}  ", style="dim")
            text.append(f"{line.subject:<14}  ", style="bold")
            text.append(f"{line.verb:<11}  ", style=line.style)
            text.append(line.words, style="dim" if line.style == lines.STANDING else "")
            shown.print(text, soft_wrap=True)
        sys.stdout.flush()

    return print_for_people
