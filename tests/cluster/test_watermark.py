"""How soon what is safe can be read at a follower: the watermark comes at once, not with the next round of fetching."""

from __future__ import annotations

import statistics

from chronik.testing import RunningCluster
from tests.cluster.support import create_topic, followers_of, leader_of, wait_until_in_sync
from tests.cluster.wire_client import WireClient, latest_offset, produce, watermark_delays

MESSAGES = 40
# The goal is 10 ms at the median, and the bench has the figure. A watermark that came with the next fetch that waits in
# vain (replica.fetch.wait.max.ms, 500) would be here only after some 500 ms.
MEDIAN_S_MAX = 0.25


def test_what_is_acknowledged_can_be_read_at_a_follower_at_once(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    wait_until_in_sync(cluster, topic)
    leader, follower = cluster.nodes[leader_of(cluster, topic)], cluster.nodes[followers_of(cluster, topic)[0]]

    delays = watermark_delays((leader.host, leader.port), (follower.host, follower.port), topic, MESSAGES)

    assert len(delays) == MESSAGES
    assert statistics.median(delays) < MEDIAN_S_MAX, sorted(delays)


def test_list_offsets_tells_an_acknowledged_message_at_once(cluster: RunningCluster) -> None:
    topic = create_topic(cluster.bootstrap, partitions=1)
    leader = cluster.nodes[leader_of(cluster, topic)]
    with WireClient(leader.host, leader.port) as client:
        for number in range(50):
            assert produce(client, topic, 0, b"x").code == 0
            assert latest_offset(client, topic, 0) == (0, number + 1)
