"""For programs around a cluster: how they reach its nodes. Everything here blocks, so a node never uses it.

`connecting` has addresses and the settings of every Kafka client, `request` sends one request to one node, `connection`
keeps a connection open for many, `inspect_request` asks what nodes of Chronik see, `admin` administers a cluster over
librdkafka, and `errors` has the one error that is shown to users.
"""
