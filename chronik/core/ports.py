"""The four doors: the only ways through which the house reaches the world.

`shell/` has the real ones, `sim/` simulated ones. `core/` is given files and the time; it never
waits, so of `Files` it uses only what answers at once.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeAlias

from chronik.core.types import Buffer

if TYPE_CHECKING:
    import asyncio


class Clock(Protocol):
    """What time it is. Waiting is the event loop's business."""

    def now_ms(self) -> int:
        """Wall clock, milliseconds since 1970. May jump."""

    def now_us(self) -> int:
        """The same in microseconds: for events, of which many fall into one millisecond."""

    def now_ns(self) -> int:
        """The same in nanoseconds: for callers that ask so often that a division counts."""

    def monotonic_ms(self) -> int:
        """Milliseconds since some start. Never goes back."""


class File(Protocol):
    """One file, written only at its end. It comes into being (with its directory) at the first append."""

    @property
    def path(self) -> str: ...

    def size(self) -> int:
        """Bytes in the file, 0 when it does not exist yet."""

    def append(self, chunks: Sequence[Buffer]) -> None:
        """Write all chunks at the end. On OSError nothing of them counts: the file is cut back to its old size, if need
        be before the next append. Until then another process would find the rest."""

    def read(self, position: int, length: int) -> bytes:
        """Up to `length` bytes from `position`; shorter only at the end of the file."""

    def read_cached(self, position: int, length: int) -> Buffer | None:
        """As `read`, but None when it would have to wait for the disk."""

    def is_in_memory(self, position: int) -> bool:
        """Whether everything from `position` on was written so lately that the system surely still has it in memory."""

    def send(self, socket: int, position: int, length: int) -> int:
        """Send bytes to a socket without reading them; how many it took. BlockingIOError when it is full."""

    def truncate(self, size: int) -> None:
        """Cut it to this size, and with it whatever a failed append may have left behind its end."""

    def write_again(self, position: int, content: Buffer) -> None:
        """Put the bytes that stand there in their place once more. After a failed sync the system has them in memory,
        takes them for written, and no sync writes them: only writing them again makes that happen."""

    def sync(self) -> None:
        """Make what was written survive a power cut, and its name, in this directory and of the directories above it.
        Blocks: for start-up and shutdown only."""

    def close(self) -> None:
        """Let go of what it holds open; the next use opens it again."""

    def retire(self) -> None:
        """Its path is given up or will hold something else: from now on, reading it is an OSError, ESTALE."""


SENT_UNREAD_BYTES = 32 * 1024  # below this, reading is cheaper than one more system call


class FileSlice:
    """Bytes of a file on their way to a client, not read yet: the kernel can send them without our seeing them."""

    __slots__ = ("file", "length", "position")

    def __init__(self, file: File, position: int, length: int) -> None:
        self.file = file
        self.position = position
        self.length = length

    def __len__(self) -> int:
        return self.length

    def __bytes__(self) -> bytes:
        """The bytes themselves. Raises OSError when they are no longer all there."""
        content = self.file.read(self.position, self.length)
        if len(content) < self.length:
            raise OSError(f"{self.file.path}: {self.length} bytes wanted at {self.position}, {len(content)} are there")
        return content


# What an answer is made of.
Outgoing: TypeAlias = Buffer | FileSlice


class Unread:
    """Bytes that could not be read, and why: that says nothing about what they are."""

    __slots__ = ("problem",)

    def __init__(self, problem: OSError) -> None:
        self.problem = problem


class Files(Protocol):
    """A tree of files below one data directory. Paths are relative to it, with '/' between parts."""

    def open(self, path: str) -> File: ...

    def exists(self, path: str) -> bool: ...

    def names(self, path: str) -> list[str]:
        """The names in a directory, sorted; empty when there is no such directory."""

    def read_all(self, path: str) -> bytes:
        """The whole content. FileNotFoundError when there is none."""

    def replace(self, path: str, content: Buffer, sync: bool = True) -> None:
        """Put `content` in place of what is there, all or nothing (write beside, sync, rename)."""

    def rename(self, old: str, new: str) -> None: ...

    def remove(self, path: str) -> None:
        """Remove a file or a whole directory; nothing happens when it is not there."""

    def disk_bytes(self) -> tuple[int, int]:
        """Total and free bytes of the disk it is on."""

    def sync_later(self, files: Sequence[File]) -> Awaitable[list[OSError | None]]:
        """Sync all of them off the event loop; for each, what went wrong. A failed sync must never be tried again:
        the kernel may have dropped the pages, and the second try would report success."""

    def replace_later(self, path: str, content: Buffer, is_wanted: Callable[[], bool] | None = None) -> Awaitable[None]:
        """As `replace`, off the event loop. One at a time for a path, until it is done. `is_wanted` is asked when
        all is written, perhaps on a thread: if it says no, nothing is put in place, and between a yes and that no
        `replace` comes."""

    def remove_later(self, path: str) -> Awaitable[None]:
        """As `remove`, off the event loop: large files take a while."""

    def read_later(self, file: File, position: int, length: int) -> Awaitable[bytes]:
        """A read that may wait for the disk, off the event loop."""

    def run_later(self, work: Callable[[], None]) -> Awaitable[None]:
        """Long work on bytes in memory, off the event loop: it may touch nothing else."""


class Listener(Protocol):
    """A listening port."""

    @property
    def address(self) -> tuple[str, int]: ...

    async def close(self) -> None: ...


class Network(Protocol):
    """Connections in and out."""

    async def listen(
        self, host: str, port: int, accept: Callable[[], asyncio.BaseProtocol], *, protocol: str = "PLAINTEXT"
    ) -> Listener:
        """`protocol` is Kafka's SecurityProtocol: what is below it, TLS or nothing, is the door's."""

    async def connect(self, host: str, port: int, protocol: asyncio.BaseProtocol) -> asyncio.BaseTransport: ...

    def send_now(self, transport: asyncio.Transport, pieces: list[Outgoing]) -> list[Outgoing]:
        """Send as much as the connection takes without waiting, files without reading them. Returns what is left;
        the transport must have nothing else to send."""


class Chance(Protocol):
    """Dice."""

    def below(self, bound: int) -> int:
        """A whole number from 0 up to but not including `bound`."""

    def uuid(self) -> bytes:
        """16 random bytes in the form of a version 4 UUID."""


@dataclass(frozen=True, slots=True)
class Doors:
    """All four: what a node is built over."""

    files: Files
    clock: Clock
    network: Network
    chance: Chance
