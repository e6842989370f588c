"""The view in a terminal that is not there: keys and clicks go in, lines come out."""

from __future__ import annotations

import asyncio
import queue
from collections.abc import Awaitable, Callable
from dataclasses import replace

import pytest
from textual import events
from textual.pilot import Pilot
from textual.widgets import Input, Static

from chronik.cli.watch.app import WatchApp
from chronik.cli.watch.screens import KeySheet, PartitionSheet, StallSheet
from chronik.client.request import NoAnswer
from chronik.inspect.live_model import ClusterSnapshot, LiveView, RateHistory
from chronik.inspect.poller import Away, Broken, Eye
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.inspect.watched import NOW_US, copy, follower, group, led, snapshot, state

PAUSES_MAX = 100
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


def view_of(*partitions: object, verdicts: tuple[Verdict, ...] = ()) -> LiveView:
    groups = [group("billing", [("orders", 0, 40)])]
    told = state(1, partitions or PARTITIONS, groups=groups)  # type: ignore[arg-type]
    return RateHistory().take(snapshot(0.0, told, state(2), verdicts=verdicts))


class Terminal:
    """A terminal of some size, the view in it, and a person before it."""

    def __init__(self, app: WatchApp, pilot: Pilot[None]) -> None:
        self.app = app
        self._pilot = pilot

    async def press(self, *keys: str) -> None:
        await self._pilot.press(*keys)

    async def click(self, place: str, x: int = 0) -> None:
        await self._pilot.click(place, offset=(x, 0))

    async def until(self, condition: Callable[[], bool]) -> None:
        """On a busy machine one pause is not always enough for everything to be drawn."""
        for _ in range(PAUSES_MAX):
            if condition():
                return
            await self._pilot.pause()
        pytest.fail(f"the screen is\n{self.page()}")

    def tell(self, seen: LiveView | Away | Broken) -> None:
        self.app.take(WatchApp.SightTaken(seen))

    def names(self) -> list[str]:
        return [row.name for row in self.app.partitions.items]

    def text(self, name: str) -> str:
        return str(self.app.screen_stack[0].query_one(f"#{name}", Static).render())

    def lines(self) -> list[str]:
        return [strip.text.rstrip() for strip in self.app.screen._compositor.render_strips()]

    def page(self) -> str:
        return "\n".join(self.lines())


Steps = Callable[[Terminal], Awaitable[None]]


def use(view: LiveView, steps: Steps, size: tuple[int, int] = (120, 40)) -> WatchApp:
    app = WatchApp("127.0.0.1:9092", view)

    async def run() -> None:
        async with app.run_test(size=size) as pilot:
            terminal = Terminal(app, pilot)
            await terminal.until(lambda: bool(terminal.text("stalls")))
            await steps(terminal)

    asyncio.run(run())
    return app


@pytest.mark.parametrize("size", [(80, 24), (120, 40), (60, 15), (200, 60)])
def test_partitions_groups_and_stalls_are_on_one_screen_of_any_size(size: tuple[int, int]) -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.until(lambda: "chronik watch" in terminal.lines()[0])
        await terminal.until(lambda: "nodes 1 2" in terminal.lines()[0])
        await terminal.until(lambda: "3 partitions" in terminal.lines()[1])
        await terminal.until(lambda: any("orders" in line and "1 2 !3" in line for line in terminal.lines()))
        await terminal.until(lambda: any("billing" in line and "Stable" in line for line in terminal.lines()))
        await terminal.until(lambda: "● nothing stalls" in terminal.lines()[-2])
        await terminal.until(lambda: "filter" in terminal.lines()[-1])

    use(view_of(), steps, size)


def test_a_silent_node_is_named_and_a_partition_without_leader_is_marked() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.until(lambda: terminal.lines()[0].endswith("nodes 2 !1 silent"))
        await terminal.until(lambda: "1 without leader" in terminal.lines()[1])
        await terminal.until(lambda: "node 1 is silent: it hung up" in terminal.lines()[-2])
        await terminal.until(lambda: any("orders" in line and " 1? " in line for line in terminal.lines()))

    use(RateHistory().take(snapshot(0.0, state(2, copies=[copy()]), silent={1: "it hung up"})), steps)


def test_what_is_told_later_is_shown() -> None:
    async def steps(terminal: Terminal) -> None:
        terminal.tell(view_of(led("orders", 0, watermark=987_654)))

        await terminal.until(lambda: any("987,654" in line for line in terminal.lines()))
        await terminal.until(lambda: terminal.names() == ["orders:0"])

    use(view_of(), steps)


