"""What users type into options, read strictly: pairs, times, partitions."""

from __future__ import annotations

import re
from collections.abc import Iterable
from pathlib import Path
from typing import TypeVar

from chronik.client.errors import ChronikError


def parse_pairs(option: str, texts: Iterable[str]) -> dict[str, str]:
    """`KEY=VALUE` texts as a mapping; the value may hold further `=`."""
    pairs: dict[str, str] = {}
    for text in texts:
        key, equals, value = text.partition("=")
        if not equals or not key.strip():
            raise ChronikError(
                f"{option} {text} is not KEY=VALUE", f"write it as {option} {key.strip() or 'KEY'}=VALUE"
            )
        pairs[key.strip()] = value
    return pairs


FolderT = TypeVar("FolderT", bound=str | Path | None)


def local(folder: FolderT) -> FolderT:
    """A folder of this machine. `s3://bucket` would be taken for a folder of that name otherwise; a path has lost its
    second slash already."""
    if folder is not None and (scheme := re.match(r"([A-Za-z][A-Za-z0-9+.-]+):/", str(folder))):
        raise ChronikError(
            f"{folder}: object stores and other file systems ({scheme[1]}) cannot be used yet",
            "give a folder of this machine, or one that is mounted on it",
        )
    return folder


def parse_topic_partitions(text: str) -> tuple[str, list[int] | None]:
    """`orders` is all of a topic, `orders:0,2` some of its partitions."""
    topic, colon, numbers = text.partition(":")
    if not colon:
        return topic, None
    parts = numbers.split(",")
    if not topic or not all(part.isdecimal() for part in parts):
        raise ChronikError(f"{text} is not a topic with partitions", "write it as TOPIC or TOPIC:0,1")
    return topic, [int(part) for part in parts]
