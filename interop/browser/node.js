// A node for the suite: started, asked by HTTP, stopped.

import { execFile, spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { createServer } from 'node:net';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { promisify } from 'node:util';

export function freePort() {
  return new Promise((resolve) => {
    const server = createServer().listen(0, '127.0.0.1', () => {
      const { port } = /** @type {any} */ (server.address());
      server.close(() => resolve(port));
    });
  });
}

export class Node {
  /** @param {string} label of the environment */
  constructor(label = 'Test <&>') {
    this.label = label;
    this.directory = mkdtempSync(join(tmpdir(), 'leveret-ui-'));
    this.child = null;
  }

  async start() {
    this.amqp ??= await freePort();
    this.http ??= await freePort();
    this.prometheus ??= await freePort();
    this.url = `http://127.0.0.1:${this.http}`;
    const settings = { 'listeners.tcp.1': `127.0.0.1:${this.amqp}`, 'management.tcp.ip': '127.0.0.1', 'management.tcp.port': this.http, 'prometheus.tcp.ip': '127.0.0.1', 'prometheus.tcp.port': this.prometheus, 'management.ui.label': this.label, 'management.ui.color': 'purple' };
    const words = Object.entries(settings).flatMap(([key, value]) => ['--set', `${key}=${value}`]);
    this.child = spawn(process.env.LEVERET_BIN ?? '', ['server', '--data-dir', join(this.directory, 'data'), ...words], { stdio: ['ignore', 'pipe', 'ignore'] });
    let told = '';
    await new Promise((resolve, reject) => {
      this.child.on('exit', (code) => reject(new Error(`the node ended with ${code}: ${told}`)));
      this.child.on('error', reject);
      this.child.stdout.on('data', (data) => {
        told += data;
        if (/\bready\b/.test(told)) resolve(undefined);
      });
    });
  }

  async stop() {
    const ended = new Promise((resolve) => { this.child.removeAllListeners('exit').on('exit', resolve); });
    this.child.kill('SIGTERM');
    await ended;
  }

  end() {
    this.child?.removeAllListeners('exit');
    this.child?.kill('SIGKILL');
    rmSync(this.directory, { recursive: true, force: true });
  }

  /** `leveret ctl`. @param {...string} words */
  async ctl(...words) {
    return (await promisify(execFile)(process.env.LEVERET_BIN ?? '', ['ctl', ...words, '--data-dir', join(this.directory, 'data')])).stdout;
  }

  /** @param {string} method @param {string} path @param {any} [body] */
  async ask(method, path, body) {
    const headers = { authorization: `Basic ${Buffer.from('guest:guest').toString('base64')}`, 'content-type': 'application/json' };
    const ask = () => fetch(`${this.url}/api${path}`, { method, headers, body: body === undefined ? undefined : JSON.stringify(body) });
    // A connection that a busy machine let go idle is closed; what may be asked for twice is asked for again.
    const answer = await (method === 'POST' ? ask() : ask().catch(ask));
    const text = await answer.text();
    if (!answer.ok && answer.status !== 404) throw new Error(`${method} ${path}: ${answer.status} ${text}`);
    return { status: answer.status, data: text ? JSON.parse(text) : null };
  }
}
