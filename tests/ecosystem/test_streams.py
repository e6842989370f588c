"""Kafka Streams, at least once: a word count over three nodes, one of which is killed on the way."""

from __future__ import annotations

import shutil
from collections import Counter
from pathlib import Path

import pytest

from chronik.testing import cluster
from tests.cluster.support import check_logs, leader_of, wait_until_in_sync
from tests.ecosystem.brokers import Brokers
from tests.ecosystem.programs import PROGRAM_SECONDS, Program, compiled, java, needs

needs("kafka ecosystem")

APPLICATION = "word-count"
REPARTITION = f"{APPLICATION}-words-repartition"
CHANGELOG = f"{APPLICATION}-counts-changelog"
LINES = [f"the quick fox {at % 7} jumps over the lazy dog {at % 11}" for at in range(100)]
WORDS = Counter(word for line in LINES for word in line.split())


def counted(brokers: Brokers) -> dict[str, int]:
    """The last count of each word."""
    last: dict[str, int] = {}
    for _, _, word, count, _ in brokers.records("counts"):
        assert word is not None
        assert count is not None
        last[word.decode()] = int(count)
    return last


def kept(brokers: Brokers) -> dict[str, int]:
    """The same from the changelog, from which Streams restores its state."""
    stored = brokers.records(CHANGELOG)
    return {word.decode(): int.from_bytes(count, "big") for _, _, word, count, _ in stored if word and count}


@pytest.mark.timeout(6 * PROGRAM_SECONDS)
def test_words_are_counted_right_though_a_node_dies_and_the_state_is_restored(tmp_path: Path) -> None:
    classes = compiled("WordCount.java", tmp_path)
    state = tmp_path / "state"
    with cluster(nodes=3) as nodes:
        brokers = Brokers(nodes.bootstrap, replicas=3)
        brokers.create("lines", 3)
        brokers.create("counts", 3)
        arguments = [nodes.bootstrap, APPLICATION, "lines", "counts", str(state), "3"]
        with Program("streams", java("WordCount", *arguments, classes=classes), tmp_path) as streams:

            def count_once_more(times: int) -> None:
                brokers.send("lines", [(None, line.encode()) for line in LINES])
                expected = {word: times * count for word, count in WORDS.items()}
                streams.wait_until(
                    lambda: counted(brokers) == expected, lambda: f"counts of {expected}: {counted(brokers)}"
                )

            count_once_more(1)
            victim = leader_of(nodes, REPARTITION)
            nodes.kill(victim)
            count_once_more(2)
            nodes.nodes[victim].start()
            wait_until_in_sync(nodes, "lines", "counts", REPARTITION, CHANGELOG)
            count_once_more(3)

            streams.stop()
            shutil.rmtree(state)
            streams.start()
            count_once_more(4)

            assert kept(brokers) == counted(brokers)
            assert [line for line in streams.complaints() if " ERROR " in line] == []
        assert brokers.settings(CHANGELOG)["cleanup.policy"] == "compact"
        assert brokers.settings(REPARTITION)["cleanup.policy"] == "delete"
        check_logs(nodes)
