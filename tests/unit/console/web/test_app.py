"""The pages as a browser gets them, without a cluster: harmless whatever is in it, asked for by our own names only."""

from __future__ import annotations

import json
from urllib.parse import quote, urlencode

import pytest

from chronik.client.transactions import TransactionDescription, TransactionListing
from chronik.console.pages.frame import Frame
from chronik.console.pages.transactions import transaction_page, transactions_page
from tests.unit.console.hostile import NAMES, Harms, ask, desk_of, hostile_groups, sight_of

SIGHT = sight_of(dict.fromkeys(NAMES, 1) | {"orders": 3}, hostile_groups())
PAGES = ["/", "/topics?only=all", "/topics?q=%3Cscript%3E", "/groups", "/groups?q=" + quote(NAMES[1]), "/nowhere"]
PAGES += [f"/topics?{urlencode({'q': name}, errors='backslashreplace')}" for name in NAMES]


@pytest.mark.parametrize("url", PAGES)
def test_no_name_gets_out_of_its_place(url: str) -> None:
    answer = ask(desk_of(SIGHT), url)

    assert Harms(answer.text).found == []
    assert answer.headers["content-security-policy"].startswith("default-src 'none'; script-src 'self';")
    assert answer.headers["x-content-type-options"] == "nosniff"


def test_hostile_names_are_shown_and_not_left_out() -> None:
    topics = "".join(Harms(ask(desk_of(SIGHT), "/topics?only=all").text).words)
    groups = "".join(Harms(ask(desk_of(SIGHT), "/groups").text).words)

    for shown in ("<script>alert(1)</script>", "{{ 7 * 7 }}", "a\\u202eb\\u2066c", "nul\\x00bell", "half \\ud800 pair"):
        assert shown in topics
        assert shown in groups


def test_a_silent_node_and_a_stall_are_on_the_first_page() -> None:
    words = "".join(Harms(ask(desk_of(SIGHT), "/").text).words)

    assert "A node does not answer. node 2: gone" in words
    assert "fetch hangs" in words
    assert "1 of 2" in words


def test_every_page_has_a_json_form() -> None:
    for url in ("/?format=json", "/topics?only=all&format=json", "/groups?format=json"):
        answer = ask(desk_of(SIGHT), url)

        assert answer.headers["content-type"] == "application/json"
        assert json.loads(answer.text)["frame"]["command"].startswith("chronik ")


@pytest.mark.parametrize("host", ["evil.example", "evil.example:9640", "localhost.evil.example"])
def test_other_names_are_not_answered(host: str) -> None:
    answer = ask(desk_of(SIGHT), "/", headers={"host": host})

    assert answer.status == 421
    assert "orders" not in answer.text


@pytest.mark.parametrize("host", ["localhost:9640", "127.0.0.1:9640", "[::1]:9640"])
def test_our_own_names_are(host: str) -> None:
    assert ask(desk_of(SIGHT), "/", headers={"host": host}).status == 200


@pytest.mark.parametrize(
    "url",
    ["/topics", "/topics/orders/delete", "/topics/orders/partitions", "/topics/orders/configs", "/group/reset",
     "/group/delete", "/searches/x/stop", "/topics/orders/messages", "/topics/orders/elect", "/topics/orders/clear",
     "/topics/orders/0/1/again", "/transaction/abort", "/settings", "/trace"],
)  # fmt: skip
def test_what_changes_something_needs_the_token(url: str) -> None:
    desk = desk_of(SIGHT)

    assert ask(desk, url, method="POST", body=b"name=x&confirm=orders").status == 403
    assert ask(desk, url, method="POST", body=b"token=wrong").status == 403


def test_a_read_only_console_has_no_forms_that_change_anything_and_takes_none() -> None:
    desk = desk_of(SIGHT, is_read_only=True)
    body = urlencode({"token": desk.token.value, "name": "x"}).encode()

    assert ask(desk, "/topics", method="POST", body=body).status == 403
    assert 'method="post"' not in ask(desk, "/topics").text
    assert 'method="post"' in ask(desk_of(SIGHT), "/topics").text


def test_a_form_larger_than_any_of_ours_is_not_read() -> None:
    answer = ask(desk_of(SIGHT), "/topics", method="POST", body=b"x=" + b"y" * 200_000)

    assert answer.status == 403
    assert "too large" in answer.text


def test_a_name_that_is_not_typed_right_deletes_nothing() -> None:
    desk = desk_of(SIGHT)
    body = urlencode({"token": desk.token.value, "confirm": "order"}).encode()

    answer = ask(desk, "/topics/orders/delete", method="POST", body=body)

    assert answer.status == 400
    assert "nothing was deleted" in answer.text


def test_records_are_not_deleted_without_the_name_typed() -> None:
    desk = desk_of(SIGHT)
    body = urlencode({"token": desk.token.value, "confirm": "order"}).encode()

    answer = ask(desk, "/topics/orders/clear", method="POST", body=body)

    assert answer.status == 400
    assert "nothing was deleted" in answer.text


def test_transactions_with_hostile_ids_are_shown_harmlessly() -> None:
    listed = [
        TransactionListing(name, 7, state, 1) for name, state in zip(NAMES, ["Ongoing", "Empty"] * 4, strict=True)
    ]
    page = transactions_page(desk_frame(), listed, "", "all", 1)
    text = (
        desk_of(SIGHT)
        .templates.get_template("transactions.html")
        .render(page=page, frame=page.frame, token="", here="/transactions", parameters={})
    )

    assert Harms(text).found == []
    assert "<script>alert(1)</script>" in "".join(Harms(text).words)
    assert (page.total, sum(row.is_open for row in page.rows)) == (8, 4)


def test_one_open_transaction_says_since_when_and_which_partitions_wait() -> None:
    found = TransactionDescription("billing", "Ongoing", 7, 3, 1000, 5_000, (("orders", 0), ("orders", 1)), 2)

    page = transaction_page(desk_frame(), found, {("orders", 0): 41, ("orders", 1): None}, 8_000)

    assert (page.open_s, page.is_overdue, page.can_be_aborted) == (3.0, True, True)
    assert [(held.partition, held.stable_offset) for held in page.partitions] == [(0, 41), (1, None)]


def desk_frame() -> Frame:
    desk = desk_of(SIGHT)
    return desk.frame(desk.watch.observed(), "t", "transactions", "transaction", "list")


def test_lists_of_ten_thousand_partitions_are_quick() -> None:
    """Loosely, for a busy machine: the figure that is promised is measured by the bench."""
    sight = sight_of({f"topic-{number:04d}": 10 for number in range(1000)})
    desk = desk_of(sight)
    ask(desk, "/topics")

    answer = ask(desk, "/topics?sort=messages&dir=down&page=3")

    assert answer.status == 200
    assert answer.text.count("<tr>") == 101
    assert "201 to 300 of 1,000 topics" in answer.text
