"""Which topics a KIP-848 group subscribes to, by name and by regular expression."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import lru_cache

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.assignors import Applicant
from chronik.core.machines.groups.commands import TopicShape
from chronik.core.machines.groups.consumer_group import ConsumerGroup, Subscriber
from chronik.core.machines.groups.pattern import BadPattern, Pattern

# A regex never means these. (Kafka lets `.*` match them; a consumer would read our own book-keeping.)
# The metadata machine has a list of its own, which is not known here; a test holds them together.
INTERNAL_TOPICS = (
    "__consumer_offsets",
    "__transaction_state",
    "__share_group_state",
    "__chronik_trace",
    "__chronik_audit",
)


@lru_cache(maxsize=256)
def _pattern(regex: str) -> Pattern:
    return Pattern(regex)


@lru_cache(maxsize=256)
def _matches(regex: str, names: tuple[str, ...]) -> frozenset[str]:
    pattern = _pattern(regex)
    return frozenset(name for name in names if name not in INTERNAL_TOPICS and pattern.matches(name))


def check_regex(regex: str) -> None:
    try:
        _pattern(regex)
    except BadPattern as problem:
        raise Refused(Code.INVALID_REGULAR_EXPRESSION, f"{regex!r}: {problem}") from problem


def subscribed_topics(
    names: Iterable[str], regexes: Iterable[str], topics: Mapping[str, TopicShape]
) -> dict[str, TopicShape]:
    """The topics that exist and are meant by one of the names or regexes, in order of name."""
    wanted = {name for name in names if name in topics}
    patterns = list(regexes)
    if patterns:
        every_name = tuple(topics)
        for regex in patterns:
            wanted |= _matches(regex, every_name)
    return {name: topics[name] for name in sorted(wanted)}


def wants_after(group: ConsumerGroup, members: Mapping[str, Subscriber | None]) -> tuple[list[str], list[str]]:
    """Names and regexes the group subscribes to once these members have changed (None: gone)."""
    names, regexes = dict(group.names), dict(group.regexes)
    for member_id, after in members.items():
        for subscriber, step in ((group.subscribers.get(member_id), -1), (after, 1)):
            if subscriber is None:
                continue
            for name in subscriber.topics:
                names[name] = names.get(name, 0) + step
            if subscriber.regex is not None:
                regexes[subscriber.regex] = regexes.get(subscriber.regex, 0) + step
    return [name for name, count in names.items() if count], [regex for regex, count in regexes.items() if count]


def applicants(
    group: ConsumerGroup, subscribers: Mapping[str, Subscriber], topics: Mapping[str, TopicShape]
) -> dict[str, Applicant]:
    """The group's members as its assignor sees them."""
    by_wish: dict[tuple[tuple[str, ...], str | None], frozenset[bytes]] = {}
    result: dict[str, Applicant] = {}
    for member_id, subscriber in subscribers.items():
        wish = (subscriber.topics, subscriber.regex)
        if wish not in by_wish:
            regexes = [] if subscriber.regex is None else [subscriber.regex]
            found = subscribed_topics(subscriber.topics, regexes, topics)
            by_wish[wish] = frozenset(shape.topic_id for shape in found.values())
        result[member_id] = Applicant(by_wish[wish], group.target(member_id), subscriber.instance_id)
    return result
