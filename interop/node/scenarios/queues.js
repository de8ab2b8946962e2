// Queue lifetimes, ownership and deletion.
'use strict';

const { equal, starts } = require('../expect');
const client = require('../client');
const { Consumer, bodies, closesChannel, confirming, connect, declared, filled, missingQueue, plain } = client;
const { publish, ready, tag, waitReady } = client;

async function exclusive(ctx) {
  const owner = await plain(await connect(ctx));
  const other = await connect(ctx);
  const queue = await declared(ctx, owner, 'q', { durable: false, exclusive: true });
  const text = `RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '${queue}' in vhost '/'`;
  const attempts = [
    (channel) => channel.checkQueue(queue),
    (channel) => channel.consume(queue, () => {}),
    (channel) => channel.get(queue),
    (channel) => channel.purgeQueue(queue),
    (channel) => channel.deleteQueue(queue),
  ];
  for (const attempt of attempts) await closesChannel(other, 405, text, attempt, { prefix: true });
  await publish(await confirming(other), queue, ['from elsewhere']);
  equal(await bodies(owner, queue), ['from elsewhere']);
}

async function exclusiveGone(ctx) {
  const [first, second, watcher] = [await connect(ctx), await connect(ctx), await connect(ctx)];
  const queue = ctx.name();
  const channel = await confirming(first);
  await channel.assertQueue(queue, { durable: false, exclusive: true });
  await publish(channel, queue, ['dies with its connection']);
  await first.close();
  const declareOk = await (await plain(second)).assertQueue(queue, { durable: false, exclusive: true });
  equal(declareOk.messageCount, 0);
  await second.close();
  await missingQueue(watcher, queue);
}

async function serverNamed(ctx) {
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const exchange = ctx.name('x');
  await channel.assertExchange(exchange, 'direct', { durable: false });
  const { queue } = await channel.assertQueue('', { durable: false, exclusive: true });
  starts(queue, 'amq.gen-');
  await channel.bindQueue('', exchange, 'key');
  const consumer = await Consumer.start(channel, '', { noAck: true });
  await publish(channel, 'key', ['1'], { exchange });
  await publish(channel, queue, ['2']);
  equal(client.bodiesOf(await consumer.wait(2)), ['1', '2']);
  await channel.checkQueue(queue);
  const again = (victim) => victim.assertQueue(queue, { durable: false, exclusive: true });
  await closesChannel(connection, 403, "ACCESS_REFUSED - queue name 'amq.gen-", again, { prefix: true });
}

async function autoDelete(ctx) {
  const connection = await connect(ctx);
  const channel = await plain(connection);
  const queue = await declared(ctx, channel, 'q', { durable: false, autoDelete: true });
  const first = await Consumer.start(channel, queue);
  const second = await Consumer.start(channel, queue);
  await first.stop();
  await channel.checkQueue(queue);
  await second.stop();
  await missingQueue(connection, queue);
}

async function purge(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 5);
  const channel = await plain(connection);
  for (let i = 0; i < 2; i += 1) await channel.get(queue);
  equal((await watcher.purgeQueue(queue)).messageCount, 3, 'purge-ok');
  equal(await ready(watcher, queue), 0);
  channel.nack(tag(2), true, true);
  await waitReady(watcher, queue, 2);
}

async function deleteIfUnused(ctx) {
  const connection = await connect(ctx);
  const channel = await plain(connection);
  const queue = await declared(ctx, channel);
  const consumer = await Consumer.start(channel, queue);
  const text = `PRECONDITION_FAILED - queue '${queue}' in vhost '/' in use`;
  await closesChannel(connection, 406, text, (victim) => victim.deleteQueue(queue, { ifUnused: true }));
  await consumer.stop();
  await channel.deleteQueue(queue, { ifUnused: true });
  await missingQueue(connection, queue);
}

async function deleteIfEmpty(ctx) {
  const { connection, channel, queue } = await filled(ctx, 1);
  const text = `PRECONDITION_FAILED - queue '${queue}' in vhost '/' not empty`;
  await closesChannel(connection, 406, text, (victim) => victim.deleteQueue(queue, { ifEmpty: true }));
  await channel.purgeQueue(queue);
  await channel.deleteQueue(queue, { ifEmpty: true });
  await missingQueue(connection, queue);
  equal((await channel.deleteQueue(queue)).messageCount, 0);
}

module.exports = {
  'queue-exclusive-405': exclusive,
  'queue-exclusive-gone': exclusiveGone,
  'queue-server-named': serverNamed,
  'queue-auto-delete': autoDelete,
  'queue-purge': purge,
  'queue-delete-if-unused': deleteIfUnused,
  'queue-delete-if-empty': deleteIfEmpty,
};
