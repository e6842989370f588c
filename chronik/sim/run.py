"""One seed from beginning to end: set up, load with faults, heal, all finish, a last power cut, and the audit."""

from __future__ import annotations

import asyncio
import contextlib
import gc
import logging
import warnings
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

from chronik.sim.client import SimClient
from chronik.sim.coverage import Table
from chronik.sim.faults import Faults
from chronik.sim.loop import SimProcess, SpinError
from chronik.sim.replay import check_replay
from chronik.sim.story import Violation
from chronik.sim.wholeness import check_lossy_copies, wait_until_whole
from chronik.sim.world import NodeLog, World

SET_UP_S = 30.0
FINISH_S = 60.0  # after the last fault all clients must be done within this


@dataclass(frozen=True, slots=True)
class WorldOutcome:
    """What a seed led to."""

    seed: int
    node_count: int
    trace_hash: str
    events: int
    simulated_seconds: float
    promised: int  # records acknowledged for ever
    faults: dict[str, int]
    met: Table  # which fault met which state how often
    broken: str | None
    story: list[str]


def run_seed(
    seed: int, seconds: float | None = None, node_count: int | None = None, *, is_whole_story_kept: bool = False
) -> WorldOutcome:
    """Everything that happens follows from the seed, and from what else is given."""
    gc.disable()  # when something is collected must not matter, and worlds are small
    _keep_modules()
    world = World(seed, seconds, node_count, is_whole_story_kept=is_whole_story_kept)
    try:
        return run_world(world)
    finally:
        gc.enable()
        with warnings.catch_warnings():  # of what was killed before it began
            warnings.simplefilter("ignore", RuntimeWarning)
            del world
            gc.collect()


@cache
def _keep_modules() -> None:
    """What is there before the first world stays: without this each world's collection would go through it, which
    took a tenth of all time."""
    gc.freeze()


def run_world(world: World) -> WorldOutcome:
    """The whole history of a world, which is of no use afterwards."""
    faults, main, story = Faults(world), SimProcess("main"), world.story
    try:
        with _logged(world):
            _run(world, main, faults)
    finally:
        _end(world, main)
    promised = sum(len(known.promised) for known in world.judge.partitions.values())
    return WorldOutcome(
        world.seed,
        world.node_count,
        story.trace_hash(),
        story.events,
        world.loop.time(),
        promised,
        dict(faults.counts),
        world.coverage.table,
        story.broken,
        story.last(),
    )


def _run(world: World, main: SimProcess, faults: Faults) -> None:
    loop, story = world.loop, world.story
    task = loop.create_task(_history(world, faults), name="history", context=main.context)
    story.on_broken = loop.stop
    loop.set_exception_handler(lambda _, context: _uncaught(world, context))
    task.add_done_callback(lambda _: loop.stop())
    try:
        loop.run_forever()
    except (SpinError, Violation) as problem:
        story.break_promise(str(problem))
    if story.broken is None and task.done() and task.exception() is not None:
        story.break_promise(repr(task.exception()))


def _uncaught(world: World, context: dict[str, Any]) -> None:
    problem = context.get("exception")
    if not isinstance(problem, Violation):
        world.story.break_promise(f"{context.get('message')}: {problem!r}")


async def _history(world: World, faults: Faults) -> None:
    for host in world.hosts:
        host.start()
    await _finish(world, [world.admin()], SET_UP_S)
    working = world.populate()
    tasks = {client: world.set_to_work(client) for client in working}
    await faults.run(world.seconds)
    faults.heal()
    for client in working:
        client.make_haste()
    await _finished(world, tasks, FINISH_S)
    await _finish(world, world.auditors(1), FINISH_S)
    await wait_until_whole(world, FINISH_S)
    check_lossy_copies(world)
    world.cleaned.check_copies(world)
    await world.idle_time.pass_by(world)
    world.cleaned.check_copies(world)
    for host in world.hosts:
        if host.node is not None:
            check_replay(host.node, host.disk, world.story)
    for host in world.hosts:  # the worst kind: nothing is left but what was synced
        host.power_cut(keeps=0.0) if world.is_synced else host.kill()
        host.start()
    await _finish(world, world.auditors(2), FINISH_S)


async def _finish(world: World, clients: list[SimClient], within_s: float) -> None:
    await _finished(world, {client: world.set_to_work(client) for client in clients}, within_s)


async def _finished(world: World, tasks: dict[SimClient, asyncio.Task[None]], within_s: float) -> None:
    """Until all of them are done. Raises Violation when that takes too long."""
    until = world.loop.time() + within_s
    for client, task in tasks.items():
        try:
            async with asyncio.timeout_at(until):
                await asyncio.shield(task)
        except TimeoutError:
            if task.done():
                raise
            raise world.story.break_promise(f"{client.name} is not done {within_s} s after the last fault") from None


@contextlib.contextmanager
def _logged(world: World) -> Iterator[None]:
    """The nodes' log goes into the story and nowhere else."""
    logger, handler = logging.getLogger("chronik"), NodeLog(world.story)
    level, propagates = logger.level, logger.propagate
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    logger.propagate = False
    try:
        yield
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
        logger.propagate = propagates


def _end(world: World, main: SimProcess) -> None:
    """Let go of everything without a word."""
    world.loop.set_exception_handler(lambda _, context: None)
    for host in world.hosts:
        host.gone()
        for dead in host.graveyard:
            if isinstance(dead, SimProcess):
                dead.kill()
    for process in (main, *world.population.processes):
        process.kill()
    world.loop.close()
