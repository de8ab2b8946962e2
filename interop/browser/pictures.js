// The pictures of the pages: a small shop at work, and what the UI shows of it.

import { join } from 'node:path';
import { Client } from './amqp.js';
import { logIn } from './scenarios.js';

const IMAGES = join(import.meta.dirname, '../../docs/images');
const [ORDERS, DEAD] = ['orders.new orders.shipping orders.invoices payments.book payments.mail'.split(' '), 'dead-letters'];
const pause = (ms) => new Promise((resolve) => { setTimeout(resolve, ms); });

/** Queues of a shop with messages, dead letters and clients at work. Returns what ends it. */
async function shop(node) {
  const put = (path, body) => node.ask('PUT', path, body);
  await put('/exchanges/%2F/orders', { type: 'topic', durable: true });
  await put('/exchanges/%2F/dead', { type: 'fanout', durable: true });
  await put('/exchanges/%2F/reminders', { type: 'x-delayed-message', durable: true, arguments: { 'x-delayed-type': 'topic' } });
  await put('/policies/%2F/orders', { pattern: '^orders\\.', definition: { 'dead-letter-exchange': 'dead', 'max-length': 1000000 }, priority: 1, 'apply-to': 'queues' });
  for (const queue of [...ORDERS, DEAD, 'scratch', 'old-imports']) await put(`/queues/%2F/${queue}`, { durable: true });
  await node.ask('POST', `/bindings/%2F/e/dead/q/${DEAD}`, {});
  for (const [queue, key] of [['orders.new', 'order.new'], ['orders.shipping', 'order.paid'], ['orders.invoices', 'order.*'], ['payments.book', 'order.paid'], ['payments.mail', 'order.paid']]) await node.ask('POST', `/bindings/%2F/e/orders/q/${queue}`, { routing_key: key });
  await node.ask('POST', '/bindings/%2F/e/reminders/q/payments.mail', { routing_key: 'reminder.#' });
  for (const [key, seconds] of [['reminder.invoice', 5400], ['reminder.invoice', 86400], ['reminder.review', 259200]]) await node.ask('POST', '/exchanges/%2F/reminders/publish', { routing_key: key, payload: '{"order":17}', payload_encoding: 'string', properties: { delivery_mode: 2, headers: { 'x-delay': seconds * 1000 } } });
  const web = await Client.open(node.amqp, 'shop-web');
  const order = (key, n) => web.publish(key, JSON.stringify({ order: 1000 + n, total: (n * 37) % 97, customer: `c-${n % 11}` }), 'orders');
  for (let n = 0; n < 60; n += 1) order('order.paid', n);
  await pause(1000);
  for (const [queue, count] of [['orders.shipping', 18], ['orders.invoices', 7]]) await node.ask('POST', `/queues/%2F/${queue}/get`, { count, ackmode: 'reject_requeue_false', encoding: 'auto' });
  const clients = [web];
  for (const [queue, name, prefetch] of /** @type {[string, string, number][]} */ ([['orders.new', 'stock-worker', 20], ['payments.book', 'bookkeeper', 10], ['orders.invoices', 'invoicer', 10]])) {
    const client = await Client.open(node.amqp, name);
    await client.consume(queue, name, prefetch);
    clients.push(client);
  }
  let n = 60;
  const timer = setInterval(() => {
    for (let one = 0; one < 4; one += 1, n += 1) order(n % 3 ? 'order.paid' : 'order.new', n);
    for (const client of clients.slice(1)) for (let one = 0; one < 3; one += 1) client.acknowledge();
  }, 50);
  return () => {
    clearInterval(timer);
    clients.forEach((it) => it.close());
  };
}

/** Takes all pictures. */
export async function pictures(node, browser) {
  const end = await shop(node);
  const page = await browser.newPage();
  const take = async (file, height, hash, before = async () => {}, width = 1160) => {
    await page.setViewportSize({ width, height });
    await page.goto(`${node.url}/${hash}`);
    await page.waitForFunction(() => document.querySelector('.page')?.getAttribute('data-address') === location.hash && !document.querySelector('.ghost'));
    await before();
    await page.mouse.move(0, 0);
    await page.screenshot({ path: join(IMAGES, `${file}.png`) });
    console.log(file);
  };
  await logIn({ page, node });
  await pause(90000);
  await take('web-ui', 700, '#/?range=60', async () => {}, 1240);
  await take('topology', 560, '#/queues/%2F/orders.shipping?tab=topology', () => page.waitForSelector('.stop.own'));
  await take('dead-letters', 400, `#/queues/%2F/${DEAD}?tab=dead`, () => page.locator('[aria-label^="Select"]').nth(1).check());
  await take('delayed', 400, '#/delayed/%2F/reminders', () => page.waitForSelector('main tbody tr'));
  await take('live-tail', 460, '#/exchanges/%2F/orders?tab=tail', async () => {
    await page.fill('[data-filter]', '$.total > 30');
    await page.click('main form .primary');
    await page.waitForFunction(() => document.querySelectorAll('main tbody tr').length > 12);
    await page.keyboard.press('Escape');
  });
  await take('explain', 600, '#/exchanges/%2F/orders?tab=try', async () => {
    await page.fill('[name=routing_key]', 'order.paid');
    await page.click('main form .primary');
    await page.waitForSelector('main td >> text=orders.shipping');
  });
  for (const [kind, queue] of [['Purge', 'orders.shipping'], ['Delete', 'old-imports']]) {
    await page.goto(`${node.url}/#/queues/%2F/${queue}`);
    await page.locator('.head h1', { hasText: queue }).waitFor();
    await page.waitForSelector('.why');
    await page.locator('.head button', { hasText: kind }).click();
    if (await page.locator('dialog input[type=text]').count() > 0) await page.fill('dialog input[type=text]', queue);
    await page.click('dialog footer .danger');
    await page.waitForFunction(() => !document.querySelector('dialog'));
  }
  await take('undo', 420, '#/queues', async () => {
    await page.click('summary[aria-label^=Jobs]');
    await page.waitForSelector('.popup.jobs >> text=old-imports');
    await page.waitForFunction(() => !document.querySelector('.note'));
  });
  end();
}
