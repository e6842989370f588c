// What the checks share: clients with few words, waiting, group members, and what must hold.

import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.*;
import java.util.concurrent.*;
import java.util.concurrent.atomic.AtomicInteger;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.serialization.*;

class Support {
    static final long WAIT_MS = 25_000;

    static Admin admin;
    private static String bootstrap;

    static void start(String address) {
        bootstrap = address;
        admin = Admin.create(Map.of("bootstrap.servers", bootstrap));
    }

    static void check(String name, Callable<?> body) {
        Checks.check(name, body);
    }

    static String newName() {
        return "t-" + UUID.randomUUID().toString().substring(0, 13);
    }

    static String makeTopic(int partitions) throws Exception {
        return makeTopic(partitions, Map.of());
    }

    static String makeTopic(int partitions, Map<String, String> configs) throws Exception {
        var topic = newName();
        admin.createTopics(List.of(new NewTopic(topic, partitions, (short) 1).configs(configs))).all().get();
        // Apache Kafka answers before its broker has heard of the topic from its controller.
        until(() -> admin.listTopics().names().get().contains(topic), "the new topic is listed");
        return topic;
    }

    static Map<String, Object> with(Map<String, Object> settings, String key, Object value) {
        var more = new HashMap<>(settings);
        more.put(key, value);
        return more;
    }

    /** Sends all, waits for the answers, and throws what the first refused one was refused for. */
    static List<RecordMetadata> send(Map<String, Object> settings, List<ProducerRecord<String, byte[]>> records) throws Exception {
        var given = with(settings, "bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(given, new StringSerializer(), new ByteArraySerializer())) {
            var sent = records.stream().map(producer::send).toList();
            var placed = new ArrayList<RecordMetadata>();
            for (var one : sent) {
                placed.add(one.get(WAIT_MS, TimeUnit.MILLISECONDS));
            }
            return placed;
        } catch (ExecutionException refused) {
            throw (Exception) refused.getCause();
        }
    }

    /** Sends all in one batch, and says why each was refused. */
    static List<Class<?>> failures(Map<String, Object> settings, List<ProducerRecord<String, byte[]>> records) throws Exception {
        var given = with(settings, "bootstrap.servers", bootstrap);
        try (var producer = new KafkaProducer<>(given, new StringSerializer(), new ByteArraySerializer())) {
            var sent = records.stream().map(producer::send).toList();
            producer.flush();
            var kinds = new ArrayList<Class<?>>();
            for (var one : sent) {
                try {
                    one.get(WAIT_MS, TimeUnit.MILLISECONDS);
                    kinds.add(null);
                } catch (ExecutionException refused) {
                    kinds.add(refused.getCause().getClass());
                }
            }
            return kinds;
        }
    }

    static List<RecordMetadata> produce(String topic, List<String> values, Map<String, Object> settings) throws Exception {
        return send(settings, values.stream().map(value -> new ProducerRecord<>(topic, value, bytes(value))).toList());
    }

    static KafkaProducer<String, byte[]> transactional(String id, int timeoutMs) {
        Map<String, Object> given = Map.of("bootstrap.servers", bootstrap, "transactional.id", id, "transaction.timeout.ms", timeoutMs);
        return new KafkaProducer<>(given, new StringSerializer(), new ByteArraySerializer());
    }

    static KafkaConsumer<String, byte[]> consumer(Map<String, Object> settings) {
        var given = with(settings, "bootstrap.servers", bootstrap);
        return new KafkaConsumer<>(given, new StringDeserializer(), new ByteArrayDeserializer());
    }

    static List<ConsumerRecord<String, byte[]>> read(Consumer<String, byte[]> consumer, int count) {
        var records = new ArrayList<ConsumerRecord<String, byte[]>>();
        var deadline = System.currentTimeMillis() + WAIT_MS;
        while (records.size() < count) {
            holds(System.currentTimeMillis() < deadline, records.size() + " of " + count + " records came in time");
            consumer.poll(Duration.ofMillis(100)).forEach(records::add);
        }
        same(count, records.size(), "number of records");
        return records;
    }

    /** The first partition from its beginning, without a group. */
    static List<ConsumerRecord<String, byte[]>> readAll(String topic, int count) {
        try (var consumer = consumer(Map.of("auto.offset.reset", "earliest"))) {
            consumer.assign(List.of(new TopicPartition(topic, 0)));
            return read(consumer, count);
        }
    }

    static long offset(String topic, OffsetSpec spec) throws Exception {
        var where = new TopicPartition(topic, 0);
        return admin.listOffsets(Map.of(where, spec)).partitionResult(where).get().offset();
    }

    static List<String> numbers(int count) {
        return IntStream.range(0, count).mapToObj(number -> String.format("%05d", number)).toList();
    }

    static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }

    static List<String> values(List<ConsumerRecord<String, byte[]>> records) {
        return records.stream().map(record -> record.value() == null ? null : new String(record.value())).collect(Collectors.toList());
    }

    // What must hold

    static Object same(Object expected, Object found, String what) {
        return holds(Objects.equals(expected, found), what + ": expected " + expected + ", found " + found);
    }

    static Object holds(boolean condition, String what) {
        if (!condition) {
            throw new AssertionError(what);
        }
        return null;
    }

    static Object refused(Class<? extends Exception> kind, Callable<?> request) throws Exception {
        try {
            request.call();
        } catch (Exception refusal) {
            var cause = refusal instanceof ExecutionException ? refusal.getCause() : refusal;
            return holds(kind.isInstance(cause), "expected " + kind.getSimpleName() + ", found " + cause);
        }
        throw new AssertionError("not refused; expected " + kind.getSimpleName());
    }

    static void until(Callable<Boolean> condition, String what) throws Exception {
        var deadline = System.currentTimeMillis() + WAIT_MS;
        while (!condition.call()) {
            holds(System.currentTimeMillis() < deadline, "not in time: " + what);
            Thread.sleep(20);
        }
    }

    /** A group member that polls in a thread of its own until it leaves. */
    static class Member {
        volatile Set<Integer> partitions = Set.of();
        volatile Throwable failure;
        final AtomicInteger received = new AtomicInteger();
        private volatile boolean isLeaving;
        private final Thread thread;

        Member(String topic, Map<String, Object> settings) {
            thread = new Thread(() -> pollUntilLeft(topic, with(settings, "group.id", topic)));
            thread.setDaemon(true);
            thread.start();
        }

        private void pollUntilLeft(String topic, Map<String, Object> settings) {
            try (var consumer = consumer(settings)) {
                consumer.subscribe(List.of(topic));
                while (!isLeaving) {
                    received.addAndGet(consumer.poll(Duration.ofMillis(100)).count());
                    partitions = consumer.assignment().stream().map(TopicPartition::partition).collect(Collectors.toSet());
                }
            } catch (Throwable thrown) {
                failure = thrown;
            } finally {
                partitions = Set.of();
            }
        }

        void waitUntilOwns(int count) throws Exception {
            until(() -> failure != null || partitions.size() == count, count + " partitions");
            same(null, failure, "failure of the member");
        }

        void leave() throws InterruptedException {
            isLeaving = true;
            thread.join(WAIT_MS);
            same(null, failure, "failure of the member");
        }
    }
}
