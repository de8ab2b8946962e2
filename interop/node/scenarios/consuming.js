// Consumers, acknowledgements, prefetch and get.
'use strict';

const { equal, starts, waitUntil } = require('../expect');
const client = require('../client');
const { Consumer, bodies, closesChannel, confirming, connect, declared, filled, getAll, numbers, plain } = client;
const { publish, ready, tag, waitReady, withRedelivered } = client;

async function prefetch(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 20);
  const channel = await plain(connection);
  await channel.prefetch(5);
  const consumer = await Consumer.start(channel, queue);
  await consumer.wait(5);
  equal(await ready(watcher, queue), 15);
  for (let acked = 1; acked <= 20; acked += 1) {
    channel.ack(tag(acked));
    await consumer.wait(Math.min(5 + acked, 20));
    equal(await ready(watcher, queue), Math.max(15 - acked, 0));
  }
  const expected = numbers(0, 20).map((body) => [body, false]);
  equal(withRedelivered(consumer.messages), expected);
  const tags = consumer.messages.map((message) => message.fields.deliveryTag);
  equal(tags, numbers(1, 21).map(Number));
}

async function qosPerConsumer(ctx) {
  const { connection, channel: watcher, queue: queueA } = await filled(ctx, 10, 'a');
  const queueB = await declared(ctx, watcher, 'b');
  await publish(watcher, queueB, numbers(0, 10));
  const channel = await plain(connection);
  await channel.prefetch(2);
  const consumerA = await Consumer.start(channel, queueA);
  await channel.prefetch(3);
  const consumerB = await Consumer.start(channel, queueB);
  await consumerA.wait(2);
  await consumerB.wait(3);
  equal([await ready(watcher, queueA), await ready(watcher, queueB)], [8, 7]);
  equal([consumerA.messages.length, consumerB.messages.length], [2, 3]);
}

async function ackMultiple(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 10);
  const channel = await plain(connection);
  const consumer = await Consumer.start(channel, queue);
  await consumer.wait(10);
  channel.ack(tag(7), true);
  await channel.close();
  await waitReady(watcher, queue, 3);
  equal(
    withRedelivered(await getAll(watcher, queue)),
    numbers(7, 10).map((body) => [body, true]),
  );
}

async function nackRequeueOrder(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 5);
  const channel = await plain(connection);
  const consumer = await Consumer.start(channel, queue);
  await consumer.wait(5);
  await consumer.stop();
  channel.nack(tag(3), false, true);
  await waitReady(watcher, queue, 1);
  channel.nackAll(true);
  await waitReady(watcher, queue, 5);
  equal(
    withRedelivered(await getAll(watcher, queue)),
    numbers(0, 5).map((body) => [body, true]),
  );
}

async function nackDiscard(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 3);
  const channel = await plain(connection);
  const consumer = await Consumer.start(channel, queue);
  await consumer.wait(3);
  channel.nack(tag(3), true, false);
  await channel.close();
  equal(await bodies(watcher, queue), []);
}

async function rejectRequeue(ctx) {
  const { connection, queue } = await filled(ctx, 2);
  const channel = await plain(connection);
  const first = await channel.get(queue);
  equal(withRedelivered([first]), [['0', false]]);
  channel.reject(first, true);
  const again = await channel.get(queue);
  equal(withRedelivered([again]), [['0', true]]);
  equal(again.fields.deliveryTag, 2);
}

async function rejectDiscard(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 1);
  const channel = await plain(connection);
  channel.reject(await channel.get(queue), false);
  await channel.close();
  equal(await bodies(watcher, queue), []);
}

async function basicGet(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 3);
  const channel = await plain(connection);
  const first = await channel.get(queue);
  equal([...withRedelivered([first]), first.fields.messageCount], [['0', false], 2]);
  const second = await channel.get(queue, { noAck: true });
  equal([second.content.toString(), second.fields.messageCount], ['1', 1]);
  await channel.close();
  await waitReady(watcher, queue, 2);
  equal(withRedelivered(await getAll(watcher, queue)), [
    ['0', true],
    ['2', false],
  ]);
}

async function basicGetEmpty(ctx) {
  const channel = await plain(await connect(ctx));
  equal(await channel.get(await declared(ctx, channel)), false);
}

async function basicRecover(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 3);
  const channel = await plain(connection);
  for (let i = 0; i < 3; i += 1) await channel.get(queue);
  await channel.recover();
  await waitReady(watcher, queue, 3);
  equal(
    withRedelivered(await getAll(watcher, queue)),
    numbers(0, 3).map((body) => [body, true]),
  );
}

