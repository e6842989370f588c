"""`make bench`: what a node costs and how fast it is, measured with other people's clients, printed and kept.

    __main__   the command line                      systems/   what is measured: Chronik (a peer fits beside it)
    runner     rounds, interleaved                   client/    the clients, in a process of their own
    results    the result file                       rows/      what is measured, one module a row
    report     the table, and the page in docs/

A row has cases; a case runs once a round against each system and returns figures. Rounds are interleaved (every case
once, then every case again), so that a slow minute of the machine touches all of them. A goal that is not met is
shown as such and fails nothing.
"""
