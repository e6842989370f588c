"""Where a request goes: from a frame to its handler here, or to the node that it belongs to, and back to a frame.

Owns the requests under way that are answered by a task, and those that were sent on to other nodes. Called by
connections (`dispatch`), by api.produce (`forwarding`), and by the node when the metadata has changed or a connection
has ended.

`dispatch` finds the handler; `forwarding` says what is sent on, and where its three parts are: `produce_forwarder` with
`leader_waits` and `acks0_sequencer`, `controller_forwarder`, `one_address`. `routes` has the links of one client's
connection.

Invariants: each request is answered exactly once; a request that came from a node is never sent on; the batches of one
connection for one partition reach its leader in their order, or are refused from the first that did not.
"""
