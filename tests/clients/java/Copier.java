// Copies a topic in transactions until it is ended: Copier BOOTSTRAP SOURCE TARGET NAME. The name is the transactional id and the group.
// As Kafka's documentation has it: what can be aborted is aborted and read again; after anything else a new producer begins.

import java.time.Duration;
import java.util.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.*;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

class Copier {
    static final Map<String, Object> BOTH = new HashMap<>();

    public static void main(String[] arguments) {
        BOTH.put("bootstrap.servers", arguments[0]);
        BOTH.put("reconnect.backoff.max.ms", 500);
        BOTH.put("request.timeout.ms", 10_000);
        while (true) {
            try {
                copy(arguments[1], arguments[2], arguments[3]);
            } catch (Exception problem) {
                System.out.println("again: " + problem);
            }
        }
    }

    static void copy(String source, String target, String name) {
        try (var producer = producer(name); var consumer = consumer(name)) {
            producer.initTransactions();
            consumer.subscribe(List.of(source));
            while (true) {
                var batch = consumer.poll(Duration.ofMillis(500));
                if (batch.isEmpty()) {
                    continue;
                }
                try {
                    producer.beginTransaction();
                    var ends = new HashMap<TopicPartition, OffsetAndMetadata>();
                    for (var one : batch) {
                        producer.send(new ProducerRecord<>(target, one.partition(), one.key(), one.value()));
                        ends.put(new TopicPartition(source, one.partition()), new OffsetAndMetadata(one.offset() + 1));
                    }
                    producer.sendOffsetsToTransaction(ends, consumer.groupMetadata());
                    producer.commitTransaction();
                } catch (ProducerFencedException | OutOfOrderSequenceException | AuthorizationException fatal) {
                    throw fatal;
                } catch (KafkaException problem) {
                    System.out.println("aborted: " + problem);
                    producer.abortTransaction();
                    for (var place : consumer.assignment()) {
                        var stands = consumer.committed(Set.of(place)).get(place);
                        consumer.seek(place, stands == null ? 0 : stands.offset());
                    }
                }
            }
        }
    }

    static KafkaProducer<byte[], byte[]> producer(String name) {
        var settings = new HashMap<>(BOTH);
        settings.putAll(Map.of("transactional.id", name, "transaction.timeout.ms", 60_000, "delivery.timeout.ms", 30_000));
        return new KafkaProducer<>(settings, new ByteArraySerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<byte[], byte[]> consumer(String name) {
        var settings = new HashMap<>(BOTH);
        settings.putAll(Map.of("group.id", name, "group.protocol", "consumer", "isolation.level", "read_committed", "enable.auto.commit", false,
            "auto.offset.reset", "earliest", "max.poll.records", 50));
        return new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer());
    }
}
