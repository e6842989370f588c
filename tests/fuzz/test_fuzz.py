"""Broken and random requests against every API and version: the node answers or hangs up, and nothing else happens.

20,000 requests; CHRONIK_FUZZ_REQUESTS asks for more, CHRONIK_FUZZ_SEED for other ones. A failure names the seed and
has the offending request in hex. What the node makes up itself (topic and member ids) differs from run to run.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Iterator
from itertools import count
from pathlib import Path

import psutil
import pytest
from confluent_kafka.admin import AdminClient, NewTopic

from chronik.testing import RunningNode, node
from tests.fuzz.bystander import TIMEOUT_S, Bystander
from tests.fuzz.conversation import Conversation, Learned
from tests.fuzz.oracle import WrongAnswer
from tests.fuzz.requests import SPOKEN
from tests.fuzz.scrape import metric
from tests.fuzz.vocabulary import TOPICS

REQUESTS = int(os.environ.get("CHRONIK_FUZZ_REQUESTS", "20000"))
SEED = os.environ.get("CHRONIK_FUZZ_SEED", "chronik")
AT_ONCE = 16
WRONG_SHOWN = 10
# Three runs of 20,000 grew by 1, 2 and 33 MB (why one was larger is not known): three times the largest.
GROWTH_BYTES_MAX = 96 * 1024 * 1024
# A bystander's message took 0.5 to 1.7 s at the worst, on a machine that was busy with other tests besides.
LATENCY_S_MAX = 5.0


@pytest.fixture
def running() -> Iterator[RunningNode]:
    with node({"num.partitions": "3", "offsets.topic.num.partitions": "5"}) as started:
        admin = AdminClient({"bootstrap.servers": started.bootstrap})
        for created in admin.create_topics([NewTopic(name, 3, 1) for name in TOPICS]).values():
            created.result(TIMEOUT_S)
        yield started


async def converse(running: RunningNode, learned: Learned, numbers: Iterator[int], requests: int) -> list[str]:
    """Hold conversations, several at once, until so many requests have been sent. Returns what went wrong."""
    wrong: list[str] = []

    async def one_after_another() -> None:
        while learned.sent.total() < requests and len(wrong) < WRONG_SHOWN:
            number = next(numbers)
            try:
                await Conversation(f"{SEED}-{number}", learned).hold(running.host, running.port)
            except WrongAnswer as problem:
                wrong.append(f"CHRONIK_FUZZ_SEED={SEED}, conversation {number}: {problem}")

    async with asyncio.TaskGroup() as group:
        for _ in range(AT_ONCE):
            group.create_task(one_after_another())
    return wrong


@pytest.mark.timeout(120 + REQUESTS // 50)
def test_no_request_crashes_bloats_or_misleads_the_node_and_other_clients_notice_nothing(running: RunningNode) -> None:
    learned, numbers = Learned(), count()
    process = psutil.Process(running.pid)

    with Bystander(running.bootstrap) as bystander:
        wrong = asyncio.run(converse(running, learned, numbers, REQUESTS // 10))  # by then every module is loaded
        before_bytes = process.memory_info().rss
        wrong += asyncio.run(converse(running, learned, numbers, REQUESTS))
        growth_bytes = process.memory_info().rss - before_bytes

    assert wrong == []
    faults = [line for line in Path(running.log_path).read_text(errors="replace").splitlines() if " ERROR " in line]
    assert faults == []
    assert metric(running, "chronik_faults_total") == 0
    assert process.is_running()
    assert growth_bytes < GROWTH_BYTES_MAX
    assert set(learned.sent) >= set(SPOKEN), "some API or version was never tried"
    assert bystander.problems == []
    assert sorted(bystander.consumed) == sorted(bystander.acknowledged)
    assert max(bystander.latencies_s) < LATENCY_S_MAX
