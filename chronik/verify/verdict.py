"""Pass, partial or fail, with the cause and the evidence for it. Pure.

*pass*: every message was acknowledged and consumed, and what the settings promise was kept. *fail*: a promise was
broken (acks=all and lost, idempotent and written twice or reordered), or nothing arrived. *partial*: anything between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from chronik.trace.verdicts import Cause
from chronik.trace.verdicts import Verdict as Stalling
from chronik.verify.compare import Comparison
from chronik.verify.fates import Fate
from chronik.verify.ledger import LedgerPlace
from chronik.verify.pulse import STALL_S, Stall
from chronik.verify.settings import VerifyAcks, VerifySettings

LOST = "acknowledged and lost"
WRITTEN_TWICE = "written twice"
REORDERED = "reordered"
NODE_ERROR = "error of a node"
NOT_KNOWN = "not known"

# What clients call errors on which they give up, by who can do something about it. Each has its own words.
_OF_LEADERS = ("notleader", "leadernotavailable", "leaderepoch")
_OF_NODES = ("corrupt", "crc", "invalidmsg", "invalidrecord", "badmsg", "storage", "unknownerror", "servererror")
_OF_CLIENTS = ("time", "codec", "compression", "toolarge", "maxpoll", "unsupported", "buffer", "memory")


class VerifyOutcome(StrEnum):
    PASS = "pass"
    PARTIAL = "partial"
    FAIL = "fail"


@dataclass(frozen=True)
class FateCount:
    """How many of the missing messages ended alike."""

    fate: Fate
    count: int
    by_partition: Mapping[int, int]
    first_number: int
    first_place: LedgerPlace
    """Of the first of them; UNKNOWN (-1) where it is not known."""
    told: tuple[str, ...] = ()
    """What the nodes say of that place."""


@dataclass(frozen=True)
class Facts:
    """All that a verdict is made of."""

    settings: VerifySettings
    comparison: Comparison
    fates: Sequence[FateCount]
    errors: Mapping[str, int]
    """What the client said of messages it could not send."""
    stalls: Sequence[Stall]
    consume_s: float
    quiet_s: float
    """Since the last message came, when consuming ended."""
    consumer_error: str | None = None
    stalling: Sequence[Stalling] = ()
    """What the stall rules found in the trace of this topic."""
    unread: Sequence[str] = ()
    """What the log has behind the last message and the consumer was not given, in words."""


@dataclass(frozen=True)
class Judgement:
    outcome: VerifyOutcome
    cause: str | None
    summary: str
    evidence: tuple[str, ...] = ()
    advice: str = ""


@dataclass(frozen=True)
class _Reason:
    cause: str
    evidence: tuple[str, ...]
    advice: str


# What of the stall rules' findings can explain that messages ended so, the likeliest first.
_EXPLAINS: dict[Fate, tuple[Cause, ...]] = {
    Fate.NEVER_ACCEPTED: (Cause.REFUSED_FOR_LEADERSHIP, Cause.WATERMARK_STANDS_STILL),
    Fate.NOT_ACCEPTED_OR_NOT_VISIBLE: (Cause.REFUSED_FOR_LEADERSHIP, Cause.WATERMARK_STANDS_STILL),
    Fate.LOST_OR_NOT_VISIBLE: (),  # no stall explains a loss
    Fate.NOT_VISIBLE: (Cause.WATERMARK_STANDS_STILL,),
    Fate.NOT_FETCHED: (
        Cause.FETCH_HANGS,
        Cause.PARTITION_BEHIND,
        Cause.GROUP_REBALANCING,
        Cause.REFUSED_FOR_LEADERSHIP,
        Cause.WATERMARK_STANDS_STILL,
        Cause.CONSUMER_STOPPED,
        Cause.CLIENT_LIMIT,
    ),
    Fate.NOT_GIVEN: (Cause.CLIENT_LIMIT, Cause.CONSUMER_STOPPED, Cause.GROUP_REBALANCING),
}
_EXPLAINS[Fate.NOT_CONSUMED] = _EXPLAINS[Fate.NOT_FETCHED]
_EXPLAINS[Fate.NOT_KNOWN] = tuple(Cause)

_PROMISES = {
    VerifyAcks.NONE: "acks=0 asks for no acknowledgement: the client never learns whether a message arrived",
    VerifyAcks.LEADER: "acks=1 is acknowledged by the leader alone, and what it alone has goes with it",
    VerifyAcks.ALL: "acks=all promises that every in-sync replica has it",
}


def judge(facts: Facts) -> Judgement:
    broken = _broken_promise(facts)
    if broken is None and _is_complete(facts):
        return Judgement(VerifyOutcome.PASS, None, _passed(facts), _remarks(facts))
    reason = broken or _reason(facts)
    return Judgement(
        _outcome(facts, broken is not None, reason.cause),
        reason.cause,
        _fell_short(facts),
        (*reason.evidence, *_perhaps_lost(facts), *_remarks(facts)),
        reason.advice,
    )


def _is_complete(facts: Facts) -> bool:
    wanted = facts.settings.messages
    return facts.comparison.consumed == wanted == facts.comparison.acknowledged


def _outcome(facts: Facts, is_broken: bool, cause: str) -> VerifyOutcome:
    is_nothing_there = facts.comparison.consumed == 0 and cause != Cause.CLIENT_LIMIT
    return VerifyOutcome.FAIL if is_broken or is_nothing_there else VerifyOutcome.PARTIAL


def _broken_promise(facts: Facts) -> _Reason | None:
    """What the settings promise and the cluster did not keep."""
    lost = _count(facts, Fate.LOST)
    if lost is not None and facts.settings.acks is VerifyAcks.ALL:
        return _lost(facts, lost)
    if not facts.settings.is_idempotent:
        return None
    compared = facts.comparison
    if compared.written_twice:
        return _Reason(
            WRITTEN_TWICE,
            (f"{_messages(compared.written_twice)} of an idempotent producer are in the log at two offsets",),
            "keep the topic, and look at both with `chronik where`",
        )
    if compared.reordered:
        return _Reason(
            REORDERED,
            (f"{_messages(compared.reordered)} of an idempotent producer came after one that was sent later",),
            "keep the topic, and look at the first of them with `chronik where`",
        )
    return None


def _reason(facts: Facts) -> _Reason:
    if not facts.fates:
        return _all_arrived_yet_not_all_told(facts)
    lost = _count(facts, Fate.LOST) or _count(facts, Fate.GONE)
    if lost is not None:
        return _lost(facts, lost)
    main = max(facts.fates, key=lambda counted: counted.count)
    if main.fate in (Fate.NOT_FETCHED, Fate.NOT_GIVEN, Fate.NOT_CONSUMED):
        if facts.consumer_error is not None:
            return _gave_up(facts, main, facts.consumer_error)
        if facts.quiet_s < STALL_S:  # messages still came when the time was up; or it was too short to call it a stall
            return _short_of_time(facts, main)
    explained = _explained(facts, main.fate)
    if explained is not None:
        return _Reason(explained.cause, (explained.summary, *explained.evidence), explained.advice)
    match main.fate:
        case Fate.NEVER_ACCEPTED | Fate.NOT_ACCEPTED_OR_NOT_VISIBLE:
            return _never_accepted(facts, main)
        case Fate.NOT_VISIBLE:
            return _Reason(
                Cause.WATERMARK_STANDS_STILL,
                (_where(main), "the leader has them, and its high watermark has not passed them"),
                "see which follower is behind with `chronik topic describe`",
            )
        case Fate.LOST_OR_NOT_VISIBLE:  # what is known of them is said whatever the cause is
            told = (_PROMISES[facts.settings.acks],)
            return _Reason(NOT_KNOWN, told, "read the topic again later: what is still not there then is lost")
        case Fate.NOT_KNOWN:
            return _Reason(NOT_KNOWN, (_where(main),), "see whether every partition has a leader, and run it again")
        case _:
            return _unfetched(facts, main)


def _explained(facts: Facts, fate: Fate) -> Stalling | None:
    for cause in _EXPLAINS[fate]:
        for stalling in facts.stalling:
            if stalling.cause == cause:
                return stalling
    return None


def _lost(facts: Facts, lost: FateCount) -> _Reason:
    told = tuple(
        f"offset {lost.first_place.offset} of partition {lost.first_place.partition}: {line}" for line in lost.told
    )
    cause = LOST if lost.fate is Fate.LOST else Cause.NEVER_PRODUCED
    return _Reason(
        cause,
        (_where(lost), _PROMISES[facts.settings.acks], *told),
        "this must not happen: keep the topic and the nodes' logs, and report it"
        if facts.settings.acks is VerifyAcks.ALL
        else "use acks=all where no message may be lost",
    )


def _perhaps_lost(facts: Facts) -> tuple[str, ...]:
    """Loss that cannot be ruled out is said beside any other cause."""
    counted = _count(facts, Fate.LOST_OR_NOT_VISIBLE)
    if counted is None:
        return ()
    untold = "no node said how far the leader's log goes: another Kafka does not tell, or no node answered"
    return (_where(counted), f"they were acknowledged and are not below the high watermark, and {untold}")


def _gave_up(facts: Facts, main: FateCount, error: str) -> _Reason:
    """The client did, with an error: whose it is, follows from its name, and not guessed where that says nothing."""
    said = f"the client {facts.settings.client} gave up after {facts.consume_s:.1f} s: {error}"
    name = error.lower().replace("_", "")
    explained = _explained(facts, main.fate)
    if explained is not None:
        return _Reason(explained.cause, (said, explained.summary, *explained.evidence), explained.advice)
    evidence = (said, _where(main))
    if any(word in name for word in _OF_LEADERS):
        return _Reason(Cause.REFUSED_FOR_LEADERSHIP, evidence, "see which node leads with `chronik topic describe`")
    if name == "unknown" or any(word in name for word in _OF_NODES):  # librdkafka's UNKNOWN is a server's error
        return _Reason(
            NODE_ERROR, evidence, "a node answered so, or with records that do not check out: see the nodes' logs"
        )
    if any(word in name for word in _OF_CLIENTS):
        return _Reason(Cause.CLIENT_LIMIT, evidence, "look the error up in the client's documentation")
    return _Reason(NOT_KNOWN, evidence, "look the error up in the client's documentation, and see the nodes' logs")


def _short_of_time(facts: Facts, main: FateCount) -> _Reason:
    compared, seconds = facts.comparison, facts.consume_s
    if compared.consumed == 0:
        came = f"the time of {facts.settings.timeout_s:g} s was up before the first message came"
        needed = ""
    else:
        came = (
            f"the time of {facts.settings.timeout_s:g} s was up while messages still came: the last one "
            f"{facts.quiet_s:.1f} s before"
        )
        needed = f", at this rate {seconds * compared.produced / compared.consumed:,.0f} s or more"
    return _Reason(Cause.CLIENT_LIMIT, (came, _where(main)), f"give it more time with --timeout{needed}")


def _never_accepted(facts: Facts, main: FateCount) -> _Reason:
    errors = tuple(f"{_messages(count)}: {name}" for name, count in facts.errors.items())
    if any("notleader" in name.lower().replace("_", "") for name in facts.errors):
        return _Reason(
            Cause.REFUSED_FOR_LEADERSHIP,
            (_where(main), *errors),
            "see which node leads with `chronik topic describe`, and whether clients can reach every node it names",
        )
    if any(_is_timeout(name) for name in facts.errors) and facts.settings.send_timeout_s < STALL_S:
        return _Reason(Cause.CLIENT_LIMIT, (_where(main), *errors), "give it more time with --send-timeout")
    cause = Cause.NEVER_PRODUCED if main.fate is Fate.NEVER_ACCEPTED else NOT_KNOWN
    return _Reason(cause, (_where(main), *errors), "the client's errors say why; see also the nodes' logs")


def _unfetched(facts: Facts, main: FateCount) -> _Reason:
    """The consumer got nothing for seconds while there was something, and the trace does not say why."""
    behind = [count for count in facts.comparison.partitions if count.partition in main.by_partition]
    asked = f"nothing came for the last {facts.quiet_s:.1f} s, and another client could read them"
    if len(behind) < len(facts.comparison.partitions) and facts.comparison.consumed:
        names = ", ".join(str(count.partition) for count in behind)
        return _Reason(
            Cause.PARTITION_BEHIND,
            (_where(main), f"all other partitions were consumed whole, partition {names} was not", asked),
            "see how its leader is with `chronik watch`",
        )
    return _Reason(Cause.FETCH_HANGS, (_where(main), asked), "see how the nodes are with `chronik watch`")


def _all_arrived_yet_not_all_told(facts: Facts) -> _Reason:
    compared = facts.comparison
    unsent = facts.settings.messages - compared.produced
    errors = tuple(f"{_messages(count)}: {name}" for name, count in facts.errors.items())
    if unsent:
        never = f"{_messages(unsent)} were never sent: the client took no more"
        return _Reason(Cause.NEVER_PRODUCED, (never, *errors), "see whether the cluster answers at all")
    untold = f"{_messages(compared.unacknowledged_consumed)} arrived, and were never acknowledged to the producer"
    return _Reason(Cause.CLIENT_LIMIT, (untold, *errors), "give it more time with --send-timeout")


def _remarks(facts: Facts) -> tuple[str, ...]:
    """What is worth knowing and breaks no promise."""
    compared = facts.comparison
    remarks = []
    if compared.written_twice and not facts.settings.is_idempotent:
        remarks.append(
            f"{_messages(compared.written_twice)} are in the log twice: a retry of a producer that is not idempotent"
        )
    if compared.redelivered:
        remarks.append(f"{_messages(compared.redelivered)} were given twice: the group read on from an older commit")
    if compared.reordered and not facts.settings.is_idempotent:
        remarks.append(
            f"{_messages(compared.reordered)} came after later ones: a retry of a producer that is not idempotent"
        )
    if facts.fates and compared.produced < facts.settings.messages:
        unsent = facts.settings.messages - compared.produced
        remarks.append(f"{_messages(unsent)} were never sent: nothing was acknowledged any more")
    if compared.unacknowledged_consumed and facts.fates:
        remarks.append(f"{_messages(compared.unacknowledged_consumed)} arrived that the producer saw fail")
    if facts.unread:
        remarks.append(
            f"what is behind the last message was not read: {'; '.join(facts.unread)}. Markers of transactions and "
            "what was deleted give nothing; whether a copy of a message is there is not known"
        )
    return tuple(remarks)


def _passed(facts: Facts) -> str:
    compared = facts.comparison
    once = "each once" if not compared.duplicated else f"{compared.duplicated:,} of them twice"
    order = "in order" if not compared.reordered else f"{compared.reordered:,} out of order"
    return f"{compared.consumed:,} of {facts.settings.messages:,} messages consumed, {once} and {order}"


def _fell_short(facts: Facts) -> str:
    compared = facts.comparison
    wanted = facts.settings.messages
    return f"{compared.consumed:,} of {wanted:,} messages consumed ({percent(compared.consumed, wanted)})"


def percent(part: int, whole: int) -> str:
    """Never 100 % for less than all, nor 0 % for more than nothing."""
    if not whole:
        return "-"
    share = 100 * part / whole
    if part < whole:
        share = min(share, 99.9)
    return f"{max(share, 0.1) if part else 0.0:.1f} %"


def _count(facts: Facts, fate: Fate) -> FateCount | None:
    return next((counted for counted in facts.fates if counted.fate is fate), None)


def _where(counted: FateCount) -> str:
    by_partition = ", ".join(f"{count:,} in partition {number}" for number, count in counted.by_partition.items())
    return f"{_messages(counted.count)} {counted.fate}" + (f": {by_partition}" if by_partition else "")


def _is_timeout(name: str) -> bool:
    return "time" in name.lower()


def _messages(count: int) -> str:
    return f"{count:,} message" if count == 1 else f"{count:,} messages"
