"""`chronik group`: consumer groups and their offsets."""
