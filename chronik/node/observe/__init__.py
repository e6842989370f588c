"""What can be seen of a node from outside: which topics are traced, where events are stored, how partitions stand.

Reads everything below it and changes none of it.
"""
