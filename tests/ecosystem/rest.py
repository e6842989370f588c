"""Requests to the REST interfaces of the programs."""

from __future__ import annotations

import json
import urllib.error
import urllib.request
from dataclasses import dataclass
from typing import Any

ANSWER_SECONDS = 60.0


@dataclass(frozen=True)
class Answer:
    """The status and the JSON of an answer; status 0: nothing answered."""

    status: int
    body: Any = None


def ask(url: str, body: Any = None, method: str | None = None) -> Answer:
    """POST where there is a body, GET where there is none, unless a method is named."""
    content = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(url, content, {"Content-Type": "application/json"}, method=method)
    try:
        with urllib.request.urlopen(request, timeout=ANSWER_SECONDS) as answer:
            return Answer(answer.status, json.load(answer))
    except urllib.error.HTTPError as refused:
        with refused:
            return Answer(refused.code, refused.read().decode(errors="replace"))
    except (urllib.error.URLError, TimeoutError, ConnectionError):
        return Answer(0)
