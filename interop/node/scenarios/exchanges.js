// Exchanges and routing.
'use strict';

const { equal } = require('../expect');
const { bodies, closesChannel, confirming, connect, declared, getAll, publish } = require('../client');

async function exchangeOf(ctx, channel, kind, suffix = 'x', options = {}) {
  const exchange = ctx.name(suffix);
  await channel.assertExchange(exchange, kind, { durable: true, ...options });
  return exchange;
}

async function boundQueue(ctx, channel, exchange, suffix, keys, args) {
  const queue = await declared(ctx, channel, suffix);
  for (const key of keys) await channel.bindQueue(queue, exchange, key, args);
  return queue;
}

async function direct(ctx) {
  const channel = await confirming(await connect(ctx));
  const exchange = await exchangeOf(ctx, channel, 'direct');
  const first = await boundQueue(ctx, channel, exchange, 'q1', ['a']);
  const second = await boundQueue(ctx, channel, exchange, 'q2', ['a', 'b']);
  for (const key of ['a', 'b', 'c']) await publish(channel, key, [key], { exchange });
  equal(await bodies(channel, first), ['a']);
  equal(await bodies(channel, second), ['a', 'b']);
}

async function fanout(ctx) {
  const channel = await confirming(await connect(ctx));
  const exchange = await exchangeOf(ctx, channel, 'fanout');
  const first = await boundQueue(ctx, channel, exchange, 'q1', ['one']);
  const second = await boundQueue(ctx, channel, exchange, 'q2', ['two']);
  await publish(channel, 'three', ['1'], { exchange });
  await publish(channel, '', ['2'], { exchange });
  equal(await bodies(channel, first), ['1', '2']);
  equal(await bodies(channel, second), ['1', '2']);
}

async function topic(ctx) {
  const channel = await confirming(await connect(ctx));
  const exchange = await exchangeOf(ctx, channel, 'topic');
  const published = ['a.b.c', 'a..c', 'a', 'a.b.c.d', '', 'x'];
  const expected = {
    'a.*.c': ['a.b.c', 'a..c'],
    'a.#': ['a.b.c', 'a..c', 'a', 'a.b.c.d'],
    '#': published,
    '*': ['a', 'x'],
  };
  const queues = {};
  for (const [index, pattern] of Object.keys(expected).entries()) {
    queues[pattern] = await boundQueue(ctx, channel, exchange, `q${index}`, [pattern]);
  }
  for (const key of published) await publish(channel, key, ['m'], { exchange });
  for (const [pattern, queue] of Object.entries(queues)) {
    const keys = (await getAll(channel, queue)).map((message) => message.fields.routingKey);
    equal(keys, expected[pattern], `keys matched by ${pattern}`);
  }
}

/** Publishes each header set under a number; expects each binding's list of numbers. */
function headersCase(bindings, published) {
  return async (ctx) => {
    const channel = await confirming(await connect(ctx));
    const exchange = await exchangeOf(ctx, channel, 'headers');
    const queues = [];
    for (const [index, [args]] of bindings.entries()) {
      queues.push(await boundQueue(ctx, channel, exchange, `q${index}`, [''], args));
    }
    for (const [index, headers] of published.entries()) {
      await publish(channel, '', [String(index + 1)], { exchange, headers });
    }
    for (const [index, [args, expected]] of bindings.entries()) {
      const matched = (await bodies(channel, queues[index])).map(Number);
      equal(matched, expected, `matched by ${JSON.stringify(args)}`);
    }
  };
}

async function defaultExchange(ctx) {
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const queue = await declared(ctx, channel);
  await publish(channel, queue, ["to the queue's name"]);
  equal(await bodies(channel, queue), ["to the queue's name"]);
  const text = 'ACCESS_REFUSED - operation not permitted on the default exchange';
  await closesChannel(connection, 403, text, (victim) => victim.bindQueue(queue, '', 'another-name'));
}

async function alternate(ctx) {
  const channel = await confirming(await connect(ctx));
  const alternateExchange = await exchangeOf(ctx, channel, 'fanout', 'ae');
  const exchange = await exchangeOf(ctx, channel, 'direct', 'x', { alternateExchange });
  const routed = await boundQueue(ctx, channel, exchange, 'q1', ['a']);
  const unrouted = await boundQueue(ctx, channel, alternateExchange, 'q2', ['']);
  const returned = [];
  channel.on('return', (message) => returned.push(message));
  await publish(channel, 'a', ['a'], { exchange });
  await publish(channel, 'b', ['b'], { exchange, mandatory: true });
  equal(await bodies(channel, routed), ['a']);
  const [message] = await getAll(channel, unrouted);
  equal([message.fields.exchange, message.fields.routingKey], [exchange, 'b']);
  equal(returned, []);
}

