"""This node's copy of a partition: its in-sync set and its high watermark."""
