"""A node's settings by the part that needs them: one module a section. `core.config.node` says how to add one."""
