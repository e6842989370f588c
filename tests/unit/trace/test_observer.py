"""The observer that does nothing, and that it is there whenever nothing is traced."""

from __future__ import annotations

import inspect
from typing import Any

from chronik.trace.observer import NOT_OBSERVED, UNOBSERVED, Observer
from chronik.trace.recorder import Recorder
from chronik.trace.steps import Steps
from tests.unit.node.fakes import FakeClock


def facts_of(observer: type[Any]) -> set[str]:
    return {name for name, _ in inspect.getmembers(observer, inspect.isfunction) if not name.startswith("_")}


def test_what_is_not_observed_takes_every_fact_and_wants_none() -> None:
    for name in facts_of(Observer):
        fact = getattr(UNOBSERVED, name)
        needed = len(inspect.signature(getattr(Observer, name)).parameters) - 1
        assert not fact(*[None] * needed), name
    assert not UNOBSERVED.is_observing
    assert NOT_OBSERVED.observer is UNOBSERVED


def test_the_trace_observes_while_something_is_traced() -> None:
    recorder = Recorder(1, FakeClock())
    assert recorder.observer is UNOBSERVED

    recorder.switch(is_all=True, exceptions=frozenset())
    assert isinstance(recorder.observer, Steps)
    assert all(callable(getattr(recorder.observer, name)) for name in facts_of(Observer))

    recorder.switch(is_all=False, exceptions=frozenset())
    assert recorder.observer is UNOBSERVED
