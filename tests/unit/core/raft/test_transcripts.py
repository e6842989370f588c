"""Stories of a small cluster, read and reviewed as text: a command, then what every machine did about it.

A transcript is blocks of a command, a line `----`, and what came of it. `CHRONIK_REWRITE=1 pytest ...` writes down what
comes of the commands now; the difference is then for a person to judge.
"""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from tests.unit.core.raft.cluster import Cluster

FOLDER = Path(__file__).parent / "transcripts"


def run(command: str, cluster: Cluster | None) -> Cluster:
    """Carry one command out; the first of a transcript makes the cluster."""
    name, *words = command.split()
    numbers = [int(word) for word in words if word.lstrip("-").isdigit()]
    if cluster is None:
        assert name == "nodes", "a transcript begins with its nodes"
        rest = command.removeprefix("nodes").split("with logs")
        ids, _, voters = rest[0].partition("voters")
        logs = dict(log.split(":") for log in rest[1].split()) if len(rest) > 1 else {}
        return Cluster(
            *map(int, ids.split()),
            voters=[*map(int, voters.split())],
            logs={int(node_id): [*map(int, epochs.split(","))] for node_id, epochs in logs.items()},
        )
    match name:
        case "at":
            cluster.at(*numbers)
        case "led-by":
            cluster.led_by(*numbers)
        case "cut-off":
            cluster.cut_off = numbers
        case "write":
            cluster.write(numbers[0], *words[1:])
        case "show" | "deliver" | "fetch" | "kill" | "restart" | "resign" | "add" | "remove" | "snapshot":
            getattr(cluster, name)(*numbers)
        case _:
            raise AssertionError(f"no command '{name}'")
    return cluster


def replay(text: str) -> str:
    """The transcript as it would be written today."""
    cluster: Cluster | None = None
    blocks = []
    for block in text.strip().split("\n\n"):
        lines = block.split("\n")
        comments = [line for line in lines if line.startswith("#")]
        if len(comments) == len(lines):
            blocks.append(block)
            continue
        command = lines[len(comments)]
        cluster = run(command, cluster)
        blocks.append("\n".join([*comments, command, "----", *cluster.story]))
        cluster.story.clear()
    return "\n\n".join(blocks) + "\n"


@pytest.mark.parametrize("name", sorted(path.stem for path in FOLDER.glob("*.txt")))
def test_the_story_is_still_told_like_this(name: str) -> None:
    path = FOLDER / f"{name}.txt"
    told = path.read_text(encoding="utf-8")

    now = replay(told)

    if os.environ.get("CHRONIK_REWRITE"):
        path.write_text(now, encoding="utf-8")
    assert now == told or os.environ.get("CHRONIK_REWRITE")


def test_there_are_transcripts() -> None:
    assert len([*FOLDER.glob("*.txt")]) >= 7
