"""CreateAcls, DescribeAcls, DeleteAcls: rules go in, are found and go."""

from __future__ import annotations

import dataclasses
from typing import Any

import pytest
from kio.schema.create_acls.v3.request import AclCreation, CreateAclsRequest
from kio.schema.delete_acls.v3.request import DeleteAclsFilter, DeleteAclsRequest
from kio.schema.describe_acls.v3.request import DescribeAclsRequest

from chronik.api import create_acls, delete_acls, describe_acls
from chronik.api.acl_requests import known
from chronik.core.access.authorizer import Authorizer
from chronik.core.access.operations import AclOperation
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context, metadata_of

ANY: dict[str, Any] = {
    "resource_type_filter": 1,
    "resource_name_filter": None,
    "pattern_type_filter": 1,
    "principal_filter": None,
    "host_filter": None,
    "operation": 1,
    "permission_type": 1,
}


def secured_context() -> Any:
    context = fake_context(brokers=(1, 2))
    image = context.metadata.image
    return dataclasses.replace(context, authorizer=Authorizer(lambda: image.access.acls))


def creation(name: str = "orders", pattern: int = 3, operation: int = 3, principal: str = "User:alice") -> AclCreation:
    return AclCreation(
        resource_type=2,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host="*",
        operation=operation,
        permission_type=3,
    )


def create(context: Any, *creations: AclCreation) -> list[tuple[int, str | None]]:
    response = ask(create_acls, CreateAclsRequest(creations=creations), context, version=3)
    return [(result.error_code, result.error_message) for result in response.results]


def described(context: Any, **change: Any) -> list[tuple[str, int, int]]:
    response = ask(describe_acls, DescribeAclsRequest(**{**ANY, **change}), context, version=3)
    assert response.error_code == Code.NONE
    return [
        (resource.resource_name, resource.pattern_type, acl.operation)
        for resource in response.resources
        for acl in resource.acls
    ]


def test_what_is_created_is_described_by_resource() -> None:
    context = secured_context()
    assert create(context, creation(), creation(operation=4), creation("ord", 4)) == [(0, None)] * 3
    response = ask(describe_acls, DescribeAclsRequest(**ANY), context, version=3)
    assert [(one.resource_name, len(one.acls)) for one in response.resources] == [("orders", 2), ("ord", 1)]
    assert described(context, resource_name_filter="orders", pattern_type_filter=2) == [
        ("orders", 3, 3),
        ("orders", 3, 4),
        ("ord", 4, 3),
    ]


def test_a_number_that_is_not_known_is_refused_and_the_others_stand() -> None:
    context = secured_context()
    answers = create(context, creation(operation=99), creation(principal="alice"), creation())
    assert [code for code, _ in answers] == [Code.INVALID_REQUEST, Code.INVALID_REQUEST, Code.NONE]
    assert described(context) == [("orders", 3, 3)]
    assert known(AclOperation, 99) is AclOperation.UNKNOWN


def test_a_filter_that_is_not_known_is_refused() -> None:
    response = ask(describe_acls, DescribeAclsRequest(**{**ANY, "operation": 99}), secured_context(), version=3)
    assert (response.error_code, response.resources) == (Code.INVALID_REQUEST, ())


def test_deleting_answers_with_what_is_gone() -> None:
    context = secured_context()
    create(context, creation(), creation("other"))
    wanted = DeleteAclsFilter(**{**ANY, "resource_name_filter": "orders"})
    response = ask(delete_acls, DeleteAclsRequest(filters=(wanted,)), context, version=3)
    [result] = response.filter_results
    assert [(acl.resource_name, acl.principal, acl.error_code) for acl in result.matching_acls] == [
        ("orders", "User:alice", 0)
    ]
    assert described(context) == [("other", 3, 3)]


@pytest.mark.parametrize("module", [create_acls, delete_acls])
def test_without_an_authorizer_no_rules_are_made_or_taken_away(module: Any) -> None:
    requests: dict[Any, Any] = {
        create_acls: CreateAclsRequest(creations=(creation(),)),
        delete_acls: DeleteAclsRequest(filters=(DeleteAclsFilter(**ANY),)),
    }
    response = ask(module, requests[module], fake_context(), version=3)
    [result] = response.results if module is create_acls else response.filter_results
    assert result.error_code == Code.SECURITY_DISABLED


@pytest.mark.parametrize("module", [create_acls, delete_acls])
def test_only_the_controller_decides(module: Any) -> None:
    context = secured_context()
    metadata_of(context).controller_id = 2
    request = (
        CreateAclsRequest(creations=(creation(),))
        if module is create_acls
        else DeleteAclsRequest(filters=(DeleteAclsFilter(**ANY),))
    )
    response = ask(module, request, context, version=3)
    [result] = response.results if module is create_acls else response.filter_results
    assert result.error_code == Code.NOT_CONTROLLER
