"""Kafka Streams with `exactly_once_v2`: a word count whose every count comes out once, though it is killed on the way.

CHRONIK_STREAMS_KILLS says how often (`make test-ecosystem`: 10 times).
"""

from __future__ import annotations

import os
from collections import Counter, defaultdict
from functools import partial
from pathlib import Path

import pytest

from chronik.testing import RunningCluster, cluster
from tests.cluster.support import check_logs, leader_of, wait_until_in_sync
from tests.ecosystem.brokers import Brokers
from tests.ecosystem.programs import PROGRAM_SECONDS, Program, compiled, java, needs

needs("kafka ecosystem")

KILLS = int(os.environ.get("CHRONIK_STREAMS_KILLS", "1"))
NODE_KILLED_EVERY = 3  # kills of the program
APPLICATION = "exact-count"
REPARTITION = f"{APPLICATION}-words-repartition"
CHANGELOG = f"{APPLICATION}-counts-changelog"
LINES = [f"the quick fox {at % 7} jumps over the lazy dog {at % 11}" for at in range(100)]
LINES_TO_SEND = [(None, line.encode()) for line in LINES]
HALF = len(LINES) // 2
WORDS = Counter(word for line in LINES for word in line.split())


def counts(brokers: Brokers) -> dict[str, list[int]]:
    """For each word its counts, as they came out."""
    found: dict[str, list[int]] = defaultdict(list)
    for _, _, word, count, _ in brokers.read_committed("counts"):
        assert word is not None
        assert count is not None
        found[word.decode()].append(int(count))
    return found


def counted(brokers: Brokers) -> int:
    return sum(map(len, counts(brokers).values()))


def has_more(brokers: Brokers, before: int) -> bool:
    return counted(brokers) > before


def kept(brokers: Brokers) -> dict[str, int]:
    """The last count of each word in the changelog, from which Streams restores its state."""
    stored = brokers.read_committed(CHANGELOG)
    return {word.decode(): int.from_bytes(count, "big") for _, _, word, count, _ in stored if word and count}


def kill_a_node(nodes: RunningCluster) -> None:
    victim = leader_of(nodes, REPARTITION)
    nodes.kill(victim)
    nodes.nodes[victim].start()


@pytest.mark.timeout((2 + KILLS) * PROGRAM_SECONDS)
def test_each_count_comes_out_once_though_the_program_is_killed(tmp_path: Path) -> None:
    classes = compiled("WordCount.java", tmp_path)
    with cluster(nodes=3) as nodes:
        brokers = Brokers(nodes.bootstrap, replicas=3)
        brokers.create("lines", 3)
        brokers.create("counts", 3)
        arguments = [nodes.bootstrap, APPLICATION, "lines", "counts", str(tmp_path / "state"), "3", "exactly_once_v2"]
        with Program("streams", java("WordCount", *arguments, classes=classes), tmp_path) as streams:
            for kill in range(1, KILLS + 1):
                before = counted(brokers)
                brokers.send("lines", LINES_TO_SEND[:HALF])
                streams.wait_until(partial(has_more, brokers, before), f"it counts, round {kill}")
                # It dies with these in its hands: consumed, counted in part, in an open transaction.
                brokers.send("lines", LINES_TO_SEND[HALF:])
                streams.kill()
                if kill % NODE_KILLED_EVERY == 0:
                    kill_a_node(nodes)
                streams.start()
            brokers.send("lines", LINES_TO_SEND)

            rounds = KILLS + 1
            expected = {word: list(range(1, rounds * count + 1)) for word, count in WORDS.items()}
            total = sum(map(len, expected.values()))
            streams.wait_until(lambda: counted(brokers) >= total, lambda: f"{total} counts: {counted(brokers)}")
            assert counts(brokers) == expected, "a count is missing, or came twice"
            assert kept(brokers) == {word: rounds * count for word, count in WORDS.items()}
        wait_until_in_sync(nodes, "lines", "counts", REPARTITION, CHANGELOG)
        check_logs(nodes)
