"""ACLs and SCRAM credentials, decided and applied."""

from __future__ import annotations

import pytest

from chronik.core.access.acls import AclFilter, AclPatternType
from chronik.core.access.scram import ScramClient, ScramExchange, ScramMechanism, credential_of
from chronik.core.errors import Code, Refused
from chronik.core.machines.metadata.access_changes import (
    CHANGES_MAX,
    AlterUserScramCredentials,
    CreateAcls,
    DeleteAcls,
    ScramDeletion,
    ScramUpsertion,
)
from chronik.core.machines.metadata.records import AccessControlEntryRecord
from tests.unit.core.access.test_acls import READ_ORDERS, WRITE_PREFIX
from tests.unit.core.machines.metadata.machine_asked import Asked


def ids(count: int) -> list[bytes]:
    return [number.to_bytes(16, "big") for number in range(1, count + 1)]


def salted(password: bytes, salt: bytes = b"salt") -> bytes:
    import hashlib

    return hashlib.pbkdf2_hmac("sha256", password, salt, 4096)


def upsertion(user: str = "alice", password: bytes = b"secret", iterations: int = 4096) -> ScramUpsertion:
    return ScramUpsertion(user, 1, iterations, b"salt", salted(password))


def test_a_rule_is_made_once_and_a_bad_one_holds_back_no_other() -> None:
    asked = Asked()
    one, two, three = ids(3)
    bad = READ_ORDERS._replace(principal="nobody")
    outcomes = asked.ask(CreateAcls(((one, READ_ORDERS), (two, bad), (three, READ_ORDERS))))
    assert [outcome.code for outcome in outcomes] == [Code.NONE, Code.INVALID_REQUEST, Code.NONE]
    assert list(asked.image.access.acls.items()) == [(one, READ_ORDERS)]
    before = len(asked.log)
    assert asked.ask(CreateAcls(((two, READ_ORDERS),)))[0].code is Code.NONE
    assert len(asked.log) == before


def test_deleting_names_what_each_filter_found() -> None:
    asked = Asked()
    asked.ask(CreateAcls(tuple(zip(ids(2), (READ_ORDERS, WRITE_PREFIX), strict=True))))
    all_that_apply = AclFilter(resource_name="orders", pattern_type=AclPatternType.MATCH)
    first, second, third = asked.ask(
        DeleteAcls((all_that_apply, AclFilter(pattern_type=AclPatternType.UNKNOWN), all_that_apply))
    )
    assert first.acls == (READ_ORDERS, WRITE_PREFIX) == third.acls
    assert second.outcome.code is Code.INVALID_REQUEST
    assert not len(asked.image.access.acls)


def test_too_many_rules_at_once_are_refused() -> None:
    asked = Asked()
    many = tuple(
        (number.to_bytes(16, "big"), READ_ORDERS._replace(resource_name=str(number))) for number in range(10_001)
    )
    with pytest.raises(Refused):
        asked.ask(CreateAcls(many))
    asked.ask(CreateAcls(many[:6000]))
    asked.ask(CreateAcls(many[6000:]))
    with pytest.raises(Refused, match="Cannot remove more than 10000"):
        asked.ask(DeleteAcls((AclFilter(),)))


def test_a_stored_credential_is_what_the_password_logs_in_with() -> None:
    asked = Asked()
    assert asked.ask(AlterUserScramCredentials(upsertions=(upsertion(),)))["alice"].code is Code.NONE
    kept = asked.image.access.scram["alice", ScramMechanism.SHA_256]
    assert kept == credential_of(ScramMechanism.SHA_256, b"secret", b"salt", 4096)
    server = ScramExchange(ScramMechanism.SHA_256, lambda user: kept, "ours", b"k")
    client = ScramClient(ScramMechanism.SHA_256, "alice", "secret", "theirs")
    client.check(server.step(client.final(server.step(client.first()))))


@pytest.mark.parametrize(
    ("change", "code"),
    [
        (upsertion(user=""), Code.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=4095), Code.UNACCEPTABLE_CREDENTIAL),
        (upsertion(iterations=16385), Code.UNACCEPTABLE_CREDENTIAL),
        (ScramUpsertion("alice", 3, 4096, b"salt", b"x"), Code.UNSUPPORTED_SASL_MECHANISM),
        (ScramUpsertion("alice", 1, 4096, b"", b"x"), Code.UNACCEPTABLE_CREDENTIAL),
        (ScramUpsertion("alice", 1, 4096, b"salt", b""), Code.UNACCEPTABLE_CREDENTIAL),
    ],
)
def test_a_credential_that_is_none_is_refused(change: ScramUpsertion, code: Code) -> None:
    asked = Asked()
    before = len(asked.log)
    assert asked.ask(AlterUserScramCredentials(upsertions=(change,)))[change.user].code is code
    assert len(asked.log) == before


def test_a_credential_is_taken_away_once() -> None:
    asked = Asked()
    asked.ask(AlterUserScramCredentials(upsertions=(upsertion(),)))
    away = AlterUserScramCredentials(deletions=(ScramDeletion("alice", 1),))
    assert asked.ask(away)["alice"].code is Code.NONE
    assert asked.image.access.scram == {}
    assert asked.ask(away)["alice"].code is Code.RESOURCE_NOT_FOUND


def test_a_user_named_twice_is_not_changed() -> None:
    asked = Asked()
    asked.ask(AlterUserScramCredentials(upsertions=(upsertion(),)))
    both = AlterUserScramCredentials((ScramDeletion("alice", 1),), (upsertion(password=b"other"),))
    assert asked.ask(both)["alice"].code is Code.DUPLICATE_RESOURCE
    kept = asked.image.access.scram["alice", ScramMechanism.SHA_256]
    assert kept == credential_of(ScramMechanism.SHA_256, b"secret", b"salt", 4096)


def test_a_request_with_more_credentials_than_fit_one_batch_is_refused() -> None:
    asked = Asked()
    too_many = tuple(ScramDeletion(f"user{number}", 1) for number in range(CHANGES_MAX + 1))

    with pytest.raises(Refused) as caught:
        asked.ask(AlterUserScramCredentials(too_many))

    assert caught.value.code is Code.INVALID_REQUEST


def test_texts_of_credentials_show_none() -> None:
    asked = Asked()
    change = upsertion()
    decision = asked.machine.decide(1, AlterUserScramCredentials(upsertions=(change,)), 0)
    text = repr(change) + repr(decision)
    assert "salt" not in text
    assert repr(change.salted_password) not in text


def test_a_rule_of_a_newer_version_is_passed_over() -> None:
    asked = Asked()
    asked.image.apply(AccessControlEntryRecord(bytes(16), 2, "orders", 3, "User:a", "*", 99, 3))
    assert not len(asked.image.access.acls)
