"""Ring 1: asyncio. Waits, and reaches the world only through the four doors."""