def test_keys_move_the_sort_column_and_turn_it_round() -> None:
    async def steps(terminal: Terminal) -> None:
        for _ in range(5):
            await terminal.press("right")
        await terminal.until(lambda: "watermark▼" in terminal.text("heading"))
        await terminal.until(lambda: terminal.names() == ["payments:0", "orders:0", "orders:1"])

        await terminal.press("r")
        await terminal.until(lambda: "watermark▲" in terminal.text("heading"))
        await terminal.until(lambda: terminal.names() == ["orders:0", "orders:1", "payments:0"])

        await terminal.press("left")
        await terminal.until(lambda: "stable▼" in terminal.text("heading"))

    use(view_of(), steps)


def test_a_click_on_a_title_sorts_by_it_and_a_second_one_turns_it_round() -> None:
    async def steps(terminal: Terminal) -> None:
        place = terminal.text("heading").index("lag ")
        await terminal.click("#heading", place + 1)
        await terminal.until(lambda: terminal.names()[0] == "orders:1")

        await terminal.click("#heading", place + 1)
        await terminal.until(lambda: terminal.names()[-1] == "orders:1")

    use(view_of(), steps)


def test_a_filter_is_typed_kept_and_cleared() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press("slash", *"pay")
        await terminal.until(lambda: terminal.names() == ["payments:0"])
        await terminal.until(lambda: "3 partitions (1 shown)" in terminal.text("totals"))

        await terminal.press("enter")
        await terminal.until(lambda: not terminal.app.query_one("#filter", Input).display)
        await terminal.until(lambda: "filter pay" in terminal.text("title"))

        await terminal.press("escape")
        await terminal.until(lambda: len(terminal.names()) == 3)

    use(view_of(), steps)


def test_what_is_typed_fast_after_the_slash_is_for_the_filter() -> None:
    async def steps(terminal: Terminal) -> None:
        for key in ("slash", "p", "a", "y"):  # all there before the first is looked at
            terminal.app.post_message(events.Key(key, "/" if key == "slash" else key))

        await terminal.until(lambda: terminal.app.query_one("#filter", Input).value == "pay")

    use(view_of(), steps)


def test_a_filter_that_fits_nothing_says_how_to_get_back() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press("slash", *"zzz", "enter")

        await terminal.until(
            lambda: any("no partition is like that (Esc shows all)" in line for line in terminal.lines())
        )

    use(view_of(), steps)


def test_only_what_is_in_trouble_is_shown_on_demand_and_internal_topics_too() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.until(lambda: terminal.names() == ["orders:0", "orders:1"])

        await terminal.press("p")
        await terminal.until(lambda: terminal.names() == ["orders:1"])

        await terminal.press("p", "i")
        await terminal.until(lambda: terminal.names() == ["orders:0", "orders:1", "__consumer_offsets:0"])

    use(view_of(led("orders", 0), LAGGING, led("__consumer_offsets", 0)), steps)


def test_enter_opens_all_about_a_partition_and_it_stays_up_to_date() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press("down", "enter")
        await terminal.until(lambda: isinstance(terminal.app.screen, PartitionSheet))
        await terminal.until(lambda: "follower 3" in terminal.page())
        await terminal.until(lambda: "out of sync" in terminal.page())
        await terminal.until(lambda: "40 records behind" in terminal.page())

        terminal.tell(view_of(led("orders", 1, watermark=555)))
        await terminal.until(lambda: "555" in terminal.page())

        terminal.tell(view_of(led("other", 0)))
        await terminal.until(lambda: "It is gone" in terminal.page())

        await terminal.press("escape")
        await terminal.until(lambda: not isinstance(terminal.app.screen, PartitionSheet))

    use(view_of(), steps)


def test_what_stalls_is_one_line_and_opens_with_evidence_and_advice() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.until(lambda: "watermark stands still: orders-1 stands at 100" in terminal.text("stalls"))
        await terminal.until(lambda: "+1" in terminal.text("stalls"))

        await terminal.press("s")
        await terminal.until(lambda: isinstance(terminal.app.screen, StallSheet))
        await terminal.until(lambda: "follower 3 is 40 records behind" in terminal.page())
        await terminal.until(lambda: "look at node 3" in terminal.page())

        await terminal.press("escape")
        await terminal.click("#stalls")
        await terminal.until(lambda: isinstance(terminal.app.screen, StallSheet))

    use(view_of(verdicts=(STALL, STALL)), steps)


def test_keys_are_explained() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press("question_mark")

        await terminal.until(lambda: isinstance(terminal.app.screen, KeySheet))
        await terminal.until(lambda: "only partitions in trouble" in terminal.page())

    use(view_of(), steps)


