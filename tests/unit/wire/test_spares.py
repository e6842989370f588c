"""Memory of large requests is used again, and never while somebody looks at it."""

from __future__ import annotations

import struct

from hypothesis import given
from hypothesis import strategies as st

from chronik.wire.framing import LARGE_BYTES, SHARED_BYTES, Inbox
from chronik.wire.spares import SPARE_BYTES, SPARES_MAX, Spares


def test_what_was_given_is_taken_again_once_nobody_looks_at_it() -> None:
    spares = Spares()
    spares.give(bytearray(SPARE_BYTES))

    memory = spares.take()
    assert memory is not None
    assert spares.take() is None
    spares.give(memory)
    view = memoryview(memory)[:10]
    del memory
    assert spares.take() is None

    view.release()
    assert spares.take() is not None


def test_only_a_few_of_one_size_are_kept() -> None:
    spares = Spares()
    for _ in range(2 * SPARES_MAX):
        spares.give(bytearray(SPARE_BYTES))
    spares.give(bytearray(SPARE_BYTES + 1))

    taken = 0
    while spares.take() is not None:
        taken += 1
    assert taken == SPARES_MAX


def send(inbox: Inbox, stream: bytes) -> list[memoryview]:
    frames: list[memoryview] = []
    view = memoryview(stream)
    while view:
        space = inbox.space()
        count = min(len(space), len(view))
        space[:count] = view[:count]
        space.release()
        frames += inbox.filled(count)
        view = view[count:]
    return frames


@given(st.lists(st.tuples(st.integers(SHARED_BYTES, 2 * SPARE_BYTES), st.booleans()), min_size=1, max_size=8))
def test_requests_keep_their_bytes_while_they_are_looked_at(requests: list[tuple[int, bool]]) -> None:
    """Some are kept (parked, or not begun), the others are done with at once."""
    inbox = Inbox(4 * SPARE_BYTES)
    kept: list[tuple[memoryview, bytes]] = []
    for number, (size, is_kept) in enumerate(requests):
        content = bytes([number + 1]) * size
        (frame,) = send(inbox, struct.pack(">i", size) + content)
        assert frame == content
        if is_kept:
            kept.append((frame, content))
    assert all(frame == content for frame, content in kept)


def test_a_large_request_that_never_comes_takes_little_memory() -> None:
    inbox = Inbox(100 * 1024 * 1024)
    send(inbox, struct.pack(">i", 90 * 1024 * 1024) + bytes(SHARED_BYTES))

    assert len(inbox.space()) <= LARGE_BYTES
