"""Where a partition is led, as a tagged field of an answer. The answers' own tests let kio read them as a whole."""

from __future__ import annotations

from chronik.wire.leaders import CurrentLeader, NodeEndpoint, write_endpoints, write_leader, write_text


def test_a_leader_is_a_tagged_field_of_nine_bytes() -> None:
    out = bytearray()

    write_leader(out, 1, CurrentLeader(3, 9))

    assert out == b"\x01\x09" + b"\x00\x00\x00\x03" + b"\x00\x00\x00\x09" + b"\x00"


def test_endpoints_are_counted_and_sized() -> None:
    out = bytearray()

    write_endpoints(out, 0, [NodeEndpoint(1, "h" * 130, 9092), NodeEndpoint(2, "i", 1, "r")])

    body = b"\x03" + b"\x00\x00\x00\x01" + b"\x83\x01" + b"h" * 130 + b"\x00\x00\x23\x84" + b"\x00" + b"\x00"
    body += b"\x00\x00\x00\x02" + b"\x02i" + b"\x00\x00\x00\x01" + b"\x02r" + b"\x00"
    assert out == b"\x00" + bytes((len(body) % 128 + 128, len(body) // 128)) + body


def test_a_text_may_be_null_or_empty() -> None:
    out = bytearray()

    for text in (None, "", "ä"):
        write_text(out, text)

    assert out == b"\x00" + b"\x01" + b"\x03\xc3\xa4"
