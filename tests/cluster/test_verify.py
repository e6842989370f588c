"""`chronik verify` with three real nodes and each client: all arrives, also while a leader is killed; and what does not
arrive is accounted for."""

from __future__ import annotations

import os
from collections.abc import Iterator
from dataclasses import replace

import pytest

from chronik.testing import RunningCluster
from chronik.verify.history import RunHistory
from chronik.verify.result import Result
from chronik.verify.run import verify
from chronik.verify.settings import ClientName, VerifyAcks, VerifySettings
from chronik.verify.verdict import VerifyOutcome
from tests.cluster.support import leader_of, wait_until_in_sync

SEED_MESSAGES = int(os.environ.get("CHRONIK_SEED_MESSAGES", "5000"))  # `make soak`: a million


@pytest.fixture
def history() -> Iterator[RunHistory]:
    kept = RunHistory(None)
    yield kept
    kept.close()


def run(cluster: RunningCluster, history: RunHistory, node_id: int = 1, **given: object) -> Result:
    """With one address known, as in the run that this project began with."""
    node = cluster.nodes[node_id]
    settings = replace(VerifySettings(node.bootstrap), **given)  # type: ignore[arg-type]
    return verify(settings, [(node.host, node.port)], history, lambda phase, done, total: None)


def check_passed(result: Result, messages: int = 5_000) -> None:
    told = result.to_json()
    assert (told["verdict"], told["cause"]) == ("pass", None), told
    assert (told["produced"], told["acknowledged"], told["consumed"]) == (messages,) * 3
    assert (told["lost"], told["duplicated"], told["reordered"], told["gaps"]) == (0, 0, 0, 0)
    assert told["stalls"] == []
    assert told["versions"]["cluster"].startswith("chronik ")


def check_accounted(result: Result) -> None:
    """Every message that was sent was consumed or has a fate, and only what was acknowledged can be lost."""
    told = result.to_json()
    assert told["produced"] == told["settings"]["messages"]
    assert told["missing"] == told["produced"] - told["consumed"]
    assert sum(fate["count"] for fate in told["fates"]) == told["missing"]
    assert told["lost"] <= told["acknowledged"]
    assert not any(fate["fate"].startswith("not known") for fate in told["fates"]), told
    assert sum(told["errors"].values()) + told["acknowledged"] == told["produced"]


@pytest.mark.parametrize("client", list(ClientName))
@pytest.mark.parametrize(("acks", "node_id"), [(VerifyAcks.NONE, 1), (VerifyAcks.LEADER, 2), (VerifyAcks.ALL, 3)])
def test_the_seed_run_passes_with_every_client_and_acks(
    cluster: RunningCluster, history: RunHistory, client: ClientName, acks: VerifyAcks, node_id: int
) -> None:
    timeout_s = max(60.0, SEED_MESSAGES / 2_000)
    result = run(cluster, history, node_id, client=client, acks=acks, messages=SEED_MESSAGES, timeout_s=timeout_s)
    check_passed(result, SEED_MESSAGES)


def test_the_seed_run_passes_with_a_longer_time_and_larger_polls(cluster: RunningCluster, history: RunHistory) -> None:
    check_passed(run(cluster, history, timeout_s=120.0, max_poll_records=5_000))


@pytest.mark.parametrize("client", list(ClientName))
def test_partitions_are_read_without_a_group(cluster: RunningCluster, history: RunHistory, client: ClientName) -> None:
    check_passed(run(cluster, history, client=client, is_assigned=True, messages=1_000), 1_000)


@pytest.mark.parametrize("client", list(ClientName))
def test_a_client_with_too_little_time_is_told_so(
    cluster: RunningCluster, history: RunHistory, client: ClientName
) -> None:
    result = run(cluster, history, client=client, timeout_s=0.005)

    assert (result.judgement.outcome, result.judgement.cause) == (VerifyOutcome.PARTIAL, "client limit or timeout")
    assert result.judgement.evidence
    assert result.lost == 0
    check_accounted(result)


def killed_in_the_middle(
    cluster: RunningCluster, history: RunHistory, settings: VerifySettings, node_id: int
) -> Result:
    """The leader of partition 0 is killed when a fifth has been acknowledged, and started again when all is over."""
    killed: list[int] = []

    def on_progress(phase: str, done: int, total: int) -> None:
        if phase == "produce" and done > total / 5 and not killed:
            killed.append(leader_of(cluster, TOPIC.format(settings.acks)))
            cluster.kill(killed[0])

    node = cluster.nodes[node_id]
    try:
        return verify(settings, [(node.host, node.port)], history, on_progress)
    finally:
        assert killed, "nobody was killed: too few messages for this machine"
        cluster.restart(killed[0])


TOPIC = "verified-with-acks-{}"


@pytest.mark.parametrize("acks", [VerifyAcks.ALL, VerifyAcks.LEADER])
def test_a_leader_killed_in_the_middle_loses_nothing_with_acks_all(
    cluster: RunningCluster, history: RunHistory, acks: VerifyAcks
) -> None:
    """A leader killed in the middle loses nothing with acks all and is accounted for with acks 1."""
    topic = TOPIC.format(acks)
    settings = VerifySettings(cluster.bootstrap, messages=20_000, acks=acks, topic=topic, timeout_s=8.0)

    result = killed_in_the_middle(cluster, history, settings, node_id=1)

    wait_until_in_sync(cluster, topic)
    if acks is VerifyAcks.ALL:
        assert result.judgement.outcome is VerifyOutcome.PASS, result.to_json()
        assert result.comparison.duplicated == 0
        assert result.comparison.consumed == 20_000
    check_accounted(result)


def test_what_only_a_killed_leader_had_is_acknowledged_and_lost_with_acks_1(
    own_cluster: RunningCluster, history: RunHistory
) -> None:
    """Its followers stand still while it goes on to acknowledge alone; then it is killed, and they go on without it."""
    topic = "verified-and-lost"
    settings = VerifySettings(
        own_cluster.bootstrap, messages=20_000, partitions=1, acks=VerifyAcks.LEADER, topic=topic, timeout_s=120
    )
    paused: list[int] = []
    killed: list[int] = []

    def on_progress(phase: str, done: int, total: int) -> None:
        if phase == "produce" and done > total / 10 and not paused:
            leader = leader_of(own_cluster, topic)
            paused.extend(node_id for node_id in own_cluster.nodes if node_id != leader)
            for node_id in paused:
                own_cluster.pause(node_id)
        elif paused and done > total / 3 and not killed:
            killed.extend(node_id for node_id in own_cluster.nodes if node_id not in paused)
            own_cluster.kill(killed[0])
            for node_id in paused:
                own_cluster.resume(node_id)

    addresses = [(each.host, each.port) for each in own_cluster.nodes.values()]
    result = verify(settings, addresses, history, on_progress)

    assert killed
    assert (result.judgement.outcome, result.judgement.cause) == (VerifyOutcome.PARTIAL, "acknowledged and lost")
    assert result.lost > 0
    assert result.consume_s < 60, "what is lost was waited for"
    assert any("leader alone" in line for line in result.judgement.evidence)
    check_accounted(result)
    own_cluster.restart(killed[0])
