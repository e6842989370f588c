"""Topics as a cluster has them: a client that blocks, what a user asked for, and which offsets that is."""
