"""What an answer may say, found out without the node's own code where that is possible."""

from __future__ import annotations

import dataclasses
import struct
import uuid
from collections.abc import Iterator
from typing import Any

from crc32c import crc32c
from kio.schema.errors import ErrorCode
from kio.serial import entity_reader

from chronik.wire.errors import Malformed
from chronik.wire.framing import read_header
from chronik.wire.reader import decode
from chronik.wire.schemas import request_type, response_type
from chronik.wire.versions import API_VERSIONS, APIS, PRODUCE
from tests.fuzz.requests import Frame
from tests.fuzz.vocabulary import INTERNAL, TOPICS


class WrongAnswer(Exception):
    """The node said what it must not say, or nothing where it must say something."""


def request_of(frame: Frame) -> Any:
    """The request of a frame, None when it cannot be read as one."""
    try:
        head = read_header(frame.content[4:])
        return decode(request_type(head.api_key, head.version), frame.content[4:], head.body)
    except Malformed:
        return None


def is_silent(frame: Frame) -> bool:
    """A produce request with acks=0 has no answer; if it fails the node hangs up."""
    if frame.api_key != PRODUCE:
        return False
    if frame.version < 3:  # an older form, which kio does not know; acks comes first
        head = read_header(frame.content[4:])
        return frame.content[4 + head.body : 6 + head.body] in (b"\x00\x00", b"\x00", b"")
    if frame.version > APIS[PRODUCE].highest:
        return False
    request = request_of(frame)
    return request is None or request.acks == 0


def answer_of(frame: Frame, content: bytes) -> Any:
    """The answer, read by kio: all bytes must be used."""
    api = APIS[frame.api_key]
    version = frame.version
    if frame.api_key == API_VERSIONS and not api.lowest <= version <= api.highest:
        version = 0
    if frame.api_key == PRODUCE and version < api.supported:
        return None
    position = 4
    if api.is_flexible(version) and frame.api_key != API_VERSIONS:
        if content[4] != 0:
            raise WrongAnswer(f"tagged fields in the header of the answer to {frame}")
        position = 5
    message, size = entity_reader(response_type(frame.api_key, version))(content, position)
    if position + size != len(content):
        raise WrongAnswer(f"{len(content) - position - size} bytes behind the answer to {frame}")
    return message


def check(frame: Frame, answer: Any) -> None:
    """Raise WrongAnswer for a fault, or for a success where there can be none."""
    for code in codes_in(answer):
        if code is ErrorCode.unknown_server_error:
            raise WrongAnswer(f"UNKNOWN_SERVER_ERROR, which is a fault, for {frame}")
    if frame.api_key == PRODUCE and answer is not None:
        _check_produce(frame, answer)


def _check_produce(frame: Frame, answer: Any) -> None:
    request = request_of(frame)
    if request is None:
        raise WrongAnswer(f"answered, though kio cannot read it: {frame}")
    asked = [partition for topic in request.topic_data for partition in topic.partition_data]
    told = [partition for topic in answer.responses for partition in topic.partition_responses]
    if [one.index for one in asked] != [one.index for one in told]:
        raise WrongAnswer(f"other partitions are answered than were asked for: {frame}")
    names = [getattr(topic, "name", "") for topic in request.topic_data for _ in topic.partition_data]
    for name, one, answered in zip(names, asked, told, strict=True):
        if answered.error_code is not ErrorCode.none:
            continue
        if not (
            is_batch(one.records)
            and request.acks in (-1, 1)
            and (request.transactional_id or not is_transactional(one.records))
            and name not in INTERNAL
        ):
            raise WrongAnswer(f"partition {one.index} of {name!r} was taken, though it must be refused: {frame}")
        if answered.base_offset < 0:
            raise WrongAnswer(f"taken without an offset: {frame}")


def is_transactional(records: bytes) -> bool:
    return bool(records[22] & 0x10)


def is_batch(records: bytes | None) -> bool:
    """Exactly one batch of format v2 whose checksum holds."""
    if records is None or len(records) < 61:
        return False
    (length,) = struct.unpack_from(">i", records, 8)
    (crc,) = struct.unpack_from(">I", records, 17)
    return length + 12 == len(records) and records[16] == 2 and crc32c(records[21:]) == crc


def codes_in(value: Any) -> Iterator[Any]:
    """Every error code anywhere in a message."""
    if isinstance(value, ErrorCode):
        yield value
    elif isinstance(value, tuple):
        for item in value:
            yield from codes_in(item)
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from codes_in(getattr(value, field.name))


def topic_ids_in(value: Any) -> Iterator[uuid.UUID]:
    """The ids of the fuzzer's own topics, as far as an answer names them."""
    if isinstance(value, tuple):
        for item in value:
            yield from topic_ids_in(item)
    elif dataclasses.is_dataclass(value):
        name, topic_id = getattr(value, "name", None), getattr(value, "topic_id", None)
        if name in TOPICS and isinstance(topic_id, uuid.UUID):
            yield topic_id
        for field in dataclasses.fields(value):
            yield from topic_ids_in(getattr(value, field.name))
