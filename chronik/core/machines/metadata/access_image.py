"""The part of the image that says who may do what: ACLs, and what is stored of users' passwords."""

from __future__ import annotations

from collections.abc import Iterator

from chronik.core.access.acls import AclSet
from chronik.core.access.delegation_tokens import DelegationToken, token_of
from chronik.core.access.scram import ScramCredential, ScramMechanism
from chronik.core.machines.metadata.records import (
    AccessControlEntryRecord,
    AccessRecord,
    DelegationTokenRecord,
    RemoveAccessControlEntryRecord,
    RemoveDelegationTokenRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    acl_of,
    entry_of,
    token_record,
)


class AccessImage:
    """Changed by `apply` only, as the image it is a part of."""

    def __init__(self) -> None:
        self.acls = AclSet()
        self.scram: dict[tuple[str, ScramMechanism], ScramCredential] = {}
        self.tokens: dict[str, DelegationToken] = {}  # by id

    def copy(self) -> AccessImage:
        other = AccessImage()
        other.acls, other.scram, other.tokens = self.acls.copy(), dict(self.scram), dict(self.tokens)
        return other

    def clear(self) -> None:
        self.acls.clear()
        self.scram.clear()
        self.tokens.clear()

    def __eq__(self, other: object) -> bool:
        return (
            isinstance(other, AccessImage)
            and self.scram == other.scram
            and self.tokens == other.tokens
            and dict(self.acls.items()) == dict(other.acls.items())
        )

    __hash__ = None  # type: ignore[assignment]  # it changes

    def apply(self, record: AccessRecord) -> None:
        match record:
            case AccessControlEntryRecord():
                acl = acl_of(record)
                if acl is not None:
                    self.acls.add(record.id, acl)
            case RemoveAccessControlEntryRecord():
                self.acls.remove(record.id)
            case UserScramCredentialRecord():
                self.scram[record.name, ScramMechanism(record.mechanism)] = ScramCredential(
                    record.salt, record.stored_key, record.server_key, record.iterations
                )
            case RemoveUserScramCredentialRecord():
                self.scram.pop((record.name, ScramMechanism(record.mechanism)), None)
            case DelegationTokenRecord():
                token = _token(record)
                if token is not None:
                    self.tokens[record.token_id] = token
            case RemoveDelegationTokenRecord():
                self.tokens.pop(record.token_id, None)

    def records(self) -> Iterator[AccessRecord]:
        """What makes it again."""
        for acl_id, acl in self.acls.items():
            yield entry_of(acl_id, acl)
        for (user, mechanism), kept in self.scram.items():
            yield UserScramCredentialRecord(
                user, mechanism, kept.salt, kept.stored_key, kept.server_key, kept.iterations
            )

        for token in self.tokens.values():
            yield token_record(token)

    def gone_in(self, newer: AccessImage) -> Iterator[AccessRecord]:
        """The records that take away what this has and `newer` has not."""
        left = dict(newer.acls.items())
        for acl_id, _ in self.acls.items():
            if acl_id not in left:
                yield RemoveAccessControlEntryRecord(acl_id)
        for user, mechanism in self.scram:
            if (user, mechanism) not in newer.scram:
                yield RemoveUserScramCredentialRecord(user, mechanism)
        for token_id in self.tokens:
            if token_id not in newer.tokens:
                yield RemoveDelegationTokenRecord(token_id)


def _token(record: DelegationTokenRecord) -> DelegationToken | None:
    return token_of(
        record.token_id,
        record.owner,
        record.requester,
        record.renewers,
        record.issue_timestamp,
        record.max_timestamp,
        record.expiration_timestamp,
    )
