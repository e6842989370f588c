"""A console in a process of its own, asked as a browser asks it."""

from __future__ import annotations

import contextlib
import json
import re
import subprocess
import sys
from collections.abc import Iterator
from typing import Any
from urllib.error import HTTPError
from urllib.parse import urlencode
from urllib.request import Request, urlopen

TIMEOUT_S = 40


class ConsoleProcess:
    def __init__(self, url: str) -> None:
        self.url = url

    def page(self, path: str) -> str:
        with urlopen(self.url + path.lstrip("/"), timeout=TIMEOUT_S) as answer:
            return str(answer.read().decode())

    def model(self, path: str) -> Any:
        return json.loads(self.page(path + ("&" if "?" in path else "?") + "format=json"))

    def post(self, path: str, form_page: str, **fields: str) -> str:
        """With the token of a form on that page; what the page says that it leads to, or the refusal."""
        token = re.search(r'name="token" value="([^"]+)"', self.page(form_page))
        given = fields if token is None else fields | {"token": token[1]}
        request = Request(self.url + path.lstrip("/"), urlencode(given).encode(), method="POST")
        try:
            with urlopen(request, timeout=TIMEOUT_S) as answer:
                return str(answer.read().decode())
        except HTTPError as refused:
            return f"{refused.code} {refused.read().decode()}"


@contextlib.contextmanager
def console(bootstrap: str, *options: str) -> Iterator[ConsoleProcess]:
    command = [sys.executable, "-m", "chronik", "console", "--bootstrap", bootstrap, "--port", "0", "--json", *options]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    try:
        assert process.stdout is not None
        lines = ""
        while not lines.rstrip().endswith("}"):
            line = process.stdout.readline()
            assert line, f"the console ended: {lines}"
            lines += line
        yield ConsoleProcess(json.loads(lines)["url"])
        process.terminate()
        assert process.wait(20) == 0
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()
