// Transactions of transaction version 2 (KIP-890): partitions are added by their leaders, and each end raises the epoch.

import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;

class TransactionChecks extends Support {
    static final Map<String, Object> COMMITTED = Map.of("auto.offset.reset", "earliest", "isolation.level", "read_committed");

    static void list() {
        check("a transaction is read when it is committed, and never when it is aborted", () -> {
            var topic = makeTopic(2);
            try (var producer = transactional(topic, 60_000)) {
                producer.initTransactions();
                for (var number = 0; number < 6; number++) {
                    producer.beginTransaction();
                    for (var partition = 0; partition < 2; partition++) {
                        producer.send(new ProducerRecord<>(topic, partition, "k", bytes(number + "-" + partition)));
                    }
                    if (number % 3 == 1) {
                        producer.flush();
                        producer.abortTransaction();
                    } else {
                        producer.commitTransaction();
                    }
                }
            }
            try (var consumer = consumer(COMMITTED)) {
                consumer.assign(List.of(new TopicPartition(topic, 0), new TopicPartition(topic, 1)));
                var found = values(read(consumer, 8));
                Collections.sort(found);
                same(List.of("0-0", "0-1", "2-0", "2-1", "3-0", "3-1", "5-0", "5-1"), found, "values");
            }
            return null;
        });

        check("a transaction without any records is committed and aborted", () -> {
            try (var producer = transactional(newName(), 60_000)) {
                producer.initTransactions();
                for (var number = 0; number < 4; number++) {
                    producer.beginTransaction();
                    if (number % 2 == 0) {
                        producer.commitTransaction();
                    } else {
                        producer.abortTransaction();
                    }
                }
            }
            return null;
        });

        check("a second instance fences the first", () -> {
            var topic = makeTopic(1);
            try (var first = transactional(topic, 60_000); var second = transactional(topic, 60_000)) {
                first.initTransactions();
                first.beginTransaction();
                first.send(new ProducerRecord<>(topic, bytes("first"))).get(WAIT_MS, TimeUnit.MILLISECONDS);
                second.initTransactions();
                second.beginTransaction();
                second.send(new ProducerRecord<>(topic, bytes("second"))).get(WAIT_MS, TimeUnit.MILLISECONDS);
                refused(ProducerFencedException.class, () -> {
                    first.commitTransaction();
                    return null;
                });
                second.commitTransaction();
            }
            same(List.of("second"), committed(topic, 1), "values");
            return null;
        });

        check("an abandoned transaction is aborted when its time is up", () -> {
            var topic = makeTopic(1);
            try (var producer = transactional(topic, 1_500)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, bytes("abandoned"))).get(WAIT_MS, TimeUnit.MILLISECONDS);
                produce(topic, List.of("behind"), Map.of());
                same(0L, stableOffset(topic), "stable offset while it is open");
                same(List.of("behind"), committed(topic, 1), "values");
                refused(KafkaException.class, () -> {
                    producer.commitTransaction();
                    return null;
                });
            }
            return null;
        });

        check("an administrator fences a producer", () -> {
            var topic = makeTopic(1);
            try (var producer = transactional(topic, 60_000)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, bytes("fenced"))).get(WAIT_MS, TimeUnit.MILLISECONDS);
                admin.fenceProducers(List.of(topic)).all().get(WAIT_MS, TimeUnit.MILLISECONDS);
                refused(ProducerFencedException.class, () -> {
                    producer.commitTransaction();
                    return null;
                });
            }
            return null;
        });

        check("transactions are listed and described", () -> {
            var topic = makeTopic(3);
            try (var producer = transactional(topic, 50_000)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 1, "k", bytes("open"))).get(WAIT_MS, TimeUnit.MILLISECONDS);
                var described = admin.describeTransactions(List.of(topic)).description(topic).get();
                same(TransactionState.ONGOING, described.state(), "state");
                same(50_000L, described.transactionTimeoutMs(), "timeout");
                same(Set.of(new TopicPartition(topic, 1)), described.topicPartitions(), "partitions");
                var open = new ListTransactionsOptions().filterStates(List.of(TransactionState.ONGOING)).filterOnTransactionalIdPattern(topic + ".*");
                var listed = new ArrayList<>(admin.listTransactions(open).all().get());
                same(1, listed.size(), "ongoing ones");
                same(described.producerId(), listed.get(0).producerId(), "producer id");
                producer.commitTransaction();
                until(() -> admin.describeTransactions(List.of(topic)).description(topic).get().state() == TransactionState.COMPLETE_COMMIT, "it is complete");
            }
            return refused(TransactionalIdNotFoundException.class, () -> admin.describeTransactions(List.of("none-" + topic)).description("none-" + topic).get());
        });

        check("a transaction that hangs is aborted by an administrator", () -> {
            var topic = makeTopic(1);
            var where = new TopicPartition(topic, 0);
            try (var producer = transactional(topic, 60_000)) {
                producer.initTransactions();
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, bytes("hangs"))).get(WAIT_MS, TimeUnit.MILLISECONDS);
                var state = admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers().get(0);
                same(0L, state.currentTransactionStartOffset().getAsLong(), "start of the transaction");
                var spec = new AbortTransactionSpec(where, state.producerId(), (short) state.producerEpoch(), Math.max(state.coordinatorEpoch().orElse(0), 0));
                admin.abortTransaction(spec).all().get(WAIT_MS, TimeUnit.MILLISECONDS);
                until(() -> stableOffset(topic) == 2L, "the stable offset passes it");
            }
            return null;
        });

        check("a timeout longer than the node allows is refused", () -> {
            try (var producer = transactional(newName(), 900_001)) {
                return refused(KafkaException.class, () -> {
                    producer.initTransactions();
                    return null;
                });
            }
        });

        check("offsets of a classic group are committed with their transaction or not at all", () -> offsetsOf("classic"));

        check("offsets of a consumer group are committed with their transaction or not at all", () -> offsetsOf("consumer"));
    }

    static Object offsetsOf(String protocol) throws Exception {
        var topic = makeTopic(1);
        var output = makeTopic(1);
        produce(topic, numbers(10), Map.of());
        var settings = new HashMap<>(COMMITTED);
        settings.putAll(Map.of("group.id", topic, "group.protocol", protocol, "enable.auto.commit", false));
        var where = new TopicPartition(topic, 0);
        try (var producer = transactional(output, 60_000); var member = consumer(settings)) {
            producer.initTransactions();
            member.subscribe(List.of(topic));
            for (var one : read(member, 10)) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(output, one.value()));
                producer.sendOffsetsToTransaction(Map.of(where, new OffsetAndMetadata(one.offset() + 1)), member.groupMetadata());
                if (one.offset() < 6) {
                    producer.commitTransaction();
                } else {
                    producer.abortTransaction();
                }
            }
            same(6L, member.committed(Set.of(where)).get(where).offset(), "committed offset");
            producer.beginTransaction();
            var stranger = new ConsumerGroupMetadata(topic, 99, "nobody", Optional.empty());
            refused(CommitFailedException.class, () -> {
                producer.sendOffsetsToTransaction(Map.of(where, new OffsetAndMetadata(9)), stranger);
                producer.commitTransaction();
                return null;
            });
            producer.abortTransaction();
            same(6L, member.committed(Set.of(where)).get(where).offset(), "committed offset after a stranger");
        }
        same(numbers(6), committed(output, 6), "values");
        return null;
    }

    static List<String> committed(String topic, int count) {
        try (var consumer = consumer(COMMITTED)) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return values(read(consumer, count));
        }
    }

    static long stableOffset(String topic) throws Exception {
        var where = new TopicPartition(topic, 0);
        var options = new ListOffsetsOptions(IsolationLevel.READ_COMMITTED);
        return admin.listOffsets(Map.of(where, OffsetSpec.latest()), options).partitionResult(where).get().offset();
    }
}
