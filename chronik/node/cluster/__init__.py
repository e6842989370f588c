"""This node's part in its cluster: the quorum of the metadata log, the image made of it, the controller, liveness.

The image is what is committed, never more, so it never takes anything back. Whatever changes the cluster is decided by
the metadata machine on the node that leads the quorum; `controller_link` reaches it from any node.
"""
