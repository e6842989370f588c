"""DescribeUserScramCredentials and AlterUserScramCredentials."""

from __future__ import annotations

from typing import Any

from kio.schema.alter_user_scram_credentials.v0.request import (
    AlterUserScramCredentialsRequest,
    ScramCredentialDeletion,
    ScramCredentialUpsertion,
)
from kio.schema.describe_user_scram_credentials.v0.request import DescribeUserScramCredentialsRequest, UserName

from chronik.api import alter_user_scram_credentials, describe_user_scram_credentials
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context, metadata_of


def alter(context: Any, *names: str, mechanism: int = 1, deleted: tuple[str, ...] = ()) -> dict[str, int]:
    request = AlterUserScramCredentialsRequest(
        deletions=tuple(ScramCredentialDeletion(name=name, mechanism=mechanism) for name in deleted),
        upsertions=tuple(
            ScramCredentialUpsertion(
                name=name, mechanism=mechanism, iterations=5000, salt=b"salt", salted_password=b"salted"
            )
            for name in names
        ),
    )
    response = ask(alter_user_scram_credentials, request, context, version=0)
    return {result.user: result.error_code for result in response.results}


def describe(context: Any, *names: str) -> dict[str, tuple[int, list[tuple[int, int]]]]:
    request = DescribeUserScramCredentialsRequest(users=tuple(UserName(name=name) for name in names) or None)
    response = ask(describe_user_scram_credentials, request, context, version=0)
    return {
        result.user: (result.error_code, [(info.mechanism, info.iterations) for info in result.credential_infos])
        for result in response.results
    }


def test_what_is_set_is_described_without_what_it_is() -> None:
    context = fake_context()
    assert alter(context, "bob", "alice") == {"bob": 0, "alice": 0}
    assert alter(context, "alice", mechanism=2) == {"alice": 0}
    assert describe(context) == {"alice": (0, [(1, 5000), (2, 5000)]), "bob": (0, [(1, 5000)])}


def test_names_that_are_not_there_or_twice_are_told_apart() -> None:
    context = fake_context()
    alter(context, "alice")
    assert describe(context, "alice", "eve", "eve", "mallory") == {
        "alice": (0, [(1, 5000)]),
        "eve": (Code.DUPLICATE_RESOURCE, []),
        "mallory": (Code.RESOURCE_NOT_FOUND, []),
    }


def test_a_credential_goes() -> None:
    context = fake_context()
    alter(context, "alice")
    assert alter(context, deleted=("alice",)) == {"alice": 0}
    assert describe(context) == {}
    assert alter(context, deleted=("alice",)) == {"alice": Code.RESOURCE_NOT_FOUND}


def test_only_the_controller_decides_and_every_user_is_told() -> None:
    context = fake_context(brokers=(1, 2))
    metadata_of(context).controller_id = 2
    assert alter(context, "alice", deleted=("bob",)) == dict.fromkeys(("alice", "bob"), Code.NOT_CONTROLLER)
