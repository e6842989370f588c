"""The directories of partitions: the topic each belongs to, and how one is renamed and removed when its partition goes.

`partition.metadata` in each says by its topic id whose it is. A name that is wanted for another topic is made free by
renaming, which is done at once; deleting comes later.
"""

from __future__ import annotations

import base64
import logging
import re
from collections.abc import Iterator

from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.names import METADATA_TOPIC, problem_with
from chronik.core.ports import Files
from chronik.core.replica.replica import Replica
from chronik.core.types import TopicPartition
from chronik.node.replication.checkpoints import Checkpoints

log = logging.getLogger(__name__)

PARTITION_METADATA = "partition.metadata"
DELETED_SUFFIX = "-delete"
STRAY_SUFFIX = "-stray"
DAMAGED_SUFFIX = "-damaged"
NAME_BYTES_MAX = 255  # of a file or directory
_TOPIC_ID = re.compile(rb"^topic_id: [A-Za-z0-9_-]{22}$", re.MULTILINE)
_OUT_OF_USE = re.compile(rf".+-[0-9]+\.[a-zA-Z0-9_-]+({DELETED_SUFFIX}|{STRAY_SUFFIX})", re.DOTALL)
SLIPPED_BITS_MAX = 8  # two topic ids, thrown by dice, differ in far more


class Directories:
    """The partitions' directories below one data directory."""

    def __init__(self, files: Files, checkpoints: Checkpoints) -> None:
        self._files = files
        self._checkpoints = checkpoints

    def mark(self, replica: Replica) -> None:
        """The mark is safe when the first batch is: without it, the topic of that batch would not be known."""
        file = self._files.open(f"{replica.log.directory}/{PARTITION_METADATA}")
        file.truncate(0)
        file.append((_partition_metadata(replica.topic_id),))
        replica.log.sync_with_next(file)

    def has(self, name: TopicPartition) -> bool:
        return self._files.exists(str(name))

    def is_stray(self, name: TopicPartition, topic_id: bytes) -> bool:
        """Whether a directory was left by an earlier topic of the same name: it must never be served as this one's."""
        directory = str(name)
        if PARTITION_METADATA not in self._files.names(directory):
            return False
        path, expected = f"{directory}/{PARTITION_METADATA}", _partition_metadata(topic_id)
        content = self._files.read_all(path)
        if content == expected:
            return False
        if _TOPIC_ID.search(content) is None or _differing_bits(content, expected) <= SLIPPED_BITS_MAX:
            # Lost with the power, or damaged: it does not say that the log is another's.
            log.warning("%s was damaged and is written anew", path)
            self._files.replace(path, expected)
            return False
        return True

    def move_stray_aside(self, name: TopicPartition, topic_id: bytes) -> None:
        """Its checkpoints must be gone already: else a crash in between makes this topic seem to have lost them."""
        directory = str(name)
        aside = renamed(directory, f".{encode_id(topic_id)}{STRAY_SUFFIX}")
        log.warning("%s belongs to another topic of that name; moved to %s", directory, aside)
        self._files.rename(directory, aside)

    def move_damaged_aside(self, name: TopicPartition, topic_id: bytes) -> None:
        """A copy that others have whole is kept for inspection, and begun anew. If there is none, a
        crash came between the move and the checkpoints: only what these say is wrong then."""
        directory = str(name)
        aside = renamed(directory, f".{encode_id(topic_id)}{DAMAGED_SUFFIX}")
        if self._files.exists(directory):
            log.warning("%s is damaged; moved to %s, and fetched anew from its leader", directory, aside)
            self._files.remove(aside)  # of an earlier time: one is enough to look at
            self._files.rename(directory, aside)
        self._checkpoints.forget((name,))

    def remove_deleted(self, image: MetadataImage, node_id: int) -> None:
        """What a crash left of topics that were being deleted, and what was moved aside since. Where the deletion
        itself was lost in the crash, no client got a response to it: the topic is still there, and gets its partitions
        back."""
        for name in self._files.names(""):
            if not image.topics and name.endswith(STRAY_SUFFIX):
                continue  # perhaps the metadata was lost (`PartitionRegistry.metadata_changed`)
            if _OUT_OF_USE.fullmatch(name):
                directory = self._wanted_back(name, image, node_id)
                if directory is None:
                    self._files.remove(name)
                else:
                    log.warning("%s was not deleted after all: its deletion was lost in a crash", directory)
                    self._files.rename(name, directory)

    def _wanted_back(self, name: str, image: MetadataImage, node_id: int) -> str | None:
        partition = int(name.rpartition(".")[0].rpartition("-")[2])
        topic_id = self._marked(name)
        topic = image.topic_by_id(topic_id) if topic_id is not None else None
        placed = image.partition(topic.name, partition) if topic is not None else None
        if topic is None or placed is None or node_id not in placed.replicas:
            return None  # deleted, or moved to other nodes
        directory = f"{topic.name}-{partition}"
        return None if self._files.exists(directory) else directory

    def left_behind(self, image: MetadataImage, node_id: int) -> Iterator[tuple[TopicPartition, bytes]]:
        """Directories of topics that were deleted, or moved to other nodes, while this one was down; and their topic
        ids. The image must hold what holds now. What is not marked may be of any topic, and is left alone: none of it
        was ever safe. Of what is this node's nothing but the names is read, or a start with many partitions would
        last."""
        for directory in self._files.names(""):
            name = _partition_named(directory)
            if name is None or name.topic == METADATA_TOPIC:  # which is never dropped
                continue
            placed = image.partition(name.topic, name.partition)
            if placed is not None and node_id in placed.replicas:
                continue  # if it is an earlier topic's of that name, `is_stray` says so when it is opened
            try:
                topic_id = self._marked(directory)
            except OSError as problem:
                log.warning("it is not known of which topic %s is: %s", directory, problem)
                continue
            if topic_id is None or problem_with(name.topic) is not None:
                continue
            topic = image.topic_by_id(topic_id)
            if topic is None or (topic.name == name.topic and placed is not None):
                yield name, topic_id

    def _marked(self, directory: str) -> bytes | None:
        """The topic id in a directory's mark, if it has one that can be read."""
        try:
            found_id = _TOPIC_ID.search(self._files.read_all(f"{directory}/{PARTITION_METADATA}"))
            return decode_id(found_id[0].split()[1]) if found_id is not None else None
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return None

    def rename_away(self, directory: str, mark: str) -> list[str]:
        """Make the name free. Returns what is left to delete."""
        gone = renamed(directory, f".{mark}{DELETED_SUFFIX}")
        try:
            if not self._files.exists(directory):
                return []
            self._files.rename(directory, gone)
        except OSError as problem:  # it stays, and by its topic id is never taken for another topic's
            log.error("%s of a deleted topic cannot be renamed: %s", directory, problem)
            return []
        return [gone]


