"""Refused for leadership: a client goes to nodes that do not lead, or has nowhere to go, and it goes on.

After a change of leaders clients are refused a few times, ask for the metadata, and go elsewhere: that is over when
they are served, so only refusals count after which nothing of that partition was accepted from or given to that client.
The last Metadata response it got says why: fewer brokers than are alive, or leaders that are not among them.

Also without any refusal: a client that asks for the metadata over and over and gets no leader it could reach.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator

from chronik.trace.events import MetadataTold, RefusedEvent
from chronik.trace.stalls.history import EventHistory, TracedClient
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.words import clock, counted, listed, seconds, times
from chronik.trace.verdicts import Cause, Verdict

LEADER_NOT_AVAILABLE, NOT_LEADER_OR_FOLLOWER = 5, 6
COORDINATOR_NOT_AVAILABLE, NOT_COORDINATOR = 15, 16
FENCED_LEADER_EPOCH, UNKNOWN_LEADER_EPOCH = 74, 75
LEADERSHIP = frozenset(
    {
        LEADER_NOT_AVAILABLE,
        NOT_LEADER_OR_FOLLOWER,
        COORDINATOR_NOT_AVAILABLE,
        NOT_COORDINATOR,
        FENCED_LEADER_EPOCH,
        UNKNOWN_LEADER_EPOCH,
    }
)
NO_NODE = -1


def find(history: EventHistory, limits: Limits) -> Iterator[Verdict]:
    refused = _refused(history, limits)
    for (client, topic), refusals in refused.items():
        yield _refused_verdict(client, topic, refusals, history, limits)
    for (client, topic), tellings in history.told.items():
        if (client, topic) not in refused:
            found = _lost(client, topic, tellings, history, limits)
            if found is not None:
                yield found


def _refused(history: EventHistory, limits: Limits) -> dict[tuple[TracedClient, str | None], list[RefusedEvent]]:
    """Refusals that go on, of all partitions of a topic together."""
    found: defaultdict[tuple[TracedClient, str | None], list[RefusedEvent]] = defaultdict(list)
    for (client, topic, _), events in history.refused.items():
        refusals = _in_a_row([event for event in events if event.code in LEADERSHIP], limits.fresh_ms)
        if (
            len(refusals) >= limits.refusals
            and refusals[-1].at_us - refusals[0].at_us >= limits.stand_still_ms * 1000
            and history.is_within(refusals[-1].at_us, limits.fresh_ms)
        ):
            found[client, topic] += refusals
    return {key: sorted(refusals, key=lambda each: each.at_us) for key, refusals in found.items()}


def _in_a_row(refusals: list[RefusedEvent], gap_max_ms: int) -> list[RefusedEvent]:
    """The last ones, without a longer pause between them: a client that is served rarely is not refused all the
    time."""
    begin = len(refusals)
    while begin and (begin == len(refusals) or refusals[begin].at_us - refusals[begin - 1].at_us <= gap_max_ms * 1000):
        begin -= 1
    return refusals[begin:]


def _refused_verdict(
    client: TracedClient, topic: str | None, refusals: list[RefusedEvent], history: EventHistory, limits: Limits
) -> Verdict:
    first, last = refusals[0], refusals[-1]
    partitions = sorted({refusal.partition for refusal in refusals})
    what = "its coordinator" if topic is None else f"{topic}:{listed(partitions)}"
    codes = Counter(f"{refusal.api} {refusal.error}" for refusal in refusals)
    by_node = Counter(refusal.node for refusal in refusals)
    evidence = [
        f"refused from {clock(first.at_us)} to {clock(last.at_us)}: "
        f"{listed(f'{code} {times(count)}' for code, count in codes.items())}, "
        f"by node {listed(f'{node} ({count:,})' for node, count in sorted(by_node.items()))}; nothing was served",
    ]
    leaders = {refusal.partition: refusal.leader for refusal in refusals if refusal.leader != NO_NODE}
    if leaders:
        evidence.append(
            "which node leads, as the refusing node knows: "
            f"{listed(f'node {leader} leads {topic}:{partition}' for partition, leader in sorted(leaders.items()))}"
        )
    told = history.told[client, topic][-1:] if topic is not None and (client, topic) in history.told else []
    evidence += [line for telling in told for line in _words(telling, history, limits)]
    return Verdict(
        Cause.REFUSED_FOR_LEADERSHIP,
        f"{client} is refused for {what} since {clock(first.at_us)} ({seconds(last.at_us - first.at_us)}): "
        f"{counted(len(refusals), 'time')}, by nodes that do not lead",
        tuple(evidence),
        _advice(told[0] if told else None, history, limits),
        first.at_us,
        topic,
        partitions[0],
        None,
        client.client_id,
        client.host,
        last.node,
    )


def _lost(
    client: TracedClient, topic: str, tellings: list[MetadataTold], history: EventHistory, limits: Limits
) -> Verdict | None:
    """It keeps asking where to go, and gets no address each time."""
    lost: frozenset[int] = frozenset()
    first = last = tellings[-1]
    count = 0
    for told in reversed(tellings):
        without = frozenset(number for number, leader in enumerate(told.leaders) if leader not in told.brokers)
        still = without if told is last else lost & without
        if not still:
            break
        lost, first, count = still, told, count + 1
    is_long = last.at_us - first.at_us >= limits.stand_still_ms * 1000
    if count < 2 or not is_long or not history.is_within(last.at_us, limits.fresh_ms):
        return None
    partitions = sorted(lost)
    return Verdict(
        Cause.REFUSED_FOR_LEADERSHIP,
        f"{client} finds no leader of {topic}:{listed(partitions)} since {clock(first.at_us)} "
        f"({seconds(last.at_us - first.at_us)})",
        (
            f"it asked for the metadata {times(count)} from {clock(first.at_us)} to {clock(last.at_us)}",
            *_words(last, history, limits),
        ),
        _advice(last, history, limits),
        first.at_us,
        topic,
        partitions[0],
        None,
        client.client_id,
        client.host,
        last.node,
    )


def _words(told: MetadataTold, history: EventHistory, limits: Limits) -> Iterator[str]:
    leaders = ", ".join(
        f"{number} by {'no node' if leader == NO_NODE else f'node {leader}'}"
        for number, leader in enumerate(told.leaders)
    )
    yield (
        f"at {clock(told.at_us)} node {told.node} answered with brokers {listed(told.brokers)}, and that partitions of "
        f"{told.topic} are led: {leaders}"
    )
    yield f"alive are nodes {listed(history.alive(limits.fresh_ms))}"
    true = {past.partition: seen.node for past, seen in history.sights(limits.fresh_ms) if past.topic == told.topic}
    if true:
        leaders = ", ".join(f"{number} by node {node}" for number, node in sorted(true.items()))
        yield f"which node leads in truth: {leaders}"


def _advice(told: MetadataTold | None, history: EventHistory, limits: Limits) -> str:
    alive = history.alive(limits.fresh_ms)
    if told is None:
        return "have the client ask for the metadata anew, or restart it: it goes to nodes that do not lead"
    missing = [node for node in alive if node not in told.brokers]
    if missing:
        return (
            f"the client was given brokers {listed(told.brokers)} only: see why node {told.node} does not list node "
            f"{listed(missing)} (chronik cluster status), and that the client can reach what they advertise"
        )
    if NO_NODE in told.leaders:
        return "a partition has no leader: start the nodes that hold its replicas"
    return "the metadata names every node: see whether the client asks for it at all, and reaches what nodes advertise"
