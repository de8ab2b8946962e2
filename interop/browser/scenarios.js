// What people do with the UI. Each scenario waits for what it sees, for as long as a busy machine may take, and times
// nothing; `fed` alone measures, in time of its thread.

import assert from 'node:assert/strict';
import { readFileSync } from 'node:fs';
import { bytes } from '../../crates/ui/web/format.js';
import { Client } from './amqp.js';
import { DEAD, HOSTILE } from './seed.js';

/** Pages that must be right in each look. */
export const PAGES = [
  '#/', '#/?range=60', '#/exchanges', '#/exchanges/%2F/orders', '#/exchanges/%2F/orders?tab=bindings', '#/exchanges/%2F/amq.default?tab=try', '#/connections', '#/channels', '#/vhosts', '#/users', '#/users/clerk',
  '#/policies', '#/limits', '#/definitions', '#/log', '#/log?tab=events', '#/queues/%2F/paid?tab=tail', '#/parameters', '#/tracing', '#/reference?filter=jobs', '#/consumers', '#/delayed', '#/delayed/%2F/later', '#/exchanges/%2F/orders?tab=topology', '#/queues/%2F/failing?tab=topology', '#/node', '#/node?tab=settings', '#/node?tab=flags', '#/queues?filter=work-00', '#/queues/%2F/paid', '#/queues/%2F/paid?tab=messages', '#/queues/%2F/events?tab=messages', '#/queues/%2F/buried?tab=dead', '#/queues/%2F/paid?tab=consumers', '#/queues/%2F/paid?tab=bindings', '#/queues/%2F/work-001?tab=settings', '#/queues/%2F/events',
];

export async function logIn({ page, node }, hash = '', name = 'guest') {
  await page.goto(`${node.url}/${hash}`);
  await page.waitForSelector('.page h1, [name=username]');
  if (await page.locator('[name=username]').count() > 0) await fillIn(page, name);
  await page.waitForSelector('.page h1');
}

async function fillIn(page, name = 'guest') {
  await page.fill('[name=username]', name);
  await page.fill('[name=password]', name);
  await page.press('[name=password]', 'Enter');
}

/** Goes on once the page has told a result, which it shows for some seconds. */
const told = (page, text) => page.waitForFunction((it) => /** @type {any} */ (window).told.some((note) => note.includes(it)), text);

/** Asks again and again until something is so. @param {() => Promise<any>} is @param {string} what */
async function until(is, what) {
  for (const end = Date.now() + UNTIL_MS; !(await is());) {
    assert.ok(Date.now() < end, what);
    await new Promise((resolve) => { setTimeout(resolve, 200); });
  }
}
/** More than a consumer takes to be called hung, on a busy machine, ms. */
const UNTIL_MS = 240000;

/** What scenarios need that takes its time, begun before the first of them: consumers that hang (with a prefetch limit, without one, of a stream), and a slow one. Returns what ends it. @param {any} node @param {string[]} ids */
export async function prepare(node, ids) {
  if (!ids.includes('hung')) return () => {};
  const clients = [];
  for (const [name, prefetch] of /** @type {[string, number][]} */ ([['hung', 1], ['slow', 1], ['hung-free', 0], ['hung-stream', 9]])) {
    await node.ask('PUT', `/queues/%2F/${name}`, { durable: true, arguments: name === 'hung-stream' ? { 'x-queue-type': 'stream' } : {} });
    const client = await Client.open(node.amqp, `${name}-worker`);
    clients.push(client);
    const publish = () => { for (let n = 0; n < (prefetch === 1 ? 500 : 3); n += 1) client.publish(name, 'x'); };
    if (prefetch === 1) publish();
    await client.consume(name, `${name}-tag`, prefetch);
    // A stream's consumer begins behind what is there.
    if (prefetch !== 1) publish();
  }
  const timer = setInterval(() => clients[1].acknowledge(), 1000);
  return () => {
    clearInterval(timer);
    clients.forEach((it) => it.close());
  };
}

/** Goes to an address, and on once its page is there. */
async function go({ page, node }, hash) {
  await page.goto(`${node.url}/${hash}`);
  await page.waitForFunction(() => document.querySelector('.page')?.getAttribute('data-address') === location.hash && location.hash !== '');
}

const rows = (page) => page.locator('table.rows tbody tr');

async function names(page) {
  return page.locator('table.rows tbody td:nth-child(2)').allInnerTexts();
}

/** Goes on once a list shows so many rows. */
const hasRows = (page, n) => page.waitForFunction((count) => document.querySelectorAll('table.rows tbody tr').length === count && !document.querySelector('.ghost'), n);

/** Rules of axe that a theme may break where another does not. */
const OF_THEMES = ['color-contrast', 'link-in-text-block', 'target-size', 'scrollable-region-focusable'];

/** Opens pages, and looks at each in every theme and on a phone. All rules are judged wide in light, and narrow in dark or contrast in turn. */
async function openPages(it, hashes) {
  const { page } = it;
  const isWide = () => page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
  await logIn(it);
  for (const [at, hash] of hashes.entries()) {
    await go(it, hash);
    await page.waitForFunction(() => !document.querySelector('.ghost') && document.querySelector('.card, .rows, .why, .lead, main .live'));
    for (const theme of at % 2 === 0 ? ['light', 'dark', 'contrast'] : ['light', 'contrast', 'dark']) {
      await page.evaluate((id) => /** @type {HTMLElement} */ (document.querySelector(`input[name=theme][value=${id}]`)).click(), theme);
      await page.waitForFunction((id) => document.documentElement.dataset.theme === id, theme);
      assert.deepEqual(await it.judged(theme === 'light' ? [] : OF_THEMES), [], `${hash} ${theme}`);
    }
    assert.equal(await isWide(), false, `${hash} is wider than the window`);
    await page.setViewportSize({ width: 320, height: 640 });
    assert.deepEqual(await it.judged(), [], `${hash} narrow`);
    assert.equal(await isWide(), false, `${hash} is wider than a phone`);
    await page.setViewportSize({ width: 1300, height: 900 });
  }
}

/** Pages of the first connection and channel. */
async function ofClients(node) {
  const { data } = await node.ask('GET', '/channels?columns=name,connection_details.name');
  return [`#/channels/${encodeURIComponent(data[0].name)}`, `#/connections/${encodeURIComponent(data[0].connection_details.name)}`];
}

/** Pages that are fed while somebody looks. */
const FED = ['#/', '#/queues', '#/queues/%2F/paid', '#/connections', '#/consumers', '#/log', '#/node', '#/exchanges/%2F/orders', '#/exchanges/%2F/orders?tab=tail'];
const FRAMES = 60;
/**
 * Part of a core that a fed page may take: CPU time of the page's main thread while frames come 50 a second, by the time
 * that passes meanwhile, less the CPU time that the test takes in that thread to make as many frames that nobody gets.
 * It counts parsing, building, patching, style and layout of the main thread; not what the browser's other threads draw,
 * and no time in which the thread waits for a core.
 */
const SHARE_MAX = 0.1;
/** Tries of which the one with the least counts: other work on the machine only ever adds, by caches and cores it shares. */
const TRIES = 6;

/** Has what the node would send by itself come from the test. It runs in the page. */
function takeFeeds() {
  const real = window.fetch;
  const feeds = /** @type {any[]} */ ((/** @type {any} */ (window)).feeds = []);
  window.fetch = async (address, init) => {
    if (!/\/api\/(live\?|.*\/tail\?)/.test(String(address))) return real(address, init);
    let feed;
    const body = new ReadableStream({ start(controller) { feed = controller; } });
    const one = { address: String(address), isOver: false, push: (text) => feed.enqueue(new TextEncoder().encode(text)) };
    init?.signal?.addEventListener('abort', () => {
      one.isOver = true;
      feed.error(new DOMException('', 'AbortError'));
    });
    feeds.push(one);
    return new Response(body);
  };
}

