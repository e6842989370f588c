"""The application: which address leads to which route."""

from __future__ import annotations

import logging
from importlib.resources import files

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from chronik.client.errors import ChronikError, RefusedByNode
from chronik.console.web.changing import ChangingRoutes, Forbidden
from chronik.console.web.desk import Desk, NotSeenYet, wants_json
from chronik.console.web.guard import ConsoleGuard
from chronik.console.web.reading import PlainPage, ReadingRoutes

log = logging.getLogger(__name__)

STATUS = {Forbidden: 403, NotSeenYet: 503, RefusedByNode: 409}


def build(desk: Desk, names: frozenset[str]) -> ASGIApp:
    reading = ReadingRoutes(desk)
    changing = ChangingRoutes(desk, reading)
    place = "/topics/{topic}/{partition:int}/{offset:int}"
    routes = [
        Route("/", reading.overview),
        Route("/topics", reading.topics, methods=["GET"]),
        Route("/topics", changing.checked(changing.create_topic), methods=["POST"]),
        Route("/topics/{topic}", reading.topic),
        Route("/topics/{topic}/messages", reading.messages, methods=["GET"]),
        Route("/topics/{topic}/messages", changing.checked(changing.produce), methods=["POST"]),
        Route("/topics/{topic}/elect", changing.checked(changing.elect_preferred), methods=["POST"]),
        Route("/topics/{topic}/clear", changing.checked(changing.clear_records), methods=["POST"]),
        Route("/topics/{topic}/delete", changing.checked(changing.delete_topic), methods=["POST"]),
        Route("/topics/{topic}/partitions", changing.checked(changing.add_partitions), methods=["POST"]),
        Route("/topics/{topic}/configs", changing.checked(changing.alter_config), methods=["POST"]),
        Route(place, reading.record),
        Route(place + "/again", changing.checked(changing.send_again), methods=["POST"]),
        Route(place + "/{part}", reading.record_bytes),
        Route("/searches/{search}", reading.search),
        Route("/searches/{search}/stop", changing.checked(changing.stop_search, is_reading=True), methods=["POST"]),
        Route("/searches/{search}/go-on", changing.checked(changing.go_on_search, is_reading=True), methods=["POST"]),
        Route("/groups", reading.groups),
        Route("/group", reading.group),
        Route("/group/reset", reading.reset, methods=["GET"]),
        Route("/group/reset", changing.checked(changing.reset_group), methods=["POST"]),
        Route("/group/delete", changing.checked(changing.delete_group), methods=["POST"]),
        Route("/transactions", reading.transactions),
        Route("/transaction", reading.transaction),
        Route("/transaction/abort", changing.checked(changing.abort_transaction), methods=["POST"]),
        Route("/trace", reading.trace, methods=["GET"]),
        Route("/trace", changing.checked(changing.switch_trace), methods=["POST"]),
        Route("/settings", reading.settings, methods=["GET"]),
        Route("/settings", changing.checked(changing.alter_node_config), methods=["POST"]),
        Route("/live", reading.live),
        Route("/notices", reading.notices),
        Route("/series.json", reading.series),
        Route("/health", reading.health),
        Mount("/static", StaticFiles(directory=str(files("chronik.console").joinpath("static")))),
    ]
    errors = ErrorPages(desk)
    handlers = {ChronikError: errors.refused, HTTPException: errors.not_there, Exception: errors.fault}
    app = Starlette(routes=routes, exception_handlers=handlers)  # type: ignore[arg-type]  # of more kinds than it says
    return ConsoleGuard(app, names)


class ErrorPages:
    """What is said when a page cannot be."""

    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def refused(self, request: Request, problem: ChronikError) -> Response:
        status = next((code for kind, code in STATUS.items() if isinstance(problem, kind)), 400)
        return self._say(request, "That cannot be done", problem.message, problem.hint, status)

    async def not_there(self, request: Request, problem: HTTPException) -> Response:
        words = "There is no such page." if problem.status_code == 404 else str(problem.detail)
        return self._say(request, "No such page", words, None, problem.status_code)

    async def fault(self, request: Request, problem: Exception) -> Response:
        log.error("a page of the console failed: %s", request.url.path, exc_info=problem)
        return self._say(request, "A fault of the console", repr(problem), "its log has more", 500)

    def _say(self, request: Request, title: str, words: str, hint: str | None, status: int) -> Response:
        frame = self._desk.frame(self._desk.watch.newest(), title, "", "--help")
        page = PlainPage(frame, words, hint)
        if wants_json(request):
            return self._desk.answer(request, "plain.html", page, status)
        return self._desk.html(request, "plain.html", page, status)
