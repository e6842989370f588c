"""Stories of groups, told in text. REWRITE_TRANSCRIPTS=1 writes down what happens now; read the difference."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.core.machines.groups.transcript import Story

TRANSCRIPTS = sorted((Path(__file__).parent / "transcripts").glob("*.txt"))


@pytest.mark.parametrize("path", TRANSCRIPTS, ids=lambda path: path.stem)
def test_the_story_goes_as_it_is_told(path: Path) -> None:
    told = path.read_text()
    happened = Story().play(told)
    if os.environ.get("REWRITE_TRANSCRIPTS"):
        path.write_text(happened)
    assert happened == told


def test_there_are_stories_of_every_kind() -> None:
    stories = {"classic", "static", "cooperative", "consumer", "consumer_static", "migration"}
    assert {path.stem for path in TRANSCRIPTS} >= stories
