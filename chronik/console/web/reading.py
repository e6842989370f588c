"""The routes that show something."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator
from dataclasses import dataclass

import msgspec
from starlette.concurrency import run_in_threadpool
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response, StreamingResponse

from chronik.client.errors import ChronikError
from chronik.client.request import NoAnswer
from chronik.console.pages import groups, messages, overview, record, settings, topics, trace, transactions
from chronik.console.pages.frame import Frame
from chronik.console.search.query import SearchQuery, parse_query
from chronik.console.search.reader import SearchRun
from chronik.console.watching import INTERVAL_S
from chronik.console.web.desk import Desk, wants_json
from chronik.inspect.group_offsets import Move

FIRST_RESULTS_S = 0.7  # a search is waited for so long before its page is shown with what there is
JSON_SEARCH_S = 30.0
LIVE_EVERY_S = 15.0  # something is sent so often at least, so that a browser knows that the console is there


@dataclass(frozen=True)
class PlainPage:
    """Only words: help, an error."""

    frame: Frame
    words: str
    hint: str | None = None


class ReadingRoutes:
    def __init__(self, desk: Desk) -> None:
        self._desk = desk

    async def overview(self, request: Request) -> Response:
        observed, sight = await self._desk.sight()
        frame = self._desk.frame(observed, "Overview", "overview", "watch", "--once")
        return self._desk.answer(request, "overview.html", overview.overview_page(frame, sight))

    async def topics(self, request: Request) -> Response:
        observed, sight = await self._desk.sight()
        frame = self._desk.frame(observed, "Topics", "topics", "topic", "list")
        wanted = topics.parse_list(request.query_params)
        return self._desk.answer(request, "topics.html", topics.topics_page(frame, sight, wanted))

    async def topic(self, request: Request) -> Response:
        observed, sight = await self._desk.sight()
        name = request.path_params["topic"]
        rows = await run_in_threadpool(self._desk.questions.rows, sight, name)
        configs = await run_in_threadpool(self._desk.questions.topic_configs, name)
        frame = self._desk.frame(observed, name, "topics", "topic", "describe", name)
        page = topics.topic_page(
            frame, sight, rows, configs, page=_page(request), is_every_config=bool(request.query_params.get("every"))
        )
        return self._desk.answer(request, "topic.html", page)

    async def messages(self, request: Request) -> Response:
        observed = await self._desk.observed()
        name = request.path_params["topic"]
        at = request.query_params.get("at", "")
        try:
            query = parse_query(name, request.query_params)
        except ChronikError as problem:
            frame = self._desk.frame(observed, name, "topics", "consume", name, "--from-beginning")
            page = messages.refused_page(frame, SearchQuery(name), at, str(problem))
            return self._desk.answer(request, "messages.html", page, 400)
        frame = self._desk.frame(observed, name, "topics", *messages.command_of(query))
        search, run = self._desk.searches.begin(query)
        wait_s = JSON_SEARCH_S if wants_json(request) else FIRST_RESULTS_S
        progress = await run_in_threadpool(run.wait_until_resting, wait_s)
        page = messages.messages_page(frame, query, at, search, progress)
        return self._desk.answer(request, "messages.html", page)

    async def search(self, request: Request) -> Response:
        run = self._desk.searches.find(request.path_params["search"])
        return await self.show_search(request, run)

    async def show_search(self, request: Request, run: SearchRun | None, wait_s: float = 0.0) -> Response:
        if run is None:
            return PlainTextResponse("This search is over: load the page again to begin anew.", 404)
        observed = await self._desk.observed()
        progress = await run_in_threadpool(run.wait_until_resting, wait_s)
        query = run.query
        frame = self._desk.frame(observed, query.topic, "topics", *messages.command_of(query))
        page = messages.messages_page(frame, query, "", request.path_params["search"], progress)
        return self._desk.answer(request, "found.html", page)

    async def record(self, request: Request) -> Response:
        observed = await self._desk.observed()
        name, partition, offset = place_of(request)
        story, found = await run_in_threadpool(self._desk.questions.story, name, partition, offset)
        frame = self._desk.frame(
            observed, f"{name}:{partition} @ {offset:,}", "topics", "where", name, str(partition), str(offset)
        )
        return self._desk.answer(request, "record.html", record.record_page(frame, story, found))

    async def record_bytes(self, request: Request) -> Response:
        """The key or the value as it is, to be saved: never shown by the browser."""
        name, partition, offset = place_of(request)
        part = request.path_params["part"]
        if part not in ("key", "value"):
            raise HTTPException(404)
        found = await run_in_threadpool(self._desk.questions.record, name, partition, offset)
        if found.record is None:
            raise ChronikError("there is no record to be given", found.problem)
        content = (found.record.key if part == "key" else found.record.value) or b""
        headers = {"content-disposition": f'attachment; filename="{part}-{partition}-{offset}.bin"'}
        return Response(content, media_type="application/octet-stream", headers=headers)

    async def groups(self, request: Request) -> Response:
        observed, sight = await self._desk.sight()
        frame = self._desk.frame(observed, "Groups", "groups", "group", "list")
        page = groups.groups_page(frame, sight, request.query_params.get("q", "").strip(), _page(request))
        return self._desk.answer(request, "groups.html", page)

    async def group(self, request: Request) -> Response:
        observed, sight = await self._desk.sight()
        name = request.query_params.get("name", "")
        told = await run_in_threadpool(self._desk.questions.group, name)
        seen = sight.group(name)
        frame = self._desk.frame(observed, name, "groups", "group", "describe", name)
        page = groups.group_page(
            frame, told.summary, told.members, told.partitions, told.lag, told.untold,
            () if seen is None else seen.lags, INTERVAL_S,
        )  # fmt: skip
        return self._desk.answer(request, "group.html", page)

    async def reset(self, request: Request) -> Response:
        """What a reset would do."""
        observed = await self._desk.observed()
        given = request.query_params
        name, way, at, topic = (given.get(field, "").strip() for field in ("name", "way", "at", "topic"))
        parts = ["group", "reset", name, *groups.target_options(way, at), *(["--topic", topic] if topic else [])]
        frame = self._desk.frame(observed, f"Reset {name}", "groups", *parts)
        problem = None
        moves: list[Move] = []
        try:
            target = groups.parse_target(way, at)
            moves = await run_in_threadpool(self._desk.questions.plan_reset, name, target, topic)
        except ChronikError as refused:
            problem = str(refused)
        page = groups.ResetPage(frame, name, way, at, topic, tuple(moves), groups.moves_shown(moves), problem)
        return self._desk.answer(request, "reset.html", page, 200 if problem is None else 400)

    async def transactions(self, request: Request) -> Response:
        observed = await self._desk.observed()
        only = request.query_params.get("only", "open")
        only = only if only in transactions.WHICH else "open"
        options = ["--open"] if only == "open" else []
        frame = self._desk.frame(observed, "Transactions", "transactions", "transaction", "list", *options)
        found = await run_in_threadpool(self._desk.questions.transactions, only)
        query = request.query_params.get("q", "").strip()
        page = transactions.transactions_page(frame, found, query, only, _page(request))
        return self._desk.answer(request, "transactions.html", page)

    async def transaction(self, request: Request) -> Response:
        observed = await self._desk.observed()
        name = request.query_params.get("id", "")
        frame = self._desk.frame(observed, name, "transactions", "transaction", "describe", name)
        found, stable = await run_in_threadpool(self._desk.questions.transaction, name)
        page = transactions.transaction_page(frame, found, stable, round(time.time() * 1000))
        return self._desk.answer(request, "transaction.html", page)

    async def trace(self, request: Request) -> Response:
        observed, sight = await self._desk.sight()
        topic, kind, client = (request.query_params.get(field, "").strip() for field in ("topic", "kind", "client"))
        kind = kind if kind in trace.SHOWN_KINDS else ""
        options = [*(["--topic", topic] if topic else []), *(["--kind", kind] if kind else [])]
        frame = self._desk.frame(observed, "Trace", "trace", "trace", "tail", *options)
        found = await run_in_threadpool(self._desk.questions.events, sight, topic)
        return self._desk.answer(request, "trace.html", trace.trace_page(frame, found, topic, kind, client))

    async def settings(self, request: Request) -> Response:
        observed, sight = await self._desk.sight()
        asked = request.query_params.get("node", "")
        answering = [node.id for node in sight.nodes if node.answers]
        node = int(asked) if asked.isdecimal() and len(asked) < 10 else next(iter(answering), None)
        questions, problems = self._desk.questions, []
        addresses = questions.addresses_of(sight)
        configs: list[settings.ConfigShown] = []
        quorum, features = None, []
        try:
            if node is not None:
                configs = await run_in_threadpool(questions.node_configs, node)
        except ChronikError as problem:
            problems.append(f"configs of node {node}: {problem}")
        try:
            quorum = await run_in_threadpool(questions.quorum, addresses)
        except NoAnswer as problem:
            problems.append(f"the quorum: {problem}")
        try:
            features = await run_in_threadpool(questions.features, addresses)
        except NoAnswer as problem:
            problems.append(f"features: {problem}")
        frame = self._desk.frame(observed, "Settings", "settings", "cluster", "status")
        page = settings.settings_page(
            frame, sight.nodes, node, request.query_params.get("q", "").strip(),
            bool(request.query_params.get("every")), configs, quorum, features, problems,
        )  # fmt: skip
        return self._desk.answer(request, "settings.html", page)

    # --- while a page is open

    async def live(self, request: Request) -> Response:
        """Server-sent events: one after each look of the poller, whatever came of it."""
        return StreamingResponse(self._ticks(request), media_type="text/event-stream")

    async def _ticks(self, request: Request) -> AsyncIterator[bytes]:
        watch = self._desk.watch
        event = watch.subscribe()
        try:
            yield b"retry: 2000\n\n"
            while not watch.is_closing and not await request.is_disconnected():
                watch.touch()
                try:
                    await asyncio.wait_for(event.wait(), LIVE_EVERY_S)
                except TimeoutError:
                    yield b": still here\n\n"
                    continue
                event.clear()
                observed = watch.newest()
                problem = "" if observed.problem is None else "away"
                yield f"event: tick\ndata: {observed.version} {problem}\n\n".encode()
        finally:
            watch.unsubscribe(event)

    async def notices(self, request: Request) -> Response:
        """What is wrong with the cluster right now, for the top of every page."""
        frame = self._desk.frame(self._desk.watch.newest(), "Notices", "", "stalls")
        return self._desk.html(request, "notices.html", PlainPage(frame, ""))

    async def series(self, request: Request) -> Response:
        found = await run_in_threadpool(self._desk.watch.series)
        return Response(msgspec.json.encode(found), media_type="application/json")

    async def health(self, request: Request) -> Response:
        return PlainTextResponse("ok\n")


def _page(request: Request) -> int:
    text = request.query_params.get("page", "1")
    return int(text) if text.isdecimal() and len(text) < 9 else 1


def place_of(request: Request) -> tuple[str, int, int]:
    return request.path_params["topic"], request.path_params["partition"], request.path_params["offset"]
