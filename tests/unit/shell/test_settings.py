"""Config files as they are found on disk."""

from __future__ import annotations

from pathlib import Path

import pytest

from chronik.shell.errors import StartError
from chronik.shell.settings import read_config_file


def written(tmp_path: Path, name: str, content: str | bytes) -> str:
    path = tmp_path / name
    path.write_bytes(content if isinstance(content, bytes) else content.encode())
    return str(path)


def test_a_toml_file_is_known_by_its_name(tmp_path: Path) -> None:
    path = written(tmp_path, "node.toml", '[log]\nretention.hours = 24\ncleanup.policy = ["compact", "delete"]\n')

    assert read_config_file(path) == {"log.retention.hours": "24", "log.cleanup.policy": "compact,delete"}


def test_any_other_file_is_kafkas_properties(tmp_path: Path) -> None:
    path = written(tmp_path, "server.properties", "# a comment\nnum.partitions=3\nlog.dirs = /data\n")

    assert read_config_file(path) == {"num.partitions": "3", "log.dirs": "/data"}


def test_a_file_that_is_not_there_is_named(tmp_path: Path) -> None:
    with pytest.raises(StartError, match=r"nothing\.toml cannot be read"):
        read_config_file(str(tmp_path / "nothing.toml"))


@pytest.mark.parametrize(
    ("name", "content", "said"),
    [
        ("node.toml", "num.partitions = = 3", "is not well formed"),
        ("server.properties", "a=\\u12", "is not well formed"),
        ("server.properties", b"a=\xff\xfe", "cannot be read"),
    ],
)
def test_a_file_that_makes_no_sense_is_named(tmp_path: Path, name: str, content: str | bytes, said: str) -> None:
    path = written(tmp_path, name, content)

    with pytest.raises(StartError) as caught:
        read_config_file(path)

    assert f"{path} {said}" in caught.value.message
    assert caught.value.what_to_do
