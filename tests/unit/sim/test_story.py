"""What happened, in words and as a hash."""

from __future__ import annotations

from chronik.sim.story import KEPT_CHATTER, KEPT_EVENTS, WorldStory


def told(*events: str) -> WorldStory:
    story = WorldStory(lambda: 1.5)
    for event in events:
        story.tell("node1", event)
    return story


def test_the_hash_tells_whether_the_same_things_happened() -> None:
    assert told("starts", "stops").trace_hash() == told("starts", "stops").trace_hash()
    assert told("starts", "stops").trace_hash() != told("stops", "starts").trace_hash()


def test_chatter_does_not_drown_what_happened_to_nodes() -> None:
    story = told("has no power")

    for _ in range(1000):
        story.tell("client", "tries again", is_chatter=True)
    story.tell("node1", "starts")

    last = story.last()
    assert "has no power" in last[0]
    assert "starts" in last[-1]
    assert len(last) == 2 + KEPT_CHATTER
    assert KEPT_EVENTS + KEPT_CHATTER == 60


def test_a_whole_story_has_everything() -> None:
    story = WorldStory(lambda: 1.5, is_whole=True)

    for number in range(1000):
        story.tell("client", f"tries {number}", is_chatter=number % 2 == 0)

    assert len(story.last()) == 1000


def test_the_first_broken_promise_is_the_one_that_counts() -> None:
    story, calls = told(), list[int]()
    story.on_broken = lambda: calls.append(1)

    story.break_promise("a record is lost")
    story.break_promise("and so on")

    assert story.broken == "a record is lost"
    assert calls == [1]
