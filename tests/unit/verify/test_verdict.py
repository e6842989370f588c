"""A verdict has a cause, and a cause has evidence."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from chronik.trace.verdicts import Cause
from chronik.trace.verdicts import Verdict as Stalling
from chronik.verify.compare import Comparison, PartitionCount
from chronik.verify.fates import Fate
from chronik.verify.ledger import LedgerPlace
from chronik.verify.settings import VerifyAcks, VerifySettings
from chronik.verify.verdict import NODE_ERROR, NOT_KNOWN, Facts, FateCount, VerifyOutcome, judge, percent

SETTINGS = VerifySettings("127.0.0.1:9092", messages=3_000)


def counted(partition: int, consumed: int, **more: Any) -> PartitionCount:
    plain = PartitionCount(partition, 1_000, consumed, consumed / 3_000, 0.0, 0, consumed - 1, 0, (), 0, 0, 0)
    return replace(plain, **more)


def compared(*consumed: int, produced: int = 3_000, acknowledged: int = 3_000, **more: Any) -> Comparison:
    partitions = tuple(counted(partition, count) for partition, count in enumerate(consumed))
    return replace(Comparison(produced, acknowledged, sum(consumed), 0, 0, partitions, 0.0), **more)


WHOLE = compared(1_000, 1_000, 1_000)
SHORT = compared(1_000, 1_000, 400)


def facts(comparison: Comparison = WHOLE, *fates: FateCount, settings: VerifySettings = SETTINGS, **more: Any) -> Facts:
    plain = Facts(settings, comparison, fates, {}, (), consume_s=60.0, quiet_s=40.0)
    return replace(plain, **more)


def fated(fate: Fate, count: int = 600, partition: int = 2) -> FateCount:
    return FateCount(fate, count, {partition: count}, 1_202, LedgerPlace(partition, 400))


def stalling(cause: Cause) -> Stalling:
    return Stalling(
        cause, f"seen: {cause}", ("at 12:00 node 2 was silent",), "look at node 2", 0, topic="t", partition=2
    )


def test_everything_acknowledged_and_consumed_is_a_pass_without_a_cause() -> None:
    judged = judge(facts())

    assert (judged.outcome, judged.cause, judged.evidence) == (VerifyOutcome.PASS, None, ())
    assert judged.summary == "3,000 of 3,000 messages consumed, each once and in order"


def test_duplicates_of_a_producer_that_is_not_idempotent_are_a_pass_with_a_remark() -> None:
    twice = replace(WHOLE, partitions=(counted(0, 1_000, written_twice=2), *WHOLE.partitions[1:]))

    judged = judge(facts(twice))

    assert judged.outcome is VerifyOutcome.PASS
    assert "2 of them twice" in judged.summary
    assert "2 messages are in the log twice" in judged.evidence[0]


@pytest.mark.parametrize(("field", "cause"), [("written_twice", "written twice"), ("reordered", "reordered")])
def test_an_idempotent_producer_promises_more(field: str, cause: str) -> None:
    broken = replace(WHOLE, partitions=(counted(0, 1_000, **{field: 1}), *WHOLE.partitions[1:]))

    judged = judge(facts(broken, settings=replace(SETTINGS, acks=VerifyAcks.ALL)))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.FAIL, cause)
    assert judged.evidence


def test_a_message_lost_with_acks_all_is_a_fail() -> None:
    judged = judge(facts(SHORT, fated(Fate.LOST), settings=replace(SETTINGS, acks=VerifyAcks.ALL)))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.FAIL, "acknowledged and lost")
    assert "600 messages acknowledged and lost: 600 in partition 2" in judged.evidence


def test_a_message_lost_with_acks_1_is_partial_and_says_what_acks_1_means() -> None:
    judged = judge(facts(SHORT, fated(Fate.LOST)))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, "acknowledged and lost")
    assert any("leader alone" in line for line in judged.evidence)
    assert "acks=all" in judged.advice


def test_a_message_gone_with_acks_0_was_never_promised() -> None:
    judged = judge(facts(SHORT, fated(Fate.GONE), settings=replace(SETTINGS, acks=VerifyAcks.NONE)))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, Cause.NEVER_PRODUCED)
    assert any("never learns" in line for line in judged.evidence)


def test_loss_outweighs_what_is_only_late() -> None:
    judged = judge(facts(SHORT, fated(Fate.LOST, 1), fated(Fate.NOT_FETCHED, 599)))

    assert judged.cause == "acknowledged and lost"


def test_time_that_was_up_while_messages_came_is_the_clients_limit() -> None:
    judged = judge(facts(SHORT, fated(Fate.NOT_FETCHED), quiet_s=0.1, stalling=[stalling(Cause.FETCH_HANGS)]))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, Cause.CLIENT_LIMIT)
    assert "--timeout" in judged.advice


def test_time_that_was_up_before_the_first_message_is_the_clients_limit_and_partial() -> None:
    judged = judge(
        facts(compared(0, 0, 0), fated(Fate.NOT_FETCHED, 3_000), quiet_s=0.1, settings=replace(SETTINGS, timeout_s=0.1))
    )

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, Cause.CLIENT_LIMIT)
    assert "before the first message" in judged.evidence[0]


def test_a_client_that_gave_up_is_quoted() -> None:
    judged = judge(facts(SHORT, fated(Fate.NOT_CONSUMED), consumer_error="UnsupportedCodecError"))

    assert judged.cause == Cause.CLIENT_LIMIT
    assert "UnsupportedCodecError" in judged.evidence[0]


@pytest.mark.parametrize(
    ("error", "cause"),
    [
        ("CorruptRecordError", NODE_ERROR),
        ("CorruptRecordException", NODE_ERROR),
        ("INVALID_MSG", NODE_ERROR),
        ("UnknownError", NODE_ERROR),
        ("UNKNOWN", NODE_ERROR),
        ("KafkaStorageError", NODE_ERROR),
        ("NotLeaderForPartitionError", Cause.REFUSED_FOR_LEADERSHIP),
        ("_MAX_POLL_EXCEEDED", Cause.CLIENT_LIMIT),
        ("KafkaTimeoutError", Cause.CLIENT_LIMIT),
        ("RecordTooLargeError", Cause.CLIENT_LIMIT),
        ("TopicAuthorizationFailedError", NOT_KNOWN),
    ],
)
def test_an_error_that_a_client_gave_up_with_is_laid_to_whom_it_is_of(error: str, cause: str) -> None:
    judged = judge(facts(SHORT, fated(Fate.NOT_CONSUMED), consumer_error=error))

    assert judged.cause == cause
    assert error in judged.evidence[0]


def test_what_the_trace_shows_explains_why_a_client_gave_up() -> None:
    judged = judge(
        facts(
            SHORT, fated(Fate.NOT_FETCHED), consumer_error="KafkaTimeoutError", stalling=[stalling(Cause.FETCH_HANGS)]
        )
    )

    assert judged.cause == Cause.FETCH_HANGS
    assert "KafkaTimeoutError" in judged.evidence[0]


def test_nothing_at_all_for_a_minute_is_a_fail() -> None:
    judged = judge(facts(compared(0, 0, 0), fated(Fate.NOT_FETCHED, 3_000)))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.FAIL, Cause.FETCH_HANGS)


@pytest.mark.parametrize(
    ("fate", "cause"),
    [
        (Fate.NOT_VISIBLE, Cause.WATERMARK_STANDS_STILL),
        (Fate.NEVER_ACCEPTED, Cause.WATERMARK_STANDS_STILL),
        (Fate.NEVER_ACCEPTED, Cause.REFUSED_FOR_LEADERSHIP),
        (Fate.NOT_FETCHED, Cause.FETCH_HANGS),
        (Fate.NOT_FETCHED, Cause.GROUP_REBALANCING),
        (Fate.NOT_CONSUMED, Cause.PARTITION_BEHIND),
        (Fate.NOT_GIVEN, Cause.CONSUMER_STOPPED),
    ],
)
def test_what_the_stall_rules_found_is_the_cause_where_it_explains_the_missing(fate: Fate, cause: Cause) -> None:
    judged = judge(facts(SHORT, fated(fate), stalling=[stalling(Cause.NEVER_PRODUCED), stalling(cause)]))

    assert judged.cause == cause
    assert judged.evidence[:2] == (f"seen: {cause}", "at 12:00 node 2 was silent")
    assert judged.advice == "look at node 2"


def test_a_stall_that_does_not_explain_the_missing_is_not_the_cause() -> None:
    judged = judge(facts(SHORT, fated(Fate.NOT_VISIBLE), stalling=[stalling(Cause.CONSUMER_STOPPED)]))

    assert judged.cause == Cause.WATERMARK_STANDS_STILL


def test_one_partition_behind_is_told_without_a_trace() -> None:
    judged = judge(facts(SHORT, fated(Fate.NOT_CONSUMED)))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, Cause.PARTITION_BEHIND)
    assert any("partition 2 was not" in line for line in judged.evidence)


def test_all_partitions_short_is_a_fetch_that_hangs() -> None:
    everywhere = FateCount(Fate.NOT_CONSUMED, 900, {0: 300, 1: 300, 2: 300}, 7, LedgerPlace(1, 2))

    assert judge(facts(compared(700, 700, 700), everywhere)).cause == Cause.FETCH_HANGS


@pytest.mark.parametrize("name", ["NotLeaderForPartitionError", "NOT_LEADER_FOR_PARTITION", "NotLeaderOrFollowerError"])
def test_refusals_for_leadership_are_known_by_every_clients_name_for_them(name: str) -> None:
    judged = judge(
        facts(compared(1_000, 1_000, 400, acknowledged=2_400), fated(Fate.NEVER_ACCEPTED), errors={name: 600})
    )

    assert judged.cause == Cause.REFUSED_FOR_LEADERSHIP
    assert f"600 messages: {name}" in judged.evidence


def test_other_refusals_were_never_produced() -> None:
    errors = {"NotEnoughReplicasError": 600}

    judged = judge(facts(compared(1_000, 1_000, 400, acknowledged=2_400), fated(Fate.NEVER_ACCEPTED), errors=errors))

    assert judged.cause == Cause.NEVER_PRODUCED
    assert "600 messages: NotEnoughReplicasError" in judged.evidence


def test_a_producer_with_too_little_time_has_itself_to_blame() -> None:
    settings = replace(SETTINGS, send_timeout_s=0.2)
    errors = {"KafkaTimeoutError": 600}

    judged = judge(facts(SHORT, fated(Fate.NEVER_ACCEPTED), errors=errors, settings=settings))

    assert judged.cause == Cause.CLIENT_LIMIT


def test_a_producer_that_never_started_produced_nothing() -> None:
    errors = {"NoBrokersAvailable": 3_000}

    judged = judge(facts(compared(0, 0, 0, produced=0, acknowledged=0), errors=errors))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.FAIL, Cause.NEVER_PRODUCED)
    assert "3,000 messages: NoBrokersAvailable" in judged.evidence


def test_a_producer_that_gave_up_sending_says_how_many_it_kept() -> None:
    short = compared(1_000, 1_000, 0, produced=2_400, acknowledged=2_000)

    judged = judge(facts(short, fated(Fate.NEVER_ACCEPTED, 400), errors={"KafkaTimeoutError": 400}))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, Cause.NEVER_PRODUCED)
    assert "600 messages were never sent: nothing was acknowledged any more" in judged.evidence


def test_all_arrived_though_not_all_were_acknowledged_is_partial() -> None:
    untold = replace(WHOLE, acknowledged=2_990, unacknowledged_consumed=10)

    judged = judge(facts(untold, errors={"KafkaTimeoutError": 10}))

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, Cause.CLIENT_LIMIT)
    assert "10 messages arrived, and were never acknowledged to the producer" in judged.evidence


def test_what_nobody_can_tell_is_said_to_be_so() -> None:
    assert judge(facts(SHORT, fated(Fate.NOT_KNOWN))).cause == "not known"


@pytest.mark.parametrize("acks", [VerifyAcks.LEADER, VerifyAcks.ALL])
def test_what_may_be_lost_or_late_has_no_cause_whatever_stalled(
    acks: VerifyAcks,
) -> None:
    """What may be lost or late has no cause whatever stalled and nobody claims to have looked."""
    stalled = [stalling(cause) for cause in Cause]

    judged = judge(
        facts(SHORT, fated(Fate.LOST_OR_NOT_VISIBLE), stalling=stalled, settings=replace(SETTINGS, acks=acks))
    )

    assert (judged.outcome, judged.cause) == (VerifyOutcome.PARTIAL, "not known")
    assert "600 messages lost or not visible yet: 600 in partition 2" in judged.evidence
    assert any("no node said how far the leader's log goes" in line for line in judged.evidence)
    assert not any("the leader has them" in line for line in judged.evidence)


@pytest.mark.parametrize("main", [Fate.LOST, Fate.NOT_CONSUMED])
def test_what_may_be_lost_is_said_beside_another_cause(main: Fate) -> None:
    judged = judge(facts(SHORT, fated(main, 598), fated(Fate.LOST_OR_NOT_VISIBLE, 2)))

    assert judged.cause not in (None, "not known")
    assert "2 messages lost or not visible yet: 2 in partition 2" in judged.evidence


@pytest.mark.parametrize("fate", list(Fate))
@pytest.mark.parametrize("acks", list(VerifyAcks))
def test_no_cause_without_evidence(fate: Fate, acks: VerifyAcks) -> None:
    judged = judge(facts(SHORT, fated(fate), settings=replace(SETTINGS, acks=acks)))

    assert judged.cause
    assert judged.evidence
    assert judged.advice


@pytest.mark.parametrize(
    ("part", "whole", "text"),
    [
        (3_819, 5_000, "76.4 %"),
        (5_000, 5_000, "100.0 %"),
        (999_999, 1_000_000, "99.9 %"),
        (1, 1_000_000, "0.1 %"),
        (0, 5, "0.0 %"),
        (0, 0, "-"),
    ],
)
def test_a_share_is_whole_only_when_all_are_there(part: int, whole: int, text: str) -> None:
    assert percent(part, whole) == text
