"""What a cluster says of groups, also while it is settling which node coordinates them."""

from __future__ import annotations

from collections.abc import Mapping
from types import SimpleNamespace as Told
from typing import Any

import pytest
from kio.schema.list_offsets.v5.request import ListOffsetsRequest

from chronik.client.connection import ConnectionFailed
from chronik.client.options import ClientOptions
from chronik.core.errors import Code
from chronik.pipeline.topics.client import Failed, ReadPartition, TopicClient, TopicSeen
from chronik.pipeline.topics.holdings import Commit, _is_compacted, commits_of, groups_of
from chronik.pipeline.topics.options import LATEST

HERE, THERE = ("here", 1), ("there", 2)


class Settling(TopicClient):
    """It gives these answers, one after the other, and then the last one again and again."""

    def __init__(self, *answers: Any, timeout_ms: int = 60_000) -> None:
        super().__init__(ClientOptions((HERE,), timeout_ms=timeout_ms))
        self.answers = list(answers)
        self.pauses: list[str] = []

    def topics(self, names: Any) -> dict[str, TopicSeen]:
        self._addresses = {1: HERE}
        return {}

    def ask_any(self, api_key: int, values: Mapping[str, Any], highest: int | None = None) -> Any:
        answer = self.answers.pop(0) if len(self.answers) > 1 else self.answers[0]
        if isinstance(answer, Exception):
            raise answer
        return answer

    def ask_at(self, address: Any, api_key: int, values: Mapping[str, Any], highest: int | None = None) -> Any:
        return self.ask_any(api_key, values, highest)

    def _pause(self, deadline: float, problem: str) -> None:
        self.pauses.append(problem)
        if self._options.timeout_ms == 0:
            super()._pause(deadline, problem)


def coordinator(code: Code = Code.NONE) -> Told:
    return Told(error_code=code, host="here", port=1)


def committed(code: Code = Code.NONE) -> Told:
    place = Told(partition_index=0, committed_offset=7, error_code=Code.NONE)
    return Told(error_code=code, topics=[Told(name="t", partitions=[place])])


def test_a_group_whose_coordinator_moves_or_loads_is_asked_for_again() -> None:
    cluster = Settling(
        coordinator(Code.COORDINATOR_NOT_AVAILABLE),
        coordinator(),
        committed(Code.NOT_COORDINATOR),
        coordinator(),
        ConnectionFailed("here:1 hung up"),
        coordinator(),
        committed(Code.COORDINATOR_LOAD_IN_PROGRESS),
        coordinator(),
        committed(),
    )

    assert commits_of(cluster, "g", ["t"]) == [Commit("t", 0, "g", 7)]
    assert cluster.pauses == [
        "group g: COORDINATOR_NOT_AVAILABLE",
        "group g: NOT_COORDINATOR",
        "group g: here:1 hung up",
        "group g: COORDINATOR_LOAD_IN_PROGRESS",
    ]


def test_groups_are_listed_when_all_nodes_know_theirs() -> None:
    loading = Told(error_code=Code.COORDINATOR_LOAD_IN_PROGRESS, groups=[])
    cluster = Settling(loading, Told(error_code=Code.NONE, groups=[Told(group_id="g")]))

    assert groups_of(cluster) == ["g"]
    assert cluster.pauses == ["groups of here:1: COORDINATOR_LOAD_IN_PROGRESS"]


def test_it_is_not_asked_for_ever_nor_again_for_what_will_not_change() -> None:
    with pytest.raises(Failed, match="tried for 0 s: group g: NOT_COORDINATOR"):
        commits_of(Settling(coordinator(Code.NOT_COORDINATOR), timeout_ms=0), "g", [])
    refused = Settling(coordinator(Code.GROUP_AUTHORIZATION_FAILED))
    with pytest.raises(Failed, match="group g: GROUP_AUTHORIZATION_FAILED"):
        commits_of(refused, "g", [])

    assert refused.pauses == []


def test_a_partition_of_which_the_commit_is_not_told_is_not_taken_for_one_without() -> None:
    def told(code: Code) -> Told:
        place = Told(partition_index=0, committed_offset=-1 if code else 7, error_code=code)
        return Told(error_code=Code.NONE, topics=[Told(name="t", partitions=[place])])

    cluster = Settling(coordinator(), told(Code.UNSTABLE_OFFSET_COMMIT), coordinator(), told(Code.NONE))
    assert commits_of(cluster, "g", []) == [Commit("t", 0, "g", 7)]
    with pytest.raises(Failed, match="t-0: TOPIC_AUTHORIZATION_FAILED"):
        commits_of(Settling(coordinator(), told(Code.TOPIC_AUTHORIZATION_FAILED)), "g", [])


def test_a_topic_whose_policy_is_not_told_is_not_taken_for_one_that_keeps_all() -> None:
    """What compaction took would be called lost."""
    answer = Told(results=[Told(error_code=Code.NONE, configs=[])])

    with pytest.raises(Failed, match=r"the response has no cleanup\.policy"):
        _is_compacted(Settling(answer), "t")


def test_an_end_of_a_log_told_as_less_than_0_is_asked_for_again() -> None:
    offsets = [Told(partition_index=0, error_code=Code.NONE, offset=offset) for offset in (-1, 7)]
    cluster = Offsets(*(Told(topics=[Told(name="t", partitions=[each])]) for each in offsets))

    assert cluster.offsets({ReadPartition("t", 0): LATEST}) == {ReadPartition("t", 0): 7}
    assert cluster.pauses == ["offsets of t-0: reported as -1"]


class Offsets(Settling):
    """A leader that answers ListOffsets so."""

    def topics(self, names: Any) -> dict[str, TopicSeen]:
        self._addresses = {1: HERE}
        self._topics = {"t": TopicSeen("t", None, {0: 1})}
        return self._topics

    def _to(self, node_id: int) -> Any:
        return Told(
            version_of=lambda key: 5,
            request_type=lambda key, version: ListOffsetsRequest,
            ask=lambda key, body: self.ask_any(key, {}),
        )
