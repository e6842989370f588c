"""`chronik watch` at three nodes: what it tells, and that it goes on when the node it was told of is gone."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

from confluent_kafka import Producer

from chronik.inspect.live_model import LiveView
from chronik.inspect.live_source import Looker
from chronik.inspect.poller import Away, Eye
from chronik.testing import RunningCluster
from tests.cluster.support import create_topic, wait_until, wait_until_in_sync

MESSAGES = 300


def produce(bootstrap: str, topic: str) -> None:
    producer = Producer({"bootstrap.servers": bootstrap, "acks": "all"})
    for number in range(MESSAGES):
        producer.produce(topic, str(number).encode(), partition=number % 3)
    assert producer.flush(60) == 0


def watched_once(bootstrap: str, topic: str) -> Any:
    command = [sys.executable, "-m", "chronik", "watch", "--once", "--json", "--topic", topic, "--bootstrap", bootstrap]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout)


def test_one_look_by_way_of_any_node_tells_of_all(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap)
    produce(cluster.bootstrap, topic)
    wait_until_in_sync(cluster, topic)

    for node in cluster.nodes.values():
        seen = watched_once(node.bootstrap, topic)

        assert [(each["id"], each["answers"]) for each in seen["nodes"]] == [(1, True), (2, True), (3, True)]
        assert sorted(each["leader"] for each in seen["partitions"]) == [1, 2, 3]
        for partition in seen["partitions"]:
            assert partition["leader_answers"]
            assert (partition["watermark"], partition["next_offset"], partition["gap"]) == (100, 100, 0)
            assert (partition["in_sync"], partition["out_of_sync"]) == ([1, 2, 3], [])
            assert (partition["lag_records"], partition["lag_ms"], partition["in_per_s"]) == (0, 0, 0.0)
        assert (seen["totals"]["partitions"], seen["totals"]["lagging"], seen["stalls"]) == (3, 0, [])


def test_it_goes_on_when_the_node_that_was_named_dies_and_tells_who_is_silent(own_cluster: RunningCluster) -> None:
    topic = create_topic(own_cluster.bootstrap)
    produce(own_cluster.bootstrap, topic)
    wait_until_in_sync(own_cluster, topic)
    named = own_cluster.nodes[1]
    eye = Eye(Looker([(named.host, named.port)], [topic]), 1.0)
    seen = eye.see()
    assert isinstance(seen, LiveView)

    def looked() -> LiveView | None:
        nonlocal seen
        seen = eye.see()
        return seen if isinstance(seen, LiveView) else None

    own_cluster.kill(1)
    wait_until(lambda: _is_mended(looked()), lambda: f"the others lead, and 1 is out of sync: {seen}")

    own_cluster.kill(2)
    own_cluster.kill(3)
    assert isinstance(eye.see(), Away)

    own_cluster.start()
    wait_until(lambda: _is_whole(looked()), lambda: f"all are back: {seen}")


def _is_mended(view: LiveView | None) -> bool:
    return (
        view is not None
        and (view.alive, list(view.silent)) == ((2, 3), [1])
        and all(row.is_heard and row.out_of_sync == (1,) and row.watermark == 100 for row in view.rows)
    )


def _is_whole(view: LiveView | None) -> bool:
    return (
        view is not None
        and (view.alive, list(view.silent)) == ((1, 2, 3), [])
        and all(row.is_heard and row.in_sync == (1, 2, 3) and row.watermark == 100 for row in view.rows)
    )
