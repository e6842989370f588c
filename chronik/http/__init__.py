"""What a node shows over HTTP and over the inspect request: metrics, health, and pure views of its state.

Views read the node and change nothing. The server itself is `shell/http_server.py`; the web console is a program apart.
"""
