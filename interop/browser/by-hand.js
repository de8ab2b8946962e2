// What of the web UI is made by hand: by-hand.js lighthouse | updates [minutes] | pictures | tasks [RabbitMQ's address]

import { spawn } from 'node:child_process';
import { mkdtempSync, rmSync } from 'node:fs';
import { tmpdir } from 'node:os';
import { join } from 'node:path';
import { chromium } from 'playwright-core';
import { Node, freePort } from './node.js';
import { pictures } from './pictures.js';
import { logIn } from './scenarios.js';
import { seed } from './seed.js';
import { tasks } from './tasks.js';

const PAGES = ['#/', '#/queues', '#/queues/%2F/paid', '#/queues/%2F/paid?tab=messages'];
/** How much faster than each second figures come in `updates`. */
const FASTER = 20;
const WAIT_MS = 60000;

const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** The scores of Lighthouse, as it judges phones and as it judges desktops. */
async function lighthouse(node, browser, port) {
  const library = './node_modules/.by-hand/node_modules/lighthouse';
  const [{ default: judge }, { default: desktop }] = await Promise.all([import(`${library}/core/index.js`), import(`${library}/core/config/desktop-config.js`)]);
  const judged = async (hash) => {
    for (const [form, config] of [['phone', undefined], ['desktop', desktop]]) {
      const flags = { port, output: 'json', logLevel: 'error', disableStorageReset: true, onlyCategories: ['performance', 'accessibility', 'best-practices'] };
      const { lhr } = await judge(`${node.url}/${hash}`, flags, config);
      const scores = Object.values(lhr.categories).map((it) => `${it.id} ${Math.round(100 * it.score)}`);
      const below = Object.values(lhr.audits).filter((it) => it.score !== null && it.score < 0.9 && it.scoreDisplayMode !== 'informative').map((it) => `${it.id} ${it.displayValue ?? ''}`.trim());
      console.log(`${form} ${hash || 'login'}: ${scores.join(', ')}${below.length > 0 ? `; ${below.join(', ')}` : ''}`);
    }
  };
  await judged('');
  await logIn({ page: await browser.newPage(), node });
  for (const hash of PAGES) await judged(hash);
}

/** Has figures come each `every` ms: those of twenty seconds, in turn and again and again, so that what grows is the page's own. */
function hasten(every) {
  const real = window.fetch;
  const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });
  window.fetch = async (address, init) => {
    if (!String(address).includes('/api/live?')) return real(address, init);
    const topics = new URL(String(address), location.href).searchParams.getAll('topics');
    const stopped = () => init?.signal?.aborted;
    const known = topics.map(() => /** @type {string[]} */ ([]));
    const look = () => Promise.all(topics.map(async (topic, at) => {
      const answer = await real(`/api${topic}`, { headers: { 'x-requested-with': 'leveret' } });
      if (answer.ok) known[at] = [...known[at], `event: shown\nid: ${topic}\ndata: ${await answer.text()}\n\n`];
    }));
    await look();
    (async () => { for (let n = 1; n < 20 && !stopped(); n += 1) { await pause(1000); await look(); } })();
    let n = 0;
    return new Response(new ReadableStream({
      async pull(out) {
        await pause(every);
        if (stopped()) return out.close();
        n += 1;
        for (const frames of known) if (frames.length > 0) out.enqueue(new TextEncoder().encode(frames[n % frames.length]));
        /** @type {any} */ (window).frames_ = (/** @type {any} */ (window).frames_ ?? 0) + 1;
      },
    }));
  };
}

async function seen(page, client) {
  await client.send('HeapProfiler.collectGarbage');
  const { metrics } = await client.send('Performance.getMetrics');
  const of = (name) => metrics.find((it) => it.name === name)?.value ?? 0;
  const frames = await page.evaluate(() => /** @type {any} */ (window).frames_ ?? 0);
  const script = of('ScriptDuration') + of('LayoutDuration') + of('RecalcStyleDuration');
  return { heap: of('JSHeapUsedSize'), nodes: of('Nodes'), busy: of('TaskDuration'), script, at: of('Timestamp'), frames };
}

const told = (name, all) => {
  const [first, last] = [all[0], all[all.length - 1]];
  const share = (key) => ((100 * (last[key] - first[key])) / (last.at - first.at)).toFixed(2);
  console.log(`${name}: ${share('busy')} % of a core, ${share('script')} % in scripts and layout; heap ${all.map((it) => (it.heap / 1024).toFixed(0)).join(', ')} KiB; nodes ${all.map((it) => it.nodes).join(', ')}; ${last.frames} times new figures`);
};

/** Pages while nothing happens and under load, and their heap over an hour of updates. */
async function updates(node, browser, minutes) {
  const load = () => spawn(process.env.LEVERET_BIN ?? '', ['perf', '-h', `amqp://guest:guest@127.0.0.1:${node.amqp}`, '-x', '5', '-y', '5', '-r', '200', '-qp', 'load-%d', '-qpf', '1', '-qpt', '5', '--progress', 'false'], { stdio: 'ignore' });
  await logIn({ page: await browser.newPage(), node });
  const measured = async (name, hash, ms, fast = false) => {
    const page = await browser.newPage();
    if (fast) await page.addInitScript(hasten, 1000 / FASTER);
    await page.goto(`${node.url}/${hash}`);
    await page.waitForSelector('.page table, .page .tile');
    const client = await page.context().newCDPSession(page);
    await client.send('Performance.enable');
    await pause(30000);
    const all = [await seen(page, client)];
    for (let part = 0; part < 3; part += 1) {
      await pause(ms / 3);
      all.push(await seen(page, client));
    }
    told(`${name} ${hash}`, all);
    await page.close();
  };
  for (const hash of PAGES.slice(0, 2)) await measured('idle', hash, WAIT_MS);
  const perf = load();
  for (const hash of PAGES.slice(0, 2)) await measured('under load', hash, WAIT_MS);
  for (const hash of PAGES.slice(0, 2)) await measured('an hour of updates', hash, (minutes * 60000) / FASTER, true);
  perf.kill();
}

const [kind, word] = process.argv.slice(2);
const node = new Node(kind === 'pictures' ? 'staging' : undefined);
const profile = mkdtempSync(join(tmpdir(), 'leveret-by-hand-'));
let browser;
try {
  await node.start();
  if (kind !== 'pictures' && kind !== 'tasks') await seed(node);
  const port = await freePort();
  browser = await chromium.launchPersistentContext(profile, { executablePath: process.env.CHROMIUM ?? '/usr/bin/chromium', args: ['--no-sandbox', `--remote-debugging-port=${port}`] });
  if (kind === 'lighthouse') await lighthouse(node, browser, port);
  else if (kind === 'pictures') await pictures(node, browser);
  else if (kind === 'tasks') await tasks(node, browser, word);
  else await updates(node, browser, Number(word ?? 60));
} finally {
  await browser?.close();
  node.end();
  rmSync(profile, { recursive: true, force: true });
}
