"""Ring 2: the real doors, and the builder that puts the house together with them."""
