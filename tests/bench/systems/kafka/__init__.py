"""Apache Kafka in KRaft mode, from its published jars: the peer."""
