// kafkajs against the node under test: makes every check and prints one line of JSON for each.
"use strict";

const assert = require("node:assert/strict");
const crypto = require("node:crypto");
const { AssignerProtocol, CompressionCodecs, CompressionTypes, ConfigResourceTypes, Kafka, logLevel } = require("kafkajs");
const SnappyCodec = require("kafkajs-snappy");
const lz4 = require("lz4js");
const xxh32 = require("lz4js/xxh32");
const zstd = require("@bokuweb/zstd-wasm");

const CHECK_MS_MAX = 30_000;
const LARGE_MESSAGE_BYTES = 10 * 1024 * 1024;

CompressionCodecs[CompressionTypes.Snappy] = SnappyCodec;
CompressionCodecs[CompressionTypes.LZ4] = () => ({
  compress: async (encoder) => {
    const frame = Buffer.from(lz4.compress(encoder.buffer));
    // Kafka takes independent blocks only. Ours fits into one, so it is independent: say so, and sum the header anew.
    frame[4] |= 0x20;
    frame[6] = xxh32.hash(0, frame, 4, 2) >> 8;
    return frame;
  },
  decompress: async (buffer) => Buffer.from(lz4.decompress(buffer)),
});
CompressionCodecs[CompressionTypes.ZSTD] = () => ({
  compress: async (encoder) => Buffer.from(zstd.compress(encoder.buffer)),
  decompress: async (buffer) => Buffer.from(zstd.decompress(buffer)),
});

const kafka = new Kafka({ brokers: [process.argv[2]], logLevel: logLevel.NOTHING, clientId: "chronik-tests" });
const admin = kafka.admin();
const newName = () => `t-${crypto.randomBytes(6).toString("hex")}`;
const checks = [];
const check = (name, body) => checks.push({ name, body });

async function makeTopic(numPartitions = 1, config = {}) {
  const topic = newName();
  const configEntries = Object.entries(config).map(([name, value]) => ({ name, value }));
  await admin.createTopics({ topics: [{ topic, numPartitions, replicationFactor: 1, configEntries }], waitForLeaders: true });
  return topic;
}

async function produce(topic, messages, { settings = {}, ...options } = {}) {
  const producer = kafka.producer(settings);
  await producer.connect();
  try {
    return await producer.send({ topic, messages, ...options });
  } finally {
    await producer.disconnect();
  }
}

async function until(condition, what) {
  const deadline = Date.now() + CHECK_MS_MAX - 5000;
  while (!condition()) {
    if (Date.now() > deadline) throw new Error(`not in time: ${what}`);
    await new Promise((done) => setTimeout(done, 20));
  }
}

// By default a fetch waits for 5 s, and leaving a group waits for the fetch.
const SOON = { heartbeatInterval: 300, rebalanceTimeout: 5000, maxWaitTimeInMs: 100 };

// A group member that keeps what it was given, and which partitions it owns.
async function join(topic, settings = SOON) {
  const consumer = kafka.consumer({ groupId: topic, ...settings });
  const member = { consumer, received: [], partitions: [] };
  consumer.on(consumer.events.GROUP_JOIN, ({ payload }) => {
    member.partitions = payload.memberAssignment[topic] ?? [];
  });
  consumer.on(consumer.events.REBALANCING, () => {
    member.partitions = [];
  });
  await consumer.connect();
  await consumer.subscribe({ topic, fromBeginning: true });
  await consumer.run({
    eachMessage: async ({ partition, message }) => member.received.push({ partition, ...message }),
  });
  return member;
}

async function readAll(topic, count, settings = SOON) {
  const member = await join(topic, settings);
  try {
    await until(() => member.received.length >= count, `${count} messages, ${member.received.length} came`);
    return member.received;
  } finally {
    await member.consumer.disconnect();
  }
}

const text = (buffer) => (buffer === null ? null : buffer.toString());

check("default settings produce and consume", async () => {
  const topic = await makeTopic(3);
  const values = Array.from({ length: 50 }, (_, number) => `value ${number}`);
  await produce(topic, values.map((value) => ({ key: `key of ${value}`, value })));
  const received = await readAll(topic, 50, {});
  assert.deepEqual(received.map((m) => text(m.value)).sort(), values.sort());
  assert.ok(received.every((m) => text(m.key) === `key of ${text(m.value)}`));
});