async function unknownDeliveryTag(ctx) {
  const { connection, queue } = await filled(ctx, 1);
  const unknown = (number) => `PRECONDITION_FAILED - unknown delivery tag ${number}`;
  await closesChannel(connection, 406, unknown(99), async (channel) => channel.ack(tag(99)));
  await closesChannel(connection, 406, unknown(1), async (channel) => {
    const message = await channel.get(queue);
    channel.ack(message);
    channel.ack(message);
  });
}

async function consumerCancel(ctx) {
  const { connection, channel: watcher, queue } = await filled(ctx, 4);
  const channel = await plain(connection);
  await channel.prefetch(2);
  const consumer = await Consumer.start(channel, queue);
  await consumer.wait(2);
  await consumer.stop();
  channel.ack(tag(1));
  channel.ack(tag(2));
  await channel.prefetch(1); // a round trip: the acks have been read and accepted
  equal(await ready(watcher, queue), 2);
  equal(consumer.messages.length, 2);
}

async function consumerCancelNotify(ctx) {
  const connection = await connect(ctx);
  const channel = await plain(connection);
  const queue = await declared(ctx, channel);
  const consumer = await Consumer.start(channel, queue);
  await (await plain(connection)).deleteQueue(queue);
  await waitUntil(() => consumer.cancelled, 'basic.cancel from the server');
  await channel.checkQueue(await declared(ctx, channel, 'other'));
}

async function consumerExclusive(ctx) {
  const connection = await connect(ctx);
  const channel = await plain(connection);
  const shared = await declared(ctx, channel, 'shared');
  const owned = await declared(ctx, channel, 'owned');
  await Consumer.start(channel, shared);
  await Consumer.start(channel, owned, { exclusive: true });
  const inUse = (queue) => `ACCESS_REFUSED - queue '${queue}' in vhost '/' in exclusive use`;
  await closesChannel(connection, 403, inUse(shared), (victim) => Consumer.start(victim, shared, { exclusive: true }));
  await closesChannel(connection, 403, inUse(owned), (victim) => Consumer.start(victim, owned));
}

async function consumerPriority(ctx) {
  const connection = await connect(ctx);
  const watcher = await confirming(connection);
  const queue = await declared(ctx, watcher);
  const lowChannel = await plain(connection);
  const highChannel = await plain(connection);
  for (const channel of [lowChannel, highChannel]) await channel.prefetch(2);
  const low = await Consumer.start(lowChannel, queue, { priority: 1 });
  const high = await Consumer.start(highChannel, queue, { priority: 10 });
  await publish(watcher, queue, numbers(0, 6));
  equal(client.bodiesOf(await high.wait(2)), ['0', '1'], 'high');
  equal(client.bodiesOf(await low.wait(2)), ['2', '3'], 'low');
  equal(await ready(watcher, queue), 2);
  highChannel.ack(tag(1));
  equal(client.bodiesOf(await high.wait(3))[2], '4');
  equal(low.messages.length, 2);
}

async function consumerTagServerMade(ctx) {
  const channel = await plain(await connect(ctx));
  const consumer = await Consumer.start(channel, await declared(ctx, channel));
  starts(consumer.tag, 'amq.ctag-');
}

async function directReplyTo(ctx) {
  const connection = await connect(ctx);
  const requester = await plain(connection);
  const server = await plain(connection);
  const queue = await declared(ctx, server);
  const replies = await Consumer.start(requester, 'amq.rabbitmq.reply-to', { noAck: true });
  const requests = await Consumer.start(server, queue, { noAck: true });
  const options = { replyTo: 'amq.rabbitmq.reply-to', correlationId: 'c-1' };
  requester.sendToQueue(queue, Buffer.from('request'), options);
  const [request] = await requests.wait(1);
  const { replyTo, correlationId } = request.properties;
  starts(replyTo, 'amq.rabbitmq.reply-to.');
  server.sendToQueue(replyTo, Buffer.from('reply'), { correlationId });
  const [reply] = await replies.wait(1);
  equal([reply.content.toString(), reply.properties.correlationId], ['reply', 'c-1']);
}

module.exports = {
  'consume-prefetch': prefetch,
  'qos-per-consumer': qosPerConsumer,
  'ack-multiple': ackMultiple,
  'nack-requeue-order': nackRequeueOrder,
  'nack-discard': nackDiscard,
  'reject-requeue': rejectRequeue,
  'reject-discard': rejectDiscard,
  'basic-get': basicGet,
  'basic-get-empty': basicGetEmpty,
  'basic-recover': basicRecover,
  'unknown-delivery-tag-406': unknownDeliveryTag,
  'consumer-cancel': consumerCancel,
  'consumer-cancel-notify': consumerCancelNotify,
  'consumer-exclusive-403': consumerExclusive,
  'consumer-priority': consumerPriority,
  'consumer-tag-server-made': consumerTagServerMade,
  'direct-reply-to': directReplyTo,
};
