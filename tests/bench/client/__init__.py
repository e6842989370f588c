"""The clients of the bench, in a process of their own: librdkafka, and bare sockets where it would be the limit."""
