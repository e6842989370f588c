"""The config files of a local cluster: written, and changed in one place without touching what users put there."""

from __future__ import annotations

import pytest

from chronik.client.errors import ChronikError
from chronik.core.config.definitions import BadConfig
from chronik.core.config.parse import parse_toml
from chronik.local_cluster.config import VOTERS, as_toml, checked, with_voters

NEW = "1@127.0.0.1:9092,4@127.0.0.1:9095"


def test_a_config_file_reads_back_as_it_was_written() -> None:
    settings = {
        "node.id": "1",
        "auto.create.topics.enable": "false",
        "log.dirs": 'a "quoted" \\ path, mit Umlaut: ä',
        "broker.rack": "007",
        "controller.quorum.voters": "1@127.0.0.1:9092,2@127.0.0.1:9093",
    }

    text = as_toml(1, settings)

    assert parse_toml(text) == settings
    assert "node.id = 1\n" in text
    assert "auto.create.topics.enable = false\n" in text


@pytest.mark.parametrize(
    "before",
    [
        'node.id = 1\ncontroller.quorum.voters = "1@a:1"\nlisteners = "a:1"\n',
        'node.id = 1\ncontroller.quorum.voters = [\n  "1@a:1",  # the first ]\n  "2@b:2",\n]\nlisteners = "a:1"\n',
        'node.id = 1\ncontroller.quorum.voters = """\\\n  1@a:1,\\\n  2@b:2"""\nlisteners = "a:1"\n',
        'node.id = 1\nlisteners = "a:1"\n  controller . "quorum".voters = "1@a:1"\n',
        'node.id = 1\nlisteners = "a:1"',
        'node.id = 1\nlisteners = "a:1"\n[log]\nretention.ms = 5\n',
        'node.id = 1\nlisteners = "a:1"\n[controller.quorum]\nvoters = [\n"1@a:1"\n]\n[log]\nretention.ms = 5\n',
        'node.id = 1\nlisteners = "a:1"\n[controller]\nquorum.fetch.timeout.ms = 5\n',
        'node.id = 1\nlisteners = "a:1"\ncontroller = {quorum = {voters = "1@a:1"}}\n',
        "[log]\nretention.ms = 5\n",
    ],
    ids=[
        "line",
        "array",
        "long string",
        "spaced",
        "no end",
        "table",
        "in a table",
        "beside a table",
        "inline",
        "no top",
    ],
)
def test_new_voters_take_the_place_of_the_old_however_these_are_written(before: str) -> None:
    after = with_voters(before, NEW)

    assert parse_toml(after) == {**parse_toml(before), VOTERS: NEW}
    assert with_voters(after, NEW) == after


def test_everything_else_stays_as_the_user_wrote_it() -> None:
    before = """\
# mine
node.id = 1   # the first
controller.quorum.voters = [
    "1@a:1",
]

# how long to keep
[log]
retention.ms = 5
"""

    assert (
        with_voters(before, NEW)
        == f"""\
# mine
node.id = 1   # the first
controller.quorum.voters = "{NEW}"

# how long to keep
[log]
retention.ms = 5
"""
    )
    assert with_voters("node.id = 1\r\n", NEW) == f'node.id = 1\r\n{VOTERS} = "{NEW}"\r\n'


@pytest.mark.parametrize("text", ["listeners = [\n", 'controller.quorum = {voters = "1@a:1", other = 5}\n'])
def test_a_file_that_cannot_be_changed_safely_is_not_changed(text: str) -> None:
    with pytest.raises(BadConfig):
        with_voters(text, NEW)


def test_a_nearly_right_name_is_said_once() -> None:
    with pytest.raises(ChronikError) as caught:
        checked({"num.partition": "3"})

    assert str(caught.value).count("did you mean num.partitions?") == 1
