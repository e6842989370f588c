"""quixstreams: a stateful application whose state outlives it, in its changelog topic."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from chronik.testing import node
from tests.ecosystem.brokers import Brokers
from tests.ecosystem.programs import HERE, PROGRAM_SECONDS, QUIXSTREAMS, Program, needs

needs("quixstreams")

KEYS = [f"key {at}" for at in range(20)]
NUMBERS = [(key.encode(), b"%d" % number) for number in range(10) for key in KEYS]


def sums(brokers: Brokers) -> dict[str, int]:
    """The last sum of each key."""
    return {key.decode(): int(total) for _, _, key, total, _ in brokers.records("sums") if key and total}


@pytest.mark.timeout(3 * PROGRAM_SECONDS)
def test_sums_go_on_after_a_restart_without_local_state(tmp_path: Path) -> None:
    state = tmp_path / "state"
    with node() as running:
        brokers = Brokers(running.bootstrap, replicas=1)
        command = [str(QUIXSTREAMS / "bin" / "python"), str(HERE / "quix_count.py"), running.bootstrap, str(state), "1"]
        brokers.create("numbers", 2)
        brokers.create("sums", 2)
        with Program("quixstreams", command, tmp_path) as application:

            def add_once_more(times: int) -> None:
                brokers.send("numbers", NUMBERS)
                expected = dict.fromkeys(KEYS, times * sum(range(10)))
                application.wait_until(lambda: sums(brokers) == expected, lambda: f"{expected}, not {sums(brokers)}")

            add_once_more(1)
            assert application.stop() == 0
            shutil.rmtree(state)
            application.start()
            add_once_more(2)
            assert application.stop() == 0

            [changelog] = [topic for topic in brokers.topics() if topic.startswith("changelog__")]
            assert brokers.settings(changelog)["cleanup.policy"] == "compact"
            assert len(brokers.records("sums")) == 2 * len(NUMBERS), "each record was added once"
            assert "ERROR" not in application.log()
            assert "Traceback" not in application.log()
