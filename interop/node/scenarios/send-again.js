// The publisher of docs/confirm-after-consume.md, which sends again what is not confirmed.
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const { equal, waitUntil } = require('../expect');
const { confirming, reconnecting } = require('../client');

const PROGRAM = path.join(__dirname, '..', 'examples', 'resend.js');
const JOBS = 2000;
const HELD = 'job-1901'; // is published once the node has been killed for the last time
const DEADLINE_MS = 45_000;

/** Acknowledges jobs; refuses one in ten the first time, and holds one until it is sent again. */
async function work({ queue, seen, acknowledged }, connection) {
  const channel = await confirming(connection);
  await channel.assertQueue(queue, { durable: true, arguments: { 'x-confirm-on': 'ack' } });
  await channel.prefetch(50);
  await channel.consume(queue, (message) => {
    const job = message.properties.messageId;
    seen.set(job, (seen.get(job) ?? 0) + 1);
    const isFirst = seen.get(job) === 1;
    if (isFirst && job.endsWith('0')) {
      channel.nack(message, false, false);
    } else if (!isFirst || job !== HELD) {
      channel.ack(message);
      acknowledged.add(job);
    }
  });
}

async function sendAgain(ctx) {
  const state = { done: false, queue: ctx.name(), seen: new Map(), acknowledged: new Set() };
  const node = await ctx.ownNode();
  ctx.onEnd(() => {
    state.done = true;
  });
  const worker = reconnecting(ctx, state, (connection) => work(state, connection));
  const uri = `amqp://guest:guest@${node.host}:${node.port}`;
  const env = { ...process.env, RESEND_TIMEOUT_S: '1' };
  const publisher = spawn(process.execPath, [PROGRAM, uri, state.queue, String(JOBS)], { env, stdio: 'ignore' });
  ctx.onEnd(() => publisher.kill());
  const exited = once(publisher, 'exit');
  for (const count of [500, 1200]) {
    await Promise.race([worker, waitUntil(() => state.seen.size >= count, `${count} jobs`, DEADLINE_MS)]);
    await node.kill9();
    await node.start();
  }
  equal((await exited)[0], 0, 'exit status');
  const expected = Array.from({ length: JOBS }, (_, number) => `job-${number}`);
  equal(
    expected.filter((job) => !state.acknowledged.has(job)),
    [],
    'jobs that are not done',
  );
  equal(state.seen.get(HELD) > 1, true, 'published again without an answer');
}

module.exports = { 'restart-send-again': sendAgain };
