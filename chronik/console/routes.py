"""The HTTP port's paths. Every answer but the metrics is JSON."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Awaitable, Callable
from email.utils import formatdate
from typing import TYPE_CHECKING, TypeAlias

from starlette.applications import Starlette
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import Response
from starlette.routing import Route

from chronik.console import views
from chronik.trace import exposition

if TYPE_CHECKING:
    from chronik.node.node import Node

Handler: TypeAlias = Callable[[Request], Awaitable[Response]]


def build(node: Node) -> Starlette:
    """The application that shows this node."""
    paths = {"/health": _health(node), "/metrics": _metrics(node), "/ready": _ready(node)}

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
        # Read here, where nothing changes meanwhile; written elsewhere, where nobody waits for it.
        text = await asyncio.to_thread(exposition.render, views.reading(node))
        return _response(200, text, exposition.CONTENT_TYPE)

    return answer


def _json(status: int, body: dict[str, object], headers: dict[str, str] | None = None) -> Response:
    return _response(status, json.dumps(body).encode() + b"\n", "application/json", headers)


def _response(status: int, body: bytes, content_type: str, headers: dict[str, str] | None = None) -> Response:
    stamped = {
        **(headers or {}),
        "content-type": content_type,
        "date": formatdate(usegmt=True),
        "cache-control": "no-store",
    }
    return Response(body, status, stamped)
