// Consumer groups of both protocols.

import java.time.Duration;
import java.util.*;
import java.util.regex.Pattern;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.*;
import org.apache.kafka.clients.producer.*;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.*;

class GroupChecks extends Support {
    static final String COOPERATIVE = "org.apache.kafka.clients.consumer.CooperativeStickyAssignor";

    static void list() {
        check("a group goes on where it committed", () -> resumes(classic()));
        check("a group of the new protocol goes on where it committed", () -> resumes(newProtocol("uniform")));
        check("two members share the partitions and the last one gets all", () -> rebalance(classic()));
        check("cooperative members share the partitions", () -> rebalance(with(classic(), "partition.assignment.strategy", COOPERATIVE)));
        check("members of the new protocol share the partitions by range", () -> rebalance(newProtocol("range")));
        check("members of the new protocol share the partitions uniformly", () -> rebalance(newProtocol("uniform")));
        check("a static member comes back to its partitions", () -> staticMembership(classic()));
        check("a static member of the new protocol comes back to its partitions", () -> staticMembership(newProtocol("uniform")));
        check("a second static member of one name is fenced or refused", () -> {
            var topic = makeTopic(1);
            var first = new Member(topic, with(newProtocol("uniform"), "group.instance.id", "same"));
            first.waitUntilOwns(1);
            var second = new Member(topic, with(newProtocol("uniform"), "group.instance.id", "same"));
            until(() -> second.failure instanceof UnreleasedInstanceIdException, "the second is refused");
            first.leave();
            return null;
        });
        check("members subscribe by a pattern that the client resolves", () -> {
            var prefix = newName();
            for (int number = 0; number < 3; number++) {
                admin.createTopics(List.of(new NewTopic(prefix + "-" + number, 1, (short) 1))).all().get();
            }
            try (var consumer = consumer(with(classic(), "group.id", prefix))) {
                consumer.subscribe(Pattern.compile(prefix + "-[02]"));
                until(() -> {
                    consumer.poll(Duration.ofMillis(100));
                    return consumer.assignment().size() == 2;
                }, "two of three topics");
            }
            return null;
        });
        check("members of the new protocol subscribe by a pattern that the node resolves", () -> {
            var prefix = newName();
            for (int number = 0; number < 3; number++) {
                admin.createTopics(List.of(new NewTopic(prefix + "-" + number, 1, (short) 1))).all().get();
            }
            try (var consumer = consumer(with(newProtocol("uniform"), "group.id", prefix))) {
                consumer.subscribe(new SubscriptionPattern(prefix + "-[02]"));
                until(() -> {
                    consumer.poll(Duration.ofMillis(100));
                    return consumer.assignment().size() == 2;
                }, "two of three topics");
            }
            return null;
        });
        check("a member of the new protocol sees partitions that are added", () -> {
            var topic = makeTopic(1);
            var member = new Member(topic, newProtocol("range"));
            member.waitUntilOwns(1);
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            member.waitUntilOwns(3);
            member.leave();
            return null;
        });
    }

    /** The session outlasts any wait here: what is seen to happen does not happen by expiry. */
    static Map<String, Object> classic() {
        return Map.of("group.protocol", "classic", "heartbeat.interval.ms", 300, "session.timeout.ms", 45_000,
            "auto.offset.reset", "earliest");
    }

    static Map<String, Object> newProtocol(String assignor) {
        return Map.of("group.protocol", "consumer", "group.remote.assignor", assignor, "auto.offset.reset", "earliest");
    }

    static Object resumes(Map<String, Object> protocol) throws Exception {
        var topic = makeTopic(1);
        var where = new TopicPartition(topic, 0);
        produce(topic, numbers(10), Map.of());
        var settings = with(with(protocol, "group.id", topic), "enable.auto.commit", "false");
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            read(consumer, 10);
            consumer.commitSync(Map.of(where, new OffsetAndMetadata(4, "noted by hand")));
        }
        try (var consumer = consumer(settings)) {
            consumer.subscribe(List.of(topic));
            same("00004", values(read(consumer, 6)).get(0), "first after the commit");
            return same("noted by hand", consumer.committed(Set.of(where)).get(where).metadata(), "metadata");
        }
    }

    static Object rebalance(Map<String, Object> settings) throws Exception {
        var topic = makeTopic(4);
        var first = new Member(topic, settings);
        first.waitUntilOwns(4);
        var second = new Member(topic, settings);
        until(() -> shared(4, first, second), "both members have partitions");
        same(2, second.partitions.size(), "an even share");
        send(Map.of(), IntStream.range(0, 4).mapToObj(n -> new ProducerRecord<>(topic, n, "", bytes("two"))).toList());
        until(() -> first.received.get() + second.received.get() >= 4, "both members read");
        second.leave();
        first.waitUntilOwns(4);
        send(Map.of(), IntStream.range(0, 4).mapToObj(n -> new ProducerRecord<>(topic, n, "", bytes("one"))).toList());
        until(() -> first.received.get() + second.received.get() >= 8, "the last member reads all");
        first.leave();
        return null;
    }

    static Object staticMembership(Map<String, Object> settings) throws Exception {
        var topic = makeTopic(4);
        var stays = new Member(topic, with(settings, "group.instance.id", "stays"));
        stays.waitUntilOwns(4);
        var returns = new Member(topic, with(settings, "group.instance.id", "returns"));
        until(() -> shared(4, stays, returns), "both members have partitions");
        var before = List.of(stays.partitions, returns.partitions);
        returns.leave();
        Thread.sleep(1000); // Several heartbeats: a member that had left would be replaced by now.
        same(before.get(0), stays.partitions, "the one that stayed keeps its partitions");
        var again = new Member(topic, with(settings, "group.instance.id", "returns"));
        until(() -> again.partitions.equals(before.get(1)), "the same partitions again");
        same(before.get(0), stays.partitions, "the one that stayed keeps its partitions");
        again.leave();
        stays.leave();
        return null;
    }

    static boolean shared(int partitions, Member... members) {
        var owned = Arrays.stream(members).flatMap(member -> member.partitions.stream()).toList();
        return owned.size() == partitions && new HashSet<>(owned).size() == partitions
            && Arrays.stream(members).noneMatch(member -> member.partitions.isEmpty());
    }
}
