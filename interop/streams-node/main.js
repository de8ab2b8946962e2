// Runs the scenarios of interop/STREAMS.md with rabbitmq-stream-js-client.
'use strict';

const { execFile, spawn } = require('node:child_process');
const { randomBytes } = require('node:crypto');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: pause } = require('node:timers/promises');
const { promisify } = require('node:util');
const rabbit = require('rabbitmq-stream-js-client');

const LIBRARY = 'stream-js';
const WAIT_MS = 10_000;
const DEADLINE_MS = 25_000;
/** Who is thrown out hears of it within this time; the scenario's own deadline is what a test of a slow machine needs. */
const TOLD_MS = Number(process.env.INTEROP_TOLD_MS ?? 1000);
const HOST = '127.0.0.1';

class Skip extends Error {}

function equal(actual, expected, what) {
  const [a, b] = [JSON.stringify(actual), JSON.stringify(expected)];
  if (a !== b) throw new Error(`${what}: got ${a}, expected ${b}`);
}

async function within(ms, promise, what) {
  const expired = new AbortController();
  const late = pause(ms, null, { signal: expired.signal }).then(() => {
    throw new Error(`not within ${ms} ms: ${what}`);
  });
  try {
    return await Promise.race([promise, late]);
  } finally {
    late.catch(() => {});
    expired.abort();
  }
}

async function freePort() {
  const probe = net.createServer().listen(0, HOST);
  await once(probe, 'listening');
  const { port } = probe.address();
  probe.close();
  await once(probe, 'close');
  return port;
}

/** A broker process. */
class Node {
  async start() {
    [this.host, this.port] = [HOST, await freePort()];
    this.root = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-interop-'));
    this.data = path.join(this.root, 'data');
    this.logPath = path.join(this.root, 'node.log');
    const log = fs.openSync(this.logPath, 'a');
    const settings = [
      `listeners.tcp.1=${HOST}:${await freePort()}`,
      `stream.listeners.tcp.1=${HOST}:${this.port}`,
      `stream.advertised_host=${HOST}`,
    ];
    const words = settings.flatMap((setting) => ['--set', setting]);
    this.process = spawn(process.env.LEVERET_BIN, ['server', '--data-dir', this.data, ...words], {
      stdio: ['ignore', log, log],
    });
    fs.closeSync(log);
    const deadline = Date.now() + 30_000;
    while (!/\bready\b/.test(this.log())) {
      if (this.process.exitCode !== null || Date.now() > deadline) throw new Error(`no node: ${this.log()}`);
      await pause(10);
    }
    return this;
  }

  log() {
    return fs.readFileSync(this.logPath, 'utf8').slice(-4000);
  }

  ctlCommand() {
    return [process.env.LEVERET_BIN, 'ctl', '--data-dir', this.data];
  }

  async end(signal) {
    if (this.process.exitCode !== null || this.process.signalCode !== null) return;
    const exited = once(this.process, 'exit');
    this.process.kill(signal);
    await exited;
  }

