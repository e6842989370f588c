"""`make bench`: Chronik beside Apache Kafka, measured with other people's clients, printed, kept and drawn.

    __main__   the command line (`chronik bench`)      systems/   what is measured: Chronik, and Kafka as its peer
    runner     rounds, interleaved                     client/    the clients, in processes of their own
    results    the result file                         rows/      what is measured, one module a kind
    ratios     Chronik against the peer                report     the tables, and the page in docs/
    compare    two results beside each other           page       one HTML page; plots has its pictures
    guard      the one measurement that can fail a build

A row has cases; a case runs once a round against each system and returns figures; rows may share cases. Rounds are
interleaved (every case against one and the other, then all again), so that a slow minute of the machine touches all of
them. Rows with a code (B1 ...) are measured against the peer and have goals for the ratio; the others are Chronik's
alone. A goal that is not met is shown as such and fails nothing.
"""
