"""Where a request goes: from a frame to its handler here, or to the node that it belongs to, and back to a frame.

`dispatch` finds the handler, `forwarding` sends on what reached the wrong node, `routes` has the links of one client's
connection, `acks0_sequencer` keeps the order of batches without an answer, `one_address` serves a cluster behind one
address. A request that came from a node is never sent on.
"""
