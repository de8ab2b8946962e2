// What people do with the UI. Each scenario has a browser's profile of its own, and waits for what it sees.

import assert from 'node:assert/strict';
import { spawn } from 'node:child_process';
import { readFileSync } from 'node:fs';
import { HOSTILE } from './seed.js';

/** Pages that must be right in each look. */
export const PAGES = [
  '#/', '#/?range=60', '#/exchanges', '#/exchanges/%2F/orders', '#/exchanges/%2F/orders?tab=bindings', '#/exchanges/%2F/amq.default?tab=try', '#/connections', '#/channels', '#/vhosts', '#/users', '#/users/clerk',
  '#/policies', '#/limits', '#/definitions', '#/log', '#/log?tab=events', '#/queues/%2F/paid?tab=tail', '#/parameters', '#/tracing', '#/reference?filter=jobs', '#/consumers', '#/delayed', '#/delayed/%2F/later', '#/exchanges/%2F/orders?tab=topology', '#/queues/%2F/failing?tab=topology', '#/node', '#/node?tab=settings', '#/node?tab=flags', '#/queues', '#/queues/%2F/paid', '#/queues/%2F/paid?tab=messages', '#/queues/%2F/events?tab=messages', '#/queues/%2F/buried?tab=dead', '#/queues/%2F/paid?tab=consumers', '#/queues/%2F/paid?tab=bindings', '#/queues/%2F/work-001?tab=settings', '#/queues/%2F/events',
];

export async function logIn({ page, node }, hash = '', name = 'guest') {
  await page.goto(`${node.url}/${hash}`);
  await page.fill('[name=username]', name);
  await page.fill('[name=password]', name);
  await page.press('[name=password]', 'Enter');
  await page.waitForSelector('.page h1');
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

async function openPages(it) {
  await logIn(it);
  for (const hash of PAGES) {
    await go(it, hash);
    await it.page.waitForFunction(() => !document.querySelector('.ghost') && document.querySelector('.card, .rows, .why, .lead, main .live'));
    assert.deepEqual(await it.judged(), [], hash);
    const isWide = await it.page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth + 1);
    assert.equal(isWide, false, `${hash} is wider than the window`);
  }
}

