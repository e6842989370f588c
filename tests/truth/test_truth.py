"""Whatever a cluster answers, or does not: every statement of the product is right, or it says that it does not know.

A proxy lies between the product and a real cluster; random lies, each with its own seed. CHRONIK_TRUTH_CASES=500 tells
more of them, CHRONIK_TRUTH_SEED others; a case that fails names its number, and CHRONIK_TRUTH_FIRST begins there.
CHRONIK_TRUTH_LOG names a file to which the outcome of each case is added as it comes.
"""

from __future__ import annotations

import json
import os
import pickle
import queue
import random
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from chronik.testing import RunningCluster
from chronik.testing import cluster as start_cluster
from chronik.wire.versions import API_VERSIONS, INSPECT
from tests.truth import statements
from tests.truth.lying_proxy import LIST_OFFSETS, Liar, Lie, Lying, LyingProxy, Question, honest, lying_proxy
from tests.truth.world import Stage, first_half, second_half

CASES_QUICK, QUICK_S = 60, 40.0
CASES = int(os.environ.get("CHRONIK_TRUTH_CASES", "0"))
FIRST = int(os.environ.get("CHRONIK_TRUTH_FIRST", "0"))
SEED = int(os.environ.get("CHRONIK_TRUTH_SEED", "1"))
LOG = os.environ.get("CHRONIK_TRUTH_LOG")
AT_ONCE = int(os.environ.get("CHRONIK_TRUTH_AT_ONCE", "12" if CASES else "4"))  # most of a case is waiting
PROGRESS_EVERY = 25
COMMAND_S = 120.0
# Fetch: records stay as they are. Metadata, OffsetFetch: on errors at several levels of these, librdkafka 2.16's admin
# client aborts the process (an assertion in rdkafka_admin.c).
NOT_FAILED = (1, 3, 9)
# Unknown, no leader, not the leader, timed out, storage; of groups: loading.
CODES, GROUP_CODES = (-1, 5, 6, 7, 56), (-1, 14)
GROUP_REQUESTS = (10, 15, 16, 69)  # FindCoordinator, DescribeGroups, ListGroups, ConsumerGroupDescribe
LATE_S = (0.3, 2.5)  # within what is waited for a look, and beyond it

pytestmark = pytest.mark.timeout(0 if CASES else 900)


@pytest.fixture(scope="module")
def stage() -> Iterator[Stage]:
    settings = {"chronik.trace": "true", "auto.leader.rebalance.enable": "false"}
    with start_cluster(nodes=3, settings=settings) as cluster:
        yield staged(cluster)


def staged(cluster: RunningCluster) -> Stage:
    nodes = {node_id: (node.host, node.port) for node_id, node in cluster.nodes.items()}
    world = first_half(cluster)
    world.producers = dict.fromkeys(range(3), (0, 0))
    with lying_proxy(nodes) as proxy:
        proxy.is_recording = True
        for number, question in enumerate(statements.ALL):
            for node in nodes:
                wrong = list(question(proxy.bootstrap(node), world, random.Random(number)))
                # The first producer's id is not asked for before it is known.
                assert not wrong or question is statements.where_a_sequence_number_is, wrong
        recorded = proxy.recorded
    second_half(cluster, world)
    return Stage(nodes, world, recorded)


def some_lies(case: str) -> Liar:
    """Here and there: each kind of question at each node has its own answer, and keeps it."""

    def lie(question: Question) -> Lying | None:
        dice = random.Random(f"{case} {question.node} {question.api_key} {question.view}")
        if question.api_key == API_VERSIONS or dice.random() > 0.3:
            return None
        kinds = [Lie.FAIL, Lie.FAIL, Lie.CUT, Lie.LATE]
        if question.api_key == LIST_OFFSETS:
            kinds += [Lie.MINUS, Lie.MINUS]
        kind = dice.choice(kinds)
        if kind is Lie.FAIL and question.api_key in NOT_FAILED:
            kind = Lie.CUT
        late_s = dice.choice(LATE_S) if question.api_key == INSPECT else LATE_S[0]
        return Lying(kind, dice.choice(GROUP_CODES if question.api_key in GROUP_REQUESTS else CODES), late_s)

    return lie


def nobody_there(*gone: int) -> Liar:
    """These nodes hang up on everybody, and others cannot reach them."""

    def lie(question: Question) -> Lying | None:
        if question.node in gone:
            return Lying(Lie.CUT)
        return Lying(Lie.FAIL) if question.passed_to in gone else None

    return lie


