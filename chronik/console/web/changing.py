"""The routes that change something. Each is a form of one of our pages, with this process's token in it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from urllib.parse import parse_qsl, quote, urlencode

from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import Response

from chronik.client.errors import ChronikError
from chronik.client.sending import NewMessage
from chronik.console.pages.groups import moves_shown, parse_target
from chronik.console.web.desk import Desk, see
from chronik.console.web.guard import FORM_BYTES_MAX, refusal
from chronik.console.web.reading import ReadingRoutes, place_of

FIELDS_MAX = 40
Change = Callable[[Request, dict[str, str]], Awaitable[Response]]


class Forbidden(ChronikError):
    """Not from here, not now, or not at all."""


class ChangingRoutes:
    def __init__(self, desk: Desk, reading: ReadingRoutes) -> None:
        self._desk = desk
        self._reading = reading

    def checked(self, change: Change, *, is_reading: bool = False) -> Callable[[Request], Awaitable[Response]]:
        """`is_reading`: it changes nothing in the cluster, and a read-only console has it too."""

        async def route(request: Request) -> Response:
            given = await _form(request)
            is_read_only = self._desk.is_read_only and not is_reading
            why = refusal(request.headers, self._desk.token, given.get("token", ""), is_read_only)
            if why is not None:
                raise Forbidden(why)
            return await change(request, given)

        return route

    async def _done(self, url: str) -> Response:
        """The next page shows what was changed."""
        await run_in_threadpool(self._desk.watch.look_again)
        return see(url)

    # --- topics

    async def create_topic(self, request: Request, given: dict[str, str]) -> Response:
        name = given.get("name", "").strip()
        configs = _pairs(given.get("configs", ""))
        partitions, replication = _number(given, "partitions"), _number(given, "replication")
        if not name:
            raise ChronikError("a topic needs a name", "type one")
        await run_in_threadpool(self._desk.questions.admin().create_topic, name, partitions, replication, configs)
        return await self._done(f"/topics/{quote(name, safe='')}")

    async def delete_topic(self, request: Request, given: dict[str, str]) -> Response:
        name = request.path_params["topic"]
        if given.get("confirm") != name:
            raise ChronikError("nothing was deleted: the name that was typed is another", f"type {name}")
        await run_in_threadpool(self._desk.questions.admin().delete_topic, name)
        return await self._done("/topics")

    async def add_partitions(self, request: Request, given: dict[str, str]) -> Response:
        name = request.path_params["topic"]
        count = _number(given, "partitions")
        if count is None:
            raise ChronikError("how many partitions is not said", "give the number that it is to have then")
        await run_in_threadpool(self._desk.questions.admin().add_partitions, name, count)
        return await self._done(f"/topics/{quote(name, safe='')}")

    async def alter_config(self, request: Request, given: dict[str, str]) -> Response:
        """An empty value with `reset` puts it back to its default."""
        name, key = request.path_params["topic"], given.get("key", "").strip()
        admin = self._desk.questions.admin()
        known = await run_in_threadpool(admin.configs, name)
        if key not in known:  # Kafka takes the deletion of a config that does not exist as done
            raise ChronikError(f"no topic config {key}", "the list of all of them is on the topic's page")
        value = None if given.get("reset") else given.get("value", "")
        await run_in_threadpool(admin.alter_topic_configs, name, {key: value})
        return await self._done(f"/topics/{quote(name, safe='')}")

    async def elect_preferred(self, request: Request, given: dict[str, str]) -> Response:
        name = request.path_params["topic"]
        admin = self._desk.questions.admin()
        topic = await run_in_threadpool(admin.topic, name)
        places = [(name, part.partition) for part in topic.partitions]
        refused = await run_in_threadpool(admin.elect_preferred, places)
        if refused:
            words = "; ".join(f"partition {number}: {why}" for (_, number), why in sorted(refused.items())[:5])
            raise ChronikError(f"{len(refused)} of {len(places)} were not elected: {words}")
        return await self._done(f"/topics/{quote(name, safe='')}")

    async def clear_records(self, request: Request, given: dict[str, str]) -> Response:
        """All that was there when the page was asked for this, or those of one partition before an offset."""
        name = request.path_params["topic"]
        if given.get("confirm") != name:
            raise ChronikError("nothing was deleted: the name that was typed is another", f"type {name}")
        await run_in_threadpool(self._desk.questions.clear, name, _whole(given, "partition"), _whole(given, "before"))
        return await self._done(f"/topics/{quote(name, safe='')}")

    # --- messages

    async def produce(self, request: Request, given: dict[str, str]) -> Response:
        name = request.path_params["topic"]
        message = NewMessage(
            None if given.get("no_key") else given.get("key", "").encode(),
            None if given.get("tombstone") else given.get("value", "").encode(),
            tuple((key, value.encode()) for key, value in _pairs(given.get("headers", "")).items()),
            _whole(given, "partition"),
        )
        place = await run_in_threadpool(self._desk.questions.produce, name, message)
        return see(_place_url(name, *place))

    async def send_again(self, request: Request, given: dict[str, str]) -> Response:
        topic, partition, offset = place_of(request)
        to = given.get("to", "").strip() or topic
        place = await run_in_threadpool(self._desk.questions.send_again, topic, partition, offset, to)
        return see(_place_url(to, *place))

    # --- transactions

    async def abort_transaction(self, request: Request, given: dict[str, str]) -> Response:
        name = given.get("id", "")
        if given.get("confirm") != name:
            raise ChronikError("nothing was aborted: the id that was typed is another", "type the transactional id")
        await run_in_threadpool(self._desk.questions.abort, name)
        return await self._done(f"/transaction?{urlencode({'id': name})}")

    # --- the trace

    async def switch_trace(self, request: Request, given: dict[str, str]) -> Response:
        topic = given.get("topic", "").strip()
        await run_in_threadpool(self._desk.questions.switch_trace, topic, is_on=bool(given.get("is_on")))
        return await self._done(f"/trace?{urlencode({'topic': topic})}" if topic else "/trace")

    # --- nodes

    async def alter_node_config(self, request: Request, given: dict[str, str]) -> Response:
        """`reset` puts it back to what the node's file or the default says."""
        node, key = _whole(given, "node"), given.get("key", "").strip()
        if node is None:
            raise ChronikError("which node is not said")
        value = None if given.get("reset") else given.get("value", "")
        await run_in_threadpool(self._desk.questions.alter_node_config, node, key, value)
        return see(f"/settings?{urlencode({'node': node, 'q': key})}")

    # --- groups

    async def reset_group(self, request: Request, given: dict[str, str]) -> Response:
        """To the offsets that the preview showed, if they still are what the reset comes to."""
        name, topic = given.get("name", ""), given.get("topic", "")
        target = parse_target(given.get("way", ""), given.get("at", ""))
        questions = self._desk.questions
        moves = await run_in_threadpool(questions.plan_reset, name, target, topic)
        if given.get("shown") != moves_shown(moves):
            raise ChronikError("nothing was reset: since the preview the offsets have changed", "look at it again")
        offsets = {move.partition: move.after for move in moves}
        await run_in_threadpool(questions.admin().commit, name, offsets)
        return await self._done(f"/group?{urlencode({'name': name})}")

    async def delete_group(self, request: Request, given: dict[str, str]) -> Response:
        name = given.get("name", "")
        if given.get("confirm") != name:
            raise ChronikError("nothing was deleted: the name that was typed is another", "type the group's name")
        await run_in_threadpool(self._desk.questions.delete_group, name)
        return await self._done("/groups")

    # --- searches

    async def stop_search(self, request: Request, given: dict[str, str]) -> Response:
        run = self._desk.searches.find(request.path_params["search"])
        if run is not None:
            run.stop()
        return await self._reading.show_search(request, run)

    async def go_on_search(self, request: Request, given: dict[str, str]) -> Response:
        run = self._desk.searches.find(request.path_params["search"])
        if run is not None:
            run.go_on()
        return await self._reading.show_search(request, run, wait_s=0.5)


