"""A list of lines with a cursor. It draws only what is in sight: ten thousand partitions cost no more than twenty."""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from typing import Any, ClassVar, Generic, TypeVar

from rich.text import Text
from textual import events
from textual.binding import Binding, BindingType
from textual.geometry import Region, Size
from textual.message import Message
from textual.scroll_view import ScrollView
from textual.strip import Strip

from chronik.cli.watch.columns import QUIET

Item = TypeVar("Item")


class Lines(ScrollView, Generic[Item], can_focus=True):
    """The cursor stays on its item while others come, go and change places."""

    COMPONENT_CLASSES: ClassVar[set[str]] = {"lines--cursor", "lines--cursor-idle"}
    DEFAULT_CSS = """
    Lines {
        background: $background;
        overflow-x: hidden;
        scrollbar-size-vertical: 1;
        & > .lines--cursor { background: $primary 40%; }
        & > .lines--cursor-idle { background: $foreground 8%; }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("up,k", "move(-1)", "Up", show=False),
        Binding("down,j", "move(1)", "Down", show=False),
        Binding("pageup", "page(-1)", "Page up", show=False),
        Binding("pagedown", "page(1)", "Page down", show=False),
        Binding("home", "move(-1000000000)", "First", show=False),
        Binding("end", "move(1000000000)", "Last", show=False),
        Binding("enter", "open", "Details", show=False),
    ]

    class Opened(Message):
        """Enter, or a click on the line that the cursor is on."""

        def __init__(self, lines: Lines[Any], item: Any) -> None:
            super().__init__()
            self.lines = lines
            self.item = item

        @property
        def control(self) -> Lines[Any]:
            return self.lines

    class Scrolled(Message):
        """Other lines are in sight."""

    def __init__(self, draw: Callable[[Item], Text], name_of: Callable[[Item], Hashable], empty: str, id: str) -> None:
        super().__init__(id=id)
        self.empty = empty
        """What is written where there is no line."""
        self.items: Sequence[Item] = ()
        self._draw = draw
        self._name_of = name_of
        self._cursor = 0

    @property
    def current(self) -> Item | None:
        """What the cursor is on."""
        return self.items[self._cursor] if self._cursor < len(self.items) else None

    @property
    def in_sight(self) -> Sequence[Item]:
        top = self.scroll_offset.y
        return self.items[top : top + max(self.size.height, 1)]

    def show(self, items: Sequence[Item]) -> None:
        current = self.current
        self.items = items
        if current is not None:
            name = self._name_of(current)
            places = (place for place, item in enumerate(items) if self._name_of(item) == name)
            self._cursor = next(places, min(self._cursor, max(len(items) - 1, 0)))
        self.virtual_size = Size(self.size.width, max(len(items), 1))
        self.refresh()

    def on_resize(self) -> None:
        self.virtual_size = Size(self.size.width, max(len(self.items), 1))

    def watch_scroll_y(self, old_value: float, new_value: float) -> None:
        super().watch_scroll_y(old_value, new_value)
        self.post_message(self.Scrolled())

    def render_line(self, y: int) -> Strip:
        place = self.scroll_offset.y + y
        width = self.size.width
        style = self.rich_style
        if place < len(self.items):
            if place == self._cursor:
                name = "lines--cursor" if self.has_focus else "lines--cursor-idle"
                style = self.get_component_rich_style(name)
            line = self._draw(self.items[place])
        else:
            line = Text(f" {self.empty}" if place == 0 else "", QUIET)
        strip = Strip(line.render(self.app.console)).apply_style(style)
        return strip.adjust_cell_length(width, style)

    def action_move(self, step: int) -> None:
        if self.items:
            self._cursor = min(max(self._cursor + step, 0), len(self.items) - 1)
            self.scroll_to_region(Region(0, self._cursor, 1, 1), animate=False, force=True)
            self.refresh()

    def action_page(self, direction: int) -> None:
        self.action_move(direction * max(self.size.height - 1, 1))

    def action_open(self) -> None:
        if self.current is not None:
            self.post_message(self.Opened(self, self.current))

    def on_click(self, event: events.Click) -> None:
        place = self.scroll_offset.y + event.y
        if place >= len(self.items):
            return
        if place == self._cursor:
            self.action_open()
        else:
            self.action_move(place - self._cursor)
