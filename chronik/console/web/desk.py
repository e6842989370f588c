"""What every route works with: the poller, the questions, the searches, the templates, and how a page is answered."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import Any

from jinja2 import Environment
from starlette.concurrency import run_in_threadpool
from starlette.requests import Request
from starlette.responses import RedirectResponse, Response

from chronik.client.errors import ChronikError
from chronik.console.asking import ClusterQuestions
from chronik.console.pages.frame import Frame, frame_of
from chronik.console.search.runs import SearchRuns
from chronik.console.sight import Sight
from chronik.console.watching import ClusterWatch, Observed
from chronik.console.web.guard import Token
from chronik.console.web.render import as_json, environment
from chronik.console.words import command

HTML = "text/html; charset=utf-8"


class NotSeenYet(ChronikError):
    """No node has answered since the console started."""


@dataclass
class Desk:
    watch: ClusterWatch
    questions: ClusterQuestions
    searches: SearchRuns
    is_read_only: bool = False
    token: Token = field(default_factory=Token)
    templates: Environment = field(default_factory=environment)

    @property
    def bootstrap(self) -> str:
        return self.questions.bootstrap

    async def observed(self) -> Observed:
        return await run_in_threadpool(self.watch.observed)

    async def sight(self) -> tuple[Observed, Sight]:
        """Raises NotSeenYet."""
        observed = await self.observed()
        if observed.sight is None:
            why = observed.problem or "no node has answered yet"
            raise NotSeenYet(why, f"the console goes on asking {self.bootstrap}")
        return observed, observed.sight

    def frame(self, observed: Observed, title: str, section: str, *parts: str) -> Frame:
        said = command(*parts, bootstrap=self.bootstrap)
        now_ms = round(time.time() * 1000)
        return frame_of(observed, now_ms, title, section, said, self.bootstrap, self.is_read_only)

    def answer(self, request: Request, template: str, page: Any, status: int = 200) -> Response:
        """As JSON where that is asked for; else as HTML."""
        if wants_json(request):
            return Response(as_json(page), status, media_type="application/json")
        return self.html(request, template, page, status)

    def html(self, request: Request, template: str, page: Any, status: int = 200, **more: Any) -> Response:
        text = self.templates.get_template(template).render(
            page=page,
            frame=page.frame,
            token=self.token.value,
            here=request.url.path,
            parameters=dict(request.query_params),
            **more,
        )
        # A name may have half of a pair of characters, which has no bytes.
        return Response(text.encode("utf-8", "backslashreplace"), status, media_type=HTML)


def wants_json(request: Request) -> bool:
    return request.query_params.get("format") == "json"


def see(url: str) -> Response:
    """After a change: the page that shows it."""
    return RedirectResponse(url, 303)