async function internal(ctx) {
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const inner = await exchangeOf(ctx, channel, 'fanout', 'i', { internal: true });
  const outer = await exchangeOf(ctx, channel, 'direct');
  await channel.bindExchange(inner, outer, 'k');
  const queue = await boundQueue(ctx, channel, inner, 'q', ['']);
  await publish(channel, 'k', ['through'], { exchange: outer });
  equal(await bodies(channel, queue), ['through']);
  const text = `ACCESS_REFUSED - cannot publish to internal exchange '${inner}' in vhost '/'`;
  await closesChannel(connection, 403, text, (victim) => publish(victim, 'k', ['refused'], { exchange: inner }));
}

async function autoDelete(ctx) {
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const exchange = await exchangeOf(ctx, channel, 'fanout', 'x', { autoDelete: true });
  const first = await boundQueue(ctx, channel, exchange, 'q1', ['']);
  const second = await boundQueue(ctx, channel, exchange, 'q2', ['']);
  await channel.unbindQueue(first, exchange, '');
  await channel.checkExchange(exchange);
  await channel.unbindQueue(second, exchange, '');
  const text = `NOT_FOUND - no exchange '${exchange}' in vhost '/'`;
  await closesChannel(connection, 404, text, (victim) => victim.checkExchange(exchange));
}

async function exchangeToExchange(ctx) {
  const channel = await confirming(await connect(ctx));
  const source = await exchangeOf(ctx, channel, 'topic', 's');
  const destination = await exchangeOf(ctx, channel, 'fanout', 'd');
  await channel.bindExchange(destination, source, 'a.#');
  await channel.bindExchange(source, destination, 'a.#');
  const queue = await boundQueue(ctx, channel, destination, 'q', ['']);
  await publish(channel, 'a.b', ['yes'], { exchange: source });
  await publish(channel, 'z', ['no'], { exchange: source });
  equal(await bodies(channel, queue), ['yes']);
  await channel.unbindExchange(destination, source, 'a.#');
  const returned = [];
  channel.on('return', (message) => returned.push(message.content.toString()));
  await publish(channel, 'a.b', ['unbound'], { exchange: source, mandatory: true });
  equal(returned, ['unbound']);
}

async function passiveMissing(ctx) {
  const connection = await connect(ctx);
  const queue = ctx.name('q');
  const exchange = ctx.name('x');
  const noQueue = `NOT_FOUND - no queue '${queue}' in vhost '/'`;
  await closesChannel(connection, 404, noQueue, (victim) => victim.checkQueue(queue));
  const noExchange = `NOT_FOUND - no exchange '${exchange}' in vhost '/'`;
  await closesChannel(connection, 404, noExchange, (victim) => victim.checkExchange(exchange));
}

async function redeclareInequivalent(ctx) {
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const exchange = await exchangeOf(ctx, channel, 'direct');
  const queue = ctx.name('q');
  await channel.assertQueue(queue, { durable: true, messageTtl: 60000 });
  await channel.assertQueue(queue, { durable: true, messageTtl: 60000 });
  const ttl =
    `PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '${queue}' in vhost '/': ` +
    "received '70000' but current is '60000'";
  await closesChannel(connection, 406, ttl, (victim) => victim.assertQueue(queue, { durable: true, messageTtl: 70000 }));
  const type =
    `PRECONDITION_FAILED - inequivalent arg 'type' for exchange '${exchange}' in vhost '/': ` +
    "received 'fanout' but current is 'direct'";
  await closesChannel(connection, 406, type, (victim) => victim.assertExchange(exchange, 'fanout', { durable: true }));
}

module.exports = {
  'exchange-direct': direct,
  'exchange-fanout': fanout,
  'exchange-topic': topic,
  'exchange-headers-all': headersCase(
    [[{ 'x-match': 'all', k: 1, s: 'v' }, [1, 4]]],
    [{ k: 1, s: 'v' }, { k: 1 }, { k: '1', s: 'v' }, { k: 1, s: 'v', more: true }],
  ),
  'exchange-headers-any': headersCase(
    [[{ 'x-match': 'any', k: 1, s: 'v' }, [1, 2]]],
    [{ k: 1 }, { s: 'v' }, { k: 2, s: 'w' }, {}],
  ),
  'exchange-headers-all-with-x': headersCase(
    [
      [{ 'x-match': 'all-with-x', k: 1, 'x-tag': 't' }, [1]],
      [{ 'x-match': 'all', k: 1, 'x-tag': 't' }, [1, 2]],
    ],
    [{ k: 1, 'x-tag': 't' }, { k: 1 }],
  ),
  'exchange-headers-any-with-x': headersCase(
    [
      [{ 'x-match': 'any-with-x', k: 1, 'x-tag': 't' }, [1, 2]],
      [{ 'x-match': 'any', k: 1, 'x-tag': 't' }, [2]],
    ],
    [{ 'x-tag': 't' }, { k: 1 }, { k: 2 }],
  ),
  'exchange-default': defaultExchange,
  'exchange-alternate': alternate,
  'exchange-internal': internal,
  'exchange-auto-delete': autoDelete,
  'exchange-to-exchange': exchangeToExchange,
  'passive-missing-404': passiveMissing,
  'redeclare-inequivalent-406': redeclareInequivalent,
};
