"""Tokens for OAUTHBEARER: from a file, or an endpoint that is asked with an id and a secret."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from chronik.client.errors import ChronikError
from chronik.client.tokens import TokenSource


def jwt(expires_s: float) -> str:
    def part(said: object) -> str:
        return base64.urlsafe_b64encode(json.dumps(said).encode()).decode().rstrip("=")

    return f"{part({'alg': 'none'})}.{part({'exp': expires_s})}.x"


class Endpoint(HTTPServer):
    answer: tuple[int, bytes] = (200, b"{}")

    def __init__(self) -> None:
        super().__init__(("127.0.0.1", 0), Asked)
        self.asked: list[tuple[str, bytes]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}/token"


class Asked(BaseHTTPRequestHandler):
    server: Endpoint

    def do_POST(self) -> None:
        body = self.rfile.read(int(self.headers["Content-Length"]))
        self.server.asked.append((self.headers["Authorization"], body))
        code, content = self.server.answer
        self.send_response(code)
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@pytest.fixture
def endpoint() -> Iterator[Endpoint]:
    with Endpoint() as made:
        thread = threading.Thread(target=made.serve_forever, args=(0.01,))
        thread.start()
        yield made
        made.shutdown()
        thread.join(10)


def test_a_token_in_a_file_says_itself_when_it_ends_and_is_read_anew_then(tmp_path: Path) -> None:
    """A token in a file says itself when it ends; then the file is read anew."""
    file = tmp_path / "token"
    over, good = jwt(time.time() - 5), jwt(time.time() + 500)
    file.write_text(over + "\n")
    source = TokenSource(file=str(file))

    assert source.token().text == over
    file.write_text(good)
    assert source.token().text == good
    file.write_text("another")
    assert source.token().text == good  # it is good for a while


def test_an_endpoint_is_asked_once_while_its_token_lasts(endpoint: Endpoint) -> None:
    endpoint.answer = (200, json.dumps({"access_token": "t1", "expires_in": 600}).encode())
    source = TokenSource(endpoint=endpoint.url, client_id="me", client_secret="s3cret", scope="kafka")

    assert source.token().text == source.token().text == "t1"

    [(login, body)] = endpoint.asked
    assert base64.b64decode(login.removeprefix("Basic ")) == b"me:s3cret"
    assert body == b"grant_type=client_credentials&scope=kafka"


@pytest.mark.parametrize("answer", [(401, b"s3cret is wrong"), (200, b"s3cret"), (200, b'{"access_token": 1}')])
def test_an_endpoint_that_gives_none_is_named_without_any_secret(endpoint: Endpoint, answer: tuple[int, bytes]) -> None:
    endpoint.answer = answer
    source = TokenSource(endpoint=endpoint.url, client_id="me", client_secret="s3cret")
    with pytest.raises(ChronikError, match="gives no token") as raised:
        source.token()
    assert "s3cret" not in str(raised.value)


def test_a_file_without_a_token_is_named(tmp_path: Path) -> None:
    with pytest.raises(ChronikError, match="cannot be read: No such file"):
        TokenSource(file=str(tmp_path / "missing")).token()
    (tmp_path / "empty").touch()
    with pytest.raises(ChronikError, match="is empty"):
        TokenSource(file=str(tmp_path / "empty")).token()
