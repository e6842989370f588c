"""Apache Kafka in KRaft mode, from its published jars: the peer. `jars` brings them, `server` runs nodes, `kafka` is the System."""
