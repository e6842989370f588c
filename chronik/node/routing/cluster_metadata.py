"""The part of the metadata (node/cluster/metadata.py) that forwarding reads, as a protocol."""

from __future__ import annotations

from typing import Protocol

from chronik.core.machines.metadata.image import MetadataImage


class ClusterMetadata(Protocol):
    """The image, and the controller it comes from."""

    @property
    def image(self) -> MetadataImage: ...

    @property
    def is_controller(self) -> bool: ...

    @property
    def controller_id(self) -> int | None: ...

    async def wait_until_caught_up(self, timeout_ms: int) -> bool:
        """Until the image has all that the controller had committed when this was asked; False when time is up."""
