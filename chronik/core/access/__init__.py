"""Who may do what, as Kafka has it: principals, and the operations on resources that a request needs.

Owns the nouns of authorization and nothing else. Pure; any room may use it.
"""
