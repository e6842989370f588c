"""Requests as bytes, from kio's types: every field of every version, filled with sense or without.

The bytes are written here and not by kio, which would refuse to write most of what a fuzzer wants to say.
"""

from __future__ import annotations

import dataclasses
import math
import random
import struct
import typing
from typing import Any, NamedTuple

from chronik.wire.reader import shape_of
from chronik.wire.schemas import request_type
from chronik.wire.versions import API_VERSIONS, APIS, NODE_SOFTWARE
from tests.fuzz.vocabulary import Vocabulary

SPOKEN = [(api.key, version) for api in APIS.values() for version in range(api.supported, api.highest + 1)]
HUGE = (2**31 - 1, 2**31 - 2, 1_000_001, 65_536)


class Frame(NamedTuple):
    """One request on the wire. A sound one must be answered; a broken one may end the connection instead."""

    api_key: int
    version: int
    correlation_id: int
    content: bytes
    is_sound: bool

    def __str__(self) -> str:
        name = APIS[self.api_key].name if self.api_key in APIS else f"request {self.api_key}"
        kind = "sound" if self.is_sound else "broken"
        return f"{name} v{self.version} #{self.correlation_id} ({kind}): {self.content.hex()}"


class RequestWriter:
    """Writes one message; `is_sound` tells whether every length, null and text in it was as the protocol has them."""

    def __init__(self, vocabulary: Vocabulary, lies: float) -> None:
        self._words = vocabulary
        self._dice = vocabulary.dice
        self._lies = lies  # how often a length or a null is wrong
        self.is_sound = True

    def message(self, message_type: Any, depth: int = 0) -> bytes:
        flexible = bool(message_type.__flexible__)
        hints = typing.get_type_hints(message_type)
        out, tagged = bytearray(), {}
        for field in dataclasses.fields(message_type):
            value = self._field(hints[field.name], field, flexible, message_type.__name__, depth)
            if (tag := field.metadata.get("tag")) is None:
                out += value
            elif self._dice.random() < 0.5:
                tagged[tag] = value
        if flexible:
            out += self._tags(tagged)
        return bytes(out)

    def _tags(self, tagged: dict[int, bytes]) -> bytes:
        if self._dice.random() < 0.1:
            tagged[self._dice.choice((50, 1000, 2**31))] = self._dice.randbytes(self._dice.choice((0, 1, 200)))
        body = b"".join(uvarint(tag) + uvarint(len(value)) + value for tag, value in sorted(tagged.items()))
        return uvarint(self._lied(len(tagged))) + body

    def _lied(self, count: int) -> int:
        """The count, or once in a while a lie."""
        if self._dice.random() >= self._lies:
            return count
        self.is_sound = False
        return self._dice.choice((*HUGE, count + 1, max(count - 1, 0)))

    def _field(self, hint: Any, field: dataclasses.Field[Any], flexible: bool, holder: str, depth: int) -> bytes:
        _, is_array, nested, nullable = shape_of(hint)
        kind = field.metadata.get("kafka_type") or ""
        is_tagged = field.metadata.get("tag") is not None
        if is_array:
            return self._array(field, nested, kind, flexible, nullable, holder, depth)
        if nested is not None:
            if nullable and not is_tagged:  # a byte before it says whether it is there (KIP-893)
                return b"\xff" if self._dice.random() < 0.4 else b"\x01" + self.message(nested, depth + 1)
            return self.message(nested, depth + 1)
        return self._primitive(field.name, kind, flexible, nullable, holder)

    def _array(
        self,
        field: dataclasses.Field[Any],
        nested: Any,
        kind: str,
        flexible: bool,
        nullable: bool,
        holder: str,
        depth: int,
    ) -> bytes:
        if self._dice.random() < (0.1 if nullable else self._lies):
            self.is_sound &= nullable
            return b"\x00" if flexible else b"\xff\xff\xff\xff"
        count = self._dice.choice((0, 1, 1, 1, 2, 3) if depth else (0, 1, 1, 1, 2, 5))
        one = (
            (lambda: self.message(nested, depth + 1))
            if nested is not None
            else lambda: self._primitive(field.name, kind, flexible, False, holder)
        )
        items = b"".join(one() for _ in range(count))
        told = self._lied(count)
        return (uvarint(told + 1) if flexible else struct.pack(">i", told)) + items

    def _primitive(self, name: str, kind: str, flexible: bool, nullable: bool, holder: str) -> bytes:
        words = self._words
        match kind:
            case "int8" | "int16" | "int32" | "int64" | "timedelta_i32" | "timedelta_i64":
                size = {"int8": 1, "int16": 2, "int32": 4, "int64": 8, "timedelta_i32": 4, "timedelta_i64": 8}[kind]
                return words.number(name, kind, holder).to_bytes(size, "big", signed=True)
            case "uint16":
                return (words.number(name, "int16") % 2**16).to_bytes(2, "big")
            case "float64":
                odd = (0.0, -1.0, 0.5, 1e308, 5e-324, math.inf, -math.inf, math.nan)
                return struct.pack(">d", self._dice.choice(odd))
            case "bool":
                return self._dice.choice((b"\x00", b"\x01", b"\x01"))
            case "uuid":
                return words.topic_id()
            case "string":
                return self._sized(
                    self._text(name, holder), 2, flexible, nullable, often_null=name == "transactional_id"
                )
            case "bytes" | "records":
                return self._sized(words.content(name), 4, flexible, nullable)
        raise TypeError(f"no value for {kind}")

    def _text(self, name: str, holder: str) -> bytes:
        body = self._words.text(name, holder).encode()[:32_767]
        if self._dice.random() < self._lies:
            self.is_sound = False
            return body + b"\xff\xfe"[: max(0, 32_767 - len(body))]
        text = body.decode(errors="ignore")  # a character may have been cut in two
        return text.encode()

    def _sized(
        self, body: bytes, size_bytes: int, flexible: bool, nullable: bool, *, often_null: bool = False
    ) -> bytes:
        null_share = (0.9 if often_null else 0.2) if nullable else self._lies
        if self._dice.random() < null_share:
            self.is_sound &= nullable
            return b"\x00" if flexible else b"\xff" * size_bytes
        told = self._lied(len(body))
        if flexible:
            return uvarint(told + 1) + body
        return (told % 2 ** (8 * size_bytes)).to_bytes(size_bytes, "big") + body


