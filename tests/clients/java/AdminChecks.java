// The admin client.

import java.util.*;
import java.util.stream.*;
import org.apache.kafka.clients.admin.*;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.*;
import org.apache.kafka.common.config.ConfigResource;
import org.apache.kafka.common.errors.*;

class AdminChecks extends Support {
    static void list() {
        listTopicChecks();
        listConfigChecks();
        listOffsetChecks();
        listTimeChecks();
        listGroupChecks();
    }

    static void listTopicChecks() {
        check("topics are created, listed, described by name and id, extended and deleted", () -> {
            var topic = newName();
            var created = admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1)));
            same(2, created.numPartitions(topic).get(), "partitions in the answer");
            holds(admin.listTopics().names().get().contains(topic), "listed");
            refused(TopicExistsException.class, () -> admin.createTopics(List.of(new NewTopic(topic, 2, (short) 1))).all().get());
            admin.createPartitions(Map.of(topic, NewPartitions.increaseTo(3))).all().get();
            var described = admin.describeTopics(List.of(topic)).allTopicNames().get().get(topic);
            same(3, described.partitions().size(), "partitions");
            var id = created.topicId(topic).get();
            same(id, described.topicId(), "topic id");
            var byId = admin.describeTopics(TopicCollection.ofTopicIds(List.of(id))).allTopicIds().get().get(id);
            same(topic, byId.name(), "name by id");
            admin.deleteTopics(TopicCollection.ofTopicIds(List.of(id))).all().get();
            until(() -> !admin.listTopics().names().get().contains(topic), "the topic is no longer listed");
            return refused(UnknownTopicOrPartitionException.class, () -> admin.describeTopics(List.of(topic)).allTopicNames().get());
        });
        check("a topic that cannot be is refused with the reason", () -> {
            refused(InvalidTopicException.class, () -> admin.createTopics(List.of(new NewTopic("bad name", 1, (short) 1))).all().get());
            refused(InvalidPartitionsException.class, () -> admin.createTopics(List.of(new NewTopic(newName(), 0, (short) 1))).all().get());
            refused(InvalidReplicationFactorException.class, () -> admin.createTopics(List.of(new NewTopic(newName(), 1, (short) 3))).all().get());
            var badConfig = new NewTopic(newName(), 1, (short) 1).configs(Map.of("no.such.key", "1"));
            return refused(InvalidConfigurationException.class, () -> admin.createTopics(List.of(badConfig)).all().get());
        });
        check("hundreds of topics are described page by page", () -> {
            var prefix = newName();
            var names = IntStream.range(0, 50).mapToObj(number -> prefix + "-" + number).toList();
            admin.createTopics(names.stream().map(name -> new NewTopic(name, 2, (short) 1)).toList()).all().get();
            var options = new DescribeTopicsOptions().partitionSizeLimitPerResponse(7);
            var described = admin.describeTopics(names, options).allTopicNames().get();
            same(new HashSet<>(names), described.keySet(), "topics");
            holds(described.values().stream().allMatch(one -> one.partitions().size() == 2), "partitions of each");
            admin.deleteTopics(names).all().get();
            return null;
        });
        check("cluster, log dirs, producers and features are described", () -> {
            var nodes = admin.describeCluster().nodes().get();
            same(1, nodes.size(), "nodes");
            var node = nodes.iterator().next().id();
            same(node, admin.describeCluster().controller().get().id(), "controller");
            holds(admin.describeCluster().clusterId().get() != null, "cluster id");
            var topic = makeTopic(1);
            var where = new TopicPartition(topic, 0);
            produce(topic, numbers(5), Map.of());
            var logDirs = admin.describeLogDirs(List.of(node)).allDescriptions().get().get(node);
            holds(logDirs.values().stream().anyMatch(one -> one.replicaInfos().containsKey(where)), "log dir of the partition");
            var producers = admin.describeProducers(List.of(where)).partitionResult(where).get().activeProducers();
            same(List.of(4), producers.stream().map(ProducerState::lastSequence).toList(), "last sequences");
            admin.describeFeatures().featureMetadata().get();
            return null;
        });
    }

    static void listConfigChecks() {
        check("topic configs are described with source and synonyms, and altered one by one", () -> {
            var topic = makeTopic(1, Map.of("max.message.bytes", "5000"));
            var resource = new ConfigResource(ConfigResource.Type.TOPIC, topic);
            same(ConfigEntry.ConfigSource.DYNAMIC_TOPIC_CONFIG, config(resource, "max.message.bytes").source(), "source");
            var retention = config(resource, "retention.ms");
            same("604800000", retention.value(), "default");
            same(ConfigEntry.ConfigSource.DEFAULT_CONFIG, retention.source(), "source of the default");
            same(ConfigEntry.ConfigType.LONG, retention.type(), "type");
            alter(resource, "cleanup.policy", "compact", AlterConfigOp.OpType.APPEND);
            same("delete,compact", config(resource, "cleanup.policy").value(), "appended");
            alter(resource, "cleanup.policy", "delete", AlterConfigOp.OpType.SUBTRACT);
            same("compact", config(resource, "cleanup.policy").value(), "subtracted");
            alter(resource, "max.message.bytes", "6000", AlterConfigOp.OpType.SET);
            same("6000", config(resource, "max.message.bytes").value(), "set");
            alter(resource, "max.message.bytes", null, AlterConfigOp.OpType.DELETE);
            same("1048588", config(resource, "max.message.bytes").value(), "deleted");
            return refused(InvalidConfigurationException.class, () -> alter(resource, "retention.ms", "soon", AlterConfigOp.OpType.SET));
        });
        check("broker configs are described", () -> {
            var node = admin.describeCluster().nodes().get().iterator().next().idString();
            var resource = new ConfigResource(ConfigResource.Type.BROKER, node);
            same("true", config(resource, "auto.create.topics.enable").value(), "auto.create.topics.enable");
            return same("1", config(resource, "num.partitions").value(), "num.partitions");
        });
    }

    static ConfigEntry config(ConfigResource resource, String key) throws Exception {
        var options = new DescribeConfigsOptions().includeSynonyms(true);
        return admin.describeConfigs(List.of(resource), options).all().get().get(resource).get(key);
    }

    static Object alter(ConfigResource resource, String key, String value, AlterConfigOp.OpType how) throws Exception {
        var change = new AlterConfigOp(new ConfigEntry(key, value), how);
        return admin.incrementalAlterConfigs(Map.of(resource, List.of(change))).all().get();
    }

    static void listOffsetChecks() {
        check("offsets are listed by kind and records deleted", () -> {
            var topic = makeTopic(1);
            var where = new TopicPartition(topic, 0);
            var newest = System.currentTimeMillis();
            for (var age : List.of(3000, 0, 2000)) {
                send(Map.of(), List.of(new ProducerRecord<>(topic, 0, newest - age, "", bytes("x"))));
            }
            same(0L, offset(topic, OffsetSpec.earliest()), "earliest");
            same(3L, offset(topic, OffsetSpec.latest()), "latest");
            same(1L, offset(topic, OffsetSpec.maxTimestamp()), "of the largest timestamp");
            same(1L, offset(topic, OffsetSpec.forTimestamp(newest - 2500)), "by time");
            same(-1L, offset(topic, OffsetSpec.forTimestamp(newest + 100_000)), "of no time that came");
            var deleted = admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(2)));
            same(2L, deleted.lowWatermarks().get(where).get().lowWatermark(), "low watermark");
            same(2L, offset(topic, OffsetSpec.earliest()), "earliest after deletion");
            refused(OffsetOutOfRangeException.class,
                () -> admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(99))).all().get());
            admin.deleteRecords(Map.of(where, RecordsToDelete.beforeOffset(-1))).all().get();
            return same(3L, offset(topic, OffsetSpec.earliest()), "earliest after all are deleted");
        });
    }

    static void listTimeChecks() {
        check("of records that share the largest timestamp the first is listed", () -> {
            var topic = makeTopic(1);
            var start = System.currentTimeMillis() - 100_000;
            for (var codec : List.of("none", "gzip")) {
                for (var times : List.of(List.of(0, 5, 5, 1), List.of(5, 2))) {
                    send(Map.of("compression.type", codec, "linger.ms", 50), times.stream()
                        .map(seconds -> new ProducerRecord<>(topic, 0, start + 1000 * seconds, "", bytes("x"))).toList());
                }
            }
            same(1L, offset(topic, OffsetSpec.maxTimestamp()), "of the largest timestamp");
            same(1L, offset(topic, OffsetSpec.forTimestamp(start + 1)), "by time");
            return same(-1L, offset(makeTopic(1), OffsetSpec.maxTimestamp()), "in an empty log");
        });
    }

    static void listGroupChecks() {
        check("a classic group is listed, described, moved and deleted", () -> groupLife(GroupChecks.classic(), GroupType.CLASSIC));
        check("a group of the new protocol is listed, described, moved and deleted",
            () -> groupLife(GroupChecks.newProtocol("range"), GroupType.CONSUMER));
        check("a static member is removed by the admin", () -> {
            var topic = makeTopic(1);
            var member = new Member(topic, with(GroupChecks.classic(), "group.instance.id", "fixed"));
            member.waitUntilOwns(1);
            member.leave();
            same(1, describe(topic).members().size(), "a static member that stopped is still a member");
            var removal = new RemoveMembersFromConsumerGroupOptions(List.of(new MemberToRemove("fixed")));
            admin.removeMembersFromConsumerGroup(topic, removal).all().get();
            return same(0, describe(topic).members().size(), "members");
        });
    }

    static ConsumerGroupDescription describe(String group) throws Exception {
        return admin.describeConsumerGroups(List.of(group)).describedGroups().get(group).get();
    }

    static Object groupLife(Map<String, Object> settings, GroupType type) throws Exception {
        var topic = makeTopic(2);
        var first = new TopicPartition(topic, 0);
        produce(topic, numbers(20), Map.of());
        var member = new Member(topic, settings);
        member.waitUntilOwns(2);
        until(() -> member.received.get() == 20, "all records");
        var listed = admin.listGroups().all().get().stream().filter(one -> one.groupId().equals(topic)).findFirst();
        same(type, listed.orElseThrow().type().orElseThrow(), "type");
        var described = describe(topic);
        same(GroupState.STABLE, described.groupState(), "state");
        same(2, described.members().iterator().next().assignment().topicPartitions().size(), "assignment");
        refused(GroupNotEmptyException.class, () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
        member.leave();

        same(GroupState.EMPTY, describe(topic).groupState(), "state without members");
        var offsets = admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get();
        same(20L, offsets.values().stream().mapToLong(OffsetAndMetadata::offset).sum(), "committed when it left");
        admin.alterConsumerGroupOffsets(topic, Map.of(first, new OffsetAndMetadata(1))).all().get();
        same(1L, admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().get(first).offset(), "moved");
        admin.deleteConsumerGroupOffsets(topic, Set.of(first)).all().get();
        same(null, admin.listConsumerGroupOffsets(topic).partitionsToOffsetAndMetadata().get().get(first), "offset deleted");
        admin.deleteConsumerGroups(List.of(topic)).all().get();
        return refused(GroupIdNotFoundException.class, () -> admin.deleteConsumerGroups(List.of(topic)).all().get());
    }
}