/** @type {[string, any, (it: any) => Promise<void>][]} */
export const SCENARIOS = [
  ['login', { expected: /401/ }, async (it) => {
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
  ['size', {}, async ({ page, node }) => {
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
    await page.waitForSelector('text=what of ready?');
  }],
  ['live', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues?filter=baskets');
    await hasRows(page, 1);
    await page.focus('[data-filter]');
    await node.ask('POST', '/exchanges/shop/amq.default/publish', { routing_key: 'baskets', payload: 'x', payload_encoding: 'string', properties: {} });
    await page.waitForFunction(() => document.querySelector('table.rows tbody tr')?.textContent?.includes('1'));
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
    await page.waitForSelector('.note >> text=Published and routed');
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
    await page.waitForSelector('.note >> text=Purged');
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
    await page.waitForSelector('text=Where they differ');
    await page.click('.button.open');
    await page.click('.detail >> text=Publish again');
    await page.fill('dialog [name=routing_key]', 'nowhere');
    await page.click('dialog footer .primary');
    await page.waitForSelector('.note >> text=Published');
    assert.deepEqual(await it.judged(), []);
    // Nobody has felt it.
    assert.equal((await node.ask('GET', '/queues/%2F/paid')).data.message_stats?.deliver_get ?? 0, 0);
  }],
  ['dead-letters', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/graveyard?tab=dead');
    await page.waitForSelector('text=4 dead letters in 2 groups');
    assert.match(await page.locator('main tbody').innerText(), /rejected\s+failing\s+orders\s+failed\.a, failed\.<b>/);
    await page.check('[aria-label^="Select rejected"]');
    await page.click('main >> text=Redrive 3');
    await page.click('dialog footer >> text=Count first');
    await page.waitForSelector('dialog >> text=3 messages would be redriven');
    assert.match(await page.locator('dialog .counted').innerText(), /2\s+orders\s+failed\.a/);
    assert.deepEqual(await it.judged(), []);
    await page.fill('dialog [name=rate]', '1');
    await page.waitForFunction(() => !document.querySelector('dialog .counted'), 'another count is wanted');
    await page.click('dialog footer >> text=Count first');
    await page.click('dialog footer >> text=Redrive 3 messages');
    // A job in the frame and on the page: paused, and gone on with.
    await page.locator('main .job >> text=Pause').click();
    await page.waitForSelector('main .job >> text=paused');
    assert.deepEqual(await it.judged(), []);
    await page.locator('main .job >> text=Go on').click();
    await page.locator('main .job >> text=End').click();
    await page.click('dialog footer .danger');
    await page.waitForFunction(() => !document.querySelector('main .job'));
    await page.click('main >> text=Remove all');
    await page.click('dialog footer >> text=Count first');
    await page.waitForSelector('dialog .counted');
    await page.fill('dialog .control.wide input', 'graveyard');
    await page.click('dialog footer .danger');
    await page.waitForSelector('text=No message here is a dead letter');
    await page.click('summary[aria-label^=Jobs]');
    await page.waitForSelector('.popup.jobs >> text=cancelled');
    assert.equal((await node.ask('POST', '/queues/%2F/graveyard/browse', {})).data.messages.length, 0);
  }],
  ['lines', { expected: /400/ }, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/work-050?tab=messages');
    await page.waitForSelector('text=There are no messages here.');
    const bring = async (text) => {
      await page.click('summary >> text=More');
      await page.click('.popup >> text=Bring in');
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
  ['stream-of-figures', {}, async (it) => {
    const { page, node } = it;
    const asked = [];
    page.on('request', (request) => { if (request.url().includes('/api/')) asked.push(request.url()); });
    const live = page.waitForResponse((response) => response.url().includes('/api/live?'));
    await logIn(it, '#/queues?filter=work-06');
    await hasRows(page, 10);
    assert.equal((await live).status(), 200);
    const before = asked.length;
    await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'work-060', payload: 'x', payload_encoding: 'string', properties: {} });
    await page.waitForFunction(() => document.querySelector('table.rows tbody tr')?.textContent?.includes('1'));
    assert.deepEqual(asked.slice(before), [], 'nothing is asked for: it comes');
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
  ['no-stream-of-figures', { expected: /429/ }, async (it) => {
    const { page, node } = it;
    await page.route('**/api/live?*', (route) => route.fulfill({ status: 429, json: { reason: 'too many' } }));
    await logIn(it, '#/queues?filter=work-07');
    await hasRows(page, 10);
    await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'work-070', payload: 'x', payload_encoding: 'string', properties: {} });
    await page.waitForFunction(() => document.querySelector('table.rows tbody tr')?.textContent?.includes('1'));
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
    await page.waitForSelector('text=No line that the node still has matches.');
    await page.goto(`${node.url}/#/log`);
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 100);
    await page.click('main button >> text=Earlier');
    await page.waitForURL(/before=/);
    await page.waitForFunction(() => !document.querySelector('main')?.innerText.includes('nobody <b>'));
    await page.click('main button >> text=The last');
    await page.waitForSelector('td >> text=nobody <b>');
    assert.deepEqual(await it.judged(), []);
    for (const [before, after] of [['info', 'debug'], ['debug', 'info']]) {
      await page.click(`main button >> text=Logged: ${before}`);
      await page.selectOption('dialog [name=level]', after);
      await page.click('dialog footer .primary');
      await page.waitForSelector(`main button >> text=Logged: ${after}`);
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
  ['views', {}, async (it) => {
    const { page } = it;
    await logIn(it, '#/queues?filter=work-00&sort=name');
    await hasRows(page, 10);
    await page.click('summary >> text=Save');
    await page.click('.popup >> text=View');
    await page.fill('dialog [name=name]', 'The <first> ten');
    await page.click('dialog footer .primary');
    await page.click('.navigation >> text=Overview');
    await page.waitForSelector('text=Messages that nobody consumes');
    await page.waitForSelector('text=/^[\\d.]+ ms, [\\d.k]+\\/s$/');
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
    await page.click('[aria-label^="Forget the view"]');
    await page.waitForFunction(() => !document.querySelector('.saved'));
    // A link to one message, and to two selected ones.
    await go(it, '#/queues/%2F/paid?tab=messages&open=3&sel=1,2');
    await page.waitForSelector('.detail >> text=m-3');
    await page.waitForSelector('text=Where they differ');
  }],
  ['topology', {}, async (it) => {
    const { page } = it;
    await logIn(it, '#/exchanges/%2F/orders?tab=topology');
    await page.waitForSelector('.stop.own >> text=orders');
    assert.match(await page.locator('.lead').innerText(), /retries nothing is bound/);
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
    await page.locator('td >> text=Drop').first().click();
    await page.click('dialog footer .danger');
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length === 1);
    const held = async () => (await node.ask('GET', '/leveret/exchanges/%2F/later/delayed')).data;
    const [before] = await held();
    await page.locator('td >> text=Later').click();
    await page.fill('dialog [name=seconds]', '90000');
    await page.click('dialog footer .primary');
    await page.waitForSelector('dialog', { state: 'detached' });
    const [after] = await held();
    assert.ok(after.due_ms > Date.now() + 80_000_000 && after.due_ms !== before.due_ms);
    await page.locator('td >> text=Now').click();
    await page.click('dialog footer .primary');
    await page.waitForSelector('text=Nothing is held back.');
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
    await page.locator('.detail button', { hasText: 'Later' }).click();
    await page.fill('dialog [name=seconds]', '90000');
    await page.click('dialog footer .primary');
    await page.waitForSelector('dialog', { state: 'detached' });
    assert.ok((await waiting())[0].due_at > Date.now() + 80_000_000);
    await page.click('.browse .open');
    await page.locator('.detail button', { hasText: 'Now' }).click();
    await page.click('dialog footer .primary');
    await page.waitForSelector('text=There are no messages here.');
    assert.equal((await waiting()).length, 0);
    await node.ask('DELETE', '/queues/%2F/tried');
  }],
  ['parameters', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/parameters');
    await page.locator('section', { hasText: 'Of the whole cluster' }).locator('button', { hasText: 'Parameter' }).click();
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
    await page.locator('td >> text=End').click();
    await page.click('dialog footer .primary');
    await page.waitForSelector('text=Until one begins nothing is copied');
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
    await page.waitForSelector('dialog >> text=It can be brought back for 10 min');
    await page.fill('dialog input[type=text]', 'missed');
    await page.click('dialog footer .danger');
    await page.locator('.note >> text=Undo').click();
    await page.waitForSelector('.note >> text=brings 3 messages back');
    await page.click('summary[aria-label^=Jobs]');
    await page.waitForSelector('.popup.jobs >> text=done');
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
    await page.waitForSelector('text=There are no messages here');
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
    await page.keyboard.press('g');
    await page.keyboard.press('q');
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
    await page.waitForSelector('dialog >> text=10 of them are there now');
    await page.fill('dialog input[type=text]', '10');
    await page.click('dialog footer .danger');
    await page.waitForSelector('.note >> text=Deleted 10 queues');
    await page.waitForSelector('text=Nothing matches');
    assert.equal((await node.ask('GET', '/queues/%2F/work-121')).status, 404);
  }],
  ['exchange', {}, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/exchanges');
    await page.click('.bar .primary');
    await page.fill('dialog [name=name]', 'made <b>');
    await page.click('dialog footer .primary');
    await page.waitForSelector('.note >> text=Made made <b>');
    await go(it, `#/exchanges/%2F/${encodeURIComponent('made <b>')}?tab=bindings`);
    await page.locator('section', { hasText: 'From here' }).locator('button', { hasText: 'Bind' }).first().click();
    await page.fill('dialog [name=destination]', 'work-000');
    await page.fill('dialog [name=routing_key]', 'a.*');
    await page.click('dialog footer .primary');
    await page.waitForSelector('td >> text=work-000');
    await page.click('.tabs >> text=Try a message');
    await page.fill('[name=routing_key]', 'a.b');
    await page.click('main form .primary');
    await page.waitForSelector('main td >> text=work-000');
    await page.fill('[name=routing_key]', 'b');
    await page.click('main form .primary');
    await page.waitForSelector('text=None: it would be lost, or returned.');
    await page.click('.tabs >> text=Bindings');
    await page.click('td >> text=Unbind');
    await page.click('dialog footer .danger');
    await page.waitForSelector('text=Nothing is bound');
    await page.locator('.head >> text=Delete').click();
    await page.fill('dialog input[type=text]', 'made <b>');
    await page.click('dialog footer .danger');
    await page.waitForURL(/#\/exchanges$/);
    assert.equal((await node.ask('GET', `/exchanges/%2F/${encodeURIComponent('made <b>')}`)).status, 404);
  }],
  ['consumers', {}, async (it) => {
    const { page, node } = it;
    const words = ['perf', '-h', `amqp://guest:guest@127.0.0.1:${node.amqp}`, '-p', '-u', 'work-020', '-x', '0', '-y', '1', '-q', '7', '-L', '60000000'];
    const client = spawn(process.env.LEVERET_BIN ?? '', words, { stdio: 'ignore' });
    try {
      await logIn(it, '#/queues/%2F/work-020?tab=consumers');
      await page.waitForSelector('td.num >> text=7');
      assert.deepEqual(await it.judged(), []);
      const saved = page.waitForEvent('download');
      await page.click('summary[aria-label="Save the table"]');
      await page.click('.saver >> text=CSV');
      assert.match(readFileSync(await (await saved).path(), 'utf8'), /Tag,Channel,User,Prefetch,Holds,State,Acks,Arguments\r\n.*,guest,7,0,/);
      // The first is acknowledged at once.
      for (const payload of ['done', 'held']) await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'work-020', payload, payload_encoding: 'string', properties: {} });
      await page.click('td a:text-is("1")');
      await page.waitForSelector('td >> text=unacked by the consumer');
      await page.locator('.button.open').first().click();
      await page.waitForSelector('.detail >> text=/Held by the consumer .* of .* \\(1\\), user guest, since 20/');
      assert.deepEqual(await it.judged(), []);
      await page.click('.detail a >> text=(1)');
      await page.waitForSelector('.tile >> text=/prefetch 7, oldest [1-9]/');
      await page.goBack();
      await page.click('.tabs >> text=Consumers (1)');
      await page.click('td.act >> text=Cancel');
      await page.waitForSelector('dialog >> text=which can still acknowledge it');
      await page.click('dialog footer .danger');
      await page.waitForSelector('text=Nobody consumes.');
    } finally {
      client.kill();
      await node.ask('DELETE', '/queues/%2F/work-020/contents');
    }
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
    await page.click('dialog footer .primary');
    await page.click('table.rows >> text=maker');
    await page.locator('section', { hasText: 'Permissions' }).locator('button', { hasText: 'Set' }).click();
    await page.fill('dialog [name=read]', '^paid');
    await page.click('dialog footer .primary');
    await page.waitForSelector('td code >> text=^paid');
    await page.fill('main [name=name]', 'paid');
    await page.click('main >> text=Ask');
    await page.waitForSelector('main [role=status] .good');
    await page.selectOption('main [name=kind]', 'exchange');
    await page.fill('main [name=routing_key]', 'order.paid');
    await page.fill('main [name=name]', 'orders');
    await page.click('main >> text=Ask');
    await page.waitForSelector('main [role=status] .bad');
    assert.deepEqual((await node.ask('GET', '/users/maker')).data.tags, ['monitoring']);
    await go(it, `#/policies`);
    await page.click('section .primary');
    await page.selectOption('dialog [name=vhost]', '/');
    await page.fill('dialog [name=name]', 'bounds');
    await page.fill('dialog [name=pattern]', '^paid$');
    await page.fill('dialog [name=definition]', 'max-length = 100');
    await page.click('dialog >> text=What would it change?');
    await page.waitForSelector('dialog >> text=1 object would change');
    assert.deepEqual(await it.judged(), []);
    assert.equal((await node.ask('GET', '/policies/%2F/bounds')).status, 404);
    await page.click('dialog footer .primary');
    await page.waitForSelector('.note >> text=Set bounds');
    assert.equal((await node.ask('GET', '/policies/%2F/bounds')).data.definition['max-length'], 100);
    await go(it, `#/definitions`);
    const document = JSON.stringify({ vhosts: [{ name: '/' }], queues: [{ name: 'brought', vhost: '/', durable: true, auto_delete: false, arguments: {} }] });
    await page.setInputFiles('input[type=file]', { name: 'more.json', mimeType: 'application/json', buffer: Buffer.from(document) });
    await page.waitForSelector("text=queue 'brought'");
    await page.click('text=Import it');
    await page.waitForSelector('.note >> text=Imported more.json');
    assert.equal((await node.ask('GET', '/queues/%2F/brought')).status, 200);
  }],
  ['rights', { expected: /401/ }, async (it) => {
    const { page } = it;
    await logIn(it, '#/queues', 'clerk');
    await hasRows(page, 1);
    assert.deepEqual(await names(page), ['baskets']);
    await go(it, '#/queues/shop/baskets');
    await page.waitForSelector('.why');
    await page.locator('.head >> text=Delete').click();
    await page.fill('dialog input[type=text]', 'baskets');
    await page.click('dialog footer .danger');
    await page.waitForSelector('dialog .problem >> text=access');
  }],
  ['restart', { expected: /401|503|ERR_/ }, async (it) => {
    const { page, node } = it;
    await logIn(it, '#/queues/%2F/paid');
    await page.waitForSelector('.why');
    await node.stop();
    await page.waitForSelector('text=The node does not answer');
    await node.start();
    // Logins do not outlive the node.
    await page.waitForSelector('text=Your login has ended');
    await page.fill('[name=username]', 'guest');
    await page.fill('[name=password]', 'guest');
    await page.press('[name=password]', 'Enter');
    await page.waitForSelector('.why');
    assert.match(page.url(), /#\/queues\/%2F\/paid$/);
  }],
  ['looks-light', {}, openPages],
  ['looks-dark', { theme: 'dark' }, openPages],
  ['looks-contrast', { theme: 'contrast' }, openPages],
  ['looks-narrow', { width: 320, height: 640 }, openPages],
];

export { rows };
