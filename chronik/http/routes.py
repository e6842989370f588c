"""The HTTP port's paths. Every answer but the metrics is JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, Any, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chronik.core.errors import Refused
from chronik.http import inspect_views, views
from chronik.trace import exposition
from chronik.trace.inspections import EVENTS, STATE

if TYPE_CHECKING:
    from chronik.node.node import Node

JSON = "application/json"

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def build(node: Node) -> Starlette:
    """The application that shows this node."""
    paths = {
        "/health": _health(node),
        "/metrics": _metrics(node),
        "/partitions": _partitions(node),
        "/ready": _ready(node),
        "/stalls": _stalls(node),
        "/trace": _trace(node),
    }

    async def refuse(request: Request, problem: Exception) -> Response:
        assert isinstance(problem, HTTPException)  # it is registered for those only
        allowed = {} if problem.headers is None else dict(problem.headers)
        return _json(problem.status_code, {"error": problem.detail, "paths": list(paths)}, allowed)

    async def fault(request: Request, problem: Exception) -> Response:
        return _json(500, {"error": "Internal Server Error"})  # the server logs it, with its traceback

    return Starlette(
        routes=[Route(path, handler, methods=["GET"]) for path, handler in paths.items()],
        exception_handlers={HTTPException: refuse, Exception: fault},
    )


def _health(node: Node) -> Handler:
    async def answer(request: Request) -> Response:
        health = views.health(node)
        return _json(200 if health.is_good else 503, health.body)

    return answer


def _ready(node: Node) -> Handler:
    async def answer(request: Request) -> Response:
        readiness = views.readiness(node)
        return _json(200 if readiness.is_good else 503, readiness.body)

    return answer


def _metrics(node: Node) -> Handler:
    async def answer(request: Request) -> Response:
        # Read here, where nothing changes meanwhile; written elsewhere, where nothing waits for it.
        text = await asyncio.to_thread(exposition.render, views.reading(node))
        return _response(200, text, exposition.CONTENT_TYPE)

    return answer


def _partitions(node: Node) -> Handler:
    """The look `state`: what is on this node, and how it stands. `?topic=T` (also several times) for some topics."""

    async def answer(request: Request) -> Response:
        return await _look(node, STATE, _named(request, {"topic": "topics"}))

    return answer


def _trace(node: Node) -> Handler:
    """The look `events`: what this node has traced. `?cursor=`, `last`, `limit`, `topic`, `kind`."""

    async def answer(request: Request) -> Response:
        arguments = _named(request, {"topic": "topics", "kind": "kinds"})
        for name in ("cursor", "last", "limit"):
            if (text := request.query_params.get(name)) is not None:
                if not text.isdecimal():
                    return _json(400, {"error": f"{name} is a number, not {text!r}"})
                arguments[name] = int(text)
        return await _look(node, EVENTS, arguments)

    return answer


def _stalls(node: Node) -> Handler:
    async def answer(request: Request) -> Response:
        events, now_us = await inspect_views.history(node)
        # The rules go through all that is in the ring: elsewhere, where nothing waits for it.
        body = await asyncio.to_thread(
            inspect_views.stalls, node.config.node_id, node.trace.observer.is_observing, events, now_us
        )
        return _response(200, body, JSON)

    return answer


def _named(request: Request, names: dict[str, str]) -> dict[str, Any]:
    """Parameters that may be given several times, under the names that the look has for them."""
    given = {name: request.query_params.getlist(parameter) for parameter, name in names.items()}
    return {name: values for name, values in given.items() if values}


async def _look(node: Node, view: str, arguments: dict[str, Any]) -> Response:
    try:
        return _response(200, await inspect_views.answer(node, view, arguments), JSON)
    except Refused as refusal:
        return _json(400, {"error": refusal.message or refusal.code.name})


def _json(status: int, body: dict[str, object], headers: dict[str, str] | None = None) -> Response:
    return _response(status, json.dumps(body).encode() + b"\n", JSON, headers)


def _response(status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None) -> Response:
    stamped = {
        **(headers or {}),
        "content-type": content_type,
        "date": formatdate(usegmt=True),
        "cache-control": "no-store",
    }
    return Response(body, status, stamped)
