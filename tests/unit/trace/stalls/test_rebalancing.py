"""Group is rebalancing: for too long, or again and again."""

from __future__ import annotations

from chronik.trace.events import AnyEvent, GroupSeen
from chronik.trace.stalls.limits import Limits
from chronik.trace.stalls.rebalancing import find
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.trace.stalls.told import at, changed, group, history, joined, left, member

PREPARING = "PreparingRebalance"
ALL = member(0, member_id="m1"), member(1, member_id="m2", client="slow")


def found(*events: AnyEvent, now: float = 60) -> list[Verdict]:
    return list(find(history(*events, now=now), Limits()))


def unrest(first: int, last: int = 60, state: str = PREPARING) -> list[AnyEvent]:
    return [group(second, *ALL, state=state, state_ms=1_000 * (second - first)) for second in range(first, last + 1)]


def test_a_group_that_does_not_come_to_rest_is_told_with_whom_it_waits_for() -> None:
    events = [group(39, *ALL), changed(40, PREPARING), joined(41, "m1"), *unrest(40)]
    (verdict,) = found(*events)

    assert verdict.cause is Cause.GROUP_REBALANCING
    assert (verdict.group, verdict.since_us, verdict.node) == ("billing", at(40), 2)
    assert any("not yet: 'slow' on" in line for line in verdict.evidence)
    assert any("it went from Stable to PreparingRebalance" in line for line in verdict.evidence)


def test_one_look_is_enough_when_the_node_knows_how_long() -> None:
    (verdict,) = found(group(60, *ALL, state=PREPARING, state_ms=30_000))
    assert verdict.since_us == at(30)


def test_one_state_after_another_is_still_no_rest() -> None:
    assert len(found(*unrest(45, 52), *unrest(53, 60, "CompletingRebalance"))) == 1


def test_rest_in_between_is_rest() -> None:
    assert found(*unrest(40, 54), changed(54.5, "Stable"), *unrest(55)) == []
    assert found(*unrest(40, 54), group(54.5, *ALL), *unrest(55)) == []


def test_a_group_that_rebalances_for_a_moment_is_well() -> None:
    assert found(*unrest(52)) == []


def test_groups_at_rest_are_well() -> None:
    for state in ("Stable", "Empty", "Dead"):
        assert found(*unrest(0, state=state)) == []


def test_a_group_that_is_gone_is_not_told() -> None:
    assert found(*unrest(0, 50)) == []


# --- again and again


def churning(first: int = 10, last: int = 60, step: int = 5) -> list[AnyEvent]:
    """Every so often a guest comes, and at the next turn he goes."""
    events: list[AnyEvent] = []
    for second in range(last + 1):
        turn = max(second - first + step, 0) // step
        guest = [member(1, member_id=f"guest-{turn}", client="guest")] if turn % 2 else []
        events.append(group(second, member(0), *guest, generation=1 + turn))
    return events


def test_a_group_that_is_dealt_out_again_and_again_is_told() -> None:
    (verdict,) = found(*churning(), left(55, member_id="guest-9", client="guest"))
    assert verdict.cause is Cause.GROUP_REBALANCING
    assert "dealt out anew 11 times" in verdict.summary
    assert verdict.since_us == at(10)
    assert any("generations 1 to 12" in line for line in verdict.evidence)
    assert any("'guest'" in line for line in verdict.evidence)


def test_it_is_told_without_any_change_of_members_too() -> None:
    restless = [group(second, member(0), generation=1 + second // 5) for second in range(61)]
    assert len(found(*restless)) == 1


def test_when_it_is_over_it_is_over() -> None:
    assert found(*churning(last=40), *(group(each, member(0), generation=8) for each in range(41, 61))) == []


def test_a_group_that_only_grows_or_shrinks_is_well() -> None:
    def counting(second: int) -> int:
        return 1 + second // 8

    growing = [
        group(second, *(member(member_id=f"m{n}") for n in range(counting(second))), generation=counting(second))
        for second in range(61)
    ]
    shrinking = [
        group(second, *(member(member_id=f"m{n}") for n in range(9 - counting(second))), generation=counting(second))
        for second in range(61)
    ]
    assert found(*growing) == []
    assert found(*shrinking) == []


def test_a_group_that_grows_and_then_ends_as_a_whole_is_well() -> None:
    members = [member(member_id=f"m{number}") for number in range(5)]
    events = [group(second, *members[: 1 + second // 10], generation=1 + second // 10) for second in range(50)]
    end = [group(second, member(member_id="next"), generation=6) for second in range(50, 61)]
    assert found(*events, *end) == []


def test_a_burst_at_the_start_is_well() -> None:
    burst = [group(50 + number, member(member_id=f"m{number}"), generation=number) for number in range(11)]
    assert found(*burst) == []


def test_a_job_that_comes_and_goes_alone_disturbs_nobody() -> None:
    job = [event for event in churning() if isinstance(event, GroupSeen)]
    alone = [group((each.at_us - at(0)) / 1e6, *each.members[1:], generation=each.generation) for each in job]
    assert found(*alone) == []
