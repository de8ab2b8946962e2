// What survives kill -9 and a clean stop of the node.
'use strict';

const { equal, waitUntil } = require('../expect');
const { bodies, confirming, connect, getAll, missingQueue, publish, reconnecting } = require('../client');

const RECOVERY_MESSAGES = 1000;
const KILL_AFTER = 300;

/** Definitions and messages before the restart; all that must be there after it. */
async function fillAndRestart(ctx, restart) {
  const [outer, inner, plain, priorities, fleeting] = ['outer', 'inner', 'plain', 'arguments', 'fleeting'].map((kind) =>
    ctx.name(kind),
  );
  const priorityOptions = { durable: true, maxPriority: 3 };
  await ctx.ownNode();
  const before = await confirming(await connect(ctx));
  await before.assertExchange(outer, 'topic', { durable: true });
  await before.assertExchange(inner, 'fanout', { durable: true });
  await before.bindExchange(inner, outer, 'a.#');
  await before.assertQueue(plain, { durable: true });
  await before.assertQueue(priorities, priorityOptions);
  await before.bindQueue(priorities, inner, '');
  await before.assertQueue(fleeting, { durable: false });
  for (let i = 0; i < 1000; i += 1) {
    before.sendToQueue(plain, Buffer.from(`body ${i}`), { persistent: true, headers: { number: i } });
    if (i % 5 === 0) before.sendToQueue(plain, Buffer.from('transient'));
  }
  await before.waitForConfirms();

  await restart();
  const connection = await connect(ctx);
  const channel = await confirming(connection);
  const kept = (await getAll(channel, plain)).filter((message) => message.content.toString() !== 'transient');
  const expected = Array.from({ length: 1000 }, (_, i) => [`body ${i}`, i, 2]);
  const received = kept.map(({ content, properties }) => [
    content.toString(),
    properties.headers.number,
    properties.deliveryMode,
  ]);
  equal(received, expected, 'persistent messages');
  await channel.checkExchange(outer);
  await channel.assertExchange(outer, 'topic', { durable: true });
  await channel.assertQueue(priorities, priorityOptions);
  await publish(channel, 'a.b', ['routed'], { exchange: outer });
  equal(await bodies(channel, priorities), ['routed']);
  await missingQueue(connection, fleeting);
}

function durableSurvives(ctx) {
  return fillAndRestart(ctx, async () => {
    await ctx.node.kill9();
    await ctx.node.start();
  });
}

function cleanStopSurvives(ctx) {
  return fillAndRestart(ctx, async () => {
    equal(await ctx.node.stop(), 0, 'exit status after SIGTERM');
    await ctx.node.start();
  });
}

async function publishAll(state, queue, connection) {
  const channel = await confirming(connection);
  while (state.confirmed.length < RECOVERY_MESSAGES) {
    state.attempts += 1;
    const body = `${state.confirmed.length}:${state.attempts}`;
    await publish(channel, queue, [body]);
    state.confirmed.push(body);
  }
}

async function consumeAll(state, queue, connection) {
  const channel = await confirming(connection);
  await channel.prefetch(20);
  await channel.consume(queue, (message) => {
    if (message === null) return;
    const body = message.content.toString();
    if (!state.seen.has(body)) state.seen.set(body, []);
    state.seen.get(body).push(message.fields.redelivered);
    channel.ack(message);
  });
}

async function clientRecovery(ctx) {
  const queue = ctx.name();
  const node = await ctx.ownNode();
  await (await confirming(await connect(ctx))).assertQueue(queue, { durable: true });
  const state = { done: false, confirmed: [], attempts: 0, seen: new Map() };
  ctx.onEnd(() => {
    state.done = true;
  });
  const loops = [
    reconnecting(ctx, state, (connection) => publishAll(state, queue, connection)),
    reconnecting(ctx, state, (connection) => consumeAll(state, queue, connection)),
  ];
  await waitUntil(() => state.confirmed.length >= KILL_AFTER, 'confirms before the kill', 20_000);
  await node.kill9();
  await node.start();
  const complete = () =>
    state.confirmed.length === RECOVERY_MESSAGES && state.confirmed.every((body) => state.seen.has(body));
  await Promise.race([...loops, waitUntil(complete, 'every confirmed message consumed', 40_000)]);
  for (const [body, flags] of state.seen) {
    equal(flags.slice(1).every(Boolean), true, `redelivered flags of ${body} ${flags}`);
  }
}

module.exports = {
  'restart-durable-survives': durableSurvives,
  'restart-clean-stop-survives': cleanStopSurvives,
  'restart-client-recovery': clientRecovery,
};
