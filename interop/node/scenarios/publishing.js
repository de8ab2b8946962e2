// Confirms, returns, sizes and transactions.
'use strict';

const { createHash, randomBytes } = require('node:crypto');
const { Skip, equal, waitUntil } = require('../expect');
const client = require('../client');
const { Consumer, bodies, closesChannel, confirming, connect, declared, getAll, plain, publish } = client;

const BODY_15_MB = 15_000_000;
const BODY_20_MB = 20 * 1024 * 1024;

async function confirmSingle(ctx) {
  const channel = await confirming(await connect(ctx));
  const queue = await declared(ctx, channel);
  await publish(channel, queue, ['kept']);
  await publish(channel, ctx.name('nowhere'), ['dropped']);
  equal(await bodies(channel, queue), ['kept']);
}

async function confirmBatch(ctx) {
  const channel = await confirming(await connect(ctx));
  const queue = await declared(ctx, channel);
  for (let batch = 0; batch < 10; batch += 1) await publish(channel, queue, client.numbers(0, 100));
  await client.waitReady(channel, queue, 1000);
}

async function confirmMixed(ctx) {
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const queues = [
    await declared(ctx, channel, 'durable'),
    await declared(ctx, channel, 'transient', { durable: false, exclusive: true }),
  ];
  const expected = [[], []];
  for (let i = 0; i < 500; i += 1) {
    const target = Math.floor(i / 2) % 2;
    expected[target].push(String(i));
    channel.publish('', queues[target], Buffer.from(String(i)), { persistent: i % 2 === 1 });
  }
  await channel.waitForConfirms();
  equal(await bodies(channel, queues[0]), expected[0], 'durable');
  equal(await bodies(channel, queues[1]), expected[1], 'transient');
}

async function confirmMultiple(ctx) {
  const channel = await confirming(await connect(ctx));
  const queue = await declared(ctx, channel);
  const total = 2000;
  const unsettled = new Set(Array.from({ length: total }, (_, index) => index + 1));
  const wrong = [];
  channel.on('nack', (fields) => wrong.push(['nack', fields]));
  channel.on('ack', ({ deliveryTag, multiple }) => {
    const settled = multiple ? [...unsettled].filter((tag) => tag <= deliveryTag) : [deliveryTag];
    if (settled.length === 0) wrong.push(['nothing to settle', deliveryTag, multiple]);
    for (const tag of settled) if (!unsettled.delete(tag)) wrong.push(['not outstanding', tag]);
  });
  for (let i = 0; i < total; i += 1) channel.sendToQueue(queue, Buffer.from(String(i)), { persistent: true });
  await waitUntil(() => unsettled.size === 0, 'all tags settled');
  equal(wrong, []);
  await client.waitReady(channel, queue, total);
}

async function mandatoryReturn(ctx) {
  const channel = await confirming(await connect(ctx));
  const key = ctx.name('nowhere');
  const events = [];
  channel.on('return', (message) => events.push(message));
  channel.on('ack', (fields) => events.push(fields));
  const options = { mandatory: true, messageId: 'm-1', headers: { h: 'v' }, persistent: true };
  channel.publish('', key, Buffer.from('come back'), options);
  await channel.waitForConfirms();
  const [returned, acked] = events;
  equal(events.length, 2, 'events');
  equal([returned.fields.replyCode, returned.fields.replyText], [312, 'NO_ROUTE']);
  equal([returned.fields.exchange, returned.fields.routingKey], ['', key]);
  equal(returned.content.toString(), 'come back');
  const { messageId, headers, deliveryMode } = returned.properties;
  equal([messageId, { ...headers }, deliveryMode], ['m-1', { h: 'v' }, 2]);
  equal(acked.deliveryTag, 1, 'tag acked after the return');
}

async function publishMissingExchange(ctx) {
  const connection = await connect(ctx);
  const exchange = ctx.name('x');
  const text = `NOT_FOUND - no exchange '${exchange}' in vhost '/'`;
  await closesChannel(connection, 404, text, (victim) => publish(victim, 'k', ['m'], { exchange }));
}

async function propertiesIntact(ctx) {
  const channel = await confirming(await connect(ctx));
  const queue = await declared(ctx, channel);
  const headers = {
    text: 'grün',
    bytes: Buffer.from([0, 255]),
    int: 7,
    negative: -7,
    long: 2 ** 40,
    byte: { '!': 'byte', value: -5 },
    short: { '!': 'short', value: -300 },
    float: { '!': 'float', value: 0.5 },
    flag: true,
    double: 1.5,
    decimal: { '!': 'decimal', value: { digits: 314, places: 2 } },
    when: { '!': 'timestamp', value: 1_700_000_000 },
    nothing: null,
    array: [1, 'two', { three: 3 }],
    table: { inner: { deep: 'yes' } },
  };
  const sent = {
    contentType: 'application/json',
    contentEncoding: 'gzip',
    deliveryMode: 2,
    priority: 5,
    correlationId: 'correlation',
    replyTo: 'reply',
    expiration: '600000',
    messageId: 'message',
    timestamp: 1_700_000_000,
    type: 'kind',
    userId: 'guest',
    appId: 'interop',
  };
  await publish(channel, queue, [''], { ...sent, headers });
  const [received] = await getAll(channel, queue);
  equal(received.content.length, 0, 'body size');
  for (const [name, value] of Object.entries(sent)) equal(received.properties[name], value, name);
  const plainHeaders = { ...headers, byte: -5, short: -300, float: 0.5 };
  for (const [name, value] of Object.entries(plainHeaders)) equal(received.properties.headers[name], value, name);
}

function sha256(bytes) {
  return createHash('sha256').update(bytes).digest('hex');
}

async function body15Mb(ctx) {
  const channel = await confirming(await connect(ctx));
  const queue = await declared(ctx, channel);
  const body = randomBytes(BODY_15_MB);
  await publish(channel, queue, [body]);
  const consumer = await Consumer.start(channel, queue, { noAck: true });
  const [message] = await consumer.wait(1, 30_000);
  equal(sha256(message.content), sha256(body), 'SHA-256');
}

async function body20Mb(ctx) {
  const connection = await connect(ctx);
  const queue = await declared(ctx, await plain(connection));
  const text = `PRECONDITION_FAILED - message size ${BODY_20_MB} is larger than configured max size 16777216`;
  await closesChannel(connection, 406, text, (victim) => publish(victim, queue, [Buffer.alloc(BODY_20_MB)]));
  const channel = await confirming(connection);
  await publish(channel, queue, ['still usable']);
  equal(await bodies(channel, queue), ['still usable']);
}

async function noTx() {
  throw new Skip('amqplib has no tx methods');
}

module.exports = {
  'confirm-single': confirmSingle,
  'confirm-batch': confirmBatch,
  'confirm-mixed': confirmMixed,
  'confirm-multiple': confirmMultiple,
  'mandatory-return-before-ack': mandatoryReturn,
  'publish-missing-exchange-404': publishMissingExchange,
  'properties-intact': propertiesIntact,
  'body-15mb-intact': body15Mb,
  'body-20mb-refused': body20Mb,
  'tx-commit': noTx,
  'tx-rollback': noTx,
};
