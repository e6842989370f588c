"""The terminal view of `chronik watch`. It sends no requests: an Eye gives it what there is to see."""

from __future__ import annotations

from dataclasses import replace
from typing import ClassVar

from rich.text import Text
from textual import events, on
from textual.app import App, ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Horizontal
from textual.message import Message
from textual.widgets import Footer, Input, Static

from chronik.cli.watch import columns, words
from chronik.cli.watch.columns import BAD, NOTABLE, QUIET, Sort
from chronik.cli.watch.lines import Lines
from chronik.cli.watch.screens import KeySheet, PartitionSheet, Sheet, StallSheet
from chronik.inspect.live_model import GroupRow, LiveView, Row, shown
from chronik.inspect.poller import Away, Broken, Eye, Seen

GROUP_LINES_MAX = 8
# What is shown is as old as this: worth saying when it is more than a moment.
SLOW_LOOK_S = 2.0
# Columns do not shrink with each number, but one that was wide long ago gives its room back.
VIEWS_A_WIDTH = 10


class Heading(Static):
    """The titles of the columns; a click on one sorts by it."""

    class Chosen(Message):
        def __init__(self, key: str) -> None:
            super().__init__()
            self.key = key

    laid: list[columns.Laid]

    def show(self, laid: list[columns.Laid], sort: Sort) -> None:
        self.laid = laid
        self.update(columns.header(laid, sort))

    def on_click(self, event: events.Click) -> None:
        for place in self.laid:
            if place.start - 1 <= event.x <= place.end:
                self.post_message(self.Chosen(place.column.key))
                return


class StallLine(Static):
    """What stalls now; a click tells why."""

    class Opened(Message):
        pass

    def on_click(self) -> None:
        self.post_message(self.Opened())