  async destroy() {
    await this.end('SIGKILL');
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

/** Stands where a node stands when the broker is not ours. */
class External {
  constructor(uri) {
    [this.host, this.port] = [uri.hostname, Number(process.env.INTEROP_STREAM_PORT ?? 5552)];
  }
  log() {
    return '';
  }
  ctlCommand() {
    return (process.env.INTEROP_CTL ?? '').split(' ').filter((word) => word);
  }
  async destroy() {}
}

async function ctl(node, ...words) {
  const [command, ...rest] = node.ctlCommand();
  if (!command) throw new Skip('the command-line tool needs a node of our own, or INTEROP_CTL');
  await promisify(execFile)(command, [...rest, '-q', ...words]);
}

function address(node, more = {}) {
  const { host: hostname, port } = node;
  return { hostname, port, username: 'guest', password: 'guest', vhost: '/', ...more };
}

function text(number) {
  return Buffer.from(String(number));
}

/** The first texts from an offset on. */
async function read(client, stream, offset, count) {
  const texts = [];
  const all = new Promise((resolve) => {
    const take = (message) => {
      texts.push(message.content.toString());
      if (texts.length === count) resolve();
    };
    client.declareConsumer({ stream, offset }, take).catch(resolve);
  });
  await within(WAIT_MS, all, `${count} messages`);
  return texts.slice(0, count);
}

function numbers(begin, end) {
  return Array.from({ length: end - begin }, (_, at) => String(begin + at));
}

/** A publisher and a consumer of a user and a virtual host of their own, and who is told of their ends. */
async function guests(node, name) {
  const [username, vhost] = [`hare-${name}`, `burrow-${name}`];
  await ctl(node, 'add_user', username, 'ears');
  await ctl(node, 'add_vhost', vhost);
  await ctl(node, 'set_permissions', '-p', vhost, username, '.*', '.*', '.*');
  const ends = [];
  const told = () => new Promise((resolve) => ends.push(resolve));
  const [locator, publishes, consumes] = [told(), told(), told()];
  const [ofLocator, ofPublisher, ofConsumer] = ends;
  const listeners = { connection_closed: ofLocator };
  const client = await rabbit.connect(address(node, { username, password: 'ears', vhost, listeners }));
  const stream = 's';
  await client.createStream({ stream, arguments: {} });
  await client.declarePublisher({ stream, connectionClosedListener: ofPublisher });
  const offset = rabbit.Offset.first();
  await client.declareConsumer({ stream, offset, connectionClosedListener: ofConsumer }, () => {});
  return { username, vhost, told: Promise.all([locator, publishes, consumes]) };
}

const scenarios = {
  ...require('./list'),

  async 'stream-publish-confirm'(node, name) {
    const client = await rabbit.connect(address(node));
    await client.createStream({ stream: name, arguments: {} });
    const publisher = await client.declarePublisher({ stream: name });
    const confirmed = new Promise((resolve) => {
      let n = 0;
      publisher.on('publish_confirm', (_error, ids) => (n += ids.length) === 10_000 && resolve());
    });
    for (let number = 0; number < 10_000; number += 1) await publisher.send(text(number));
    await publisher.flush();
    await within(WAIT_MS, confirmed, '10,000 confirms');
    equal(await read(client, name, rabbit.Offset.first(), 10_000), numbers(0, 10_000), 'messages');
    equal(await read(client, name, rabbit.Offset.offset(777n), 10), numbers(777, 787), 'from an offset');
    await client.close();
    // A client with a consumer of it does not come to its end after that, on no broker.
    const other = await rabbit.connect(address(node));
    await other.deleteStream({ stream: name });
    await other.close();
  },

  async 'stream-thrown-out'(node, name) {
    const ways = [
      (_username, vhost) => ctl(node, 'close_all_connections', '-p', vhost, 'enough'),
      (username) => ctl(node, 'delete_user', username),
      (_username, vhost) => ctl(node, 'delete_vhost', vhost),
    ];
    for (const [at, throwOut] of ways.entries()) {
      const { username, vhost, told } = await guests(node, `${name}-${at}`);
      await throwOut(username, vhost);
      await within(TOLD_MS, told, `way ${at} is told`);
      // One of them is gone already.
      await ctl(node, 'delete_user', username).catch(() => {});
      await ctl(node, 'delete_vhost', vhost).catch(() => {});
    }
  },

  async 'restart-stream-thrown-out'(_shared, name) {
    if (process.env.INTEROP_URI) throw new Skip('ends need a node of our own');
    const node = await new Node().start();
    try {
      const { told } = await guests(node, name);
      const ended = node.end('SIGTERM');
      await within(TOLD_MS, told, 'the end of the node is told');
      await ended;
    } finally {
      await node.destroy();
    }
  },
};

async function main(only) {
  const tally = { passed: 0, failed: 0, skipped: 0 };
  const node = process.env.INTEROP_URI ? new External(new URL(process.env.INTEROP_URI)) : await new Node().start();
  // The library throws some errors where nobody can catch them: then all has failed.
  process.on('uncaughtException', (error) => {
    console.log(`FAIL ${LIBRARY} uncaught: ${error}`);
    node.process?.kill('SIGKILL');
    process.exit(1);
  });
  try {
    for (const [id, scenario] of Object.entries(scenarios)) {
      if (only.length && !only.includes(id)) continue;
      const name = `interop.${LIBRARY}.${id}.${randomBytes(4).toString('hex')}`;
      try {
        await within(DEADLINE_MS, scenario(node, name), id);
        tally.passed += 1;
        console.log(`PASS ${LIBRARY} ${id}`);
      } catch (error) {
        const isSkip = error instanceof Skip;
        tally[isSkip ? 'skipped' : 'failed'] += 1;
        console.log(`${isSkip ? 'SKIP' : 'FAIL'} ${LIBRARY} ${id}: ${String(error).replaceAll('\n', ' ')}`);
        if (!isSkip) console.error(error.stack, node.log());
      }
    }
  } finally {
    await node.destroy();
  }
  console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`);
  return tally.failed ? 1 : 0;
}

main(process.argv.slice(2)).then((status) => process.exit(status));