check("every kind of acknowledgement makes the record visible", async () => {
  const topic = await makeTopic();
  for (const acks of [0, 1, -1]) await produce(topic, [{ value: `${acks}` }], { acks });
  assert.deepEqual((await readAll(topic, 3)).map((m) => text(m.value)), ["0", "1", "-1"]);
});

check("headers, tombstones, null keys and empty values come back", async () => {
  const topic = await makeTopic();
  await produce(topic, [
    { key: "deleted", value: null },
    { key: null, value: "no key" },
    { key: "", value: "", headers: { one: "1", many: ["a", "b"] } },
  ]);
  const received = await readAll(topic, 3);
  assert.deepEqual(received.map((m) => [text(m.key), text(m.value)]), [["deleted", null], [null, "no key"], ["", ""]]);
  assert.equal(text(received[2].headers.one), "1");
  assert.deepEqual(received[2].headers.many.map(text), ["a", "b"]);
});

async function roundTrip(compression) {
  const topic = await makeTopic();
  const values = Array.from({ length: 20 }, (_, number) => `compress me, please ${number} `.repeat(20));
  await produce(topic, values.map((value) => ({ value })), { compression });
  assert.deepEqual((await readAll(topic, 20)).map((m) => text(m.value)), values);
}

check("gzip round-trips", () => roundTrip(CompressionTypes.GZIP));
check("snappy round-trips", () => roundTrip(CompressionTypes.Snappy));
check("lz4 round-trips", () => roundTrip(CompressionTypes.LZ4));
check("zstd round-trips", () => roundTrip(CompressionTypes.ZSTD));

check("messages from one byte to ten megabytes round-trip", async () => {
  const topic = await makeTopic(1, { "max.message.bytes": `${LARGE_MESSAGE_BYTES + 1024}` });
  const values = [1, 1000, 1024 * 1024, LARGE_MESSAGE_BYTES].map((size) => Buffer.alloc(size, "x"));
  for (const value of values) await produce(topic, [{ value }]);
  const received = await readAll(topic, 4, { ...SOON, maxBytesPerPartition: 12 * 1024 * 1024, maxBytes: 50 * 1024 * 1024 });
  received.forEach((message, number) => assert.ok(message.value.equals(values[number])));
});

check("a message over the topic limit is refused", async () => {
  const topic = await makeTopic(1, { "max.message.bytes": "10000" });
  const tooLarge = produce(topic, [{ value: Buffer.alloc(20_000) }], { settings: { retry: { retries: 0 } } });
  await assert.rejects(tooLarge, { type: "MESSAGE_TOO_LARGE" });
  assert.deepEqual((await admin.fetchTopicOffsets(topic))[0].high, "0");
});

check("an idempotent producer gets each offset once", async () => {
  const topic = await makeTopic();
  const producer = kafka.producer({ idempotent: true, maxInFlightRequests: 5 });
  await producer.connect();
  const offsets = [];
  for (let number = 0; number < 50; number++) {
    const [at] = await producer.send({ topic, messages: [{ value: `${number}` }] });
    offsets.push(Number(at.baseOffset));
  }
  await producer.disconnect();
  assert.deepEqual(offsets, Array.from({ length: 50 }, (_, number) => number));
});

check("a topic that is not there is created by the first message", async () => {
  const topic = newName();
  await produce(topic, [{ value: "first" }]);
  assert.deepEqual((await readAll(topic, 1)).map((m) => text(m.value)), ["first"]);
});

check("a group goes on where it committed", async () => {
  const topic = await makeTopic();
  await produce(topic, [{ value: "one" }, { value: "two" }]);
  await readAll(topic, 2);
  await produce(topic, [{ value: "three" }]);
  assert.deepEqual((await readAll(topic, 1)).map((m) => text(m.value)), ["three"]);
});

