"""One connection of the fuzzer: it sends requests, some of them broken, and holds the node to its answers."""

from __future__ import annotations

import asyncio
import contextlib
import random
import struct
import uuid
from collections import Counter, deque
from typing import Any

from chronik.wire.versions import APIS
from tests.fuzz import oracle, requests
from tests.fuzz.oracle import WrongAnswer
from tests.fuzz.requests import Frame
from tests.fuzz.vocabulary import NODES, Vocabulary

ANSWER_S = 30.0  # for what never waits: far above anything seen, so that it means 'never'
PATIENCE_S = 0.2  # for what may wait as long as it was told to: then we leave
LEARNED = 12
SIGNED = 0.3  # of all conversations
MAY_WAIT = frozenset(api.key for api in APIS.values() if api.name in ("fetch", "join_group", "sync_group"))


class Learned:
    """What the node made up and told the fuzzer."""

    def __init__(self) -> None:
        self.topic_ids: list[uuid.UUID] = []
        self.member_ids: list[str] = []
        self.sent: Counter[tuple[int, int]] = Counter()
        self.signed = 0  # conversations in the name of a node
        self.answered = 0
        self.hung_up = 0
        self.left = 0

    def take_in(self, frame: Frame, answer: Any) -> None:
        for topic_id in oracle.topic_ids_in(answer):
            if topic_id not in self.topic_ids:
                self.topic_ids = [*self.topic_ids[-LEARNED:], topic_id]
        member_id = getattr(answer, "member_id", None)
        if member_id and member_id not in self.member_ids:
            self.member_ids = [*self.member_ids[-LEARNED:], member_id]


class Conversation:
    """A number of requests on one connection, some of them in the name of a node. Which ones follows from the seed."""

    def __init__(self, seed: str, learned: Learned, cluster_id: str) -> None:
        self.dice = random.Random(seed)
        self._learned = learned
        self._pending: deque[Frame] = deque()
        self.tail = b""
        self._closes_early = self.dice.random() < 0.1
        signed_as = self.dice.choice((*NODES, 99)) if self.dice.random() < SIGNED else None
        learned.signed += signed_as is not None
        words = Vocabulary(self.dice, learned.topic_ids, learned.member_ids, signed_as, cluster_id)
        self.frames = self._make_frames(words)

    def _make_frames(self, words: Vocabulary) -> list[Frame]:
        dice = self.dice
        first_id = dice.choice((0, 1, 2**31 - 50, -(2**31)))
        count = dice.randrange(1, 16)
        frames = [requests.structured(words, first_id + 1 + number, 0.0) for number in range(count)]
        match dice.randrange(8):
            case 0 | 1:
                frames[-1] = requests.mutated(words, frames[-1].correlation_id)
            case 2 | 3:
                frames[-2:] = [requests.structured(words, frame.correlation_id, 0.05) for frame in frames[-2:]]
            case 4:
                frames[-1] = requests.unknown(words, frames[-1].correlation_id)
            case 5:
                self.tail = requests.raw(dice)
            case 6:  # cut off in the middle of a request
                cut = frames.pop()
                self.tail = cut.content[: dice.randrange(len(cut.content))]
        if words.signed_as is not None:
            frames.insert(0, requests.introduction(words.signed_as, first_id))
        return frames

    async def hold(self, host: str, port: int) -> None:
        """Raises WrongAnswer."""
        reader, writer = await asyncio.open_connection(host, port)
        try:
            self._pending.extend(self.frames)
            content = b"".join(frame.content for frame in self.frames) + self.tail
            for frame in self.frames:
                self._learned.sent[frame.api_key, frame.version] += 1
            with contextlib.suppress(OSError):  # it may have hung up already
                await self._send(writer, content)
            with contextlib.suppress(OSError):  # it may have hung up already
                if self._closes_early:  # whatever says it has no more to say is not waited for
                    writer.write_eof()
            await self._read_answers(reader)
        finally:
            writer.close()

    async def _send(self, writer: asyncio.StreamWriter, content: bytes) -> None:
        """In one piece, or in pieces that end anywhere."""
        pieces = self.dice.choice((1, 1, 3))
        size = len(content) // pieces + 1
        for start in range(0, len(content), size):
            writer.write(content[start : start + size])
            await asyncio.sleep(0)

    async def _read_answers(self, reader: asyncio.StreamReader) -> None:
        while any(not oracle.is_silent(frame) for frame in self._pending):
            may_wait = self._closes_early or any(
                frame.api_key in MAY_WAIT or not frame.is_sound for frame in self._pending
            )
            try:
                async with asyncio.timeout(PATIENCE_S if may_wait else ANSWER_S):
                    (size,) = struct.unpack(">i", await reader.readexactly(4))
                    content = await reader.readexactly(size)
            except TimeoutError:
                if not may_wait:
                    raise WrongAnswer(f"no answer within {ANSWER_S} s to {self._pending[0]}") from None
                self._learned.left += 1
                return
            except (asyncio.IncompleteReadError, ConnectionError):
                self._check_hung_up()
                return
            self._take(content)

    def _take(self, content: bytes) -> None:
        (correlation_id,) = struct.unpack_from(">i", content)
        while self._pending and self._pending[0].correlation_id != correlation_id:
            passed = self._pending.popleft()
            if not oracle.is_silent(passed):
                raise WrongAnswer(f"answer {correlation_id} came before that to {passed}")
        if not self._pending:
            raise WrongAnswer(f"answer {correlation_id}, which nothing asked for: {content.hex()}")
        frame = self._pending.popleft()
        try:
            answer = oracle.answer_of(frame, content)
        except WrongAnswer:
            raise
        except Exception as problem:
            raise WrongAnswer(f"{problem!r}: kio cannot read {content.hex()}, the answer to {frame}") from problem
        oracle.check(frame, answer)
        self._learned.take_in(frame, answer)
        self._learned.answered += 1

    def _check_hung_up(self) -> None:
        """A node may hang up on what is broken, and on a produce request without answer that failed."""
        self._learned.hung_up += 1
        if (
            not self.tail
            and not self._closes_early
            and all(frame.is_sound and not oracle.is_silent(frame) for frame in self.frames)
        ):
            raise WrongAnswer(f"the node hung up on {self._pending[0]}")
