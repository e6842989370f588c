"""Bytes in and out: connections that clients and nodes open here, and links that this node opens to others.

Owns the open sockets, and the limits on connections and on the memory of requests under way. `routing.dispatch` is
given each request of a connection, and answers it; the cluster, replication and routing ask other nodes over `peers`.
What a request means is not known here.

    connection          one client's socket: frames in, responses out (Kafka: SocketServer, Processor)
    connection_quotas   how many there may be, by address and in all (ConnectionQuotas)
    request_memory      how much memory requests may take before they are read no further (queued.max.request.bytes)
    authentication      the principal of a connection; node_identity: whether it is another node of this cluster
    peers               links to other nodes: requests pipelined in order, one connection a purpose (NetworkClient)
    link_login          SASL on those links

Invariants: a connection's responses leave in the order of its requests; a link's answers come in the order of what was
sent on it. A request over a limit is refused before memory is taken for it. Clients never shut other nodes out.
"""
