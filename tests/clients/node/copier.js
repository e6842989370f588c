// Copies a topic in transactions until it is ended: node copier.js BOOTSTRAP SOURCE TARGET NAME. The name is the transactional id
// and the group. Whatever fails, the next session begins where the group stands.
"use strict";

const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, source, target, name] = process.argv.slice(2);
const retry = { initialRetryTime: 100, maxRetryTime: 1000, retries: 30 };
const kafka = new Kafka({ brokers: bootstrap.split(","), logLevel: logLevel.NOTHING, clientId: "copier", requestTimeout: 10_000, retry });
const BATCH = 50;

async function session() {
  const producer = kafka.producer({ transactionalId: name, transactionTimeout: 60_000, maxInFlightRequests: 1, idempotent: true });
  const consumer = kafka.consumer({ groupId: name, readUncommitted: false, sessionTimeout: 10_000, rebalanceTimeout: 10_000 });
  let fail;
  const failed = new Promise((_, reject) => (fail = reject));
  failed.catch(() => {}); // it may fail before it is waited for
  try {
    await producer.connect(); // asks for its id, which ends what the last session left open
    await consumer.connect();
    await consumer.subscribe({ topics: [source], fromBeginning: true });
    consumer.on(consumer.events.CRASH, ({ payload }) => fail(payload.error));
    await consumer.run({
      autoCommit: false,
      eachBatchAutoResolve: false,
      eachBatch: async ({ batch, resolveOffset, heartbeat, isRunning, isStale }) => {
        for (let at = 0; at < batch.messages.length && isRunning() && !isStale(); at += BATCH) {
          try {
            await copy(producer, batch, batch.messages.slice(at, at + BATCH));
          } catch (problem) {
            fail(problem);
            throw problem;
          }
          resolveOffset(batch.messages[Math.min(at + BATCH, batch.messages.length) - 1].offset);
          await heartbeat().catch(() => {}); // the next one says the same
        }
      },
    });
    await failed;
  } finally {
    await consumer.disconnect().catch(() => {});
    await producer.disconnect().catch(() => {});
  }
}

async function copy(producer, { partition }, messages) {
  const transaction = await producer.transaction();
  try {
    await transaction.send({ topic: target, messages: messages.map(({ value }) => ({ partition, value })) });
    const offset = (BigInt(messages[messages.length - 1].offset) + 1n).toString();
    await transaction.sendOffsets({ consumerGroupId: name, topics: [{ topic: source, partitions: [{ partition, offset }] }] });
    await transaction.commit();
  } catch (problem) {
    if (transaction.isActive()) await transaction.abort().catch(() => {});
    throw problem;
  }
}

// kafkajs leaves what fails while it leaves a group to the process.
process.on("unhandledRejection", (problem) => console.log(`unhandled: ${problem}`));

async function main() {
  for (;;) {
    await session().catch((problem) => console.log(`again: ${problem}`));
  }
}

main();
