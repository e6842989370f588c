"""`chronik stalls`: what stalls now, and why."""

from __future__ import annotations

import sys
import time
from collections.abc import Callable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from chronik.cli.options import DEFAULT_BOOTSTRAP, AsJson, Bootstrap, example
from chronik.cli.output import console, counted, print_json, print_line, print_note, progress
from chronik.client.connecting import complete_topic, parse_addresses

if TYPE_CHECKING:
    from chronik.inspect.trace_history import TraceHistory
    from chronik.trace.verdicts import Verdict

EXAMPLE = example("chronik stalls", "chronik stalls --topic orders --seconds 20", "chronik stalls --json")
EXIT_STALLS = 1
LOOK_EVERY_S = 1.0
LOOK_TIMEOUT_S = 5.0
NAMED_MAX = 8  # partitions of one and the same stall

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topic", "-t", metavar="TOPIC", autocompletion=complete_topic, help="Only this topic; repeat for more."
    ),
]


def stalls(
    topic: Topics = None,
    seconds: Annotated[
        float, typer.Option("--seconds", min=0.0, metavar="T", help="How long to watch before judging.")
    ] = 6.0,
    bootstrap: Bootstrap = DEFAULT_BOOTSTRAP,
    as_json: AsJson = False,
) -> None:
    """Find out what stalls now and why: which follower, fetch, client or group, with the evidence and what to do.

    Ends with 0 when no stall is seen, with 1 when one is. It knows most where tracing is on (chronik trace on).
    """
    from chronik.client.inspect_request import cluster
    from chronik.client.trace_switch import plain_looks
    from chronik.inspect.trace_history import TraceHistory
    from chronik.trace.stalls import find

    addresses = parse_addresses(bootstrap)
    with plain_looks(bootstrap):
        known = cluster(addresses, LOOK_TIMEOUT_S)
        everyone = [*addresses, *((node.host, node.port) for node in known.nodes)]
        gathering = TraceHistory(list(dict.fromkeys(everyone)), topic)
        with progress("Watching", max(round(seconds), 1), unit="seconds", is_wanted=not as_json) as advance:
            events, now_us = _watch(gathering, seconds, advance)
    verdicts = find(events, now_us)
    if as_json:
        print_json(_as_json(verdicts, gathering, now_us, seconds))
    else:
        tell(verdicts, gathering, seconds)
    if verdicts:
        raise typer.Exit(EXIT_STALLS)


def _watch(gathering: TraceHistory, seconds: float, advance: Callable[[int], None]) -> tuple[list[Any], int]:
    """Looks from the first to the last moment: what stood still in both has stood still for so long."""
    began_s = time.monotonic()
    found = gathering.look(LOOK_TIMEOUT_S)
    shown = 0
    while (left_s := began_s + seconds - time.monotonic()) > 0:
        time.sleep(min(LOOK_EVERY_S, left_s))
        found = gathering.look(LOOK_TIMEOUT_S)
        passed = int(time.monotonic() - began_s)
        advance(passed - shown)
        shown = passed
    return found


def _as_json(verdicts: list[Verdict], gathering: TraceHistory, now_us: int, seconds: float) -> dict[str, Any]:
    import msgspec

    return {
        "stalls": msgspec.to_builtins(verdicts),
        "seconds": seconds,
        "now_us": now_us,
        "nodes": list(gathering.states),
        "silent": {str(node): reason for node, reason in gathering.silent.items()},
        "unheard": sorted(gathering.unheard),
        "cut_off": gathering.cut_off,
        "untraced": gathering.untraced,
        "events_lost": gathering.lost,
        "known_seconds": gathering.known_s,
        "partitions": sum(len(state.partitions) for state in gathering.states.values()),
        "groups": sum(len(state.groups) for state in gathering.states.values()),
    }


# --- for people


def tell(verdicts: list[Verdict], gathering: TraceHistory, seconds: float) -> None:
    from chronik.trace.verdicts import together

    for number, alike in enumerate(together(verdicts)):
        if number:
            print_line()
        tell_one(alike)
    if not verdicts:
        partitions = sum(len(state.partitions) for state in gathering.states.values())
        groups = sum(len(state.groups) for state in gathering.states.values())
        print_line(
            f"{nothing(gathering)}: {counted(len(gathering.states), 'node')}, {counted(partitions, 'partition')} and "
            f"{counted(groups, 'group')} watched for {seconds:g} s"
        )
    _tell_what_is_unknown(gathering)


def nothing(gathering: TraceHistory) -> str:
    from chronik.trace.stalls import Limits

    is_too_little = gathering.known_s is not None and gathering.known_s * 1000 < Limits().stand_still_ms
    is_incomplete = bool(gathering.silent or gathering.unheard or gathering.cut_off) or not gathering.states
    if is_too_little or is_incomplete:
        return "no stall is seen, and too little is known to say that there is none"
    return "nothing stalls"


def tell_one(alike: list[Verdict], when: str | None = None) -> None:
    """One stall, of as many partitions as are alike in it."""
    from rich.padding import Padding
    from rich.text import Text

    out = console()
    first = alike[0]
    style = "bold red" if sys.stdout.isatty() else ""
    out.print(Text(first.cause.upper(), style), Text(first.summary))
    if when is not None:
        out.print(Padding(Text(when), (0, 0, 0, 2), expand=False))
    others = [f"{each.topic}:{each.partition}" for each in alike[1:]]
    if others:
        more = f" and {len(others) - NAMED_MAX:,} more" if len(others) > NAMED_MAX else ""
        out.print(Padding(Text(f"so it is with {', '.join(others[:NAMED_MAX])}{more}"), (0, 0, 0, 2), expand=False))
    for line in first.evidence:
        out.print(Padding(Text(f"- {line}"), (0, 0, 0, 2), expand=False))
    out.print(Padding(Text(f"What to do: {first.advice}"), (0, 0, 0, 2), expand=False))


def _tell_what_is_unknown(gathering: TraceHistory) -> None:
    if gathering.untraced:
        named = ", ".join(gathering.untraced[:NAMED_MAX])
        more = f" and {len(gathering.untraced) - NAMED_MAX:,} more" if len(gathering.untraced) > NAMED_MAX else ""
        print_note(
            f"not traced: {named}{more}. Of these only watermarks and groups can be judged, not what clients ask and "
            "get; `chronik trace on` changes that"
        )
    for node, reason in gathering.silent.items():
        print_note(f"node {node} could not be asked: {reason}. What stalls there is not known")
    for node in gathering.cut_off:
        print_note(f"node {node} is not in touch with the cluster: what it says may be old")
    for node in sorted(gathering.unheard - gathering.silent.keys()):
        print_note(f"node {node} did not tell what clients did: of what it leads, only watermarks can be judged")
    from chronik.trace.stalls import Limits

    if gathering.known_s is not None and gathering.known_s * 1000 < Limits().longest_ms:
        print_note(
            f"what clients did is known for the last {gathering.known_s:.1f} s only: more happens than can be kept. "
            "What takes longer to be called a stall cannot be seen; --topic keeps to what matters"
        )
    if gathering.lost:
        print_note(f"{counted(gathering.lost, 'event')} came faster than they could be read: some of it is not known")
