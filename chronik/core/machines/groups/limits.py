"""How long the names in a command may be, and how large what a member wants: Kafka's records give most names two bytes
of length.

The flexible encodings of the wire have no such bound, so a longer one has to be refused before it is decided upon.
"""

from __future__ import annotations

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import (
    AnyGroupCommand,
    CommitOffsets,
    CommitOffsetsInTransaction,
    ConsumerBeat,
    Join,
)

# At four bytes a character at most, within the 32,767 bytes of a record's string, and room for what we add to it.
NAME_CHARS_MAX = 8_000
# What one member may have the coordinator keep. All members of a group go into one record, so this is far beyond what
# a group can use.
PROTOCOLS_MAX = 100
SUBSCRIPTION_BYTES_MAX = 1024 * 1024


def check_lengths(command: AnyGroupCommand) -> None:
    """Refuses what would not fit into a record."""
    match command:
        case Join():
            names = [command.member_id, command.new_member_id, command.client_id, command.protocol_type]
            names += [command.instance_id or "", *(name for name, _ in command.protocols)]
            _check_size(len(command.protocols), sum(len(metadata) for _, metadata in command.protocols))
        case ConsumerBeat():
            names = [command.member_id, command.instance_id or "", command.rack_id or ""]
            names += [command.subscribed_regex or "", command.assignor or ""]
            _check_size(1, sum(map(len, command.subscribed_topics or ())))
        case CommitOffsets() | CommitOffsetsInTransaction():
            names = [offset.topic for offset in command.offsets]
        case _:
            return
    if len(command.group_id) > NAME_CHARS_MAX:
        raise Refused(Code.INVALID_GROUP_ID, f"longer than {NAME_CHARS_MAX} characters")
    if any(len(name) > NAME_CHARS_MAX for name in names):
        raise Refused(Code.INVALID_REQUEST, f"a name is longer than {NAME_CHARS_MAX} characters")


def _check_size(protocols: int, size_bytes: int) -> None:
    if protocols > PROTOCOLS_MAX or size_bytes > SUBSCRIPTION_BYTES_MAX:
        raise Refused(Code.INVALID_REQUEST, f"a member with {protocols} protocols and {size_bytes} bytes of metadata")
