"""UpdateFeatures over the wire."""

from __future__ import annotations

from typing import Any

import pytest

from chronik.api import update_features
from chronik.core.errors import Code
from chronik.core.machines.metadata.features import SAFE_DOWNGRADE
from chronik.wire.codec import encode_response
from chronik.wire.unions.update_features import Request, Update
from tests.unit.api.fake_context import ask, fake_context


def test_a_level_is_set_and_each_feature_has_its_result() -> None:
    context = fake_context()
    request = Request(
        feature_updates=(Update(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE),)
    )

    response = ask(update_features, request, context, version=1)

    assert (response.error_code, response.error_message) == (Code.NONE, None)
    assert [(one.feature, one.error_code) for one in response.results] == [("group.version", Code.NONE)]
    assert context.metadata.image.features["group.version"] == 0


def test_in_version_0_a_downgrade_is_allowed_or_not() -> None:
    context = fake_context()

    def asked(is_allowed: bool) -> Any:
        wanted = Update(feature="group.version", max_version_level=0, allow_downgrade=is_allowed)
        return ask(update_features, Request(feature_updates=(wanted,)), context, version=0)

    assert asked(False).error_code is Code.INVALID_UPDATE_VERSION
    assert asked(True).error_code is Code.NONE
    assert context.metadata.image.features["group.version"] == 0


def test_a_validation_sets_nothing() -> None:
    context = fake_context()
    wanted = Update(feature="group.version", max_version_level=0, upgrade_type=SAFE_DOWNGRADE)

    response = ask(update_features, Request(feature_updates=(wanted,), validate_only=True), context, version=2)

    assert response.error_code is Code.NONE
    assert context.metadata.image.features["group.version"] == 1


@pytest.mark.parametrize("version", range(3))
def test_one_that_cannot_be_is_the_error_of_all(version: int) -> None:
    wanted = (Update(feature="group.version", max_version_level=1), Update(feature="foo", max_version_level=1))

    response = ask(update_features, Request(feature_updates=wanted), fake_context(), version)

    assert response.error_code is Code.INVALID_UPDATE_VERSION
    assert response.error_message == (
        "The update failed for all features since the following feature had an error: Invalid update version 1 for"
        " feature foo. Local controller 1 does not support this feature."
    )
    assert response.results == ()
    assert encode_response(57, version, 1, response)
