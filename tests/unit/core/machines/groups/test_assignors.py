"""Server-side assignors: fair, sticky and repeatable."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from chronik.core.machines.groups.assignors import Applicant, Assignment, assign_range, assign_uniform
from chronik.core.machines.groups.consumer_group import NONE, Partitions

T, U, V = b"t" * 16, b"u" * 16, b"v" * 16


def wants(*topics: bytes, target: Partitions = NONE, instance_id: str | None = None) -> Applicant:
    return Applicant(frozenset(topics), target, instance_id)


def some(topic: bytes, *numbers: int) -> Partitions:
    return frozenset((topic, number) for number in numbers)


def sizes(assignment: Assignment) -> list[int]:
    return sorted(len(partitions) for partitions in assignment.values())


def moved(before: Assignment, after: Assignment) -> int:
    """Partitions that had an owner who is still there, and have another now."""
    owner = {pair: member_id for member_id, pairs in before.items() for pair in pairs if member_id in after}
    return sum(1 for member_id, pairs in after.items() for pair in pairs if owner.get(pair, member_id) != member_id)


def again(members: dict[str, Applicant], assignment: Assignment) -> dict[str, Applicant]:
    """The members as they are after an assignment."""
    return {id: member._replace(target=assignment.get(id, NONE)) for id, member in members.items()}


def test_uniform_spreads_the_partitions_of_a_topic() -> None:
    assignment = assign_uniform({"a": wants(T, U), "b": wants(T, U)}, {T: 2, U: 2})
    assert assignment == {"a": some(T, 0) | some(U, 0), "b": some(T, 1) | some(U, 1)}


def test_uniform_moves_only_what_a_newcomer_needs() -> None:
    members = {"a": wants(T), "b": wants(T)}
    before = assign_uniform(members, {T: 6})
    after = assign_uniform({**again(members, before), "c": wants(T)}, {T: 6})
    assert sizes(after) == [2, 2, 2]
    assert moved(before, after) == 2


def test_uniform_lets_those_keep_one_more_who_have_it() -> None:
    members = {"a": wants(T), "b": wants(T, target=some(T, 0, 1))}
    assert assign_uniform(members, {T: 3}) == {"a": some(T, 2), "b": some(T, 0, 1)}


def test_uniform_hands_on_only_what_a_leaver_had() -> None:
    members = {"a": wants(T), "b": wants(T), "c": wants(T)}
    before = assign_uniform(members, {T: 6})
    left = again(members, before)
    del left["b"]
    after = assign_uniform(left, {T: 6})
    assert sizes(after) == [3, 3]
    assert moved(before, after) == 0


def test_uniform_evens_out_unlike_subscriptions() -> None:
    after = assign_uniform({"a": wants(T, U), "b": wants(T), "c": wants(U)}, {T: 4, U: 2})
    assert sizes(after) == [2, 2, 2]
    assert all(pair[0] == T for pair in after["b"])


def test_uniform_passes_partitions_on_through_a_third_member() -> None:
    held = some(T, 0, 1, 2)
    members = {"a": wants(T, target=held), "b": wants(T, U, target=some(U, 0, 1)), "c": wants(U, target=some(U, 2))}
    assert sizes(assign_uniform(members, {T: 3, U: 3})) == [2, 2, 2]


def test_range_gives_equal_numbers_of_several_topics_to_the_same_member() -> None:
    assignment = assign_range({"b": wants(T, U), "a": wants(T, U)}, {T: 3, U: 3})
    assert assignment == {"a": some(T, 0, 1) | some(U, 0, 1), "b": some(T, 2) | some(U, 2)}


def test_range_knows_static_members_by_their_name() -> None:
    before = assign_range({"x": wants(T, instance_id="i1"), "y": wants(T, instance_id="i2")}, {T: 4})
    after = assign_range({"z": wants(T, instance_id="i1"), "y": wants(T, instance_id="i2")}, {T: 4})
    assert before["x"] == after["z"]
    assert before["y"] == after["y"]


def test_nobody_gets_what_it_did_not_ask_for_and_what_nobody_wants_stays() -> None:
    for assign in (assign_uniform, assign_range):
        assert assign({"a": wants(T), "b": wants(U)}, {T: 1, U: 1, V: 5}) == {"a": some(T, 0), "b": some(U, 0)}
        assert assign({}, {T: 1}) == {}


TOPICS = st.dictionaries(st.sampled_from([T, U, V]), st.integers(1, 7), min_size=1)
SUBSCRIPTION = st.frozensets(st.sampled_from([T, U, V]), min_size=1)
MEMBERS = st.dictionaries(st.sampled_from("abcdefg"), SUBSCRIPTION, min_size=1)


@given(TOPICS, MEMBERS, MEMBERS, st.booleans())
def test_uniform_gives_each_partition_once_fairly_and_moves_little(
    topics: dict[bytes, int], first: dict[str, frozenset[bytes]], second: dict[str, frozenset[bytes]], alike: bool
) -> None:
    if alike:
        first, second = (dict.fromkeys(members, frozenset(topics)) for members in (first, second))
    before = assign_uniform({id: Applicant(topics_, NONE) for id, topics_ in first.items()}, topics)
    members = {id: Applicant(topics_, before.get(id, NONE)) for id, topics_ in second.items()}
    after = assign_uniform(members, topics)

    given_out = [pair for pairs in after.values() for pair in pairs]
    wanted = {topic for member in members.values() for topic in member.topics if topic in topics}
    assert len(given_out) == len(set(given_out)) == sum(topics[topic] for topic in wanted)
    assert all(topic in members[id].topics for id, pairs in after.items() for topic, _ in pairs)
    for rich, pairs in after.items():
        for poor, few in after.items():
            if len(few) < len(pairs) - 1:
                assert not any(topic in members[poor].topics for topic, _ in pairs), (rich, poor)
    if alike:
        assert sizes(after)[-1] - sizes(after)[0] <= 1
        assert moved(before, after) <= sum(
            max(0, len(before[id]) - min(sizes(after))) for id in members if id in before
        )
    assert assign_uniform(again(members, after), topics) == after, "done twice, it changes nothing"


@given(TOPICS, MEMBERS)
def test_range_gives_each_partition_once(topics: dict[bytes, int], wishes: dict[str, frozenset[bytes]]) -> None:
    after = assign_range({id: Applicant(wanted, NONE) for id, wanted in wishes.items()}, topics)
    given_out = [pair for pairs in after.values() for pair in pairs]
    wanted = {topic for topics_ in wishes.values() for topic in topics_ if topic in topics}
    assert len(given_out) == len(set(given_out)) == sum(topics[topic] for topic in wanted)