/** Feeds a page 50 frames a second, or makes them alone and as fast as timers go; tells how often it was drawn, rows that were made, and how long it took. It runs in the page. */
async function feed([frames, isDry]) {
  const is = (/** @type {any} */ feed) => !feed.isOver && feed.address.includes(location.hash.includes('tail') ? '/tail?' : '/live?');
  const feeds = (/** @type {any} */ (window)).feeds;
  while (!feeds.some(is)) await new Promise((resolve) => { setTimeout(resolve, 50); });
  const one = feeds.findLast(is);
  const push = isDry ? (/** @type {string} */ text) => new TextEncoder().encode(text) : one.push;
  const topics = new URL(one.address, location.href).searchParams.getAll('topics');
  const answers = await Promise.all(topics.map(async (topic) => [topic, await (await fetch(`/api${topic}`)).text()]));
  const [wanted] = answers.map(([topic, text]) => [topic, text, (text.match(/"rate":[\d.]+/g) ?? []).length]).sort((a, b) => b[2] - a[2]);
  let [draws, made] = [0, 0];
  const observer = new MutationObserver((records) => {
    draws += 1;
    made += records.flatMap((it) => [...it.addedNodes]).filter((it) => it.nodeName === 'TR').length;
  });
  observer.observe(document.body, { subtree: true, childList: true, characterData: true, attributes: true });
  const began = performance.now();
  for (let n = 0; n < frames; n += 1) {
    // The node is there.
    if (n % 25 === 0) feeds.filter((it) => !it.isOver && it.address.includes('/live?')).forEach((it) => it.push(':\n\n'));
    if (wanted) push(`id: ${wanted[0]}\nevent: shown\ndata: ${wanted[1].replace(/"rate":[\d.]+/, `"rate":${n + 1}.5`)}\n\n`);
    else push(`event: message\ndata: ${JSON.stringify({ exchange: 'orders', routing_key: `k${n}`, payload: `body ${n}`, payload_bytes: 6, payload_encoding: 'string', properties: { headers: { n } } })}\n\n`);
    await new Promise((resolve) => { setTimeout(resolve, isDry ? 0 : Math.max(0, began + n * 20 - performance.now())); });
  }
  const took = performance.now() - began;
  await new Promise((resolve) => { setTimeout(resolve, 200); });
  observer.disconnect();
  return { draws, made, took };
}

