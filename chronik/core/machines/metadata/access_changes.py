"""Changes of who may do what, and of what users log in with: ACLs, and SCRAM credentials (KIP-554).

The answers to several things in one command come in the order asked; one that is refused does not hold back the others.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from chronik.core.access.acls import Acl, AclFilter, check_new
from chronik.core.access.scram import ScramCredential, ScramMechanism, check_iterations, credential_of_salted
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.commands import DONE, ChangeOutcome, MetadataCommand
from chronik.core.machines.metadata.image import MetadataImage
from chronik.core.machines.metadata.records import (
    AccessRecord,
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
    UserScramCredentialRecord,
    entry_of,
)

CHANGES_MAX = 10_000  # of one command, as in Kafka: they become one batch
SALT_BYTES_MAX = 1024


@dataclass(frozen=True, slots=True)
class CreateAcls(MetadataCommand[tuple[ChangeOutcome, ...]]):
    """(id, rule) pairs, the ids being new. Answer: a tuple of ChangeOutcome; a rule that is there already is fine."""

    acls: tuple[tuple[bytes, Acl], ...]


@dataclass(frozen=True, slots=True)
class DeleteAcls(MetadataCommand[tuple["DeletedAcls", ...]]):
    """Answer: a tuple of DeletedAcls, one for each filter."""

    filters: tuple[AclFilter, ...]


@dataclass(frozen=True, slots=True)
class DeletedAcls:
    """What a filter found, which is gone; or why it was not taken."""

    outcome: ChangeOutcome
    acls: tuple[Acl, ...] = ()


@dataclass(frozen=True, slots=True)
class ScramDeletion:
    """A user is not to log in by this mechanism any more. The number may be one we do not know."""

    user: str
    mechanism: int


@dataclass(frozen=True, slots=True, repr=False)  # it has a password in all but name
class ScramUpsertion:
    """A user is to log in by this mechanism, with the password that was salted so."""

    user: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


@dataclass(frozen=True, slots=True)
class AlterUserScramCredentials(MetadataCommand[dict[str, ChangeOutcome]]):
    """Answer: a dict of ChangeOutcome by user."""

    deletions: tuple[ScramDeletion, ...] = ()
    upsertions: tuple[ScramUpsertion, ...] = ()


def create_acls(image: MetadataImage, command: CreateAcls) -> tuple[list[AccessRecord], tuple[ChangeOutcome, ...]]:
    if len(command.acls) > CHANGES_MAX:
        raise Refused(Code.INVALID_REQUEST, f"at most {CHANGES_MAX} ACLs can be created at once")
    facts: list[AccessRecord] = []
    outcomes: list[ChangeOutcome] = []
    made: set[Acl] = set()
    for acl_id, acl in command.acls:
        try:
            check_new(acl)
        except Refused as refused:
            outcomes.append(ChangeOutcome(refused.code, refused.message))
            continue
        if acl not in image.access.acls and acl not in made:
            made.add(acl)
            facts.append(entry_of(acl_id, acl))
        outcomes.append(DONE)
    return facts, tuple(outcomes)


def delete_acls(image: MetadataImage, command: DeleteAcls) -> tuple[list[AccessRecord], tuple[DeletedAcls, ...]]:
    gone: dict[bytes, None] = {}
    answers: list[DeletedAcls] = []
    for wanted in command.filters:
        try:
            wanted.check()
        except Refused as refused:
            answers.append(DeletedAcls(ChangeOutcome(refused.code, refused.message)))
            continue
        found = image.access.acls.matching(wanted)
        gone.update((acl_id, None) for acl_id, _ in found)
        if len(gone) > CHANGES_MAX:
            raise Refused(
                Code.INVALID_REQUEST, f"Cannot remove more than {CHANGES_MAX} acls in a single delete operation."
            )
        answers.append(DeletedAcls(DONE, tuple(acl for _, acl in found)))
    return [RemoveAccessControlEntryRecord(acl_id) for acl_id in gone], tuple(answers)


def alter_user_scram_credentials(
    image: MetadataImage, command: AlterUserScramCredentials
) -> tuple[list[AccessRecord], dict[str, ChangeOutcome]]:
    """A user that is named twice is not changed at all. Raises Refused."""
    if len(command.deletions) + len(command.upsertions) > CHANGES_MAX:  # Kafka has no limit here
        raise Refused(Code.INVALID_REQUEST, f"at most {CHANGES_MAX} credentials can be altered at once")
    outcomes: dict[str, ChangeOutcome] = {}
    facts: dict[str, AccessRecord] = {}
    changes: list[ScramDeletion | ScramUpsertion] = [*command.deletions, *command.upsertions]
    for asked in changes:
        if asked.user in outcomes:
            facts.pop(asked.user, None)
            outcomes[asked.user] = ChangeOutcome(
                Code.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
            )
            continue
        try:
            facts[asked.user] = _scram_record(image.access.scram, asked)
            outcomes[asked.user] = DONE
        except Refused as refused:
            outcomes[asked.user] = ChangeOutcome(refused.code, refused.message)
    return list(facts.values()), outcomes


def _scram_record(
    known: Mapping[tuple[str, ScramMechanism], ScramCredential], asked: ScramDeletion | ScramUpsertion
) -> AccessRecord:
    """Raises Refused."""
    if not asked.user:
        raise Refused(Code.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if asked.mechanism not in (ScramMechanism.SHA_256, ScramMechanism.SHA_512):
        raise Refused(Code.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    mechanism = ScramMechanism(asked.mechanism)
    if isinstance(asked, ScramDeletion):
        if (asked.user, mechanism) not in known:
            raise Refused(Code.RESOURCE_NOT_FOUND, "Attempt to delete a user credential that does not exist")
        return RemoveUserScramCredentialRecord(asked.user, mechanism)
    check_iterations(asked.iterations)
    if not asked.salt or len(asked.salt) > SALT_BYTES_MAX or not asked.salted_password:
        raise Refused(Code.UNACCEPTABLE_CREDENTIAL, "a credential needs a salt and a salted password")
    made = credential_of_salted(mechanism, asked.salted_password, asked.salt, asked.iterations)
    return UserScramCredentialRecord(
        asked.user, mechanism, made.salt, made.stored_key, made.server_key, made.iterations
    )