def test_a_cluster_that_goes_away_is_said_and_the_view_goes_on_when_it_is_back() -> None:
    async def steps(terminal: Terminal) -> None:
        terminal.tell(Away(NoAnswer("127.0.0.1:9092 does not answer: refused"), 12.3))
        await terminal.until(lambda: "nothing answers for 12 s, trying again" in terminal.lines()[0])
        await terminal.until(lambda: "127.0.0.1:9092 does not answer: refused" in terminal.lines()[-2])
        await terminal.until(lambda: len(terminal.names()) == 3)

        terminal.tell(view_of(led("orders", 0)))
        await terminal.until(lambda: terminal.lines()[0].startswith(" chronik watch"))
        await terminal.until(lambda: terminal.names() == ["orders:0"])

    use(view_of(), steps)


def test_it_is_said_when_the_nodes_are_slow_to_answer() -> None:
    async def steps(terminal: Terminal) -> None:
        terminal.tell(replace(view_of(), took_s=4.2))
        await terminal.until(lambda: "a look takes 4 s" in terminal.lines()[0])

        terminal.tell(replace(view_of(), took_s=0.2))
        await terminal.until(lambda: "a look takes" not in terminal.lines()[0])

    use(view_of(), steps)


def test_a_view_that_is_held_does_not_change() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press("space")
        terminal.tell(view_of(led("later", 0)))
        await terminal.until(lambda: "held" in terminal.text("title"))
        await terminal.until(lambda: len(terminal.names()) == 3)

        await terminal.press("space")
        terminal.tell(view_of(led("later", 0)))
        await terminal.until(lambda: terminal.names() == ["later:0"])

    use(view_of(), steps)


def test_the_cursor_stays_on_its_partition_when_others_come_before_it() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press("end")
        terminal.tell(view_of(led("aaa", 0), *PARTITIONS, led("zzz", 0)))

        assert getattr(terminal.app.partitions.current, "name", None) == "payments:0"

    use(view_of(), steps)


def test_many_partitions_are_scrolled_and_only_those_in_sight_are_drawn() -> None:
    many = [led("orders", number, watermark=number) for number in range(5000)]

    async def steps(terminal: Terminal) -> None:
        await terminal.press("end")
        await terminal.until(lambda: any("4,999" in line for line in terminal.lines()))
        await terminal.until(lambda: len(terminal.app.partitions.in_sight) < 40)

        await terminal.press("home", "pagedown")
        await terminal.until(lambda: 0 < getattr(terminal.app.partitions.current, "partition", 0) < 40)

    use(view_of(*many), steps)


def test_groups_can_be_hidden() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press("g")
        await terminal.until(lambda: not any("billing" in line for line in terminal.lines()))

        await terminal.press("g")
        await terminal.until(lambda: any("billing" in line for line in terminal.lines()))

    use(view_of(), steps)


def test_brackets_in_names_are_text_and_no_markup() -> None:
    odd = Verdict(Cause.FETCH_HANGS, "[bold]x[/nope]", ("[red]seen",), "[b]do", NOW_US)

    async def steps(terminal: Terminal) -> None:
        await terminal.until(lambda: "[bold]x[/nope]" in terminal.text("stalls"))
        await terminal.press("s")
        await terminal.until(lambda: "[red]seen" in terminal.page())

    use(view_of(verdicts=(odd,)), steps)


def test_an_empty_cluster_is_said_to_be_empty() -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.until(lambda: "no partitions" in terminal.page())
        await terminal.until(lambda: "no groups" in terminal.page())
        await terminal.press("down", "enter", "end", "r", "right", "tab", "down")

    use(RateHistory().take(snapshot(0.0, state(1))), steps)


def test_a_fault_of_ours_closes_the_view_and_is_handed_on() -> None:
    async def steps(terminal: Terminal) -> None:
        terminal.tell(Broken(ZeroDivisionError("a bug")))

    assert str(use(view_of(), steps).fault) == "a bug"


@pytest.mark.parametrize("keys", [["q"], ["ctrl+c"], ["slash", "ctrl+c"], ["s", "ctrl+c"]], ids=" ".join)
def test_q_and_control_c_quit(keys: list[str]) -> None:
    async def steps(terminal: Terminal) -> None:
        await terminal.press(*keys)
        await terminal.until(lambda: not terminal.app.is_running)

    use(view_of(), steps)


def test_it_shows_what_the_eye_sees_while_it_is_open() -> None:
    answers: queue.Queue[ClusterSnapshot] = queue.Queue()
    answers.put(snapshot(1.0, state(1, [led("fresh", 0)])))
    app = WatchApp("127.0.0.1:9092", view_of(), Eye(lambda: answers.get(timeout=30), 0.0))

    async def run() -> None:
        async with app.run_test() as pilot:
            terminal = Terminal(app, pilot)
            await terminal.until(lambda: terminal.names() == ["fresh:0"])

    asyncio.run(run())
    answers.put(snapshot(2.0, state(1)))  # it still waits for this one