def cut_off(stale: int, *gone: int) -> Liar:
    """This node has heard nothing since the first half, and reaches nobody; those are gone."""

    def lie(question: Question) -> Lying | None:
        if question.node == stale:
            return Lying(Lie.STALE if question.passed_to is None else Lie.FAIL)
        return Lying(Lie.FAIL) if question.passed_to == stale else nobody_there(*gone)(question)

    return lie


def told_by(stage: Stage, proxy: LyingProxy, number: int) -> tuple[str, list[str]]:
    """One case: which question was asked under which lies, and what was said that is not so."""
    case = f"{SEED} {number}"
    dice = random.Random(case)
    nodes = dice.sample(sorted(stage.nodes), 3)
    style = dice.choice(["some", "some", "some", "gone", "stale"])
    asked = dice.choice(statements.OF_MANY_NODES if style == "stale" else statements.ALL)
    if style == "some":
        proxy.liar = some_lies(case)
    elif style == "gone":
        proxy.liar = nobody_there(*dice.sample(nodes, dice.choice([1, 1, 2])))
    else:
        old = stage.world.old_leader
        others = [node for node in nodes if node != old]
        nodes = [old, *others] if dice.random() < 0.7 else nodes
        proxy.liar = cut_off(old, *others[: dice.choice([0, 1])])
    first = nodes[: dice.choice([1, 2, 3])]
    wrong = list(asked(proxy.bootstrap(*first), stage.world, dice))
    proxy.liar = honest
    return f"{asked.__name__} ({style})", [
        f"case {number}, {asked.__name__} ({style}) at {first}: {each}" for each in wrong
    ]


class Tally:
    """What came of the cases, from all workers."""

    def __init__(self) -> None:
        self.wrong: list[str] = []
        self.asked: Counter[str] = Counter()
        self.lies: Counter[str] = Counter()
        self.aborted: list[int] = []
        """Cases in which an assertion of librdkafka ended the process: nothing was said."""
        self._guard = threading.Lock()
        self._began_s = time.monotonic()

    def take(self, number: int, name: str, said: list[str], lies: dict[str, int]) -> None:
        with self._guard:
            self.asked[name] += 1
            self.lies.update(lies)
            self.wrong.extend(said)
            self._keep({"case": number, "asked": name, "wrong": said, "lies": lies})

    def take_aborted(self, number: int) -> None:
        with self._guard:
            self.aborted.append(number)
            self._keep({"case": number, "aborted": True})

    def _keep(self, outcome: dict[str, object]) -> None:
        """Cases take minutes together: what came out so far is not to be lost with the run."""
        if LOG is not None:
            at_s = round(time.monotonic() - self._began_s, 1)
            with Path(LOG).open("a") as file:
                file.write(json.dumps({"seed": SEED, "at_s": at_s, **outcome}) + "\n")
        done = self.asked.total() + len(self.aborted)
        if CASES and done % PROGRESS_EVERY == 0:
            sys.stderr.write(f"{done} of {CASES} cases, {len(self.wrong)} wrong\n")


def work_through(stage_file: Path, numbers: queue.SimpleQueue[int], ended_s: float, tally: Tally) -> None:
    """One case after the other in a process of its own, started anew where librdkafka ended it."""
    while time.monotonic() < ended_s and not numbers.empty():
        with worker(stage_file) as process:
            assert process.stdin is not None
            assert process.stdout is not None
            while time.monotonic() < ended_s:
                try:
                    number = numbers.get_nowait()
                except queue.Empty:
                    return
                process.stdin.write(f"{number}\n")
                process.stdin.flush()
                line = process.stdout.readline()
                if not line:
                    assert process.wait() == -signal.SIGABRT
                    tally.take_aborted(number)
                    break
                tally.take(number, *json.loads(line))


@contextmanager
def worker(stage_file: Path) -> Iterator[subprocess.Popen[str]]:
    command = [sys.executable, "-m", "tests.truth.test_truth", str(stage_file)]
    process = subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    )
    with process:
        yield process
        if process.stdin is not None:
            with suppress(BrokenPipeError):
                process.stdin.close()