class WatchApp(App[None]):
    """Partitions, groups and stalls of one cluster, live."""

    TITLE = "chronik watch"
    ENABLE_COMMAND_PALETTE = False
    CSS = """
    #top { height: 1; background: $panel; }
    #title { width: 1fr; height: 1; padding: 0 1; text-wrap: nowrap; text-overflow: ellipsis; }
    #nodes { width: auto; height: 1; padding: 0 1; }
    #totals { height: auto; padding: 0 1; }
    #filter { height: 1; border: none; padding: 0 1; display: none; background: $boost; }
    #heading { height: 1; background: $boost; color: $text-muted; padding: 0 1; }
    #partitions { height: 1fr; padding: 0 1; }
    #group-heading { height: 1; padding: 0 1; background: $boost; color: $text-muted; }
    #groups { height: auto; padding: 0 1; }
    #stalls { height: auto; max-height: 2; padding: 0 1; background: $panel; }
    .away #partitions, .away #groups, .away #totals { opacity: 50%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        # With priority it is done before the next key is looked at, however fast one types.
        Binding("slash", "filter", "filter", key_display="/", priority=True),
        Binding("right,greater_than_sign", "sort(1)", "sort", key_display="←→"),
        Binding("left,less_than_sign", "sort(-1)", "sort left", show=False),
        Binding("r", "turn", "turn"),
        Binding("s", "stalls", "stalls"),
        Binding("p", "troubled", "problems"),
        Binding("i", "internal", "internal"),
        Binding("g", "groups", "groups"),
        Binding("space", "hold", "hold", show=False),
        Binding("question_mark", "keys", "keys", key_display="?"),
        Binding("escape", "unfilter", "clear", show=False),
        Binding("q", "quit", "quit"),
        Binding("ctrl+c", "quit", "quit", show=False, priority=True),
    ]

    def __init__(self, bootstrap: str, first: LiveView, eye: Eye | None = None) -> None:
        super().__init__()
        self.view = first
        self.fault: Exception | None = None
        self._bootstrap = bootstrap
        self._eye = eye
        self._away: Away | None = None
        self._sort = Sort()
        self._words = ""
        self._is_troubled = False
        self._is_internal = False
        self._is_held = False
        self._views = 0
        self._widths: dict[str, int] = {}
        self._laid: list[columns.Laid] = []
        self._group_widths: list[int] = []

    class SightTaken(Message):
        def __init__(self, seen: Seen) -> None:
            super().__init__()
            self.seen = seen

    def compose(self) -> ComposeResult:
        with Horizontal(id="top"):
            yield Static(id="title")
            yield Static(id="nodes")
        yield Static(id="totals")
        yield Input(
            placeholder="part of a name, such as ord :3; Enter keeps it, Esc clears it", compact=True, id="filter"
        )
        yield Heading(id="heading")
        yield Lines[Row](self._row_line, lambda row: row.name, "no partitions", id="partitions")
        yield Static(id="group-heading")
        yield Lines[GroupRow](self._group_line, lambda group: group.group, "no groups", id="groups")
        yield StallLine(id="stalls")
        yield Footer(show_command_palette=False, compact=True)

    def on_mount(self) -> None:
        self.partitions.focus()
        self.call_after_refresh(self.draw)
        if self._eye is not None:
            self._eye.open(lambda seen: self.post_message(self.SightTaken(seen)))

    def on_unmount(self) -> None:
        if self._eye is not None:
            self._eye.close()

    @property
    def partitions(self) -> Lines[Row]:
        return self.screen_stack[0].query_one("#partitions", Lines)

    @property
    def groups(self) -> Lines[GroupRow]:
        return self.screen_stack[0].query_one("#groups", Lines)

    def _static(self, name: str) -> Static:
        return self.screen_stack[0].query_one(f"#{name}", Static)

    # --- what the nodes report

    @on(SightTaken)
    def take(self, taken: SightTaken) -> None:
        match taken.seen:
            case Broken(error):
                self.fault = error
                self.exit(return_code=1)
                return
            case Away() as away:
                self._away = away
            case view:
                self._away = None
                if not self._is_held:
                    self._take_view(view)
        self.draw()

    def _take_view(self, view: LiveView) -> None:
        self.view = view
        self._views += 1
        if self._views % VIEWS_A_WIDTH == 0:
            self._widths = {}

    # --- drawing

    def draw(self) -> None:
        """Everything anew, from what was last seen."""
        self.screen_stack[0].set_class(self._away is not None, "away")
        self._draw_top()
        chosen = shown(self.view.rows, words=self._words, is_internal=self._is_internal, is_troubled=self._is_troubled)
        rows = columns.ordered(chosen, self._sort)
        self.partitions.empty = "no partition is like that (Esc shows all)" if self._is_filtered else "no partitions"
        self.partitions.show(rows)
        self._static("totals").update(words.totals_line(self.view, len(rows), self.size.width - 2))
        self._draw_columns()
        width = self.size.width - 3  # beside the margins and a scroll bar
        groups = sorted(self.view.groups, key=lambda group: (-(group.lag or 0), group.group))
        self._group_widths = columns.group_widths(groups, width)
        self._static("group-heading").update(columns.group_header(self._group_widths))
        self.groups.styles.max_height = max(min(GROUP_LINES_MAX, self.size.height // 6), 2)
        self.groups.show(groups)
        self._static("stalls").update(self._stall_line(width))
        if isinstance(self.screen, Sheet):
            self.screen.show(self.view)

    @property
    def _is_filtered(self) -> bool:
        return bool(self._words) or self._is_troubled

    def _draw_top(self) -> None:
        nodes = self._static("nodes")
        if self._away is not None:
            lasted = f"for {self._away.since_s:.0f} s" if self._away.since_s >= 1 else "now"
            self._static("title").update(Text(f"▲ nothing answers {lasted}, trying again", BAD))
            nodes.update("")
            return
        title = Text.assemble(("chronik watch", "bold"), (f"  {self._bootstrap}", QUIET))
        marks = [word for word, is_on in self._marks() if is_on]
        if marks:
            title.append(f"  {', '.join(marks)}", NOTABLE)
        self._static("title").update(title)
        nodes.update(words.nodes_line(self.view))

    def _stall_line(self, width: int) -> Text:
        if self._away is not None:  # what stalled at the last answer is not what stalls now
            return Text(f"▲ {self._away.problem}", BAD)
        return words.stall_line(self.view, width)

    def _marks(self) -> list[tuple[str, bool]]:
        return [
            ("held", self._is_held),
            (f"a look takes {self.view.took_s:.0f} s", self.view.took_s >= SLOW_LOOK_S),
            ("problems only", self._is_troubled),
            ("internal too", self._is_internal),
            (f"filter {self._words}", bool(self._words)),
        ]

    def _draw_columns(self) -> None:
        self._widths = columns.widths_of(self.partitions.in_sight, self._sort, self._widths)
        self._laid = columns.laid_out(self._widths, self.size.width - 3, self._sort)
        self.screen_stack[0].query_one("#heading", Heading).show(self._laid, self._sort)
        self.partitions.refresh()

    def _row_line(self, row: Row) -> Text:
        return columns.line_of(row, self._laid)

    def _group_line(self, group: GroupRow) -> Text:
        return columns.group_line(group, self._group_widths)

    @on(events.Resize)
    def _resized(self) -> None:
        self._widths = {}
        self.call_after_refresh(self.draw)

    @on(Lines.Scrolled)
    def _scrolled(self) -> None:
        self._draw_columns()

    # --- keys and clicks

    def action_sort(self, step: int) -> None:
        keys = [column.key for column in columns.COLUMNS]
        self._sort_by(keys[(keys.index(self._sort.key) + step) % len(keys)])

    def action_turn(self) -> None:
        self._sort = replace(self._sort, is_reversed=not self._sort.is_reversed)
        self.draw()

    @on(Heading.Chosen)
    def _heading_chosen(self, chosen: Heading.Chosen) -> None:
        if chosen.key == self._sort.key:
            self.action_turn()
        else:
            self._sort_by(chosen.key)

    def _sort_by(self, key: str) -> None:
        self._sort = Sort(key)
        self._widths = {}
        self.draw()

    def action_filter(self) -> None:
        if isinstance(self.screen, Sheet):
            return
        box = self.query_one("#filter", Input)
        box.display = True
        self.screen.set_focus(box)

    def action_unfilter(self) -> None:
        box = self.query_one("#filter", Input)
        box.value = ""
        box.display = False
        self._is_troubled = False
        self.partitions.focus()
        self.draw()

    @on(Input.Changed, "#filter")
    def _filter_changed(self, changed: Input.Changed) -> None:
        self._words = changed.value
        self.draw()

    @on(Input.Submitted, "#filter")
    def _filter_done(self) -> None:
        self.query_one("#filter", Input).display = False
        self.partitions.focus()

    def action_troubled(self) -> None:
        self._is_troubled = not self._is_troubled
        self.draw()

    def action_internal(self) -> None:
        self._is_internal = not self._is_internal
        self.draw()

    def action_groups(self) -> None:
        is_shown = not self.groups.display
        self.groups.display = self._static("group-heading").display = is_shown
        if not is_shown:
            self.partitions.focus()

    def action_hold(self) -> None:
        self._is_held = not self._is_held
        self.draw()

    @on(Lines.Opened, "#partitions")
    def _partition_opened(self, opened: Lines.Opened) -> None:
        self.push_screen(PartitionSheet((opened.item.topic, opened.item.partition), self.view))

    @on(StallLine.Opened)
    def action_stalls(self) -> None:
        self.push_screen(StallSheet(self.view))

    def action_keys(self) -> None:
        self.push_screen(KeySheet(self.view))
