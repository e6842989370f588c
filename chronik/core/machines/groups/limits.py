"""How long the names in a command may be: Kafka's records give most of them two bytes of length.

The flexible encodings of the wire have no such bound, so a longer one has to be refused before it is decided upon.
"""

from __future__ import annotations

from typing import Any

from chronik.core.errors import Code, Refused
from chronik.core.machines.groups.commands import CommitOffsets, ConsumerBeat, Join

# At four bytes a character at most, within the 32,767 bytes of a record's string, and room for what we add to it.
NAME_CHARS_MAX = 8_000


def check_lengths(command: Any) -> None:
    """Refuses what would not fit into a record."""
    match command:
        case Join():
            names = [command.member_id, command.new_member_id, command.client_id, command.protocol_type]
            names += [command.instance_id or "", *(name for name, _ in command.protocols)]
        case ConsumerBeat():
            names = [command.member_id]
        case CommitOffsets():
            names = [offset.topic for offset in command.offsets]
        case _:
            return
    if len(command.group_id) > NAME_CHARS_MAX:
        raise Refused(Code.INVALID_GROUP_ID, f"longer than {NAME_CHARS_MAX} characters")
    if any(len(name) > NAME_CHARS_MAX for name in names):
        raise Refused(Code.INVALID_REQUEST, f"a name is longer than {NAME_CHARS_MAX} characters")
