"""UpdateFeatures (57), versions 0-2: set the finalized levels of features (KIP-584), all of them or none.

Up to version 1 a success has a result for each feature; a failure is one error for all, in every version.
"""

from __future__ import annotations

from chronik.api.context import Caller, RequestContext
from chronik.core.errors import Code
from chronik.core.machines.metadata.features import SAFE_DOWNGRADE, FeatureUpdate, UpdateFeatures
from chronik.wire.unions.update_features import Request, Response, Result

REQUEST = Request
RESPONSE = Response


async def handle(request: Request, caller: Caller, context: RequestContext) -> Response:
    updates = tuple(
        FeatureUpdate(
            update.feature, update.max_version_level, SAFE_DOWNGRADE if update.allow_downgrade else update.upgrade_type
        )
        for update in request.feature_updates
    )
    await context.metadata.ask(UpdateFeatures(updates, request.validate_only))
    return Response(results=tuple(Result(feature=update.name) for update in updates))


def refuse(request: Request, code: Code, message: str | None) -> Response:
    if code is Code.INVALID_UPDATE_VERSION:
        message = f"The update failed for all features since the following feature had an error: {message}"
    return Response(error_code=code, error_message=message)
