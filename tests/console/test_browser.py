"""The console in a real Chromium, over a real cluster: pages, keys, a node that dies meanwhile, hostile contents."""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from chronik.testing import RunningCluster, cluster
from tests.cluster.console_process import ConsoleProcess, console

BROWSER = "CHRONIK_CHROMIUM"
"""Set in the environment: where Chromium is, if not in the path."""
WAIT_MS = 30_000
HOSTILE = b"<script>document.title='harmed'</script><img src=x onerror=\"document.title='harmed'\">\xe2\x80\xae"
PAGES = (
    "/",
    "/topics",
    "/topics/orders",
    "/topics/orders/messages",
    "/topics/orders/0/0",
    "/groups",
    "/transactions",
    "/trace",
    "/settings",
)


@pytest.fixture(scope="module")
def nodes() -> Iterator[RunningCluster]:
    with cluster(nodes=3) as running:
        producer = Producer({"bootstrap.servers": running.bootstrap, "client.id": HOSTILE.decode()})
        for number in range(300):
            producer.produce("orders", HOSTILE if number % 100 == 0 else f'{{"n": {number}}}'.encode(), key=HOSTILE)
        assert producer.flush(30) == 0
        yield running


@pytest.fixture(scope="module")
def shown(nodes: RunningCluster) -> Iterator[ConsoleProcess]:
    with console(nodes.bootstrap) as running:
        yield running


@pytest.fixture(scope="module")
def browser() -> Iterator[Any]:
    playwright = pytest.importorskip("playwright.sync_api", reason="playwright is not installed")
    chromium = os.environ.get(BROWSER) or shutil.which("chromium") or shutil.which("google-chrome")
    if chromium is None:
        pytest.skip(f"there is no Chromium: apt install chromium, or set {BROWSER}")
    with playwright.sync_playwright() as started:
        opened = started.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        yield opened
        opened.close()


@pytest.fixture
def page(browser: Any) -> Iterator[Any]:
    """It has to end without an error, a refusal of the policy, or a word to another place."""
    problems: list[str] = []
    opened = browser.new_page(viewport={"width": 1280, "height": 860})
    opened.on("pageerror", lambda problem: problems.append(str(problem)))
    opened.on("console", lambda said: problems.append(said.text) if said.type == "error" else None)
    asked: set[str] = set()
    opened.on("request", lambda request: asked.add(request.url.split("/")[2]))
    yield opened
    opened.close()
    assert problems == []
    assert all(host.startswith("127.0.0.1:") for host in asked)


@pytest.mark.parametrize(("scheme", "width"), [("light", 390), ("dark", 820), ("light", 1280)])
def test_no_page_is_wider_than_the_screen(
    browser: Any, shown: ConsoleProcess, scheme: str, width: int, tmp_path: Path
) -> None:
    opened = browser.new_page(viewport={"width": width, "height": 860}, color_scheme=scheme)
    for number, path in enumerate(PAGES):
        opened.goto(shown.url + path.lstrip("/"))
        assert opened.evaluate("document.documentElement.scrollWidth <= innerWidth"), path
        opened.screenshot(path=str(tmp_path / f"{number}.png"))
    opened.close()


def test_what_is_hostile_is_read_as_text(page: Any, shown: ConsoleProcess) -> None:
    page.goto(shown.url + "topics/orders/messages?text=harmed&from=oldest")
    page.wait_for_selector(".messages")

    assert "<script>document.title='harmed'</script>" in page.locator(".messages .value").first.inner_text()
    assert page.title() == "orders · Chronik"
    page.locator(".messages td a").first.click()
    page.wait_for_selector("pre")
    assert "\\u202e" in page.locator("pre").first.inner_text()
    assert "harmed" not in page.title()


def test_keys_go_to_pages_search_and_rows(page: Any, shown: ConsoleProcess) -> None:
    page.goto(shown.url)
    page.keyboard.press("g")
    page.keyboard.press("t")
    page.wait_for_url("**/topics")
    page.keyboard.press("/")
    page.keyboard.type("ord")
    page.wait_for_url("**/topics?q=ord*")
    page.keyboard.press("Escape")
    page.keyboard.press("j")
    assert page.evaluate("document.activeElement.textContent") == "orders"
    page.keyboard.press("Enter")
    page.wait_for_url("**/topics/orders")
    page.keyboard.press("?")
    assert page.locator("#help").is_visible()


def test_a_topic_is_made_and_deleted_by_hand(page: Any, shown: ConsoleProcess) -> None:
    page.goto(shown.url + "topics")
    page.get_by_text("Create a topic").click()
    page.fill('input[name="name"]', "by-hand")
    page.fill('input[name="partitions"]', "2")
    page.get_by_role("button", name="Create").click()
    page.wait_for_url("**/topics/by-hand")
    assert page.locator("#partitions .rows tbody tr").count() == 2

    page.get_by_text("Delete this topic").click()
    page.fill('form[action$="/delete"] input[name="confirm"]', "by-hand")
    page.get_by_role("button", name="Delete for good").click()
    page.wait_for_url("**/topics")
    assert page.get_by_role("link", name="by-hand").count() == 0


def test_an_open_page_says_that_a_node_died_and_that_it_is_back(
    page: Any, shown: ConsoleProcess, nodes: RunningCluster
) -> None:
    page.goto(shown.url)
    page.wait_for_selector("#nodes")
    nodes.kill(2)
    try:
        page.wait_for_selector("#notices .notice >> text=node 2", timeout=WAIT_MS)
        page.wait_for_selector("#nodes .state.bad", timeout=WAIT_MS)
    finally:
        nodes.restart(2)

    page.wait_for_selector("#notices .notice", state="detached", timeout=WAIT_MS)
    page.wait_for_selector("#nodes .state.bad", state="detached", timeout=WAIT_MS)
