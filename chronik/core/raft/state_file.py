"""The file `quorum-state`: the epoch, the vote and the leader that must survive a crash. One line of JSON, as Kafka's.

    {"leaderId":2,"leaderEpoch":5,"votedId":-1,"votedDirectoryId":"AAAAAAAAAAAAAAAAAAAAAA","data_version":1,"crc32c":...}

A vote that is read wrong may be given twice, and Kafka's file has no checksum. Ours adds one, and `"isNew":true` while
the node has no say about logs; Kafka does not look at fields it does not know, and a file that Kafka wrote is taken as
it is.
"""

from __future__ import annotations

import json
from base64 import urlsafe_b64encode

from crc32c import crc32c

from chronik.core.errors import Corrupt
from chronik.core.raft.ready import ElectionState

FILE_NAME = "quorum-state"
VERSION = 1
_NO_NODE = -1
_NO_DIRECTORY = bytes(16)
_CHECKSUM = "crc32c"
_NEW = "isNew"


def encode(election: ElectionState, voted_directory: bytes = _NO_DIRECTORY) -> bytes:
    """The file's content. The directory id is that of the node voted for, where it is known (KIP-853)."""
    fields: dict[str, int | str] = {
        "leaderId": _NO_NODE if election.leader is None else election.leader,
        "leaderEpoch": election.epoch,
        "votedId": _NO_NODE if election.voted_for is None else election.voted_for,
        "votedDirectoryId": urlsafe_b64encode(voted_directory).decode().rstrip("="),
        "data_version": VERSION,
    }
    if election.is_new:
        fields[_NEW] = True
    return _line({**fields, _CHECKSUM: crc32c(_line(fields))})


def decode(content: bytes) -> ElectionState:
    """Raises Corrupt when this is not a whole and sound file."""
    try:
        fields = json.loads(content)
    except ValueError as problem:
        raise Corrupt(FILE_NAME, f"does not parse: {problem}") from problem
    if not isinstance(fields, dict):
        raise Corrupt(FILE_NAME, "is no JSON object")
    _check(fields, content)
    leader, epoch, voted_for = (fields[name] for name in ("leaderId", "leaderEpoch", "votedId"))
    is_new = _NEW in fields
    return ElectionState(
        epoch, None if voted_for == _NO_NODE else voted_for, None if leader == _NO_NODE else leader, is_new
    )


def _check(fields: dict[str, object], content: bytes) -> None:
    is_ours = _CHECKSUM in fields
    checksum = fields.pop(_CHECKSUM, None)
    marks = [_NEW] if fields.get(_NEW) is True else []
    if [*fields] != ["leaderId", "leaderEpoch", "votedId", "votedDirectoryId", "data_version", *marks]:
        raise Corrupt(FILE_NAME, f"has other fields than it should: {', '.join(fields)}")
    if is_ours and (checksum != crc32c(_line(fields)) or content != _line({**fields, _CHECKSUM: checksum})):
        raise Corrupt(FILE_NAME, "its checksum does not hold")
    if fields["data_version"] != VERSION:
        raise Corrupt(FILE_NAME, f"is of version {fields['data_version']}, and only {VERSION} can be read")
    for name, least in (("leaderId", _NO_NODE), ("leaderEpoch", 0), ("votedId", _NO_NODE)):
        value = fields[name]
        if type(value) is not int or not least <= value < 2**31:
            raise Corrupt(FILE_NAME, f"{name} is {value!r}")


def _line(fields: dict[str, object] | dict[str, int | str]) -> bytes:
    return json.dumps(fields, separators=(",", ":")).encode()
