"""A console without a cluster, and names and contents that would like to be more than that."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from html.parser import HTMLParser
from typing import Any, NamedTuple
from urllib.parse import urlsplit

from chronik.console.asking import ClusterQuestions
from chronik.console.search.runs import SearchRuns
from chronik.console.sight import Sight, of_chronik
from chronik.console.watching import ClusterWatch
from chronik.console.web.app import build
from chronik.console.web.desk import Desk
from chronik.inspect.live_model import ClusterSnapshot, RateHistory
from chronik.trace.events import GroupSeen, MemberSeen, OffsetSeen
from chronik.trace.inspections import ClusterStateView, NodeSeen, StateView, Totals, Traces
from chronik.trace.verdicts import Cause, Verdict
from tests.unit.inspect.watched import NOW_US, led

NAMES = (
    "<script>alert(1)</script>",
    '"><img src=x onerror=alert(1)>',
    "' autofocus onfocus=alert(1) x='",
    "{{ 7 * 7 }}",
    "a\u202eb\u2066c",
    "nul\x00bell\x07esc\x1b[31m",
    "half \ud800 pair",
    "javascript:alert(1)",
)
NO_TRACES = Traces(False, ())


def sight_of(topics: Mapping[str, int], groups: tuple[GroupSeen, ...] = (), number: int = 1) -> Sight:
    """Two nodes, of which the second is silent; one led partition or more of each topic."""
    partitions = tuple(led(name, each) for name, count in topics.items() for each in range(count))
    totals = Totals(len(partitions), 0, 0, 0, 0, 0, 0, 0)
    state = StateView(1, NOW_US, "9.9<b>", True, NO_TRACES, partitions, (), groups, totals, is_current=True)
    stall = Verdict(
        Cause.FETCH_HANGS, f"it hangs {NAMES[0]}", (f"seen {NAMES[1]}",), f"do {NAMES[2]}", NOW_US, topic=NAMES[0]
    )
    snapshot = ClusterSnapshot(1.0, {1: state}, {2: f"gone {NAMES[0]}"}, verdicts=(stall,))
    nodes = (NodeSeen(1, f"host{NAMES[1]}", 9092, True), NodeSeen(2, "b", 9092, False))
    cluster = ClusterStateView(1, NOW_US, "9.9", NAMES[0], True, 1, nodes, NO_TRACES)
    return of_chronik(number, NOW_US // 1000, cluster, snapshot, RateHistory().take(snapshot), 0.01)


def hostile_groups() -> tuple[GroupSeen, ...]:
    return tuple(
        GroupSeen(
            NOW_US, 1, name, "classic", "Stable", 1, 5, (MemberSeen("m", name, name, (("orders", 0),)),),
            (OffsetSeen("orders", 0, 5),),
        )
        for name in NAMES
    )  # fmt: skip


def desk_of(sight: Sight, *, is_read_only: bool = False, questions: ClusterQuestions | None = None) -> Desk:
    watch = ClusterWatch(lambda number: sight, interval_s=3600)
    watch.open()
    asked = questions or ClusterQuestions("127.0.0.1:1")
    return Desk(watch, asked, SearchRuns(asked.admin, lambda: _no_consumer()), is_read_only)


def _no_consumer() -> Any:
    raise AssertionError("nothing is read here")


class Answer(NamedTuple):
    status: int
    headers: dict[str, str]
    text: str


def ask(
    desk: Desk, url: str, *, method: str = "GET", body: bytes = b"", headers: Mapping[str, str] | None = None
) -> Answer:
    """One request to the application, as a server would hand it over."""
    app = build(desk, frozenset({"localhost"}))
    parts = urlsplit(url)
    given = {"host": "localhost:9640", "content-type": "application/x-www-form-urlencoded"} | dict(headers or {})
    scope = {
        "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": method, "scheme": "http",
        "path": parts.path, "raw_path": parts.path.encode(), "query_string": parts.query.encode(), "root_path": "",
        "headers": [(name.encode(), value.encode()) for name, value in given.items()],
        "server": ("localhost", 9640), "client": ("127.0.0.1", 1),
    }  # fmt: skip
    sent: list[Any] = []

    async def receive() -> Any:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: Any) -> None:
        sent.append(message)

    async def handle() -> None:
        await app(scope, receive, send)

    asyncio.run(handle())
    start = sent[0]
    text = b"".join(message.get("body", b"") for message in sent[1:]).decode()
    return Answer(start["status"], {key.decode(): value.decode() for key, value in start["headers"]}, text)


class Harms(HTMLParser):
    """Whatever in a page could run or turn something around, as a browser would read it."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.found: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag == "script" and not (given.get("src") or "").startswith("/static/"):
            self.found.append(f"a script: {given}")
        if tag in ("img", "iframe", "object", "embed", "style", "b-b"):
            self.found.append(f"<{tag}> {given}")
        for name, value in attrs:
            is_link = name in ("href", "src", "action", "hx-get", "hx-post")
            if (
                name.startswith("on")
                or name in ("style", "autofocus")
                or (is_link and not (value or "").startswith(("/", "#")))
            ):
                self.found.append(f"{name}={value!r}")
            self._turned(value or "")

    def handle_data(self, data: str) -> None:
        self.words.append(data)
        self._turned(data)

    def _turned(self, text: str) -> None:
        if any(not char.isprintable() and char not in "\n\t" for char in text):
            self.found.append(f"control characters: {text!r}")
