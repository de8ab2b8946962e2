// Fifteen tasks of an operator, by clicks and fields from the first page on, here and in RabbitMQ's UI. Choosing in a list and
// typing a text is a field each, confirming is a click.

import { Client } from './amqp.js';
import { Node } from './node.js';

/** Clicks and fields of a task. */
class Hand {
  constructor(page) {
    Object.assign(this, { page, clicks: 0, fields: 0 });
    page.removeAllListeners('dialog');
    page.on('dialog', (dialog) => { this.clicks += 1; dialog.accept(); });
  }

  async click(...all) {
    for (const what of all) {
      this.clicks += 1;
      await (typeof what === 'string' ? this.page.locator(what).first() : what).click();
    }
  }

  async type(where, text) {
    this.fields += 1;
    await this.page.locator(where).first().fill(text);
  }

  async choose(where, value) {
    this.fields += 1;
    await this.page.locator(where).first().selectOption(value);
  }

  see(what) {
    return this.page.waitForSelector(what);
  }
}

/** What one of both has before the tasks. */
async function begin(node) {
  for (const name of ['task-a', 'task-b', 'task-swept', 'task-gone', ...Array.from({ length: 10 }, (_, n) => `task-many-${n}`)]) await node.ask('PUT', `/queues/%2F/${name}`, { durable: true });
  await node.ask('PUT', '/queues/%2F/task-dead', { durable: true });
  await node.ask('PUT', '/queues/%2F/task-failing', { durable: true, arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'task-dead' } });
  await node.ask('PUT', '/exchanges/%2F/task-orders', { type: 'topic', durable: true });
  await node.ask('POST', '/bindings/%2F/e/task-orders/q/task-a', { routing_key: 'order.*' });
  const publish = (queue, headers = {}) => node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: queue, payload: '{"a":1}', payload_encoding: 'string', properties: { delivery_mode: 2, headers } });
  for (const tenant of ['t1', 't2', 't3']) await publish('task-a', { tenant });
  for (const queue of ['task-swept', 'task-failing', 'task-failing', 'task-b', 'task-b']) await publish(queue);
  await node.ask('POST', '/queues/%2F/task-failing/get', { count: 2, ackmode: 'reject_requeue_false', encoding: 'auto' });
  const client = await Client.open(node.amqp, 'task-worker');
  await client.consume('task-b', 'task-tag', 1);
  return client;
}

async function end(node, client) {
  client.close();
  const { data } = await node.ask('GET', '/queues/%2F?columns=name');
  for (const { name } of data.filter((it) => it.name.startsWith('task-'))) await node.ask('DELETE', `/queues/%2F/${name}`);
  await node.ask('DELETE', '/exchanges/%2F/task-orders');
  await node.ask('DELETE', '/users/task-user');
  await node.ask('DELETE', '/policies/%2F/task-policy');
}