async def _form(request: Request) -> dict[str, str]:
    """As browsers send forms that have no files. Raises Forbidden for one that is larger than any of ours."""
    body = bytearray()
    async for piece in request.stream():
        body += piece
        if len(body) > FORM_BYTES_MAX:
            raise Forbidden("the form is too large")
    try:
        return dict(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
    except ValueError as problem:  # not UTF-8, or too many fields
        raise Forbidden(f"the form cannot be read: {problem}") from None


def _number(given: dict[str, str], field: str) -> int | None:
    text = given.get(field, "").strip()
    if not text:
        return None
    if not text.isdecimal() or not 0 < int(text[:9]) <= 100_000:
        raise ChronikError(f"{field}: {text[:20]!r} is not a number of them", "write it in digits")
    return int(text)


def _whole(given: dict[str, str], field: str) -> int | None:
    """A number from 0 on; None where none is given."""
    text = given.get(field, "").strip()
    if not text:
        return None
    if not text.isdecimal() or len(text) > 18:
        raise ChronikError(f"{field}: {text[:20]!r} is not a number", "write it in digits")
    return int(text)


def _place_url(topic: str, partition: int, offset: int) -> str:
    return f"/topics/{quote(topic, safe='')}/{partition}/{offset}"


def _pairs(text: str) -> dict[str, str]:
    """Lines of KEY=VALUE."""
    pairs = {}
    for line in filter(None, (line.strip() for line in text.splitlines())):
        key, equals, value = line.partition("=")
        if not equals or not key.strip():
            raise ChronikError(f"{line[:60]} is not KEY=VALUE", "write one on each line")
        pairs[key.strip()] = value.strip()
    return pairs
