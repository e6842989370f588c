"""What opens over the table: all about one partition, what stalls with its evidence, and the keys."""

from __future__ import annotations

from typing import ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import VerticalScroll
from textual.content import Content
from textual.screen import ModalScreen
from textual.widgets import Static

from chronik.cli.watch import words
from chronik.cli.watch.columns import QUIET
from chronik.inspect.live_model import LiveView, Partition

KEYS = (
    ("/", "filter by name; Esc clears it"),
    ("← → or < >", "sort by the column to the left or right"),
    ("r", "turn the order round (so does a click on the header)"),
    ("↑ ↓ PgUp PgDn", "move; Enter opens the partition"),
    ("Tab", "from the partitions to the groups and back"),
    ("s", "what stalls, why, and what to do"),
    ("p", "only partitions in trouble"),
    ("i", "internal topics too"),
    ("g", "groups: show or hide"),
    ("space", "hold the view as it is, and go on"),
    ("q", "quit"),
)


class Sheet(ModalScreen[None]):
    """A page of text over the table, that goes on being up to date."""

    DEFAULT_CSS = """
    Sheet {
        align: center middle;
        background: $background 60%;
        & > VerticalScroll {
            width: 90%;
            max-width: 100;
            height: auto;
            max-height: 85%;
            border: round $primary;
            background: $surface;
            padding: 0 1;
            border-title-style: bold;
            border-subtitle-color: $text-muted;
        }
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,q,enter", "dismiss", "Close")]

    def __init__(self, title: str, view: LiveView) -> None:
        super().__init__()
        self._title = title
        self._view = view

    def compose(self) -> ComposeResult:
        with VerticalScroll() as page:
            page.border_title = Content(self._title)  # text, no markup: a topic may have brackets
            page.border_subtitle = "Esc closes"
            yield Static(self.page(self._view), id="text")

    def show(self, view: LiveView) -> None:
        self.query_one("#text", Static).update(self.page(view))

    def page(self, view: LiveView) -> RenderableType:
        raise NotImplementedError

    async def action_dismiss(self, result: None = None) -> None:
        self.dismiss(result)


class PartitionSheet(Sheet):
    def __init__(self, place: Partition, view: LiveView) -> None:
        topic, partition = place
        super().__init__(f"{topic}:{partition}", view)
        self._place = place

    def page(self, view: LiveView) -> RenderableType:
        for row in view.rows:
            if (row.topic, row.partition) == self._place:
                return words.details_text(row, view.groups)
        return Text("It is gone: no node has this partition.", QUIET)


class StallSheet(Sheet):
    def __init__(self, view: LiveView) -> None:
        super().__init__("what stalls", view)

    def page(self, view: LiveView) -> RenderableType:
        return words.stalls_page(view.verdicts, view.is_tracing)


class KeySheet(Sheet):
    def __init__(self, view: LiveView) -> None:
        super().__init__("keys", view)

    def page(self, view: LiveView) -> RenderableType:
        lines = [Text.assemble((key.ljust(16), "bold"), (meaning, "")) for key, meaning in KEYS]
        return Text("\n").join(lines)
