"""The report says what there is to say, in a terminal of any width, and keeps quiet about what there is not."""

from __future__ import annotations

import json
from dataclasses import replace
from typing import Any

import pytest
from rich.console import Console, RenderableType

from chronik.verify.compare import compare
from chronik.verify.fates import Fate
from chronik.verify.history import KeptRun
from chronik.verify.ledger import ACKNOWLEDGED, LedgerPlace
from chronik.verify.pulse import Stall
from chronik.verify.report import bar, changes, comparison_table, history_table, render, signed_percent
from chronik.verify.result import VerifyResult
from chronik.verify.settings import VerifySettings
from chronik.verify.verdict import FateCount, Judgement, VerifyOutcome

SETTINGS = VerifySettings("127.0.0.1:9092", messages=6)
WHOLE = compare([ACKNOWLEDGED] * 6, [0, 1, 2] * 2, range(6), [0, 1, 2] * 2, [0, 0, 0, 1, 1, 1], {0: 0, 1: 0, 2: 0})
SHORT = compare([ACKNOWLEDGED] * 6, [0, 1, 2] * 2, [0, 1, 3, 4], [0, 1] * 2, [0, 0, 1, 1], {0: 0, 1: 0, 2: 0})
PASSED = VerifyResult(
    run=7,
    started_at="2026-11-16T04:25:00+00:00",
    settings=SETTINGS,
    topic="chronik-verify-7",
    group="g",
    replication=3,
    is_topic_kept=False,
    versions={"chronik": "0.1.0", "client": "3.0.12", "cluster": "chronik 0.1.0"},
    comparison=WHOLE,
    fates=(),
    errors={},
    stalls=(),
    judgement=Judgement(VerifyOutcome.PASS, None, "6 of 6 messages consumed, each once and in order"),
    produce_s=0.5,
    consume_s=3.5,
    first_s=3.1,
    seconds=4.0,
)
FELL_SHORT = replace(
    PASSED,
    run=8,
    comparison=SHORT,
    is_topic_kept=True,
    fates=(FateCount(Fate.LOST, 2, {2: 2}, 2, LedgerPlace(2, 17)),),
    stalls=(Stall("consume", 4.2, 55.8, 4),),
    judgement=Judgement(
        VerifyOutcome.PARTIAL, "acknowledged and lost", "4 of 6 messages consumed (66.7 %)", ("seen",), "do it"
    ),
)


def shown(what: RenderableType, width: int = 100) -> str:
    console = Console(width=width, highlight=False, color_system=None)
    with console.capture() as capture:
        console.print(what)
    return capture.get()


def report(result: VerifyResult) -> dict[str, Any]:
    return dict(json.loads(json.dumps(result.to_json())))


def test_the_keys_of_the_contract_are_there() -> None:
    keys = [
        "produced",
        "acknowledged",
        "consumed",
        "lost",
        "duplicated",
        "reordered",
        "gaps",
        "stalls",
        "partitions",
        "verdict",
        "cause",
        "seconds",
    ]

    assert [key for key in keys if key not in report(PASSED)] == []


def test_a_pass_in_figures() -> None:
    told = report(PASSED)

    assert (told["verdict"], told["cause"], told["lost"], told["gaps"], told["stalls"]) == ("pass", None, 0, 0, [])
    assert (told["produced"], told["acknowledged"], told["consumed"]) == (6, 6, 6)
    assert [(part["partition"], part["consumed"]) for part in told["partitions"]] == [(0, 2), (1, 2), (2, 2)]
    assert (told["produced_per_second"], told["consumed_per_second"]) == (12, 2)


def test_lost_is_what_was_acknowledged_and_is_gone_not_what_is_late() -> None:
    late = replace(FELL_SHORT, fates=(FateCount(Fate.NOT_FETCHED, 2, {2: 2}, 2, LedgerPlace(2, 17)),))

    assert report(FELL_SHORT)["lost"] == 2
    assert report(late)["lost"] == 0
    assert report(late)["missing"] == 2


def test_what_may_be_lost_is_not_counted_as_lost_nor_shown_as_if_nothing_were() -> None:
    fates = (FateCount(Fate.LOST_OR_NOT_VISIBLE, 2, {2: 2}, 2, LedgerPlace(2, 17)),)
    told = report(replace(FELL_SHORT, fates=fates))

    assert (told["lost"], told["missing"], told["fates"][0]["count"]) == (0, 2, 2)
    assert "missing 2   lost 0 to 2   duplicated 0" in shown(render(told))
    assert "0 to 2" in shown(history_table([KeptRun(8, PASSED.started_at, told["settings"], told)]), 160)


def test_a_pass_says_so_and_no_more_than_that() -> None:
    text = shown(render(report(PASSED)))

    assert "✔ PASS" in text
    assert "6 of 6 messages consumed" in text
    assert "the first one after 3.1 s" in text
    assert "deleted again" in text
    assert "missing 0   lost 0" in text
    for word in ("cause", "evidence", "where the missing ones are", "stall "):
        assert word not in text


def test_what_fell_short_has_cause_evidence_fates_stalls_and_the_way_on() -> None:
    text = shown(render(report(FELL_SHORT)))

    assert "◐ PARTIAL" in text
    assert "cause  acknowledged and lost" in text
    assert "evidence   · seen" in text
    assert "what to do · do it" in text
    assert "number 2, partition 2 offset 17" in text
    assert "nothing consumed" in text
    assert "55.8 s" in text
    assert "chronik where chronik-verify-7 2 17" in text


@pytest.mark.parametrize("width", [80, 100, 200])
def test_the_report_fits_the_terminal_and_cuts_no_figure(width: int) -> None:
    text = shown(render(report(FELL_SHORT)), width)

    assert max(map(len, text.splitlines())) <= width
    assert "reordered" in text
    assert "0 to 1" in text


def test_a_bar_has_its_share_of_the_cells() -> None:
    assert bar(8, 8, 4) == "████"
    assert bar(4, 8, 4) == "██"
    assert bar(1, 32, 4) == "▏"
    assert bar(0, 0, 4) == ""


def test_nothing_has_no_sign() -> None:
    assert signed_percent(-0.0002) == "0.0 %"
    assert signed_percent(0.125) == "+12.5 %"
    assert signed_percent(-0.5) == "-50.0 %"


def test_the_history_is_a_table_of_runs() -> None:
    noted = report(replace(FELL_SHORT, settings=replace(SETTINGS, note="watermark sent as events")))
    runs = [KeptRun(result["run"], PASSED.started_at, result["settings"], result) for result in (report(PASSED), noted)]

    text = shown(history_table([*runs, KeptRun(9, PASSED.started_at, SETTINGS.to_json(), None)]), 160)

    assert "100.0 %" in text
    assert "66.7 %" in text
    assert "partial: acknowledged and lost" in text
    assert "watermark sent as events" in text
    assert "stopped" in text


def test_two_runs_differ_in_settings_and_figures() -> None:
    before, after = report(PASSED), report(replace(FELL_SHORT, settings=replace(SETTINGS, max_poll_records=5_000)))

    found = changes(before, after)

    assert found["max_poll_records"] == (500, 5_000)
    assert found["consumed"] == (6, 4)
    assert found["verdict"] == ("pass", "partial")
    assert found["stalls"] == (0, 1)
    assert "acknowledged" not in found
    assert "-33.3 %" in shown(comparison_table(before, after))


def test_runs_that_do_not_differ_say_so() -> None:
    assert "in everything" in shown(comparison_table(report(PASSED), report(PASSED)))
