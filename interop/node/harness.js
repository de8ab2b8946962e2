// Runs scenarios one by one with a deadline and prints a line for each.
'use strict';

const { randomBytes } = require('node:crypto');
const { setTimeout: pause } = require('node:timers/promises');
const broker = require('./broker');
const { cleanUp } = require('./client');
const { Relay } = require('./relay');
const { Skip } = require('./expect');

const SCENARIO_DEADLINE_MS = 25_000;
const RESTART_DEADLINE_MS = 60_000;

/** One run of one scenario: where the broker is, the names it uses, what to clean up. */
class Context {
  constructor(library, scenario, node) {
    this.library = library;
    this.scenario = scenario;
    this.node = node;
    this.token = randomBytes(4).toString('hex');
    this.names = [];
    this.closers = [];
  }

  name(suffix = 'q') {
    const name = `interop.${this.library}.${this.scenario}.${suffix}.${this.token}`;
    this.names.push(name);
    return name;
  }

  onEnd(closer) {
    this.closers.unshift(closer);
  }

  async relay() {
    const relay = await Relay.open(this.node);
    this.onEnd(() => relay.close());
    return relay;
  }

  /** A node of this scenario alone, to be restarted. */
  async ownNode(options) {
    if (broker.external) throw new Skip('restarts need a node of our own');
    this.node = await broker.Node.create(options);
    this.onEnd(() => this.node.destroy());
    return this.node;
  }

  async close() {
    for (const closer of this.closers) {
      // The scenario's own outcome counts, not its clean-up, which must not hang either.
      await Promise.race([Promise.resolve().then(closer), pause(5000, null, { ref: false })]).catch(() => {});
    }
  }
}

function withDeadline(promise, deadlineMs) {
  let timer;
  const expired = new Promise((_, reject) => {
    const error = new Error(`hangs after ${deadlineMs} ms`);
    timer = setTimeout(() => reject(error), deadlineMs);
  });
  return Promise.race([promise, expired]).finally(() => clearTimeout(timer));
}

async function runOne(library, id, scenario, node) {
  const context = new Context(library, id, node);
  let failure = null;
  try {
    await withDeadline(scenario(context), id.startsWith('restart-') ? RESTART_DEADLINE_MS : SCENARIO_DEADLINE_MS);
  } catch (error) {
    failure = error ?? new Error('failed without an error');
  }
  await context.close();
  if (context.node === node) {
    await withDeadline(cleanUp(node, context.names), SCENARIO_DEADLINE_MS).catch((error) => {
      failure ??= new Error(`clean-up failed: ${error}`);
    });
  }
  return failure;
}

async function run(chosen, scenarios, library = 'amqplib') {
  const node = await broker.sharedNode();
  const tally = { passed: 0, failed: 0, skipped: 0 };
  try {
    for (const id of chosen) {
      const started = Date.now();
      const failure = await runOne(library, id, scenarios[id], node);
      const seconds = ((Date.now() - started) / 1000).toFixed(2);
      if (failure === null) {
        tally.passed += 1;
        console.log(`PASS ${library} ${id} (${seconds} s)`);
      } else if (failure instanceof Skip) {
        tally.skipped += 1;
        console.log(`SKIP ${library} ${id}: ${failure.message}`);
      } else {
        tally.failed += 1;
        console.log(`FAIL ${library} ${id}: ${String(failure).replaceAll('\n', ' ')}`);
        console.error(failure.stack);
      }
    }
    if (tally.failed) console.error(node.logTail());
  } finally {
    await node.destroy();
  }
  console.log(`${tally.passed} passed, ${tally.failed} failed, ${tally.skipped} skipped`);
  return tally.failed ? 1 : 0;
}

module.exports = { run };