check("two members share the partitions and the last one gets all", async () => {
  const topic = await makeTopic(4);
  const owned = (...members) => members.flatMap((member) => member.partitions).sort().join() === "0,1,2,3";
  const first = await join(topic);
  await until(() => owned(first), "the first member has all partitions");
  const second = await join(topic);
  const shared = () => first.partitions.length === 2 && second.partitions.length === 2 && owned(first, second);
  await until(shared, "both members have partitions");
  await produce(topic, [0, 1, 2, 3].map((partition) => ({ value: "two", partition })));
  await until(() => first.received.length + second.received.length >= 4, "both members read");
  assert.ok(first.received.length > 0 && second.received.length > 0);
  await second.consumer.disconnect();
  await until(() => owned(first), "the last member has all partitions");
  await first.consumer.disconnect();
});

check("a consumer seeks to an offset found by time", async () => {
  const topic = await makeTopic();
  const start = Date.now() - 100_000;
  await produce(topic, [0, 1, 2, 3].map((n) => ({ value: `${n}`, timestamp: `${start + 1000 * n}` })));
  const [{ offset }] = await admin.fetchTopicOffsetsByTimestamp(topic, start + 1500);
  assert.equal(offset, "2");
  const member = await join(topic);
  member.consumer.seek({ topic, partition: 0, offset });
  await until(() => member.received.at(-1)?.offset === "3", "the last message");
  await member.consumer.disconnect();
  assert.deepEqual(member.received.slice(-2).map((m) => [m.offset, m.timestamp]), [["2", `${start + 2000}`], ["3", `${start + 3000}`]]);
});

check("topics are created, listed, described, extended and deleted", async () => {
  const topic = await makeTopic(2);
  assert.ok((await admin.listTopics()).includes(topic));
  assert.equal(await admin.createTopics({ topics: [{ topic }] }), false);
  await admin.createPartitions({ topicPartitions: [{ topic, count: 3 }] });
  const { topics } = await admin.fetchTopicMetadata({ topics: [topic] });
  assert.deepEqual(topics[0].partitions.map((partition) => partition.partitionId).sort(), [0, 1, 2]);
  const cluster = await admin.describeCluster();
  assert.deepEqual(cluster.brokers.map((broker) => broker.nodeId), [topics[0].partitions[0].leader]);
  await admin.deleteTopics({ topics: [topic] });
  assert.ok(!(await admin.listTopics()).includes(topic));
});

check("configs are described and altered", async () => {
  const topic = await makeTopic(1, { "max.message.bytes": "5000" });
  const resource = { type: ConfigResourceTypes.TOPIC, name: topic };
  const configs = async () => {
    const { resources } = await admin.describeConfigs({ includeSynonyms: false, resources: [resource] });
    return Object.fromEntries(resources[0].configEntries.map((entry) => [entry.configName, entry.configValue]));
  };
  assert.equal((await configs())["max.message.bytes"], "5000");
  await admin.alterConfigs({ resources: [{ ...resource, configEntries: [{ name: "retention.ms", value: "100000" }] }] });
  assert.equal((await configs())["retention.ms"], "100000");
});

check("offsets are listed and records deleted", async () => {
  const topic = await makeTopic();
  await produce(topic, [1, 2, 3, 4, 5].map((number) => ({ value: `${number}` })));
  await admin.fetchTopicOffsets(topic); // kafkajs looks for the leader only among topics it has met.
  await admin.deleteTopicRecords({ topic, partitions: [{ partition: 0, offset: "3" }] });
  const [{ low, high }] = await admin.fetchTopicOffsets(topic);
  assert.deepEqual([low, high], ["3", "5"]);
  assert.deepEqual((await readAll(topic, 2)).map((m) => m.offset), ["3", "4"]);
});

check("groups are listed, described, reset and deleted", async () => {
  const topic = await makeTopic();
  await produce(topic, [{ value: "one" }, { value: "two" }]);
  const member = await join(topic);
  await until(() => member.received.length === 2, "both messages");
  assert.ok((await admin.listGroups()).groups.some((group) => group.groupId === topic));
  const { groups } = await admin.describeGroups([topic]);
  assert.equal(groups[0].state, "Stable");
  assert.deepEqual(AssignerProtocol.MemberAssignment.decode(groups[0].members[0].memberAssignment).assignment, { [topic]: [0] });
  await member.consumer.disconnect();
  const [fetched] = await admin.fetchOffsets({ groupId: topic, topics: [topic] });
  assert.equal(fetched.partitions[0].offset, "2");
  await admin.resetOffsets({ groupId: topic, topic, earliest: true });
  assert.equal((await readAll(topic, 2)).length, 2);
  await admin.deleteGroups([topic]);
  assert.ok(!(await admin.listGroups()).groups.some((group) => group.groupId === topic));
});