def renamed(directory: str, suffix: str) -> str:
    """The directory with a suffix; of a long topic name only so much is kept that a file system takes it."""
    topic, _, partition = directory.rpartition("-")
    suffix = f"-{partition}{suffix}"
    return topic[: NAME_BYTES_MAX - len(suffix)] + suffix


def _partition_named(directory: str) -> TopicPartition | None:
    """The partition whose directory has this name."""
    topic, _, number = directory.rpartition("-")
    if not (number.isascii() and number.isdigit()) or number != str(int(number)):
        return None
    return TopicPartition(topic, int(number))


def _partition_metadata(topic_id: bytes) -> bytes:
    return f"version: 0\ntopic_id: {encode_id(topic_id)}\n".encode()


def _differing_bits(one: bytes, other: bytes) -> int:
    differing = sum((a ^ b).bit_count() for a, b in zip(one, other, strict=False))
    return differing + 8 * abs(len(one) - len(other))


def encode_id(topic_id: bytes) -> str:
    """A topic id as Kafka writes it: url-safe base64 without padding."""
    return base64.urlsafe_b64encode(topic_id).decode().rstrip("=")


def decode_id(text: bytes) -> bytes:
    """The topic id that `encode_id` wrote. Raises ValueError."""
    return base64.urlsafe_b64decode(text + b"==")
