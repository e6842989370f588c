"""Who may do what, in snapshots and copies of the image."""

from __future__ import annotations

from chronik.core.access.acls import AclFilter
from chronik.core.access.scram import ScramMechanism
from chronik.core.machines.metadata.access_changes import (
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    ScramDeletion,
)
from chronik.core.machines.metadata.access_image import AccessImage
from chronik.core.machines.metadata.records import (
    RemoveAccessControlEntryRecord,
    RemoveUserScramCredentialRecord,
)
from chronik.core.machines.metadata.snapshots import gone_since
from tests.unit.core.access.test_acls import READ_ORDERS
from tests.unit.core.machines.metadata.machine_asked import Asked
from tests.unit.core.machines.metadata.test_access_changes import upsertion
from tests.unit.core.machines.metadata.test_snapshots import everything, refilled


def with_access() -> Asked:
    asked = Asked()
    asked.ask(CreateAcls(((bytes(16), READ_ORDERS),)))
    asked.ask(AlterUserScramCredentials(upsertions=(upsertion(),)))
    return asked


def test_a_snapshot_and_a_copy_have_it_all() -> None:
    image = with_access().image
    assert everything(refilled(image)) == everything(image) == everything(image.copy())
    assert image.access != AccessImage()
    assert ("alice", ScramMechanism.SHA_256) in refilled(image).access.scram


def test_a_copy_goes_its_own_way() -> None:
    asked = with_access()
    copied = asked.image.copy()
    asked.ask(DeleteAcls((AclFilter(),)))
    asked.ask(AlterUserScramCredentials(deletions=(ScramDeletion("alice", 1),)))
    assert len(copied.access.acls) == len(copied.access.scram) == 1


def test_a_refilled_image_keeps_nothing_of_before() -> None:
    image = with_access().image
    version = image.access.acls.version
    image.refill([], 9)
    assert image.access == AccessImage()
    assert image.access.acls.version > version, "what was decided by the old rules holds no longer"


def test_what_went_while_a_node_was_behind_is_told() -> None:
    asked = with_access()
    before = asked.image.copy()
    asked.ask(DeleteAcls((AclFilter(),)))
    asked.ask(AlterUserScramCredentials(deletions=(ScramDeletion("alice", 1),)))
    assert list(gone_since(before, asked.image)) == [
        RemoveAccessControlEntryRecord(bytes(16)),
        RemoveUserScramCredentialRecord("alice", 1),
    ]