/** @type {[string, any, (it: any) => Promise<void>][]} */
export const SCENARIOS = [
  ['login', { isOut: true, expected: /401/ }, async (it) => {
    const { page, node } = it;
    await page.goto(`${node.url}/#/queues`);
    assert.deepEqual(await it.judged(), []);
    await page.fill('[name=username]', 'guest');
    await page.fill('[name=password]', 'wrong');
    await page.press('[name=password]', 'Enter');
    await page.waitForSelector('text=Name or password is wrong');
    await page.fill('[name=password]', 'guest');
    await page.press('[name=password]', 'Enter');
    await hasRows(page, 100);
    await page.reload();
    await hasRows(page, 100);
    await page.click('.menu-of summary[aria-label^=User]');
    await page.click('text=Log out');
    await page.waitForSelector('[name=username]');
    await page.reload();
    await page.waitForSelector('[name=username]');
  }],
  ['size', { own: true }, async ({ page, node }) => {
    const sizes = [];
    page.on('requestfinished', async (request) => {
      if (request.url().includes('/ui/') || request.url() === `${node.url}/`) sizes.push((await request.sizes()).responseBodySize);
    });
    await logIn({ page, node }, '#/queues');
    await hasRows(page, 100);
    const sum = sizes.reduce((all, size) => all + size, 0);
    assert.ok(sum <= 60 * 1024 && sizes.length <= 15, `${sizes.length} files, ${sum} bytes`);
    const answer = await page.request.get(await page.locator('link[rel=stylesheet]').evaluate((link) => link.href));
    assert.match(answer.headers()['cache-control'], /immutable/);
    const index = await page.request.get(`${node.url}/`);
    assert.match(index.headers()['content-security-policy'], /default-src 'none'.*require-trusted-types-for 'script'/);
    assert.equal(index.headers()['cache-control'], 'no-cache');
  }],
  ['list', {}, async (it) => {
    const { page } = it;
    await logIn(it, '#/queues');
    await hasRows(page, 100);
    await page.click('text=Next');
    await page.waitForURL(/page=2/);
    await hasRows(page, 44);
    await page.goBack();
    await hasRows(page, 100);
    await page.fill('[data-filter]', 'type:quorum');
    await hasRows(page, 1);
    assert.deepEqual(await names(page), ['paid']);
    await page.fill('[data-filter]', '/^work-00\\d$/ has:policy');
    await hasRows(page, 10);
    assert.match(page.url(), /filter=/);
    await page.reload();
    await hasRows(page, 10);
    await page.click('th >> text=Name');
    await page.waitForSelector('th[aria-sort]');
    await page.click('th >> text=Name');
    await page.waitForFunction(() => document.querySelector('table.rows tbody td:nth-child(2)')?.textContent === 'work-009');
    await page.fill('[data-filter]', 'idle>1h type:quorum');
    await hasRows(page, 0);
    await page.fill('[data-filter]', 'ready>');
    await page.waitForSelector('text=ready: a value is missing');
  }],
  ['live', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues?filter=baskets');
    await hasRows(page, 1);
    await page.focus('[data-filter]');
    await node.ask('POST', '/exchanges/shop/amq.default/publish', { routing_key: 'baskets', payload: 'x', payload_encoding: 'string', properties: {} });
    await page.waitForFunction(() => document.querySelector('td[data-label=Ready]')?.textContent === '1');
    assert.equal(await page.evaluate(() => document.activeElement?.hasAttribute('data-filter')), true, 'the focus stays');
  }],
  ['hostile', {}, async (it) => {
    const { page, node } = it;
    await logIn(it);
    for (const name of HOSTILE) {
      await go(it, `#/queues/%2F/${encodeURIComponent(name)}`);
      await page.waitForFunction(() => document.querySelector('.why'));
      assert.equal(await page.locator('h1 *:not(bdi)').count(), 0);
      await page.locator('.head >> text=Delete').click();
      const asked = await page.locator('dialog code.name').innerText();
      await page.fill('dialog input[type=text]', asked);
      await page.click('dialog footer .danger');
      await page.waitForURL(/#\/queues(\?.*)?$/);
      assert.equal((await node.ask('GET', `/queues/%2F/${encodeURIComponent(name)}`)).status, 404, name);
    }
  }],
  ['queue', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues');
    await page.click('.bar .primary');
    await page.fill('dialog [name=name]', 'made');
    await page.click('dialog label:has-text("Show all arguments")');
    await page.fill('dialog [name=x-max-length]', '7');
    await page.click('dialog footer .primary');
    await page.waitForURL(/#\/queues\/%2F\/made$/);
    await page.waitForSelector('.why');
    assert.equal((await node.ask('GET', '/queues/%2F/made')).data.arguments['x-max-length'], 7);
    await page.locator('.head >> text=Publish').click();
    await page.fill('dialog [name=payload]', '{"a":1}');
    await page.fill('dialog [name=headers]', 'n = 1');
    await page.click('dialog footer .primary');
    await told(page, 'Published and routed');
    await page.locator('.head >> text=Get').click();
    await page.click('dialog footer .primary');
    await page.waitForSelector('dialog .message pre');
    assert.match(await page.locator('dialog .message').innerText(), /"a": 1/);
    assert.deepEqual(await it.judged(), []);
    await page.click('dialog footer >> text=Cancel');
    await page.waitForFunction(() => document.querySelector('.tile strong')?.textContent === '1');
    await page.locator('.head >> text=Purge').click();
    await page.fill('dialog input[type=text]', 'made');
    await page.click('dialog footer .danger');
    await told(page, 'Purged');
    await page.waitForSelector('.why >> text=the queue is empty');
  }],
  ['messages', { expected: /400/ }, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/paid?tab=messages');
    await hasRows(page, 5);
    await page.fill('[data-filter]', "tenant = 't3'");
    await page.click('main .bar .primary');
    await hasRows(page, 1);
    await page.click('.button.open');
    await page.waitForSelector('.detail >> text=m-3');
    assert.match(await page.locator('.detail pre').innerText(), /"note": "<b>bold<\/b>"/);
    await page.click('.detail >> text=Hex');
    await page.waitForSelector('.detail pre >> text=00000000');
    await page.reload();
    await hasRows(page, 1);
    await page.fill('[data-filter]', 'tenant =');
    await page.click('main .bar .primary');
    await page.waitForSelector('.problem mark');
    await page.fill('[data-filter]', "routing_key = 'order.paid' AND $.order >= 2");
    await page.click('text=Search all');
    await page.waitForSelector('text=3 match');
    await hasRows(page, 3);
    await page.check('[aria-label="Select 3"]');
    await page.check('[aria-label="Select 4"]');
    await page.waitForSelector('text=Differences');
    await page.click('.button.open');
    await page.click('.detail >> text=Publish again');
    await page.fill('dialog [name=routing_key]', 'nowhere');
    await page.click('dialog footer .primary');
    await told(page, 'Published');
    assert.deepEqual(await it.judged(), []);
    // Nobody has felt it.
    assert.equal((await node.ask('GET', '/queues/%2F/paid')).data.message_stats?.deliver_get ?? 0, 0);
  }],
  ['dead-letters', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/graveyard?tab=dead');
    await page.waitForSelector(`text=${DEAD + 1} dead letters in 2 groups`);
    assert.match(await page.locator('main tbody').innerText(), /rejected\s+failing\s+orders\s+failed\.a, failed\.<b>/);
    const { height = 0, width = 0 } = page.viewportSize() ?? {};
    await page.setViewportSize({ width: 1160, height });
    const broken = await page.evaluate(() => [...document.querySelectorAll('main td .name')].filter((one) => !/[^\w-]/.test(one.textContent ?? '') && one.getClientRects().length > 1).map((one) => one.textContent));
    assert.deepEqual(broken, [], 'names on two lines');
    await page.setViewportSize({ width, height });
    await page.check('[aria-label^="Select rejected"]');
    await page.click(`main >> text=Redrive ${DEAD}`);
    await page.click('dialog footer >> text=Count first');
    await page.waitForSelector(`dialog >> text=${DEAD} messages would be redriven`);
    assert.match(await page.locator('dialog .counted').innerText(), /119\s+orders\s+failed\.a/);
    assert.deepEqual(await it.judged(), []);
    await page.fill('dialog [name=rate]', '1');
    await page.waitForFunction(() => !document.querySelector('dialog .counted'), 'another count is wanted');
    await page.click('dialog footer >> text=Count first');
    await page.click(`dialog footer >> text=Redrive ${DEAD} messages`);
    // A job in the frame and on the page: paused, and gone on with.
    await page.locator('main .job >> text=Pause').click();
    await page.waitForSelector('main .job >> text=paused');
    assert.deepEqual(await it.judged(), []);
    await page.locator('main .job >> text=Resume').click();
    await page.locator('main .job >> text=Stop').click();
    await page.click('dialog footer .danger');
    await page.waitForFunction(() => !document.querySelector('main .job'));
    await page.click('main >> text=Remove all');
    await page.click('dialog footer >> text=Count first');
    await page.waitForSelector('dialog .counted');
    await page.fill('dialog .control.wide input', 'graveyard');
    await page.click('dialog footer .danger');
    await page.waitForSelector('text=No dead letters');
    await page.click('summary[aria-label^=Jobs]');
    await page.waitForSelector('.popup.jobs >> text=cancelled');
    assert.equal((await node.ask('POST', '/queues/%2F/graveyard/browse', {})).data.messages.length, 0);
  }],
  ['lines', { expected: /400/ }, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/work-050?tab=messages');
    await page.waitForSelector('.nothing >> text=No messages.');
    const bring = async (text) => {
      await page.click('summary >> text=More');
      await page.click('.popup >> text=Import');
      await page.setInputFiles('dialog input[type=file]', { name: 'm.ndjson', mimeType: 'application/x-ndjson', buffer: Buffer.from(text) });
      await page.click('dialog footer .primary');
    };
    await bring([1, 2, 3].map((n) => JSON.stringify({ payload: `n${n}` })).join('\n'));
    await page.waitForSelector('dialog >> text=3 published, 3 routed.');
    await page.click('dialog footer >> text=Cancel');
    await hasRows(page, 3);
    await bring('no message');
    await page.waitForSelector('dialog .problem >> text=line');
    await page.click('dialog footer >> text=Cancel');
    await page.check('[aria-label="Select 1"]');
    await page.click('.bulk >> text=Remove');
    await page.click('dialog footer >> text=Count first');
    await page.fill('dialog .control.wide input', 'work-050');
    await page.click('dialog footer .danger');
    await hasRows(page, 2);
    assert.equal((await node.ask('POST', '/queues/%2F/work-050/browse', {})).data.messages.length, 2);
  }],
  ['stream-of-figures', { own: true }, async (it) => {
    const { page, node } = it;
    const asked = [];
    page.on('request', (request) => { if (request.url().includes('/api/')) asked.push(request.url()); });
    const live = page.waitForResponse((response) => response.url().includes('/api/live?'));
    await logIn(it, '#/queues?filter=work-06');
    await hasRows(page, 10);
    assert.equal((await live).status(), 200);
    // Once for a connection that is silent for too long on a busy machine, and is opened again.
    let n = 0;
    await until(async () => {
      const before = asked.length;
      n += 1;
      await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'work-060', payload: 'x', payload_encoding: 'string', properties: {} });
      await page.waitForFunction((ready) => document.querySelector('td[data-label=Ready]')?.textContent === ready, String(n));
      return asked.length === before;
    }, 'nothing is asked for: it comes');
    // Hidden, it is closed; seen again, there is another one.
    const ended = page.waitForEvent('requestfailed', (request) => request.url().includes('/api/live?'));
    const seen = (hidden) => page.evaluate((is) => {
      Object.defineProperty(document, 'hidden', { value: is, configurable: true });
      document.dispatchEvent(new Event('visibilitychange'));
    }, hidden);
    await seen(true);
    await ended;
    const again = page.waitForResponse((response) => response.url().includes('/api/live?'));
    await seen(false);
    assert.equal((await again).status(), 200);
    // All that a page asks for comes by it.
    const begun = page.waitForRequest((request) => request.url().includes('/api/live?') && request.url().includes('messages_ready'));
    await go(it, '#/');
    const refused = await page.evaluate(async (address) => {
      const n = new Set(new URL(address).searchParams.getAll('topics')).size;
      const stop = new AbortController();
      const answer = await fetch(address, { headers: { 'x-requested-with': 'leveret' }, signal: stop.signal });
      const reader = answer.body?.pipeThrough(/** @type {any} */ (new TextDecoderStream())).getReader();
      let text = '';
      while (reader && text.split('event: ').length <= n) text += (await reader.read()).value;
      stop.abort();
      return text.split('event: ').filter((event) => event.startsWith('refused'));
    }, (await begun).url());
    assert.deepEqual(refused, []);
  }],
  ['no-stream-of-figures', { own: true, expected: /429/ }, async (it) => {
    const { page, node } = it;
    await page.route('**/api/live?*', (route) => route.fulfill({ status: 429, json: { reason: 'too many' } }));
    await logIn(it, '#/queues?filter=work-07');
    await hasRows(page, 10);
    await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'work-070', payload: 'x', payload_encoding: 'string', properties: {} });
    await page.waitForFunction(() => document.querySelector('td[data-label=Ready]')?.textContent === '1');
  }],
  ['tail', {}, async (it) => {
    const { page, node } = it;
    const publish = (routing_key, payload) => node.ask('POST', '/exchanges/%2F/orders/publish', { routing_key, payload, payload_encoding: 'string', properties: { headers: { tenant: payload } } });
    await logIn(it, '#/exchanges/%2F/orders?tab=tail');
    await page.waitForSelector('main .live >> text=Watching');
    await publish('nowhere.a', '<i>first</i>');
    await page.waitForSelector('td >> text=<i>first</i>');
    await page.fill('[data-filter]', "tenant = 'wanted'");
    const begun = page.waitForResponse((response) => response.url().includes('/tail?') && response.url().includes('wanted'));
    await page.click('main form .primary');
    await begun;
    await publish('nowhere.b', 'other');
    await publish('nowhere.c', 'wanted');
    await page.waitForSelector('td >> text=nowhere.c');
    assert.equal(await page.locator('td >> text=nowhere.b').count(), 0);
    await page.locator('.button.open').first().click();
    await page.waitForSelector('.detail pre >> text=wanted');
    assert.deepEqual(await it.judged(), []);
    await page.click('main button:text-is("Stop")');
    await page.waitForSelector('text=Stopped');
  }],
  ['log', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/log?level=warning');
    await fetch(`${node.url}/api/overview`, { headers: { authorization: `Basic ${btoa('nobody <b>:wrong')}` } });
    await page.waitForSelector("td >> text=user 'nobody <b>' - invalid credentials");
    assert.equal(await page.locator('td .tag >> text=info').count(), 0);
    await page.fill('[data-filter]', 'nobody at all');
    await page.waitForSelector('text=No matching lines');
    await page.goto(`${node.url}/#/log`);
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 100);
    await page.click('main button >> text=Earlier');
    await page.waitForURL(/before=/);
    await page.waitForFunction(() => !document.querySelector('main')?.innerText.includes('nobody <b>'));
    await page.click('main button >> text=Latest');
    await page.waitForSelector('td >> text=nobody <b>');
    assert.deepEqual(await it.judged(), []);
    for (const [before, after] of [['info', 'debug'], ['debug', 'info']]) {
      await page.click(`main button >> text=Log level: ${before}`);
      await page.selectOption('dialog [name=level]', after);
      await page.click('dialog footer .primary');
      await page.waitForSelector(`main button >> text=Log level: ${after}`);
    }
  }],
  ['events', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/log?tab=events&event=user.*');
    await node.ask('PUT', '/users/told', { password: 'told', tags: '' });
    await page.waitForSelector('td >> text=user.created');
    assert.equal(await page.locator('td >> text=queue.created').count(), 0);
    await page.fill('input[placeholder^="queue"]', '#.created');
    await page.waitForSelector('td >> text=queue.created');
    await page.fill('[data-filter]', 'told');
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 1);
    assert.deepEqual(await it.judged(), []);
    await node.ask('DELETE', '/users/told');
  }],
  ['views', { own: true }, async (it) => {
    const { page } = it;
    await logIn(it, '#/queues?filter=work-00&sort=name');
    await hasRows(page, 10);
    await page.click('summary >> text=Export');
    await page.click('.popup >> text=Save view');
    await page.fill('dialog [name=name]', 'The <first> ten');
    await page.click('dialog footer .primary');
    await page.click('.navigation >> text=Overview');
    await page.waitForSelector('text=Messages without consumers');
    await page.waitForSelector('text=/ ms, .*\\/s$/');
    await page.reload();
    await page.click('.navigation >> text=The <first> ten');
    await hasRows(page, 10);
    const saved = page.waitForEvent('download');
    await page.keyboard.press('Control+k');
    await page.waitForSelector('.palette');
    await page.fill('.palette input', 'as CSV');
    await page.waitForFunction(() => document.querySelectorAll('.palette li').length === 1);
    await page.keyboard.press('Enter');
    assert.match(readFileSync(await (await saved).path(), 'utf8'), /work-009/);
    await page.click('[aria-label^="Delete the view"]');
    await page.waitForFunction(() => !document.querySelector('.saved'));
    // A link to one message, and to two selected ones.
    await go(it, '#/queues/%2F/paid?tab=messages&open=3&sel=1,2');
    await page.waitForSelector('.detail >> text=m-3');
    await page.waitForSelector('text=Differences');
  }],
  ['topology', {}, async (it) => {
    const { page } = it;
    await logIn(it, '#/exchanges/%2F/orders?tab=topology');
    await page.waitForSelector('.stop.own >> text=orders');
    assert.match(await page.locator('.lead').innerText(), /retries no bindings/);
    assert.match(await page.locator('main tbody').innerText(), /exchange orders\s+failed\.#\s+queue failing/);
    await page.click('.stop.queue >> text=failing');
    await page.waitForSelector('.why');
    await page.click('.tabs >> text=Topology');
    await page.waitForSelector('td >> text=dead letters');
    await page.waitForSelector('.stop.queue >> text=graveyard');
  }],
  ['delayed', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/delayed');
    await page.click('td >> text=Messages');
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 2);
    await page.locator('td >> text=Delete').first().click();
    await page.click('dialog footer .danger');
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 1);
    const held = async () => (await node.ask('GET', '/leveret/exchanges/%2F/later/delayed')).data;
    const [before] = await held();
    await page.locator('td >> text=Reschedule').click();
    await page.fill('dialog [name=seconds]', '90000');
    await page.click('dialog footer .primary');
    await page.waitForSelector('dialog', { state: 'detached' });
    const [after] = await held();
    assert.ok(after.due_ms > Date.now() + 80_000_000 && after.due_ms !== before.due_ms);
    await page.locator('td >> text=Publish now').click();
    await page.click('dialog footer .primary');
    await page.waitForSelector('text=No delayed messages');
    assert.equal((await held()).length, 0);
  }],
  ['retried', {}, async (it) => {
    const { page, node } = it;
    const hour = 3_600_000;
    await node.ask('PUT', '/queues/%2F/tried', { durable: true, arguments: { 'x-queue-type': 'quorum', 'x-delayed-retry-type': 'all', 'x-delayed-retry-min': hour, 'x-delayed-retry-max': hour } });
    await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'tried', payload: 'x', payload_encoding: 'string', properties: {} });
    await node.ask('POST', '/queues/%2F/tried/get', { count: 1, ackmode: 'reject_requeue_true', encoding: 'auto' });
    const waiting = async () => (await node.ask('POST', '/queues/%2F/tried/browse', { which: 'delayed' })).data.messages;
    assert.equal((await waiting()).length, 1);
    await logIn(it, '#/queues/%2F/tried?tab=messages&which=delayed');
    await page.click('.browse .open');
    await page.locator('.detail button', { hasText: 'Reschedule' }).click();
    await page.fill('dialog [name=seconds]', '90000');
    await page.click('dialog footer .primary');
    await page.waitForSelector('dialog', { state: 'detached' });
    assert.ok((await waiting())[0].due_at > Date.now() + 80_000_000);
    await page.click('.browse .open');
    await page.locator('.detail button', { hasText: 'Retry now' }).click();
    await page.click('dialog footer .primary');
    await page.waitForSelector('.nothing >> text=No messages.');
    assert.equal((await waiting()).length, 0);
    await node.ask('DELETE', '/queues/%2F/tried');
  }],
  ['parameters', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/parameters');
    await page.locator('section', { hasText: 'Global parameters' }).locator('button', { hasText: 'Add' }).click();
    await page.fill('dialog [name=name]', 'made');
    await page.fill('dialog [name=value]', '{"a":');
    await page.click('dialog footer .primary');
    await page.waitForSelector('dialog .problem');
    await page.fill('dialog [name=value]', '{"a": 1}');
    await page.click('dialog footer .primary');
    await page.waitForSelector('td >> text=made');
    assert.deepEqual((await node.ask('GET', '/global-parameters/made')).data.value, { a: 1 });
  }],
  ['traces', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/tracing');
    await page.click('.head .primary');
    await page.selectOption('dialog [name=vhost]', '/');
    await page.fill('dialog [name=name]', 'watched');
    await page.click('dialog footer .primary');
    await page.waitForSelector('td >> text=watched.log');
    await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'work-001', payload: 'seen by a trace', payload_encoding: 'string', properties: {} });
    await page.waitForFunction(async () => {
      /** @type {HTMLElement | undefined} */ ([...document.querySelectorAll('td button')].find((it) => it.textContent === 'Show'))?.click();
      return document.querySelector('pre')?.textContent?.includes('seen by a trace');
    }, null, { polling: 300 });
    await page.locator('td >> text=Stop').click();
    await page.click('dialog footer .primary');
    await page.waitForSelector('text=No running traces');
    await node.ask('DELETE', '/queues/%2F/work-001/contents');
  }],
  ['reference', {}, async (it) => {
    const { page } = it;
    await logIn(it, '#/reference');
    await page.fill('[data-filter]', 'get one queue');
    await page.locator('summary', { hasText: /^GET .api.queues.\{vhost\}.\{name\} One queue$/ }).click();
    await page.fill('.tried [name=name]', 'paid');
    await page.fill('.tried [name=query]', 'columns=name,type');
    await page.click('.tried .primary');
    await page.waitForSelector('.tried pre >> text=/"type": "quorum"/');
    assert.match(await page.locator('.tried .command code').textContent(), /curl -u guest 'http.*\/api\/queues\/%2F\/paid\?columns=name,type'/);
    assert.deepEqual(await it.judged(), []);
  }],
  ['undo', {}, async (it) => {
    const { page, node } = it;
    await node.ask('PUT', '/queues/%2F/missed', { durable: true });
    for (let n = 0; n < 3; n += 1) await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'missed', payload: 'x', payload_encoding: 'string', properties: { delivery_mode: 2 } });
    await logIn(it, '#/queues/%2F/missed');
    await page.waitForFunction(() => document.querySelector('.tile strong')?.textContent === '3');
    await page.locator('.head >> text=Delete').click();
    await page.waitForSelector('dialog >> text=Can be undone for 10 min');
    await page.fill('dialog input[type=text]', 'missed');
    await page.click('dialog footer .danger');
    // At once: the button goes with what it undoes.
    await page.waitForFunction(() => {
      const button = /** @type {HTMLElement | undefined} */ ([...document.querySelectorAll('.note button')].find((it) => it.textContent === 'Undo'));
      button?.click();
      return !!button;
    });
    await told(page, 'restoring 3 messages');
    await page.click('summary[aria-label^=Jobs]');
    await page.waitForSelector('.popup.jobs >> text=done');
    await go(it, '#/queues?filter=work-00');
    await hasRows(page, 10);
    assert.deepEqual(await it.judged(), []);
    assert.equal((await node.ask('POST', '/queues/%2F/missed/browse', {})).data.messages.length, 3);
    await node.ask('DELETE', '/queues/%2F/missed');
  }],
  ['dots', {}, async (it) => {
    const { page, node } = it;
    await node.ask('PUT', '/queues/%2F/-?:2=..', { durable: true });
    await logIn(it, '#/queues/%2F/..');
    await page.waitForSelector('.why');
    await page.click('.tabs >> text=Messages');
    await page.waitForSelector('.nothing >> text=No messages.');
    await page.locator('.head >> text=Delete').click();
    await page.fill('dialog input[type=text]', '..');
    await page.click('dialog footer .danger');
    await page.waitForURL(/#\/queues(\?.*)?$/);
    assert.equal((await node.ask('GET', '/queues/%2F/-?:2=..')).status, 404);
  }],
  ['keyboard', {}, async (it) => {
    const { page } = it;
    await logIn(it);
    await page.keyboard.press('Control+k');
    await page.waitForSelector('.palette');
    await page.keyboard.type('paid');
    await page.waitForSelector('.palette li >> text=quorum');
    assert.deepEqual(await it.judged(), []);
    await page.keyboard.press('Enter');
    await page.waitForURL(/#\/queues\/%2F\/paid$/);
    await page.waitForSelector('.why');
    // The second key is to follow soon, which a busy machine need not manage.
    await until(async () => {
      await Promise.all([page.keyboard.press('g'), page.keyboard.press('q')]);
      return page.waitForURL(/#\/queues$/, { timeout: 5000 }).then(() => true, () => false);
    }, 'g q opens the queues');
    await hasRows(page, 100);
    await page.keyboard.press('n');
    await page.waitForURL(/page=2/);
    await page.keyboard.press('/');
    await page.keyboard.type('type:quorum');
    await hasRows(page, 1);
    await page.keyboard.press('Tab');
    await page.evaluate(() => /** @type {HTMLElement} */ (document.activeElement).blur());
    await page.keyboard.press('p');
    await page.waitForSelector('text=Paused');
    await page.keyboard.press('?');
    await page.waitForSelector('dialog >> text=search everything');
    assert.deepEqual(await it.judged(), []);
    await page.keyboard.press('Escape');
    await page.waitForFunction(() => !document.querySelector('dialog'));
  }],
  ['bulk', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues?filter=work-12');
    await hasRows(page, 10);
    await page.check('thead .pick input');
    await page.click('.bulk >> text=Delete');
    await page.click('dialog footer >> text=Count first');
    await page.waitForSelector('dialog >> text=10 of them exist');
    await page.fill('dialog input[type=text]', '10');
    await page.click('dialog footer .danger');
    await told(page, 'Deleted 10 queues');
    await page.waitForSelector('text=No matches');
    assert.equal((await node.ask('GET', '/queues/%2F/work-121')).status, 404);
  }],
  ['exchange', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/exchanges');
    await page.click('.bar .primary');
    await page.fill('dialog [name=name]', 'made <b>');
    await page.click('dialog footer .primary');
    await told(page, 'Created made <b>');
    await go(it, `#/exchanges/%2F/${encodeURIComponent('made <b>')}?tab=bindings`);
    await page.locator('section', { hasText: 'Bindings from this exchange' }).locator('button', { hasText: 'Bind' }).first().click();
    await page.fill('dialog [name=destination]', 'work-000');
    await page.fill('dialog [name=routing_key]', 'a.*');
    await page.click('dialog footer .primary');
    await page.waitForSelector('td >> text=work-000');
    await page.click('.tabs >> text=Test routing');
    await page.fill('[name=routing_key]', 'a.b');
    await page.click('main form .primary');
    await page.waitForSelector('main td >> text=work-000');
    await page.fill('[name=routing_key]', 'b');
    await page.click('main form .primary');
    await page.waitForSelector('text=None: the message is unroutable.');
    await page.click('.tabs >> text=Bindings');
    await page.click('td >> text=Unbind');
    await page.click('dialog footer .danger');
    await page.waitForSelector('text=No bindings: messages are unroutable.');
    await page.locator('.head >> text=Delete').click();
    await page.fill('dialog input[type=text]', 'made <b>');
    await page.click('dialog footer .danger');
    await page.waitForURL(/#\/exchanges$/);
    assert.equal((await node.ask('GET', `/exchanges/%2F/${encodeURIComponent('made <b>')}`)).status, 404);
  }],
  ['consumers', {}, async (it) => {
    const { page, node } = it;
    const client = await Client.open(node.amqp, 'stock-worker');
    await client.consume('work-020', 'stock', 7);
    try {
      await logIn(it, '#/queues/%2F/work-020?tab=consumers');
      await page.waitForSelector('td.num >> text=7');
      await page.waitForSelector('td >> text=ready for deliveries');
      assert.deepEqual(await it.judged(), []);
      const saved = page.waitForEvent('download');
      await page.click('summary[aria-label="Save the table"]');
      await page.click('.saver >> text=CSV');
      assert.match(readFileSync(await (await saved).path(), 'utf8'), /Tag,Channel,User,Prefetch,Unacked,State,Acknowledgement mode,Arguments\r\nstock,.*,guest,7,0,ready/);
      client.publish('work-020', 'held');
      await page.click('td a:text-is("1")');
      await page.waitForSelector('td >> text=unacked by the consumer');
      await page.locator('.button.open').first().click();
      await page.waitForSelector('.detail >> text=/Held by the consumer stock on .* \\(1\\), user guest, since 20/');
      assert.deepEqual(await it.judged(), []);
      await page.click('.detail a >> text=(1)');
      await page.waitForSelector('.tile >> text=/prefetch 7, oldest [1-9]/');
      await page.goBack();
      await page.click('.tabs >> text=Overview');
      await page.waitForSelector('.why li >> text=/Consumer stock on stock-worker \\(1\\) holds 1 for \\d/');
      assert.deepEqual(await it.judged(), []);
      await page.click('.tabs >> text=Consumers (1)');
      await page.click('td.act >> text=Cancel');
      await page.waitForSelector('dialog >> text=which can still acknowledge them');
      await page.click('dialog footer .danger');
      await page.waitForSelector('text=No consumers');
    } finally {
      client.close();
      await node.ask('DELETE', '/queues/%2F/work-020/contents');
    }
  }],
  ['search', {}, async (it) => {
    const { page, node } = it;
    const client = await Client.open(node.amqp, 'stock-importer');
    await client.consume('work-100', 'ctag-of-stock', 1);
    try {
      await logIn(it);
      for (const [text, found, address] of /** @type {[string, string, RegExp][]} */ ([
        ['stock-imp', 'stock-importer', /#\/connections\/127\.0\.0\.1/], ['ctag-of', 'ctag-of-stock', /#\/queues\/%2F\/work-100\?tab=consumers/], ['shor', 'short', /#\/policies/], ['cler', 'clerk', /#\/users\/clerk/],
        ['m-3', 'Find the message with id m-3', /#\/queues\/%2F\/(paid|events)\?tab=messages/], ['graveya', 'graveyard', /#\/queues\/%2F\/graveyard/], ['retrie', 'retries', /#\/exchanges\/%2F\/retries/],
      ])) {
        await page.keyboard.press('Control+k');
        await page.waitForSelector('.palette');
        await page.fill('.palette input', text);
        await page.locator('.palette li', { hasText: found }).first().click();
        await page.waitForURL(address);
        await page.waitForFunction(() => !document.querySelector('.palette'));
      }
    } finally {
      client.close();
    }
  }],
  ['outranked', {}, async (it) => {
    const { page, node } = it;
    const put = (name, pattern, priority, apply = 'queues') => node.ask('PUT', `/policies/%2F/${name}`, { pattern, priority, definition: { 'max-length': 9 }, 'apply-to': apply });
    await put('weak', '^work-', 0);
    await put('weak-of-classic', '^work-', 0, 'classic_queues');
    await put('other', '^other-', 0);
    try {
      await logIn(it, '#/policies');
      const row = (name) => page.locator('main tbody tr', { has: page.locator(`td:first-child bdi:text-is("${name}")`) }).first();
      await row('weak').locator('.tag.warn >> text=outranked by short').waitFor();
      await row('weak-of-classic').locator('.tag.warn >> text=outranked by short').waitFor();
      assert.equal(await row('other').locator('.tag.warn').count(), 0);
      // One for all names is before every other of less priority.
      await put('everything', '.*', 7, 'all');
      await row('other').locator('.tag.warn >> text=outranked by everything').waitFor();
      await row('short').locator('.tag.warn >> text=outranked by everything').waitFor();
      assert.equal(await row('everything').locator('.tag.warn').count(), 0);
      assert.deepEqual(await it.judged(), []);
      await go(it, '#/queues/%2F/work-001?tab=settings');
      await row('weak').locator("text=outranked by policy 'everything' of priority 7").waitFor();
      await row('everything').locator('.tag.good >> text=in force').waitFor();
    } finally {
      for (const name of ['weak', 'weak-of-classic', 'other', 'everything']) await node.ask('DELETE', `/policies/%2F/${name}`);
    }
  }],
  ['purge-with-streams', {}, async (it) => {
    const { page, node } = it;
    await node.ask('PUT', '/queues/%2F/swept-queue', { durable: true });
    await node.ask('PUT', '/queues/%2F/swept-stream', { durable: true, arguments: { 'x-queue-type': 'stream' } });
    for (const queue of ['swept-queue', 'swept-queue', 'swept-queue', ...Array(4).fill('swept-stream')]) await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: queue, payload: 'x', payload_encoding: 'string', properties: { delivery_mode: 2 } });
    await logIn(it, '#/queues?filter=swept');
    await hasRows(page, 2);
    await page.waitForFunction(() => [...document.querySelectorAll('td[data-label=Ready]')].map((cell) => cell.textContent).join() === '3,4');
    await page.check('thead .pick input');
    await page.click('.bulk >> text=Purge');
    await page.waitForSelector('dialog >> text=Deletes all ready messages: about 3. Messages of streams stay.');
    await page.click('dialog footer >> text=Count first');
    await page.waitForSelector('dialog >> text=/3 ready messages, 0 unacked.* 1 stream with 4 messages cannot be purged/');
    assert.deepEqual(await it.judged(), []);
    await page.fill('dialog input[type=text]', '2');
    await page.click('dialog footer .danger');
    await until(async () => (await node.ask('GET', '/queues/%2F/swept-queue')).data.messages === 0, 'the queue is purged');
    await page.waitForFunction(() => [...document.querySelectorAll('td[data-label=Ready]')].map((cell) => cell.textContent).join() === '0,4');
    assert.equal((await node.ask('GET', '/queues/%2F/swept-stream')).data.messages, 4);
    for (const queue of ['swept-queue', 'swept-stream']) await node.ask('DELETE', `/queues/%2F/${queue}`);
  }],
  ['administration', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/vhosts');
    await page.click('.bar .primary');
    await page.fill('dialog [name=name]', 'made');
    await page.click('dialog footer .primary');
    await page.waitForSelector('table.rows >> text=made');
    await go(it, `#/users`);
    await page.click('.bar .primary');
    await page.fill('dialog [name=name]', 'maker');
    await page.fill('dialog [name=password]', 'a long one');
    await page.fill('dialog [name=tags]', 'monitoring');
    await page.waitForFunction(() => document.querySelector('dialog .commands')?.textContent?.includes('set_user_tags maker monitoring'));
    assert.doesNotMatch(await page.locator('dialog .commands').textContent(), /a long one/);
    await page.click('dialog footer .primary');
    await page.click('table.rows >> text=maker');
    await page.locator('section', { hasText: 'Permissions' }).locator('button', { hasText: 'Set' }).click();
    await page.fill('dialog [name=read]', '^paid');
    await page.click('dialog footer .primary');
    await page.waitForSelector('td code >> text=^paid');
    await page.fill('main [name=name]', 'paid');
    await page.click('main form >> text=Check');
    await page.waitForSelector('main [role=status] .good');
    await page.selectOption('main [name=kind]', 'exchange');
    await page.fill('main [name=routing_key]', 'order.paid');
    await page.fill('main [name=name]', 'orders');
    await page.click('main form >> text=Check');
    await page.waitForSelector('main [role=status] .bad');
    assert.deepEqual((await node.ask('GET', '/users/maker')).data.tags, ['monitoring']);
    await go(it, `#/policies`);
    await page.click('section .primary');
    await page.selectOption('dialog [name=vhost]', '/');
    await page.fill('dialog [name=name]', 'bounds');
    await page.fill('dialog [name=pattern]', '^paid$');
    await page.fill('dialog [name=definition]', 'max-length = 100');
    await page.click('dialog >> text=Preview changes');
    await page.waitForSelector('dialog >> text=1 object would change');
    assert.deepEqual(await it.judged(), []);
    assert.equal((await node.ask('GET', '/policies/%2F/bounds')).status, 404);
    await page.click('dialog footer .primary');
    await told(page, 'Set bounds');
    assert.equal((await node.ask('GET', '/policies/%2F/bounds')).data.definition['max-length'], 100);
    await go(it, `#/definitions`);
    const document = JSON.stringify({ vhosts: [{ name: '/' }], queues: [{ name: 'brought', vhost: '/', durable: true, auto_delete: false, arguments: {} }] });
    await page.setInputFiles('input[type=file]', { name: 'more.json', mimeType: 'application/json', buffer: Buffer.from(document) });
    await page.waitForSelector("text=queue 'brought'");
    await page.click('text=Import it');
    await told(page, 'Imported more.json');
    assert.equal((await node.ask('GET', '/queues/%2F/brought')).status, 200);
  }],
  ['rights', { isOut: true, expected: /401/ }, async (it) => {
    const { page } = it;
    await logIn(it, '#/queues', 'clerk');
    await hasRows(page, 1);
    assert.deepEqual(await names(page), ['baskets']);
    await go(it, '#/queues/shop/baskets');
    await page.waitForSelector('.why');
    const buttons = await page.locator('.head button').allInnerTexts();
    assert.deepEqual(buttons, ['Get', 'Move', 'Purge'], 'what may not be done is not offered');
    await go(it, '#/exchanges/shop/amq.topic');
    await page.waitForSelector('.tile');
    assert.deepEqual(await page.locator('.head button').allInnerTexts(), []);
  }],
  ['kept-dialog', { isOut: true, expected: /401/ }, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues?vhost=shop');
    await page.click('.bar .primary');
    assert.equal(await page.inputValue('dialog [name=vhost]'), 'shop');
    await page.fill('dialog [name=name]', 'half-filled');
    await page.context().clearCookies();
    await page.click('dialog footer .primary');
    await page.waitForSelector('text=Your session has ended');
    await page.fill('[name=username]', 'guest');
    await page.fill('[name=password]', 'guest');
    await page.press('[name=password]', 'Enter');
    await page.waitForFunction(() => /** @type {HTMLInputElement | null} */ (document.querySelector('dialog [name=name]'))?.value === 'half-filled');
    await page.click('dialog footer .primary');
    await page.waitForURL(/#\/queues\/shop\/half-filled$/);
    // The page would ask for its queue once more, and print that it is gone.
    await page.close();
    await node.ask('DELETE', '/queues/shop/half-filled');
  }],
  ['wide', { own: true, width: 1440 }, async (it) => {
    const { page, node } = it;
    const client = await Client.open(node.amqp, 'shop');
    await client.consume('work-021', 'shop', 7);
    client.publish('work-021', 'x');
    try {
      await logIn(it, '#/connections');
      await page.waitForSelector('table.rows tbody tr');
      const heights = await page.locator('table.rows tbody tr').evaluateAll((all) => all.map((row) => row.getBoundingClientRect().height));
      assert.ok(Math.max(...heights) < 34, `${heights}`);
      // Who publishes by the default exchange is shown at the queue that it is for alone.
      await go(it, '#/queues/%2F/work-021?tab=topology');
      await page.waitForSelector('.stop.own');
      const payload = Buffer.from(Array.from({ length: 600 }, (_, at) => at % 256)).toString('base64');
      await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'work-022', payload, payload_encoding: 'base64', properties: { message_id: 'binary-1' } });
      await go(it, '#/queues/%2F/work-022?tab=topology');
      await page.waitForSelector('.stop.own');
      assert.equal(await page.locator('.stop.publisher').count(), 0);
      await page.keyboard.press('Control+k');
      await page.fill('.palette input', 'binary-1');
      await page.click('.palette li >> text=Find the message with id binary-1');
      await page.waitForURL(/work-022\?/);
      await page.click('.browse .open');
      await page.waitForSelector('.detail pre.hex >> text=00000000');
      const [inner, outer] = await page.locator('.detail pre.hex').evaluate((pre) => [pre.scrollWidth, pre.clientWidth]);
      assert.ok(inner <= outer, `${inner} of ${outer}`);
      assert.ok(await page.evaluate(() => document.documentElement.scrollWidth <= window.innerWidth));
    } finally {
      client.close();
      for (const queue of ['work-021', 'work-022']) await node.ask('DELETE', `/queues/%2F/${queue}/contents`);
    }
  }],
  ['looks', {}, (it) => openPages(it, PAGES.filter((_, at) => at % 2 === 0))],
  // At a node of their own, beside the others: what stops it comes last.
  ['fed', { lane: 2, own: true }, async (it) => {
    const { page } = it;
    await page.addInitScript(takeFeeds);
    await logIn(it, '#/');
    const client = await page.context().newCDPSession(page);
    await client.send('Performance.enable', { timeDomain: 'threadTicks' });
    const busy = async () => (await client.send('Performance.getMetrics')).metrics.find(({ name }) => name === 'TaskDuration')?.value ?? 0;
    for (const hash of FED) {
      await go(it, hash);
      await page.waitForFunction(() => !document.querySelector('.ghost'));
      const shares = /** @type {number[]} */ ([]);
      while (shares.length === 0 || (Math.min(...shares) >= SHARE_MAX && shares.length < TRIES)) {
        const idle = await busy();
        await page.evaluate(feed, [FRAMES, true]);
        const before = await busy();
        const { draws, made, took } = await page.evaluate(feed, [FRAMES, false]);
        const [own, all] = [before - idle, (await busy()) - before];
        shares.push((all - own) * 1000 / took);
        // Ten a second, and the clock's.
        assert.ok(draws <= (took + 200) / 1000 * 11 + 3, `${hash}: drawn ${draws} times in ${took} ms`);
        assert.ok(made <= FRAMES * 1.5, `${hash}: ${made} rows made for ${FRAMES} frames`);
      }
      assert.ok(Math.min(...shares) < SHARE_MAX, `${hash}: ${shares.map((it) => (it * 100).toFixed(1)).join(', ')} % of a core`);
      if (process.env.BROWSER_SHARES) console.log(`${hash}: ${shares.map((it) => (it * 100).toFixed(1)).join(', ')} % of a core`);
    }
    const first = await page.locator('main tbody tr').first().innerText();
    await page.keyboard.press('p');
    await page.waitForSelector('main .live >> text=Paused');
    await page.evaluate(feed, [10, false]);
    assert.equal(await page.locator('main tbody tr').first().innerText(), first);
    assert.deepEqual(await it.judged(), []);
  }],
  ['looks-more', { lane: 2 }, async (it) => {
    const client = await Client.open(it.node.amqp, 'looked-at');
    try {
      await client.consume('work-129', 'looked-at', 1);
      await openPages(it, [...PAGES.filter((_, at) => at % 2 === 1), ...await ofClients(it.node)]);
    } finally {
      client.close();
    }
  }],
  ['alarm', { lane: 2 }, async (it) => {
    const { page, node } = it;
    const figures = async () => (await node.ask('GET', '/nodes?columns=mem_limit,mem_alarm,disk_free_limit,disk_free_alarm')).data[0];
    const client = await Client.open(node.amqp, 'order-importer');
    await logIn(it, '#/queues/%2F/work-031');
    await page.waitForSelector('.why');
    assert.equal(await page.locator('.alarm').count(), 0);
    for (const [kind, words, back, free, help] of /** @type {[string, string[], string[], string, string][]} */ ([
      ['disk', ['set_disk_free_limit', '900TB'], ['set_disk_free_limit', '50MB'], '[\\d.]+\\s[KMGTP]?i?B free', 'Free disk space, purge queues, or lower disk_free_limit'],
      ['memory', ['set_vm_memory_high_watermark', 'absolute', '1MB'], ['set_vm_memory_high_watermark', '0.6'], '[\\d.]+\\s[KMGTP]?i?B in use', 'Consume or purge queues, or raise vm_memory_high_watermark'],
    ])) {
      await node.ctl(...words);
      const key = kind === 'disk' ? 'disk_free' : 'mem';
      await until(async () => (await figures())[`${key}_alarm`], `an alarm of ${kind}`);
      const limit = bytes((await figures())[`${key}_limit`]).replace(/\s/g, '\\s');
      client.publish('work-031', 'x');
      const alarm = page.locator('.alarm.bad', { hasText: new RegExp(`Publishers blocked: ${kind} alarm on .+ since 20\\d\\d.*\\. ${free}, limit ${limit}\\. 1 connection blocked: order-importer\\. ${help}`) });
      await alarm.waitFor();
      assert.match(await alarm.locator('a', { hasText: 'order-importer' }).getAttribute('href') ?? '', /^#\/connections\/127/);
      await page.waitForSelector(`.why .tag.bad >> text=${kind} alarm`);
      assert.deepEqual(await it.judged(), []);
      await node.ctl(...back);
      await page.waitForFunction(() => !document.querySelector('.alarm'));
    }
    client.close();
    await node.ask('DELETE', '/queues/%2F/work-031/contents');
  }],
  ['hung', { lane: 2 }, async (it) => {
    const { page, node } = it;
    const states = async () => Object.fromEntries((await node.ask('GET', '/consumers?columns=consumer_tag,state,channel_details')).data.map((one) => [one.consumer_tag, one]));
    for (const name of ['hung', 'hung-free', 'hung-stream']) {
      await until(async () => /^hung/.test((await states())[`${name}-tag`].state), `${name} is hung`);
    }
    const all = await states();
    assert.equal(all['slow-tag'].state, 'at its prefetch limit');
    const hung = /^hung$/;
    await logIn(it);
    for (const name of ['hung', 'slow']) {
      const { name: channel, connection_name: connection } = all[`${name}-tag`].channel_details;
      for (const hash of ['#/consumers', `#/channels/${encodeURIComponent(channel)}`, '#/channels', `#/connections/${encodeURIComponent(connection)}`, `#/queues/%2F/${name}?tab=consumers`, `#/queues/%2F/${name}`]) {
        await go(it, hash);
        const row = page.locator('main :is(tr, .why li)', { hasText: new RegExp(hash.includes('channels') || hash.includes('connections') ? name : `${name}-tag`) }).filter({ has: page.locator('.tag') }).last();
        await row.locator(`.tag.${name === 'hung' ? 'bad' : 'warn'}`, { hasText: name === 'hung' ? hung : /^at its prefetch limit$/ }).first().waitFor();
        if (name === 'slow') assert.equal(await row.locator('.tag.bad').count(), 0, hash);
        assert.deepEqual(await it.judged(), [], hash);
      }
    }
    await go(it, '#/consumers?filter=state%3Ahung');
    await hasRows(page, 3);
    await page.waitForSelector('td >> text=/^\\d+ (s|min)/');
    for (const [name, text] of [['hung', '1 hung'], ['slow', 'No dead end']]) {
      await go(it, `#/queues/%2F/${name}?tab=topology`);
      await page.locator('main .lead', { hasText: text }).waitFor();
    }
    await go(it, '#/queues/%2F/hung');
    await page.waitForSelector('.why >> text=hung consumers hold messages and settle none');
    await go(it, '#/queues/%2F/slow');
    await page.waitForSelector('.why >> text=all consumers are at their prefetch limit');
  }],
  ['frozen', { lane: 2, own: true, expected: /./ }, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/paid');
    await page.waitForSelector('.why');
    await page.waitForSelector('.top .live >> text=/^Updated (just now|.+ ago)$/');
    node.child.kill('SIGSTOP');
    try {
      await page.waitForSelector('.alarm >> text=/(sends no figures|does not answer)\\. What you see is of 20/');
      await page.waitForSelector('main.old');
      await page.waitForSelector('.top .live.lost >> text=/^Updated .+ ago$/');
      assert.deepEqual(await it.judged(), []);
      await page.click('.navigation >> text=Exchanges');
      await page.waitForSelector('.page h1 >> text=Page not loaded');
      await page.click('.page .problem >> text=Retry');
      await page.waitForSelector('.alarm >> text=The node does not answer');
    } finally {
      node.child.kill('SIGCONT');
    }
    await page.waitForFunction(() => !document.querySelector('main.old'));
    const again = page.locator('.page .problem >> text=Retry');
    if (await again.count() > 0) await again.click({ timeout: 2000 }).catch(() => {});
    await page.waitForFunction(() => document.querySelector('table.rows tbody tr') && !document.querySelector('.ghost'));
    await page.goto(`${node.url}/#/nowhere`);
    await page.waitForSelector('h1 >> text=Page not found');
    assert.deepEqual(await it.judged(), []);
  }],
  ['restart', { lane: 2, own: true, expected: /401|503|ERR_/ }, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/paid');
    await page.waitForSelector('.why');
    await node.stop();
    await page.waitForSelector('text=The node does not answer');
    await node.start();
    // Logins do not outlive the node.
    await page.waitForSelector('text=Your session has ended');
    await page.fill('[name=username]', 'guest');
    await page.fill('[name=password]', 'guest');
    await page.press('[name=password]', 'Enter');
    await page.waitForSelector('.why');
    assert.match(page.url(), /#\/queues\/%2F\/paid$/);
  }],
];

export { rows };