// Transactions. kafkajs speaks the older protocol.

const transactional = async (id, timeoutMs = 60_000) => {
  const producer = kafka.producer({ transactionalId: id, transactionTimeout: timeoutMs, maxInFlightRequests: 1, idempotent: true });
  await producer.connect();
  return producer;
};

// Reads by a group of its own: kafkajs has consumers of groups only, and these read committed records by default.
async function committed(topic, count) {
  const consumer = kafka.consumer({ groupId: newName(), ...SOON });
  const values = [];
  await consumer.connect();
  try {
    await consumer.subscribe({ topic, fromBeginning: true });
    await consumer.run({ eachMessage: async ({ message }) => values.push(message.value.toString()) });
    await until(() => values.length >= count, `${count} committed messages`);
  } finally {
    await consumer.disconnect();
  }
  return values.sort();
}

check("a transaction is read when it is committed, and never when it is aborted", async () => {
  const topic = await makeTopic(2);
  const producer = await transactional(topic);
  for (let number = 0; number < 6; number += 1) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [0, 1].map((partition) => ({ partition, value: `${number}-${partition}` })) });
    await (number % 3 === 1 ? transaction.abort() : transaction.commit());
  }
  await producer.disconnect();
  assert.deepEqual(await committed(topic, 8), ["0-0", "0-1", "2-0", "2-1", "3-0", "3-1", "5-0", "5-1"]);
});

check("a second instance fences the first", async () => {
  const topic = await makeTopic();
  const first = await transactional(topic);
  const begun = await first.transaction();
  await begun.send({ topic, messages: [{ value: "first" }] });
  const second = await transactional(topic);
  const next = await second.transaction();
  await next.send({ topic, messages: [{ value: "second" }] });
  await assert.rejects(begun.commit());
  await next.commit();
  await Promise.all([first.disconnect(), second.disconnect()]);
  assert.deepEqual(await committed(topic, 1), ["second"]);
});

check("an abandoned transaction is aborted when its time is up", async () => {
  const topic = await makeTopic();
  const producer = await transactional(topic, 1_500);
  const abandoned = await producer.transaction();
  await abandoned.send({ topic, messages: [{ value: "abandoned" }] });
  await produce(topic, [{ value: "behind" }]);
  assert.deepEqual(await committed(topic, 1), ["behind"]);
  await assert.rejects(abandoned.commit());
  await producer.disconnect();
});

check("offsets are committed with their transaction or not at all", async () => {
  const topic = await makeTopic();
  const producer = await transactional(topic);
  const offset = async () => (await admin.fetchOffsets({ groupId: topic, topics: [topic] }))[0].partitions[0].offset;
  for (const [number, isCommit] of [[5, true], [9, false]]) {
    const transaction = await producer.transaction();
    await transaction.send({ topic, messages: [{ value: `${number}` }] });
    const topics = [{ topic, partitions: [{ partition: 0, offset: `${number}` }] }];
    await transaction.sendOffsets({ consumerGroupId: topic, topics });
    await (isCommit ? transaction.commit() : transaction.abort());
  }
  await producer.disconnect();
  assert.deepEqual(await committed(topic, 1), ["5"]);
  assert.equal(await offset(), "5");
});

async function main() {
  await zstd.init();
  await admin.connect();
  for (const { name, body } of checks) {
    let error = null;
    let timer;
    const late = new Promise((_, reject) => {
      timer = setTimeout(() => reject(new Error("the check took too long")), CHECK_MS_MAX);
    });
    await Promise.race([body(), late]).catch((failure) => (error = failure.stack ?? String(failure)));
    clearTimeout(timer);
    console.log(JSON.stringify({ check: name, error }));
  }
  await admin.disconnect();
  process.exit(0);
}

main();
