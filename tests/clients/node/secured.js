// kafkajs on a secured cluster: node secured.js CASES.json TOPIC produces and consumes one record in each way of being let in.
"use strict";

const fs = require("node:fs");
const { Kafka, logLevel } = require("kafkajs");

const [file, topic] = process.argv.slice(2);
const CASE_MS_MAX = 25_000;

function settings({ Bootstrap, CA, Store, Mechanism, User, Password }) {
  const read = (path) => fs.readFileSync(path, "utf-8");
  // Node does not check names that are addresses: it does not send them, and finds them in the certificate all the same.
  const ssl = CA && { ca: [read(CA)], ...(Store && { cert: read(Store), key: read(Store) }) };
  const sasl = Mechanism && { mechanism: Mechanism.toLowerCase(), username: User, password: Password };
  return { brokers: [Bootstrap], ssl: ssl || undefined, sasl: sasl || undefined, logLevel: logLevel.NOTHING, retry: { retries: 2 } };
}

async function roundTrip(one) {
  const kafka = new Kafka(settings(one));
  const value = `kafkajs ${one.Name}`;
  const producer = kafka.producer();
  const consumer = kafka.consumer({ groupId: `kafkajs-${one.Name}` });
  let timer;
  try {
    await producer.connect();
    await producer.send({ topic, messages: [{ value }] });
    await consumer.connect();
    await consumer.subscribe({ topic, fromBeginning: true });
    await new Promise((resolve, reject) => {
      timer = setTimeout(() => reject(new Error("the record did not come back")), CASE_MS_MAX);
      consumer.run({ eachMessage: async ({ message }) => message.value.toString() === value && resolve() }).catch(reject);
    });
  } finally {
    clearTimeout(timer);
    await consumer.disconnect().catch(() => {});
    await producer.disconnect().catch(() => {});
  }
}

(async () => {
  const cases = JSON.parse(fs.readFileSync(file, "utf-8"));
  await Promise.all(
    cases.map(async (one) => {
      const error = await roundTrip(one).then(
        () => null,
        (problem) => String(problem),
      );
      console.log(JSON.stringify({ check: one.Name, error }));
    }),
  );
})();
