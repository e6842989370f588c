"""The view in a terminal that is not there: keys and clicks go in, lines come out."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, Static

from chronik.cli.watch_app import WatchApp
from chronik.cli.watch_eye import Away, Broken, Eye
from chronik.cli.watch_model import History, Snapshot, View
from chronik.cli.watch_screens import KeySheet, PartitionSheet, StallSheet
from chronik.shell.asking import NoAnswer
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.cli.watched import NOW_US, copy, follower, group, led, snapshot, state

STALL = Verdict(
    Cause.WATERMARK_STANDS_STILL,
    "orders-1 stands at 100 for 7 s: node 3 does not fetch",
    ("follower 3 is 40 records behind", "it asked 7,000 ms ago"),
    "look at node 3",
    NOW_US,
    "orders",
    1,
)
LAGGING = led("orders", 1, in_sync=(1, 2), followers=[follower(2), follower(3, lag_records=40, is_in_sync=False)])
PARTITIONS = [led("orders", 0, watermark=100, next_offset=130), LAGGING, led("payments", 0, watermark=70_000)]


def view_of(*partitions: object, verdicts: tuple[Verdict, ...] = ()) -> View:
    groups = [group("billing", [("orders", 0, 40)])]
    told = state(1, partitions or PARTITIONS, groups=groups)  # type: ignore[arg-type]
    return History().take(snapshot(0.0, told, state(2), verdicts=verdicts))


def use(
    view: View, steps: Callable[[WatchApp, Pilot[None]], Awaitable[None]], size: tuple[int, int] = (120, 40)
) -> WatchApp:
    app = WatchApp("127.0.0.1:9092", view)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            await pilot.pause()
            await steps(app, pilot)

    asyncio.run(run())
    return app


def names(app: WatchApp) -> list[str]:
    return [row.name for row in app.partitions.items]


def text(app: WatchApp, name: str) -> str:
    return str(app.screen_stack[0].query_one(f"#{name}", Static).render())


def screen_lines(app: WatchApp) -> list[str]:
    """What a person would see."""
    return [strip.text.rstrip() for strip in app.screen._compositor.render_strips()]


def told(app: WatchApp, seen: View | Away | Broken) -> None:
    app.post_message(WatchApp.Told(seen))


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 15), (200, 60)])
def test_partitions_groups_and_stalls_are_on_one_screen_of_any_size(size: tuple[int, int]) -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        lines = screen_lines(app)

        assert "chronik watch" in lines[0]
        assert "nodes 1 2" in lines[0]
        assert "3 partitions" in lines[1]
        assert any("orders" in line and "1 2 !3" in line for line in lines)
        assert any("billing" in line and "Stable" in line for line in lines)
        assert "● nothing stalls" in lines[-2]
        assert "filter" in lines[-1]

    use(view_of(), steps, size)


def test_a_silent_node_is_named_and_a_partition_without_leader_is_marked() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        lines = screen_lines(app)

        assert lines[0].endswith("nodes 2 !1 silent")
        assert "1 without leader" in lines[1]
        assert "node 1 is silent: it hung up" in lines[-2]
        assert any("orders" in line and " 1? " in line for line in lines)

    use(History().take(snapshot(0.0, state(2, copies=[copy()]), silent={1: "it hung up"})), steps)


def test_what_is_told_later_is_shown() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        told(app, view_of(led("orders", 0, watermark=987_654)))
        await pilot.pause()

        assert any("987,654" in line for line in screen_lines(app))
        assert names(app) == ["orders:0"]

    use(view_of(), steps)


def test_keys_move_the_sort_column_and_turn_it_round() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        for _ in range(5):
            await pilot.press("right")
        assert "watermark▼" in text(app, "heading")
        assert names(app) == ["payments:0", "orders:0", "orders:1"]

        await pilot.press("r")
        assert "watermark▲" in text(app, "heading")
        assert names(app) == ["orders:0", "orders:1", "payments:0"]

        await pilot.press("left")
        assert "stable▼" in text(app, "heading")

    use(view_of(), steps)


def test_a_click_on_a_title_sorts_by_it_and_a_second_one_turns_it_round() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        place = text(app, "heading").index("lag ")
        await pilot.click("#heading", offset=(place + 1, 0))
        assert names(app)[0] == "orders:1"

        await pilot.click("#heading", offset=(place + 1, 0))
        assert names(app)[-1] == "orders:1"

    use(view_of(), steps)


def test_a_filter_is_typed_kept_and_cleared() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"pay")
        assert names(app) == ["payments:0"]
        assert "3 partitions (1 shown)" in text(app, "totals")

        await pilot.press("enter")
        assert not app.query_one("#filter", Input).display
        assert "filter pay" in text(app, "title")

        await pilot.press("escape")
        assert len(names(app)) == 3

    use(view_of(), steps)


def test_what_is_typed_fast_after_the_slash_is_for_the_filter() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        for key in ("slash", "p", "a", "y"):  # all there before the first is looked at
            app.post_message(events.Key(key, "/" if key == "slash" else key))
        await pilot.pause()
        await pilot.pause()

        assert app.query_one("#filter", Input).value == "pay"

    use(view_of(), steps)


def test_a_filter_that_fits_nothing_says_how_to_get_back() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("slash", *"zzz", "enter")

        assert any("no partition is like that (Esc shows all)" in line for line in screen_lines(app))

    use(view_of(), steps)


def test_only_what_is_in_trouble_is_shown_on_demand_and_internal_topics_too() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        assert names(app) == ["orders:0", "orders:1"]

        await pilot.press("p")
        assert names(app) == ["orders:1"]

        await pilot.press("p", "i")
        assert names(app) == ["orders:0", "orders:1", "__consumer_offsets:0"]

    use(view_of(led("orders", 0), LAGGING, led("__consumer_offsets", 0)), steps)


def test_enter_opens_all_about_a_partition_and_it_stays_up_to_date() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("down", "enter")
        await pilot.pause()
        assert isinstance(app.screen, PartitionSheet)
        page = "\n".join(screen_lines(app))
        assert "follower 3" in page
        assert "out of sync" in page
        assert "40 records behind" in page

        told(app, view_of(led("orders", 1, watermark=555)))
        await pilot.pause()
        assert "555" in "\n".join(screen_lines(app))

        told(app, view_of(led("other", 0)))
        await pilot.pause()
        assert "It is gone" in "\n".join(screen_lines(app))

        await pilot.press("escape")
        assert not isinstance(app.screen, PartitionSheet)

    use(view_of(), steps)


def test_what_stalls_is_one_line_and_opens_with_evidence_and_advice() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        assert "watermark stands still: orders-1 stands at 100" in text(app, "stalls")
        assert "+1" in text(app, "stalls")

        await pilot.press("s")
        await pilot.pause()
        assert isinstance(app.screen, StallSheet)
        page = "\n".join(screen_lines(app))
        assert "follower 3 is 40 records behind" in page
        assert "look at node 3" in page

        await pilot.press("escape")
        await pilot.click("#stalls")
        await pilot.pause()
        assert isinstance(app.screen, StallSheet)

    use(view_of(verdicts=(STALL, STALL)), steps)


def test_keys_are_explained() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("question_mark")
        await pilot.pause()

        assert isinstance(app.screen, KeySheet)
        assert "only partitions in trouble" in "\n".join(screen_lines(app))

    use(view_of(), steps)


def test_a_cluster_that_goes_away_is_said_and_the_view_goes_on_when_it_is_back() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        told(app, Away(NoAnswer("127.0.0.1:9092 does not answer: refused"), 12.3))
        await pilot.pause()
        assert "nobody answers for 12 s, trying again" in screen_lines(app)[0]
        assert "127.0.0.1:9092 does not answer: refused" in screen_lines(app)[-2]
        assert len(names(app)) == 3  # what was last seen stays

        told(app, view_of(led("orders", 0)))
        await pilot.pause()
        assert screen_lines(app)[0].startswith(" chronik watch")
        assert names(app) == ["orders:0"]

    use(view_of(), steps)


def test_a_view_that_is_held_does_not_change() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("space")
        told(app, view_of(led("later", 0)))
        await pilot.pause()
        assert "held" in text(app, "title")
        assert len(names(app)) == 3

        await pilot.press("space")
        told(app, view_of(led("later", 0)))
        await pilot.pause()
        assert names(app) == ["later:0"]

    use(view_of(), steps)


def test_the_cursor_stays_on_its_partition_when_others_come_before_it() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        told(app, view_of(led("aaa", 0), *PARTITIONS, led("zzz", 0)))
        await pilot.pause()

        current = app.partitions.current
        assert current is not None
        assert current.name == "payments:0"

    use(view_of(), steps)


def test_many_partitions_are_scrolled_and_only_those_in_sight_are_drawn() -> None:
    many = [led("orders", number, watermark=number) for number in range(5000)]

    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("end")
        await pilot.pause()
        assert any("4,999" in line for line in screen_lines(app))
        assert len(app.partitions.in_sight) < 40

        await pilot.press("home", "pagedown")
        assert app.partitions.current is not None
        assert 0 < app.partitions.current.partition < 40

    use(view_of(*many), steps)


def test_groups_can_be_hidden() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press("g")
        await pilot.pause()
        assert not any("billing" in line for line in screen_lines(app))

        await pilot.press("g")
        await pilot.pause()
        assert any("billing" in line for line in screen_lines(app))

    use(view_of(), steps)


def test_brackets_in_names_are_text_and_no_markup() -> None:
    odd = Verdict(Cause.FETCH_HANGS, "[bold]x[/nope]", ("[red]seen",), "[b]do", NOW_US)

    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        assert "[bold]x[/nope]" in text(app, "stalls")
        await pilot.press("s")
        await pilot.pause()
        assert "[red]seen" in "\n".join(screen_lines(app))

    use(view_of(verdicts=(odd,)), steps)


def test_an_empty_cluster_is_said_to_be_empty() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        page = "\n".join(screen_lines(app))
        assert "no partitions" in page
        assert "no groups" in page
        await pilot.press("down", "enter", "end", "r", "right", "tab", "down")

    use(History().take(snapshot(0.0, state(1))), steps)


def test_a_fault_of_ours_closes_the_view_and_is_handed_on() -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        told(app, Broken(ZeroDivisionError("a bug")))
        await pilot.pause()

    assert str(use(view_of(), steps).fault) == "a bug"


@pytest.mark.parametrize("keys", [["q"], ["ctrl+c"], ["slash", "ctrl+c"], ["s", "ctrl+c"]], ids=" ".join)
def test_q_and_control_c_quit(keys: list[str]) -> None:
    async def steps(app: WatchApp, pilot: Pilot[None]) -> None:
        await pilot.press(*keys)

    assert use(view_of(), steps).return_code == 0


def test_it_shows_what_the_eye_sees_while_it_is_open() -> None:
    answers: queue.Queue[Snapshot] = queue.Queue()
    asked: queue.Queue[int] = queue.Queue()

    def look() -> Snapshot:
        asked.put(1)
        return answers.get(timeout=30)

    app = WatchApp("127.0.0.1:9092", view_of(), Eye(look, 0.0))

    async def run() -> None:
        async with app.run_test() as pilot:
            answers.put(snapshot(1.0, state(1, [led("fresh", 0)])))
            for _ in range(2):  # when it asks the second time, it has told what it saw the first time
                await asyncio.to_thread(asked.get, timeout=30)
            await pilot.pause()
            assert names(app) == ["fresh:0"]

    asyncio.run(run())
    answers.put(snapshot(2.0, state(1)))
