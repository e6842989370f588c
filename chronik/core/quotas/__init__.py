"""Quotas of clients (KIP-13, 55, 124, 599, 612): who may take how much, and how long one that took more has to wait.

`entities` are what a quota can be about, `limits` the quotas that are set, `windows` how a rate is measured,
`client_quotas` puts the three together, `connection_rates` does the same for new connections.
"""
