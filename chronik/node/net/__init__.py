"""Bytes in and out: connections that clients and nodes open here, and links that this node opens to others.

Owns the limits on connections and on the memory of requests under way. A connection's responses leave in the order of
its requests; a link's answers come in the order of what was sent on it. What a request means is not known here.
"""
