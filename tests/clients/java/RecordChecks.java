// What a producer sends and what a consumer without a group reads.

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.InvalidRecordException;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.header.internals.RecordHeader;

class RecordChecks extends Support {
    static final int LARGE_MESSAGE_BYTES = 10 * 1024 * 1024;

    static void list() {
        listProducing();
        listConsuming();
    }

    static void listProducing() {
        check("default settings produce and consume", () -> {
            var topic = makeTopic(3);
            var values = numbers(50);
            var placed = produce(topic, values, Map.of());
            same(Set.of(0, 1, 2), placed.stream().map(RecordMetadata::partition).collect(Collectors.toSet()), "spread by key");
            try (var consumer = consumer(Map.of("group.id", topic, "auto.offset.reset", "earliest"))) {
                consumer.subscribe(List.of(topic));
                same(new TreeSet<>(values), new TreeSet<>(values(read(consumer, 50))), "values");
            }
            return null;
        });
        check("every kind of acknowledgement makes the record visible", () -> {
            var topic = makeTopic(1);
            for (var acks : List.of("0", "1", "all")) {
                produce(topic, List.of(acks), Map.of("acks", acks, "enable.idempotence", "false"));
            }
            return same(List.of("0", "1", "all"), values(readAll(topic, 3)), "values");
        });
        check("headers, tombstones, null keys and empty values come back", () -> {
            var topic = makeTopic(1);
            var headers = List.<org.apache.kafka.common.header.Header>of(
                new RecordHeader("a", bytes("1")), new RecordHeader("a", bytes("2")), new RecordHeader("none", (byte[]) null));
            send(Map.of(), List.of(
                new ProducerRecord<>(topic, 0, "deleted", null), new ProducerRecord<>(topic, 0, null, bytes("no key")),
                new ProducerRecord<>(topic, 0, "", bytes(""), headers)));
            var records = readAll(topic, 3);
            same(Arrays.asList("deleted", null, ""), records.stream().map(ConsumerRecord::key).toList(), "keys");
            same(Arrays.asList(null, "no key", ""), values(records), "values");
            return same(headers, List.of(records.get(2).headers().toArray()), "headers");
        });
        check("gzip round-trips", () -> roundTrip("gzip"));
        check("snappy round-trips", () -> roundTrip("snappy"));
        check("lz4 round-trips", () -> roundTrip("lz4"));
        check("zstd round-trips", () -> roundTrip("zstd"));
        check("messages from one byte to ten megabytes round-trip", () -> {
            var topic = makeTopic(1, Map.of("max.message.bytes", "" + (LARGE_MESSAGE_BYTES + 1024)));
            var sizes = List.of(1, 1000, 1024 * 1024, LARGE_MESSAGE_BYTES);
            var large = Map.<String, Object>of("max.request.size", 12 * 1024 * 1024);
            send(large, sizes.stream().map(size -> new ProducerRecord<>(topic, 0, "", new byte[size])).toList());
            return same(sizes, readAll(topic, 4).stream().map(ConsumerRecord::serializedValueSize).toList(), "sizes");
        });
        check("a message over the topic limit is refused and not written", () -> {
            var topic = makeTopic(1, Map.of("max.message.bytes", "10000"));
            refused(RecordTooLargeException.class,
                () -> send(Map.of(), List.of(new ProducerRecord<>(topic, 0, "", new byte[20_000]))));
            return same(0L, offset(topic, OffsetSpec.latest()), "end of the log");
        });
        check("five batches in flight keep their order and get each offset once", () -> {
            var topic = makeTopic(1);
            var values = numbers(2000);
            var placed = produce(topic, values, Map.of("batch.size", 200));
            same(LongStream.range(0, 2000).boxed().toList(), placed.stream().map(RecordMetadata::offset).toList(), "offsets");
            return same(values, values(readAll(topic, 2000)), "order");
        });
        check("a topic that is not there is created by the first message", () -> {
            var topic = newName();
            produce(topic, List.of("first"), Map.of());
            return same(List.of("first"), values(readAll(topic, 1)), "values");
        });
        check("a record without a key is refused by a compacted topic", () -> {
            var topic = makeTopic(1, Map.of("cleanup.policy", "compact"));
            return refused(InvalidRecordException.class,
                () -> send(Map.of(), List.of(new ProducerRecord<>(topic, 0, null, bytes("x")))));
        });
        check("the records without a key are told from the good ones of their batch", () -> {
            var topic = makeTopic(1, Map.of("cleanup.policy", "compact"));
            var kinds = failures(Map.of("linger.ms", 60_000), IntStream.range(0, 20)
                .mapToObj(number -> new ProducerRecord<>(topic, 0, number % 10 == 0 ? null : "k", bytes("x"))).toList());
            return same(IntStream.range(0, 20).<Class<?>>mapToObj(
                number -> number % 10 == 0 ? InvalidRecordException.class : KafkaException.class).toList(), kinds, "failures");
        });
        check("the one record with a time too far ahead is told from the good ones of its batch", () -> {
            var topic = makeTopic(1);
            var late = System.currentTimeMillis() + 7_200_000;
            var kinds = failures(Map.of("linger.ms", 60_000), IntStream.range(0, 5)
                .mapToObj(number -> new ProducerRecord<>(topic, 0, number == 3 ? (Long) late : null, "k", bytes("x"))).toList());
            return same(IntStream.range(0, 5).<Class<?>>mapToObj(
                number -> number == 3 ? InvalidTimestampException.class : KafkaException.class).toList(), kinds, "failures");
        });
        check("a topic of log append time is stamped by the node", () -> {
            var topic = makeTopic(1, Map.of("message.timestamp.type", "LogAppendTime"));
            var before = System.currentTimeMillis() - 60_000;
            send(Map.of(), List.of(new ProducerRecord<>(topic, 0, 1000L, "key", bytes("x"))));
            return holds(readAll(topic, 1).get(0).timestamp() > before, "stamped anew");
        });
    }