def answer_cases(stage_file: str) -> None:
    """In a worker: a number in, what came of that case out."""
    stage: Stage = pickle.loads(Path(stage_file).read_bytes())
    out = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    with lying_proxy(stage.nodes, stage.recorded) as proxy:
        for line in sys.stdin:
            proxy.told.clear()
            try:
                name, said = told_by(stage, proxy, int(line))
            except Exception as problem:
                name, said = "fault", [f"case {line.strip()}: {problem!r}"]
            lies = Counter(lying.lie.value for _, lying in list(proxy.told))
            out.write(json.dumps([name, said, lies]) + "\n")
            out.flush()


def test_every_statement_is_right_or_not_known(stage: Stage, tmp_path: Path) -> None:
    stage_file = tmp_path / "stage"
    stage_file.write_bytes(pickle.dumps(stage))
    numbers: queue.SimpleQueue[int] = queue.SimpleQueue()
    for number in range(FIRST, FIRST + (CASES or CASES_QUICK)):
        numbers.put(number)
    ended_s = time.monotonic() + (float("inf") if CASES else QUICK_S)
    tally = Tally()
    workers = [
        threading.Thread(target=work_through, args=(stage_file, numbers, ended_s, tally)) for _ in range(AT_ONCE)
    ]
    for each in workers:
        each.start()
    for each in workers:
        each.join()

    done = tally.asked.total()
    sys.stdout.write(f"{done} cases, ended by librdkafka: {len(tally.aborted)}, lies told: {dict(tally.lies)}\n")
    sys.stdout.write(json.dumps(tally.asked, indent=1, sort_keys=True) + "\n")
    assert tally.wrong == []
    assert done + len(tally.aborted) >= 1


def test_the_command_line_says_the_same(stage: Stage) -> None:
    """A few of them as a user meets them."""
    world, old = stage.world, stage.world.old_leader
    newest = world.places[len(world.places) - 1]
    others = [node for node in stage.nodes if node != old]
    with ExitStack() as stack:
        proxy = stack.enter_context(lying_proxy(stage.nodes, stage.recorded))
        there = where(proxy, old, world.topic, str(newest.partition), str(newest.offset), "--json")
        proxy.liar = cut_off(old, *others)
        alone = where(proxy, old, world.topic, str(newest.partition), str(newest.offset), "--json")
        by_key = where(proxy, old, world.topic, "--key", world.key(len(world.places) - 1))
        unknown_group = chronik(proxy, old, "group", "describe", world.late_group)
        listed_alone = chronik(proxy, old, "topic", "list")
        groups_alone = chronik(proxy, old, "group", "list")
        proxy.liar = cut_off(old)
        behind = chronik(proxy, old, "group", "describe", world.late_group)
        listed_behind = chronik(proxy, old, "topic", "list")

    assert json.loads(there.stdout)["place"] == "here"
    if alone.returncode == 0:
        assert json.loads(alone.stdout)["summary"].startswith("Not known")
        assert json.loads(alone.stdout)["is_below_watermark"] is None
    else:
        assert_claims_nothing(alone)  # on a slow machine the one node may not answer in time either
    assert_claims_nothing(by_key)
    assert unknown_group.returncode, unknown_group.stdout
    for told in (unknown_group, behind):
        assert f"no group {world.late_group}" not in told.stderr
    # The old leader may name another as the group's coordinator, as it did before; and that one knows.
    assert behind.returncode == 0 or "which is behind the others" in behind.stderr
    assert world.late_topic in listed_behind.stdout or "is behind the others" in listed_behind.stderr
    assert listed_alone.returncode or "may not be all" in listed_alone.stderr
    assert groups_alone.returncode or "may not be all" in groups_alone.stderr


def assert_claims_nothing(refused: subprocess.CompletedProcess[str]) -> None:
    """One line that says what could not be had, and nothing about the record."""
    assert (refused.returncode, refused.stdout) == (2, "")
    assert len(refused.stderr.strip().splitlines()) == 1, refused.stderr
    assert not any(claim in refused.stderr for claim in ("never accepted", "deleted", "not written", "no record"))


def where(proxy: LyingProxy, node: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    return chronik(proxy, node, "where", *arguments)


def chronik(proxy: LyingProxy, node: int, *arguments: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "chronik", *arguments, "--bootstrap", proxy.bootstrap(node)]
    return subprocess.run(command, capture_output=True, text=True, timeout=COMMAND_S, check=False)


if __name__ == "__main__":
    answer_cases(sys.argv[1])
