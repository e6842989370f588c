"""This node's part in its cluster: the quorum of the metadata log, the image made of it, the controller, liveness.

Owns the Raft machine and its log on disk, the metadata image, and this node's registration. Handlers reach the image
and the controller by `controller_link`; nothing else changes the cluster. One direction: `metadata` is given the
`quorum`, the quorum drives `core.raft`, and what is committed comes back through one protocol (`quorum_follower`),
given when the quorum starts.

    quorum             carries out what the Raft machine says, in its order
    quorum_writes      the metadata log: cuts, control records, what was fetched, a snapshot in its place (installation)
    vote_file          epoch and vote on disk
    quorum_peers, quorum_links     the other nodes of the quorum, and what is said to them
    quorum_timers, quorum_news, quorum_waits    when to act next; fetches, and answers, that wait
    metadata           the image of what is committed, and on the quorum's leader the machine that decides (controller)
    controller_link, controller_requests        asking the controller, wherever it is
    liveness, failure_detector     registration and heartbeats; processes that are gone
    node_principals    which principal may speak as which node
    identity           which node of which cluster a data directory belongs to
    member             all of this together, as a node has it

Invariants: the image holds what is committed and never more, so it never takes anything back. A vote is on disk before
it is given. Subscribers hear of applied records in a fixed order, and one that fails keeps none of the others from it.
"""
