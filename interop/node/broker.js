// Starts, kills and restarts one broker node, or names the external one of INTEROP_URI.
'use strict';

const { spawn } = require('node:child_process');
const { once } = require('node:events');
const fs = require('node:fs');
const net = require('node:net');
const os = require('node:os');
const path = require('node:path');
const { setTimeout: pause } = require('node:timers/promises');

const START_DEADLINE_MS = Number(process.env.INTEROP_START_DEADLINE_S ?? 30) * 1000;
const HOST = '127.0.0.1';

function accepts(port) {
  return new Promise((resolve) => {
    const socket = net.connect(port, HOST);
    socket.on('connect', () => resolve(true)).on('error', () => resolve(false));
    socket.on('connect', () => socket.destroy());
  });
}

function binds(port) {
  return new Promise((resolve) => {
    const probe = net.createServer().on('error', () => resolve(false));
    probe.listen(port, HOST, () => probe.close(() => resolve(true)));
  });
}

// Below the range of outgoing ports, so that it is still free when the node restarts on it.
async function freePort() {
  for (;;) {
    const port = 15000 + Math.floor(Math.random() * 17000);
    if (await binds(port)) return port;
  }
}

/** A broker process on a port and directory that both outlive a restart. */
class Node {
  /** With `http: true` its HTTP API has a port of its own, too. */
  static async create({ http = false } = {}) {
    const node = new Node();
    node.host = HOST;
    node.port = await freePort();
    node.httpPort = http ? await freePort() : null;
    node.root = fs.mkdtempSync(path.join(os.tmpdir(), 'leveret-interop-'));
    node.logPath = path.join(node.root, 'node.log');
    return node.start();
  }

  async start() {
    const log = fs.openSync(this.logPath, 'a');
    const logStart = fs.fstatSync(log).size;
    const listener = `listeners.tcp.1=${HOST}:${this.port}`;
    const args = ['server', '--data-dir', path.join(this.root, 'data'), '--set', listener];
    if (this.httpPort) args.push('--set', `management.tcp.ip=${HOST}`, '--set', `management.tcp.port=${this.httpPort}`);
    this.process = spawn(process.env.LEVERET_BIN, args, { stdio: ['ignore', log, log] });
    this.process.on('error', () => {}); // shows as an exit below
    fs.closeSync(log);
    const deadline = Date.now() + START_DEADLINE_MS;
    while (!(await this.isReady(logStart))) {
      if (!this.isRunning()) throw new Error(`node exited with ${this.process.exitCode}:\n${this.logTail()}`);
      if (Date.now() > deadline) throw new Error(`node not ready in ${START_DEADLINE_MS} ms:\n${this.logTail()}`);
      await pause(10);
    }
    return this;
  }

  async isReady(logStart) {
    const printed = fs.readFileSync(this.logPath).subarray(logStart).toString();
    return /\bready\b/.test(printed) || accepts(this.port);
  }

  isRunning() {
    return this.process.pid !== undefined && this.process.exitCode === null && this.process.signalCode === null;
  }

  /** Ends the process with the signal; resolves to its exit status (null when the signal ended it). */
  async end(signal) {
    const exited = once(this.process, 'exit');
    this.process.kill(signal);
    return (await exited)[0];
  }

  kill9() {
    return this.end('SIGKILL');
  }

  stop() {
    return this.end('SIGTERM');
  }

  logTail() {
    return fs.readFileSync(this.logPath, 'utf8').slice(-4000);
  }

  async destroy() {
    if (this.isRunning()) await this.kill9();
    fs.rmSync(this.root, { recursive: true, force: true });
  }
}

const external = process.env.INTEROP_URI ? new URL(process.env.INTEROP_URI) : null;

async function sharedNode() {
  if (!external) return Node.create();
  return {
    host: external.hostname,
    port: Number(external.port || 5672),
    logTail: () => '',
    destroy: async () => {},
  };
}

module.exports = { Node, external, sharedNode };
