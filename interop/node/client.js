// Connections, publishing and expectations in amqplib's words.
'use strict';

const { setTimeout: pause } = require('node:timers/promises');
const amqp = require('amqplib');
const { equal, starts, waitUntil } = require('./expect');

function url(node, options = {}) {
  return {
    protocol: 'amqp',
    hostname: node.host,
    port: node.port,
    username: 'guest',
    password: 'guest',
    vhost: '/',
    ...options,
  };
}

/** A connection to the node, or through the relay given as `at`; closed at the scenario's end. */
async function connect(ctx, { at = ctx.node, ...options } = {}) {
  const connection = await amqp.connect(url(at, options));
  connection.on('error', () => {}); // seen by the operation that fails
  ctx.onEnd(() => connection.close());
  return connection;
}

function quiet(channel) {
  channel.on('error', () => {});
  return channel;
}

async function plain(connection) {
  return quiet(await connection.createChannel());
}

async function confirming(connection) {
  return quiet(await connection.createConfirmChannel());
}

async function cleanUp(node, names) {
  const connection = await amqp.connect(url(node));
  const channel = await connection.createChannel();
  for (const name of names) {
    await channel.deleteQueue(name);
    await channel.deleteExchange(name);
  }
  await connection.close();
}

/** Publishes persistent messages and waits for their confirms. */
async function publish(channel, routingKey, bodies, { exchange = '', ...options } = {}) {
  for (const body of bodies) {
    channel.publish(exchange, routingKey, Buffer.from(body), { persistent: true, ...options });
  }
  await channel.waitForConfirms();
}

async function declared(ctx, channel, suffix = 'q', options = {}) {
  const queue = ctx.name(suffix);
  await channel.assertQueue(queue, { durable: true, ...options });
  return queue;
}

async function ready(channel, queue) {
  return (await channel.checkQueue(queue)).messageCount;
}

function waitReady(channel, queue, count) {
  return waitUntil(async () => (await ready(channel, queue)) === count, `${count} ready in ${queue}`);
}

/** Everything ready in the queue, with no-ack. */
async function getAll(channel, queue) {
  const messages = [];
  for (;;) {
    const message = await channel.get(queue, { noAck: true });
    if (message === false) return messages;
    messages.push(message);
  }
}

function bodiesOf(messages) {
  return messages.map((message) => message.content.toString());
}

async function bodies(channel, queue) {
  return bodiesOf(await getAll(channel, queue));
}

function withRedelivered(messages) {
  return messages.map((message) => [message.content.toString(), message.fields.redelivered]);
}

function numbers(from, to) {
  return Array.from({ length: to - from }, (_, index) => String(from + index));
}

/** A connection, a confirm channel and a queue holding bodies 0..count-1. */
async function filled(ctx, count, suffix = 'q') {
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const queue = await declared(ctx, channel, suffix);
  await publish(channel, queue, numbers(0, count));
  return { connection, channel, queue };
}

/** Keeps what arrives; a cancel by the server sets `cancelled`. */
class Consumer {
  static async start(channel, queue, options) {
    const consumer = new Consumer();
    consumer.channel = channel;
    consumer.messages = [];
    consumer.cancelled = false;
    const { consumerTag } = await channel.consume(queue, (message) => consumer.onMessage(message), options);
    consumer.tag = consumerTag;
    return consumer;
  }

  onMessage(message) {
    if (message === null) this.cancelled = true;
    else this.messages.push(message);
  }

  async wait(count, deadlineMs) {
    await waitUntil(() => this.messages.length >= count, `${count} deliveries`, deadlineMs);
    equal(this.messages.length, count, 'deliveries');
    return this.messages;
  }

  stop() {
    return this.channel.cancel(this.tag);
  }
}

function tag(deliveryTag) {
  return { fields: { deliveryTag } };
}

function replyText(error) {
  return /with message "(.*)"$/s.exec(error.message)?.[1] ?? error.message;
}

/** `work(channel)` makes the server close that channel with this code and text; the connection survives. */
async function closesChannel(connection, code, text, work, { prefix = false, channel } = {}) {
  const victim = channel ?? (await confirming(connection));
  let closed = null;
  victim.on('error', (error) => {
    closed = error;
  });
  await Promise.resolve(work(victim)).catch(() => {}); // the channel's own error is what counts
  await waitUntil(() => closed, `channel closed with ${code} ${text}`);
  equal(closed.code, code, 'reply code');
  (prefix ? starts : equal)(replyText(closed), text, 'reply text');
  await (await connection.createChannel()).close();
}

function missingQueue(connection, queue) {
  const text = `NOT_FOUND - no queue '${queue}' in vhost '/'`;
  return closesChannel(connection, 404, text, (channel) => channel.checkQueue(queue));
}

/** Runs `work(connection, lost)` on a new connection each time the last one was lost. */
async function reconnecting(ctx, state, work) {
  while (!state.done) {
    try {
      const connection = await amqp.connect(url(ctx.node));
      connection.on('error', () => {});
      const lost = new Promise((resolve) => {
        connection.on('close', resolve);
      });
      ctx.onEnd(() => connection.close());
      await Promise.race([work(connection).then(() => lost), lost]);
    } catch {
      await pause(20); // before the next attempt to connect
    }
  }
}

module.exports = {
  Consumer,
  bodies,
  bodiesOf,
  cleanUp,
  closesChannel,
  confirming,
  connect,
  declared,
  filled,
  getAll,
  missingQueue,
  numbers,
  plain,
  publish,
  ready,
  reconnecting,
  replyText,
  tag,
  url,
  waitReady,
  withRedelivered,
};
