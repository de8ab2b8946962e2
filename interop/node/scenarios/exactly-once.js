// The publisher of docs/exactly-once.md, whose messages are in their queue once.
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const path = require('node:path');
const amqp = require('amqplib');
const { equal, waitUntil } = require('../expect');
const { connect, plain, url } = require('../client');

const PROGRAM = path.join(__dirname, '..', 'examples', 'once.js');
const JOBS = 10_000;
const DEADLINE_MS = 45_000;

async function countIn(ctx, queue) {
  const connection = await amqp.connect(url(ctx.node));
  const channel = await connection.createChannel();
  const options = { durable: true, arguments: { 'x-queue-type': 'quorum' } };
  const { messageCount } = await channel.assertQueue(queue, options);
  await connection.close();
  return messageCount;
}

async function exactlyOnce(ctx) {
  const queue = ctx.name();
  const node = await ctx.ownNode();
  const uri = `amqp://guest:guest@${node.host}:${node.port}`;
  const publisher = spawn(process.execPath, [PROGRAM, uri, queue, 'publisher', String(JOBS)], { stdio: 'ignore' });
  ctx.onEnd(() => publisher.kill());
  const exited = once(publisher, 'exit');
  for (const count of [2_000, 5_000]) {
    await waitUntil(async () => (await countIn(ctx, queue)) >= count, `${count} jobs`, DEADLINE_MS);
    await node.kill9();
    await node.start();
  }
  equal((await exited)[0], 0, 'exit status');
  const channel = await plain(await connect(ctx));
  const found = [];
  for (let message = await channel.get(queue, { noAck: true }); message; ) {
    found.push(message.content.toString());
    message = await channel.get(queue, { noAck: true });
  }
  equal(
    found,
    Array.from({ length: JOBS }, (_, number) => `job-${number}`),
    'jobs',
  );
}

module.exports = { 'restart-exactly-once': exactlyOnce };
