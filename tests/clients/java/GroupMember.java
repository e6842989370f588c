// A group member in a process of its own: it tells of all that it is given, reads and commits, until its input ends.
// Each line is an event, the monotonic time in nanoseconds, and what it is about: `assigned 123 0,1`.

import java.time.Duration;
import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;
import org.apache.kafka.common.serialization.*;

public class GroupMember {
    private static volatile boolean isLeaving;

    public static void main(String[] arguments) {
        var settings = new HashMap<String, Object>();
        for (int place = 1; place < arguments.length; place++) {
            var pair = arguments[place].split("=", 2);
            settings.put(pair[0], pair[1]);
        }
        var waiting = new Thread(GroupMember::waitForEndOfInput);
        waiting.setDaemon(true);
        waiting.start();
        try (var consumer = new KafkaConsumer<>(settings, new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            consumer.subscribe(List.of(arguments[0]), new Listener());
            while (!isLeaving) {
                var records = consumer.poll(Duration.ofMillis(100));
                records.forEach(record -> tell("read", record.partition() + ":" + record.offset()));
                if (!records.isEmpty()) {
                    commit(consumer);
                }
            }
        } catch (Throwable failure) {
            failure.printStackTrace();
            tell("failed", failure.toString().replace('\n', ' '));
        }
        tell("left", "");
        Runtime.getRuntime().halt(0);
    }

    /** A member whose group has moved on meanwhile has nothing to commit: the next owner reads it again. */
    private static void commit(Consumer<byte[], byte[]> consumer) {
        var offsets = new HashMap<TopicPartition, OffsetAndMetadata>();
        consumer.assignment().forEach(one -> offsets.put(one, new OffsetAndMetadata(consumer.position(one))));
        try {
            consumer.commitSync(offsets, Duration.ofSeconds(20));
        } catch (CommitFailedException | RebalanceInProgressException moved) {
            return;
        }
        offsets.forEach((one, offset) -> tell("committed", one.partition() + ":" + offset.offset()));
    }

    private static void waitForEndOfInput() {
        try {
            while (System.in.read() >= 0) {
            }
        } catch (java.io.IOException gone) {
            // as good as its end
        }
        isLeaving = true;
    }

    private static synchronized void tell(String event, String about) {
        System.out.println(event + " " + System.nanoTime() + " " + about);
        System.out.flush();
    }

    private static class Listener implements ConsumerRebalanceListener {
        public void onPartitionsAssigned(Collection<TopicPartition> partitions) {
            tell("assigned", numbers(partitions));
        }

        public void onPartitionsRevoked(Collection<TopicPartition> partitions) {
            tell("revoked", numbers(partitions));
        }

        private static String numbers(Collection<TopicPartition> partitions) {
            return partitions.stream().map(one -> "" + one.partition()).collect(Collectors.joining(","));
        }
    }
}
