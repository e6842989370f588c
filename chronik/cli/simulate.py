"""`chronik simulate`: run whole nodes through bad days in memory, and repeat any of them by its seed."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Sequence
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from chronik.cli.options import AsJson, example
from chronik.cli.output import counted, print_json, print_line, print_note, progress

if TYPE_CHECKING:
    from chronik.sim.run import WorldOutcome

EXAMPLE = example(
    "chronik simulate --seeds 200", "chronik simulate --seeds 200 --from 200", "chronik simulate --seed 17"
)
EXIT_BROKEN = 1


def simulate(
    seeds: Annotated[int, typer.Option("--seeds", min=1, metavar="N", help="How many worlds.")] = 100,
    first: Annotated[int, typer.Option("--from", min=0, metavar="S", help="The seed of the first of them.")] = 0,
    seed: Annotated[
        int | None, typer.Option("--seed", min=0, metavar="S", help="This world only, with its whole story.")
    ] = None,
    seconds: Annotated[
        float | None,
        typer.Option("--seconds", min=1.0, metavar="T", help="Simulated seconds of load and faults in a world."),
    ] = None,
    nodes: Annotated[
        int | None,
        typer.Option("--nodes", min=1, max=9, metavar="N", help="Nodes in each world; else the seed has its say."),
    ] = None,
    jobs: Annotated[
        int | None, typer.Option("--jobs", min=1, metavar="N", help="Worlds at one time; by default one a core.")
    ] = None,
    with_coverage: Annotated[
        bool, typer.Option("--coverage", help="Print which fault met which state how often.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Run nodes in simulated worlds with crashes, power cuts, failing disks and networks, and check every promise."""
    wanted = range(first, first + seeds) if seed is None else range(seed, seed + 1)
    started = time.monotonic()
    outcomes = _run(wanted, seconds, nodes, jobs, is_bar_wanted=not as_json, is_whole_story_kept=seed is not None)
    broken = next((outcome for outcome in outcomes if outcome.broken is not None), None)
    if as_json:
        outcome_lines = {"worlds": len(outcomes), "broken": broken is not None, "last": asdict(outcomes[-1])}
        print_json(outcome_lines | _coverage(outcomes) if with_coverage else outcome_lines)
    elif broken is not None:
        options = {"--nodes": nodes, "--seconds": seconds}
        _tell(broken, "".join(f" {name} {value:g}" for name, value in options.items() if value is not None))
    else:
        _sum_up(outcomes, time.monotonic() - started, is_story_wanted=seed is not None)
    if with_coverage and not as_json:
        _show_coverage(outcomes)
    if broken is not None:
        raise typer.Exit(EXIT_BROKEN)


def _run(
    seeds: Sequence[int],
    seconds: float | None,
    nodes: int | None,
    jobs: int | None,
    *,
    is_bar_wanted: bool,
    is_whole_story_kept: bool,
) -> list[WorldOutcome]:
    """In the order of their seeds, until a promise is broken."""
    from chronik.sim.many import cores, run_many
    from chronik.sim.run import run_seed

    if is_whole_story_kept:
        return [run_seed(seed, seconds, nodes, is_whole_story_kept=True) for seed in seeds]
    outcomes: list[WorldOutcome] = []
    with (
        progress("Worlds", len(seeds), unit="worlds", is_wanted=is_bar_wanted) as advance,
        contextlib.closing(run_many(seeds, seconds, nodes, jobs or cores())) as outcome_lines,
    ):
        for outcome in outcome_lines:
            outcomes.append(outcome)
            advance(1)
            if outcome.broken is not None:
                break
    return outcomes


def _coverage(outcomes: list[WorldOutcome]) -> dict[str, object]:
    from chronik.sim.coverage import never_met, summed, unreached

    table = summed(outcome.met for outcome in outcomes)
    return {"coverage": table, "never_met": never_met(table), "unreached": unreached(table)}


def _show_coverage(outcomes: list[WorldOutcome]) -> None:
    """A table with a row for each fault; what never met stands out, and is named below."""
    from chronik.sim.coverage import ANY, STATES, never_met, summed, unreached

    table = summed(outcome.met for outcome in outcomes)
    states, fault_width = (ANY, *STATES), max(map(len, table))
    print_line(f"{'fault':<{fault_width}}  " + "  ".join(states))
    for fault, row in table.items():
        cells = "  ".join(f"{row[state] or '-':>{len(state)}}" for state in states)
        print_line(f"{fault:<{fault_width}}  {cells}")
    for fault in table:
        missed = [state for missing, state in never_met(table) if missing == fault]
        if missed == [ANY]:
            print_line(f"{fault} never happened")
        elif missed:
            print_line(f"{fault} never met: {', '.join(missed)}")
    if unreached(table):
        print_line(f"states that no fault met: {', '.join(unreached(table))}")


def _tell(broken: WorldOutcome, options: str) -> None:
    for line in broken.story:
        print_line(line)
    print_note(f"seed {broken.seed}: {broken.broken}")
    print_note(f"again: chronik simulate --seed {broken.seed}{options}")


def _sum_up(outcomes: list[WorldOutcome], took_s: float, *, is_story_wanted: bool) -> None:
    if is_story_wanted:
        for line in outcomes[-1].story:
            print_line(line)
        print_line(f"trace {outcomes[-1].trace_hash}")
    faults = sum(sum(outcome.faults.values()) for outcome in outcomes)
    promised = sum(outcome.promised for outcome in outcomes)
    simulated_s = sum(outcome.simulated_seconds for outcome in outcomes)
    print_line(
        f"{counted(len(outcomes), 'world')}, {simulated_s:,.0f} simulated seconds in {took_s:,.1f}: "
        f"{counted(faults, 'fault')}, {counted(promised, 'acknowledged record')}, no promise broken"
    )