/** @type {[string, (hand: Hand) => Promise<void>, ((hand: Hand) => Promise<void>) | string][]} */
const TASKS = [
  ['create a quorum queue with a length limit', async (hand) => {
    await hand.click('.navigation >> text=Queues and streams', '.bar .primary');
    await hand.type('dialog [name=name]', 'task-made');
    await hand.choose('dialog [name=type]', 'quorum');
    await hand.click('dialog label:has-text("Show all arguments")');
    await hand.type('dialog [name=x-max-length]', '1000');
    await hand.click('dialog footer .primary');
    await hand.page.waitForURL(/task-made/);
  }, async (hand) => {
    await hand.click('#tabs >> text=Queues', 'h2 >> text=Add a new queue');
    await hand.choose('form [name=queuetype]', 'quorum');
    await hand.type('form [name=name]', 'task-made');
    await hand.click('.argument-link[key="x-max-length"]');
    await hand.type('form [name^=arguments_][name$=_mfvalue]', '1000');
    await hand.click('input[value="Add queue"]');
    await hand.see('table.list >> text=task-made');
  }],
  ['publish a message to a queue', async (hand) => {
    await openQueue(hand, 'task-made');
    await hand.click('.head >> text=Publish');
    await hand.type('dialog [name=payload]', 'x');
    await hand.click('dialog footer .primary');
    await hand.see('.note >> text=Published');
  }, async (hand) => {
    await openTheirs(hand, 'task-made');
    await hand.click('h2 >> text=Publish message');
    await hand.type('textarea[name=payload]', 'x');
    await hand.click('input[value="Publish message"]');
    await hand.see('.form-popup-info >> text=published');
  }],
  ['read the messages of a queue and leave them there', async (hand) => {
    await openQueue(hand, 'task-a');
    await hand.click('.tabs >> text=Messages', '.button.open');
    await hand.see('.detail pre');
  }, async (hand) => {
    await openTheirs(hand, 'task-a');
    await hand.click('h2 >> text=Get messages', 'input[value="Get Message(s)"]');
    await hand.see('#msg-wrapper pre');
  }],
  ['find the messages with a header', async (hand) => {
    await openQueue(hand, 'task-a');
    await hand.click('.tabs >> text=Messages');
    await hand.type('[data-filter]', "tenant = 't2'");
    await hand.click('main .bar .primary');
    await hand.page.waitForFunction(() => document.querySelectorAll('table.rows tbody tr, .browse tbody tr').length === 1);
  }, 'no'],
  ['purge a queue', async (hand) => {
    await openQueue(hand, 'task-swept');
    await hand.click('.head >> text=Purge');
    await hand.type('dialog input[type=text]', 'task-swept');
    await hand.click('dialog footer .danger');
    await hand.see('.note >> text=Purged');
  }, async (hand) => {
    await openTheirs(hand, 'task-swept');
    await hand.click('h2 >> text=Purge', 'input[value="Purge Messages"]');
    await hand.see('.form-popup-info');
  }],
  ['delete ten queues', async (hand) => {
    await hand.click('.navigation >> text=Queues and streams');
    await hand.type('[data-filter]', 'task-many');
    await hand.page.waitForFunction(() => document.querySelectorAll('table.rows tbody tr').length === 10);
    await hand.click('thead .pick input', '.bulk >> text=Delete', 'dialog footer >> text=Count first');
    await hand.type('dialog input[type=text]', '10');
    await hand.click('dialog footer .danger');
    await hand.see('.note >> text=Deleted 10');
  }, async (hand) => {
    await hand.click('#tabs >> text=Queues');
    for (let n = 0; n < 10; n += 1) {
      await hand.click(hand.page.locator('table.list a', { hasText: `task-many-${n}` }).first());
      await hand.see(`h1 >> text=task-many-${n}`);
      // What was unfolded once stays so.
      if (n === 0) await hand.click('h2 >> text=Delete');
      await hand.click('input[value="Delete Queue"]');
      await hand.page.waitForURL(/#\/queues$/);
    }
  }],
  ['find the connection of a client by its name', async (hand) => {
    await hand.click('.top .search');
    await hand.type('.palette input', 'task-worker');
    await hand.click('.palette li:has-text("127.0.0.1") >> text=task-worker');
    await hand.page.waitForURL(/#\/connections\//);
  }, async (hand) => {
    await hand.click('#tabs >> text=Connections');
    await hand.click(hand.page.locator('table.list tr', { hasText: 'task-worker' }).locator('a').first());
    await hand.page.waitForURL(/#\/connections\//);
  }],
  ['see which consumer holds messages, and for how long', async (hand) => {
    await openQueue(hand, 'task-b');
    await hand.see('.why li >> text=/Consumer task-tag on .* holds 1 for/');
  }, 'how many, by channel; not for how long'],
  ['close the connection of a consumer that hangs', async (hand) => {
    await openQueue(hand, 'task-b');
    await hand.click('.why li >> text=Close', 'dialog footer .danger');
    await hand.see('.note >> text=Closed');
  }, async (hand) => {
    await openTheirs(hand, 'task-b');
    await hand.click('h2 >> text=Consumers', hand.page.locator('.consumers a, table.list a[href^="#/channels"]').first(), hand.page.locator('a[href^="#/connections/"]').first(), 'h2 >> text=Close this connection', 'input[value="Force Close"]');
  }],
  ['add a user with tags and permissions', async (hand) => {
    await hand.click('.navigation >> text=Users', '.bar .primary');
    await hand.type('dialog [name=name]', 'task-user');
    await hand.type('dialog [name=password]', 'task');
    await hand.type('dialog [name=tags]', 'monitoring');
    await hand.click('dialog footer .primary');
    await hand.see('table.rows >> text=task-user');
  }, async (hand) => {
    await hand.click('#tabs >> text=Admin', 'h2 >> text=Add a user');
    await hand.type('form [name=username]', 'task-user');
    await hand.type('form [name=password]', 'task');
    await hand.type('form [name=password_confirm]', 'task');
    await hand.click('.tag-link[tag=monitoring]', 'input[value="Add user"]', 'table.list a >> text=task-user', 'input[value="Set permission"]');
    await hand.see('table.list >> text=.*');
  }],
  ['set a policy, after seeing the queues that it changes', async (hand) => {
    await hand.click('.navigation >> text=Policies', 'section .primary');
    await hand.type('dialog [name=name]', 'task-policy');
    await hand.type('dialog [name=pattern]', '^task-');
    await hand.type('dialog [name=definition]', 'max-length = 100');
    await hand.click('dialog >> text=Preview changes');
    await hand.see('dialog >> text=would change');
    await hand.click('dialog footer .primary');
    await hand.see('.note >> text=Set task-policy');
  }, 'without seeing them'],
  ['move the messages of a queue to another', async (hand) => {
    await openQueue(hand, 'task-a');
    await hand.click('.head >> text=Move');
    await hand.type('dialog [name=queue]', 'task-b');
    await hand.click('dialog footer >> text=Count first', 'dialog footer .primary, dialog footer .danger');
    await hand.page.waitForFunction(() => !document.querySelector('dialog'));
  }, 'with the shovel plugin'],
  ['return dead letters to their queue', async (hand) => {
    await openQueue(hand, 'task-dead');
    await hand.click('.tabs >> text=Dead letters', 'main tbody [aria-label^="Select"]', 'main >> text=/^Redrive 2/', 'dialog footer >> text=Count first', 'dialog footer >> text=/^Redrive 2/');
    await hand.page.waitForFunction(() => !document.querySelector('dialog'));
  }, 'no'],
  ['see the queues that a routing key reaches', async (hand) => {
    await hand.click('.navigation >> text=Exchanges', 'table.rows >> text=task-orders', '.tabs >> text=Test routing');
    await hand.type('[name=routing_key]', 'order.paid');
    await hand.click('main form .primary');
    await hand.see('main td >> text=task-a');
  }, 'by publishing'],
  ['export definitions', async (hand) => {
    const saved = hand.page.waitForEvent('download');
    await hand.click('.navigation >> text=Definitions', 'main button >> text=Export');
    await saved;
  }, async (hand) => {
    const saved = hand.page.waitForEvent('download');
    await hand.click('h2 >> text=Export definitions', '#download-definitions');
    await saved;
  }],
];

async function openQueue(hand, queue) {
  await hand.click('.navigation >> text=Queues and streams', hand.page.locator('table.rows a', { hasText: queue }).first());
  await hand.see('.why, .tiles');
}

async function openTheirs(hand, queue) {
  await hand.click('#tabs >> text=Queues', hand.page.locator('table.list a', { hasText: queue }).first());
  await hand.see(`h1 >> text=${queue}`);
}

/** Does all tasks and prints their table. @param {Node} node @param {any} browser @param {string} [theirs] the address of RabbitMQ's UI, whose AMQP port is 30000 less */
export async function tasks(node, browser, theirs) {
  const peer = theirs && Object.assign(Object.create(Node.prototype), { url: theirs, amqp: Number(new URL(theirs).port) - 30000 });
  const rows = TASKS.map(([task]) => [task]);
  for (const [at, side] of [node, peer].entries()) {
    if (!side) continue;
    const client = await begin(side);
    const page = await browser.newPage();
    page.setDefaultTimeout(60000);
    await page.goto(`${side.url}/`);
    await page.fill('[name=username]', 'guest');
    await page.fill('[name=password]', 'guest');
    await page.press('[name=password]', 'Enter');
    for (const [nth, task] of TASKS.entries()) {
      const of = task[at + 1];
      if (typeof of === 'string') {
        rows[nth].push(of);
        continue;
      }
      await page.goto('about:blank');
      await page.goto(`${side.url}/#/`);
      await page.waitForSelector(side === node ? '.page h1' : '#tabs a');
      const hand = new Hand(page);
      const problem = await of(hand).then(() => '', (error) => ` (${String(error.message).split('\n')[0]})`);
      rows[nth].push(`${hand.clicks}${hand.fields > 0 ? ` + ${hand.fields}` : ''}${problem}`);
    }
    await page.close();
    await end(side, client);
  }
  console.log(['| task | Leveret | RabbitMQ 4.3 |', '|---|---|---|', ...rows.map((row) => `| ${row.join(' | ')} |`)].join('\n'));
}
