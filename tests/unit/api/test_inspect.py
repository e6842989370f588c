"""Look: whatever is asked gets an answer, by this node or by the one that is meant."""

from __future__ import annotations

import asyncio
import dataclasses
import json
import struct
from collections.abc import Coroutine
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from chronik.api import inspect
from chronik.api.call import Call
from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code, Refused
from chronik.wire.framing import RequestHeader
from chronik.wire.versions import INSPECT
from tests.unit.api.calls import call_of
from tests.unit.api.fake_context import fake_context

CORRELATION_ID = 4711
HEADER = RequestHeader(INSPECT, 0, CORRELATION_ID, "test", 0)


class Onlooker:
    """Asks a desk, and keeps what it answers."""

    def __init__(self) -> None:
        self.looks: list[tuple[str, dict[str, Any]]] = []
        self.problem: Exception | None = None
        self.sent_to: list[int] = []
        self.faults: list[Exception] = []
        self.context = dataclasses.replace(
            fake_context(), look=self._look, start=self._start, forwarding=cast(Any, self)
        )

    async def _look(self, view: str, arguments: dict[str, Any]) -> bytes:
        self.looks.append((view, arguments))
        if self.problem is not None:
            raise self.problem
        return b'{"node":1}'

    async def ask_node(self, node_id: int, call: Call) -> memoryview:
        """Another node, as forwarding reaches it."""
        self.sent_to.append(node_id)
        if self.problem is not None:
            raise self.problem
        told = b'{"node":%d}' % node_id
        return memoryview(struct.pack(">ii", CORRELATION_ID, len(told)) + told)

    def _start(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            asyncio.run(work)
        except Exception as problem:
            self.faults.append(problem)

    def ask(self, body: bytes, context: RequestContext | None = None, *, is_node: bool = False) -> Any:
        """The JSON of the one answer there is, which must be well framed."""
        answers: list[bytes] = []
        caller = Caller("test", "127.0.0.1", 0, 1, is_node)
        keep = lambda buffers: answers.append(b"".join(map(bytes, buffers)))  # noqa: E731
        inspect.start(call_of(body, HEADER, caller, keep), context or self.context)
        (frame,) = answers
        size, correlation_id, length = struct.unpack_from(">iii", frame)
        assert (size, correlation_id, length) == (len(frame) - 4, CORRELATION_ID, len(frame) - 12)
        return json.loads(frame[12:])


def body(arguments: Any) -> bytes:
    text = json.dumps(arguments).encode()
    return struct.pack(">i", len(text)) + text


def test_a_look_is_given_its_view_and_arguments() -> None:
    onlooker = Onlooker()

    answer = onlooker.ask(body({"view": "state", "topics": ["orders"]}))

    assert answer == {"node": 1}
    assert onlooker.looks == [("state", {"topics": ["orders"]})]


@pytest.mark.parametrize(
    "nonsense",
    [b"", b"\x00", struct.pack(">i", 5), struct.pack(">i", -1), struct.pack(">i", 2) + b"{]", body([1]), body("state")],
)
def test_a_question_that_is_no_json_object_is_answered_with_what_is_wrong(nonsense: bytes) -> None:
    onlooker = Onlooker()

    answer = onlooker.ask(nonsense)

    assert list(answer) == ["error"]
    assert not onlooker.looks
    assert not onlooker.faults
    assert onlooker.context.metrics.refusals == {(INSPECT, Code.INVALID_REQUEST): 1}


@given(st.binary(max_size=40) | st.recursive(st.none() | st.integers() | st.text(), st.lists).map(body))
def test_nothing_that_comes_is_a_fault(anything: bytes) -> None:
    onlooker = Onlooker()

    assert isinstance(onlooker.ask(anything), dict)
    assert onlooker.faults == []


@pytest.mark.parametrize("arguments", [{}, {"view": 5}, {"view": None}])
def test_a_look_without_a_view_is_told_so(arguments: Any) -> None:
    assert "view" in Onlooker().ask(body(arguments))["error"]


def test_what_the_view_refuses_is_answered_in_its_words() -> None:
    onlooker = Onlooker()
    onlooker.problem = Refused(Code.INVALID_REQUEST, "there is no view 'nonsense'")

    assert onlooker.ask(body({"view": "nonsense"})) == {"error": "there is no view 'nonsense'"}
    assert onlooker.faults == []


def test_a_bug_in_a_view_is_answered_and_told_to_who_watches() -> None:
    onlooker = Onlooker()
    onlooker.problem = RuntimeError("a bug")

    answer = onlooker.ask(body({"view": "state"}))

    assert "failed" in answer["error"]
    assert onlooker.faults == [onlooker.problem]


def test_a_node_that_nobody_looks_at_says_so() -> None:
    onlooker = Onlooker()

    answer = onlooker.ask(body({"view": "state"}), dataclasses.replace(onlooker.context, look=None))

    assert "cannot be looked at" in answer["error"]


# --- another node


def test_a_look_at_another_node_is_passed_on_and_its_answer_back() -> None:
    onlooker = Onlooker()

    assert onlooker.ask(body({"view": "state", "node": 3})) == {"node": 3}
    assert (onlooker.sent_to, onlooker.looks) == ([3], [])


def test_a_look_that_names_this_very_node_stays_here() -> None:
    onlooker = Onlooker()

    assert onlooker.ask(body({"view": "state", "node": 1})) == {"node": 1}
    assert (onlooker.sent_to, onlooker.looks) == ([], [("state", {})])


def test_what_another_node_passed_on_is_never_passed_on_again() -> None:
    onlooker = Onlooker()

    answer = onlooker.ask(body({"view": "state", "node": 3}), is_node=True)

    assert answer == {"error": "this is node 1, not 3"}
    assert onlooker.sent_to == []


def test_a_node_that_cannot_be_reached_is_an_error_with_the_reason() -> None:
    onlooker = Onlooker()
    onlooker.problem = Refused(Code.BROKER_NOT_AVAILABLE, "node 3: it hung up")

    assert onlooker.ask(body({"view": "state", "node": 3})) == {"error": "node 3: it hung up"}
    assert onlooker.faults == []


@pytest.mark.parametrize("node", ["3", None, 1.5, False, [3]])
def test_what_is_no_number_of_a_node_is_refused(node: Any) -> None:
    onlooker = Onlooker()

    assert "no number of a node" in onlooker.ask(body({"view": "state", "node": node}))["error"]
    assert onlooker.sent_to == []
