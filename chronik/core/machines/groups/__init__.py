"""Consumer groups and committed offsets, classic and KIP-848, over one partition of `__consumer_offsets`."""