    static Object roundTrip(String codec) throws Exception {
        var topic = makeTopic(1);
        var values = numbers(200).stream().map(value -> "compress me, please ".repeat(20) + value).toList();
        produce(topic, values, Map.of("compression.type", codec, "linger.ms", 20));
        return same(values, values(readAll(topic, 200)), "values");
    }

    static void listConsuming() {
        check("a consumer without a group seeks by offset and by time", () -> {
            var topic = makeTopic(1);
            var where = new TopicPartition(topic, 0);
            var start = System.currentTimeMillis() - 100_000;
            send(Map.of(), IntStream.range(0, 20)
                .mapToObj(number -> new ProducerRecord<>(topic, 0, start + 1000L * number, "", bytes("" + number))).toList());
            try (var consumer = consumer(Map.of())) {
                consumer.assign(List.of(where));
                same(Map.of(where, 0L), consumer.beginningOffsets(List.of(where)), "beginning");
                same(Map.of(where, 20L), consumer.endOffsets(List.of(where)), "end");
                same(null, consumer.offsetsForTimes(Map.of(where, start + 60_000)).get(where), "no record that late");
                var found = consumer.offsetsForTimes(Map.of(where, start + 7_500)).get(where);
                same(List.of(8L, start + 8000), List.of(found.offset(), found.timestamp()), "found by time");
                consumer.seek(where, found.offset());
                same("8", values(read(consumer, 12)).get(0), "first after the seek");
                consumer.seekToBeginning(List.of(where));
                same("0", values(read(consumer, 20)).get(0), "first of all");
                consumer.seekToEnd(List.of(where));
                same(20L, consumer.position(where), "position");
                same(1, consumer.partitionsFor(topic).size(), "partitions");
                return holds(consumer.listTopics().containsKey(topic), "listed");
            }
        });
        check("many partitions arrive through incremental fetch sessions", () -> {
            var topic = makeTopic(200);
            var all = IntStream.range(0, 200).mapToObj(number -> new TopicPartition(topic, number)).toList();
            try (var consumer = consumer(Map.of("auto.offset.reset", "earliest", "isolation.level", "read_committed"))) {
                consumer.assign(all);
                for (int round = 0; round < 5; round++) {
                    // Each round touches other partitions: the session must add the ones that have news and no others.
                    var touched = all.stream().skip(round).filter(where -> where.partition() % 3 != 0).toList();
                    send(Map.of(), touched.stream()
                        .map(where -> new ProducerRecord<>(topic, where.partition(), "", bytes("" + where.partition()))).toList());
                    for (var record : read(consumer, touched.size())) {
                        same("" + record.partition(), new String(record.value()), "value of the partition");
                    }
                }
            }
            return null;
        });
        check("a read below the log start is reset, or refused when there is no reset", () -> {
            var topic = makeTopic(1);
            var where = new TopicPartition(topic, 0);
            produce(topic, numbers(10), Map.of());
            admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(6))).all().get();
            try (var consumer = consumer(Map.of("auto.offset.reset", "earliest"))) {
                consumer.assign(List.of(where));
                consumer.seek(where, 2);
                same(6L, read(consumer, 4).get(0).offset(), "first offset");
            }
            try (var consumer = consumer(Map.of("auto.offset.reset", "none"))) {
                consumer.assign(List.of(where));
                consumer.seek(where, 2);
                return refused(org.apache.kafka.clients.consumer.OffsetOutOfRangeException.class, () -> read(consumer, 1));
            }
        });
        check("a topic made anew under its old name is read from its beginning", () -> {
            var topic = makeTopic(1);
            produce(topic, List.of("old", "old"), Map.of());
            admin.deleteTopics(List.of(topic)).all().get();
            until(() -> !admin.listTopics().names().get().contains(topic), "deleted");
            admin.createTopics(List.of(new NewTopic(topic, 1, (short) 1))).all().get();
            produce(topic, List.of("new"), Map.of());
            return same(List.of("new"), values(readAll(topic, 1)), "values");
        });
    }
}