def uvarint(value: int) -> bytes:
    out = bytearray()
    value &= 0xFFFFFFFF
    while value >= 0x80:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def header(
    api_key: int, version: int, correlation_id: int, client_id: bytes | None = b"fuzz", tags: bytes = b"\x00"
) -> bytes:
    head = struct.pack(">hhih", api_key, version, correlation_id, -1 if client_id is None else len(client_id)) + (
        client_id or b""
    )
    api = APIS.get(api_key)
    return head + (tags if api is not None and api.is_flexible(version) else b"")


def sized(content: bytes) -> bytes:
    return struct.pack(">i", len(content)) + content


def structured(vocabulary: Vocabulary, correlation_id: int, lies: float) -> Frame:
    """A request of some API and version."""
    dice = vocabulary.dice
    api_key, version = dice.choice(SPOKEN)
    writer = RequestWriter(vocabulary, lies)
    body = writer.message(request_type(api_key, version))
    tags = b"\x00" if dice.random() < 0.95 else b"\x01\x05\x03abc"
    client_id = dice.choice((b"fuzz", b"", None, b"fuzz" * 1000))
    if vocabulary.signed_as is not None:
        client_id = b"node-%d" % vocabulary.signed_as
    head = header(api_key, version, correlation_id, client_id, tags)
    return Frame(api_key, version, correlation_id, sized(head + body), writer.is_sound)


def introduction(node_id: int, correlation_id: int) -> Frame:
    """What a node says first."""
    software = b"".join(uvarint(len(text) + 1) + text for text in (NODE_SOFTWARE.encode(), b"1.0"))
    head = header(API_VERSIONS, 4, correlation_id, b"node-%d" % node_id)
    return Frame(API_VERSIONS, 4, correlation_id, sized(head + software + b"\x00"), True)


def mutated(vocabulary: Vocabulary, correlation_id: int) -> Frame:
    """A request with a few of its bytes changed, added or gone; the size before it still fits."""
    dice = vocabulary.dice
    frame = structured(vocabulary, correlation_id, 0.0)
    content = bytearray(frame.content[4:])
    for _ in range(dice.choice((1, 1, 2, 8))):
        at = dice.randrange(8, len(content) + 1)  # not who asks what: that is another kind of broken
        match dice.randrange(4):
            case 0 if at < len(content):
                content[at] ^= 1 << dice.randrange(8)
            case 1 if at < len(content):
                content[at : at + 4] = dice.choice(
                    (b"\xff\xff\xff\xff", b"\x7f\xff\xff\xff", b"\x80\x80\x80\x80", bytes(4))
                )
            case 2:
                content[at:at] = dice.randbytes(dice.choice((1, 2, 30)))
            case _:
                del content[at : at + dice.choice((1, 2, 1000))]
    return frame._replace(content=sized(bytes(content)), is_sound=False)


def unknown(vocabulary: Vocabulary, correlation_id: int) -> Frame:
    """A request that is not spoken here: an unknown number, or a version that is too old or too new."""
    dice = vocabulary.dice
    api_key = dice.choice((*APIS, 4, 24, 50, 999, -1, 2**15 - 1))
    version = dice.choice((-1, 0, 1, 2, 99, 2**15 - 1))
    api = APIS.get(api_key)
    is_spoken = api is not None and api.lowest <= version <= api.highest
    content = sized(header(api_key, version, correlation_id) + dice.randbytes(dice.choice((0, 4, 40))))
    # ApiVersions is how a client finds out: any version of it is answered.
    return Frame(api_key, version, correlation_id, content, api_key == API_VERSIONS and not is_spoken)


def raw(dice: random.Random) -> bytes:
    """Bytes that are no request at all, with a size before them that is true or not."""
    content = dice.randbytes(dice.choice((0, 1, 3, 8, 14, 100, 5000)))
    match dice.randrange(4):
        case 0:
            return content
        case 1:
            return sized(content)
        case 2:
            return struct.pack(">i", dice.choice((-1, -(2**31), 2**31 - 1, 100 * 1024**2 + 1))) + content
    return dice.choice(
        (
            b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
            b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc\x03\x03",
            b"SSH-2.0-x\r\n",
            bytes(64),
        )
    )
