"""DescribeAcls."""

from __future__ import annotations

from kio.schema.describe_acls.v3.request import DescribeAclsRequest

from chronik.api import describe_acls
from chronik.core.errors import Code
from tests.unit.api.fake_context import ask, fake_context


def test_without_an_authorizer_security_is_disabled() -> None:
    everything = DescribeAclsRequest(
        resource_type_filter=1, resource_name_filter=None, pattern_type_filter=1, principal_filter=None,
        host_filter=None, operation=1, permission_type=1,
    )  # fmt: skip

    response = ask(describe_acls, everything, fake_context(), version=3)

    assert (response.error_code, response.resources) == (Code.SECURITY_DISABLED, ())
    assert response.error_message == "No Authorizer is configured."
