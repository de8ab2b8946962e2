// One exchange: where messages come from, by which bindings they go on, and the way of one that is only tried.

import { link, may, query, exchangeLink, redraw } from '../app.js';
import { ask, deleteExchange, path } from '../api.js';
import { chart, rates, samples } from '../chart.js';
import { h } from '../dom.js';
import { number, plain, rate, short, time } from '../format.js';
import { bindTo, button, control, dialog, facts, fields, name, nothing, problem, publish, section, table, tabs, tag, tile, to, toChannelOf, toExchange, toQueue, unbind, value } from '../parts.js';

export function open([, vhost, shown]) {
  const exchange = shown === 'amq.default' ? '' : shown;
  const of = path`/${vhost}/${exchange || 'amq.default'}`;
  const trial = { key: 'trial', values: { routing_key: '', headers: '' }, answer: /** @type {any} */ (null), problem: '' };
  const page = {
    parts: /** @type {Record<string, {view: () => any, close: () => void}>} */ ({}), close: () => Object.values(page.parts).forEach((part) => part.close()),
    title: exchange || '(AMQP default)', vhost, exchange, trial, of, data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources() {
      const sources = /** @type {Record<string, string>} */ ({ exchange: `/exchanges${of}?${samples('600', ['msg_rates'])}` });
      if (query('tab') === 'bindings') {
        sources.from = `/exchanges${of}/bindings/source?page=1&page_size=100`;
        sources.into = `/exchanges${of}/bindings/destination?page=1&page_size=100`;
      }
      return sources;
    },
    view: () => view(page),
  };
  return page;
}

function view(page) {
  const { vhost, data: { exchange } } = page;
  const crumb = h('p', { class: 'crumb' }, to(link(['exchanges']), 'Exchanges'), ' \u203a ', to(link(['exchanges'], { vhost }), name(vhost)));
  if (!exchange) return [h('div', { class: 'head' }, crumb, h('h1', null, name(page.exchange, '(AMQP default)'))), page.errors.exchange ? nothing(exchange === null ? 'Exchange not found.' : page.errors.exchange) : h('div', { class: 'tile' }, h('span', { class: 'ghost' }))];
  const tab = query('tab');
  const isDefault = page.exchange === '';
  return [
    h('div', { class: 'head' }, crumb, h('h1', null, name(exchange.name, '(AMQP default)')), tag('calm', exchange.type), !exchange.durable && tag('calm', 'transient'), exchange.internal && tag('calm', 'internal'),
      h('span', { class: 'grow' }), h('div', { class: 'bar' }, may('write', vhost, exchange.name) && button('Publish', () => publish({ vhost, exchange: exchange.name })),
        !isDefault && may('configure', vhost, exchange.name) && button('Delete', () => dialog({ title: ['Delete ', name(exchange.name), '?'], says: h('p', null, 'Deletes its bindings too. Publishing to it fails then.'), act: 'Delete the exchange', danger: true, confirm: exchange.name, requests: () => [deleteExchange(exchange)], told: 'Deleted', leaves: link(['exchanges']) }), { kind: 'danger' }))),
    tabs([['', 'Overview'], ['bindings', 'Bindings'], ['tail', 'Live tail'], ['topology', 'Topology'], ['try', 'Test routing']], tab, (id) => exchangeLink(vhost, exchange.name) + (id ? `?tab=${id}` : '')),
    page.errors.exchange && problem(page.errors.exchange),
    tab === 'bindings' ? bindings(page, isDefault) : LOADED[tab] ? loaded(page, tab) : tab === 'try' ? tried(page) : now(exchange),
  ];
}

/** Tabs whose modules come when they are opened first. */
const LOADED = {
  topology: (page) => import('../topology.js').then((it) => it.topology('exchange', page.vhost, page.exchange)),
  tail: (page) => import('../tail.js').then((it) => it.watch(`/exchanges${page.of}`)),
};

function loaded(page, tab) {
  if (!page.parts[tab]) {
    page.parts[tab] = { view: () => h('span', { class: 'ghost' }), close() {} };
    LOADED[tab](page).then((part) => { page.parts[tab] = part; redraw(); });
  }
  return page.parts[tab].view();
}

function now(exchange) {
  const stats = exchange.message_stats ?? {};
  return [
    h('div', { class: 'tiles' }, tile('In', rate(stats.publish_in_details?.rate ?? 0), `${short(stats.publish_in ?? 0)} total`), tile('Out', rate(stats.publish_out_details?.rate ?? 0), `${short(stats.publish_out ?? 0)} total`)),
    chart({ label: 'Rates', unit: 'rate', series: [{ name: 'In', points: rates(stats.publish_in_details) }, { name: 'Out', points: rates(stats.publish_out_details) }] }),
    h('div', { class: 'cards' },
      section('Publishers', table(['Channel', '#Per second', '#Total', '#Unroutable'], (exchange.incoming ?? []).map((it) => [toChannelOf(it.channel_details), rate(it.stats.publish_details?.rate), number(it.stats.publish), number((it.stats.drop_unroutable ?? 0) + (it.stats.return_unroutable ?? 0))]), 'None')),
      section('Routed to', table(['Queue', '#Per second', '#Total'], (exchange.outgoing ?? []).map((it) => [toQueue(it.queue.vhost, it.queue.name), rate(it.stats.publish_details?.rate), number(it.stats.publish)]), 'None'))),
    section('Settings', facts([['Type', exchange.type], ['Durable', value(exchange.durable)], ['Auto-delete', value(exchange.auto_delete)], ['Internal', value(exchange.internal)], ['Policy', name(exchange.policy, '\u2013')], ['Arguments', fields(exchange.arguments)]])),
  ];
}

function bindings(page, isDefault) {
  const { vhost, exchange, data: { from, into } } = page;
  if (isDefault) return section('Bindings', nothing('The default exchange is bound to every queue, with the queue name as routing key.'));
  if (!from || !into) return page.errors.from ? problem(page.errors.from) : h('span', { class: 'ghost' });
  const destination = (it) => (it.destination_type === 'queue' ? toQueue(vhost, it.destination) : toExchange(vhost, it.destination));
  const more = (list) => list.filtered_count > list.items.length && h('p', { class: 'faint' }, `The first ${number(list.items.length)} of ${number(list.filtered_count)}`);
  return [
    section(['Bindings from this exchange ', may('read', vhost, exchange) && button('Bind', () => bindTo({ vhost, source: exchange }))], table(['Destination', 'Type', 'Routing key', 'Arguments', ''], from.items.map((it) => [destination(it), it.destination_type, name(it.routing_key, '(empty)'), fields(it.arguments), button('Unbind', () => unbind(it), { kind: 'danger' })]), 'No bindings: messages are unroutable.'), more(from)),
    section(['Bindings to this exchange ', may('write', vhost, exchange) && button('Bind', () => bindTo({ vhost, destination: exchange, kind: 'e' }))], table(['Exchange', 'Routing key', 'Arguments', ''], into.items.map((it) => [toExchange(vhost, it.source), name(it.routing_key, '(empty)'), fields(it.arguments), button('Unbind', () => unbind(it), { kind: 'danger' })]), 'No bindings'), more(into)),
  ];
}

async function tryOut(page) {
  const { trial, of } = page;
  let headers;
  try {
    headers = trial.values.headers ? JSON.parse(trial.values.headers) : {};
  } catch {
    trial.problem = 'Headers are a JSON object: {"tenant": "a"}';
    redraw();
    return;
  }
  const answer = await ask('POST', `/explain/publish${of}`, { routing_key: trial.values.routing_key, properties: { headers } });
  trial.problem = answer.ok ? '' : answer.reason;
  trial.answer = answer.ok ? answer.data : null;
  redraw();
}

/** The way of a message that is not published. */
function tried(page) {
  const { trial, vhost } = page;
  const { answer } = trial;
  return section('Test routing: nothing is published.',
    h('form', { onsubmit: (event) => { event.preventDefault(); tryOut(page); } }, h('div', { class: 'form' },
      control(trial, { name: 'routing_key', label: 'Routing key' }), control(trial, { name: 'headers', label: 'Headers', placeholder: '{"tenant": "a"}' })), h('p', null, h('button', { type: 'submit', class: 'button primary' }, 'Test'))),
    trial.problem && problem(trial.problem),
    answer && [
      h('p', null, tag(answer.outcome === 'routed' && answer.allowed ? 'good' : 'warn', answer.outcome), ' ', answer.allowed ? '' : ['You may not publish: ', answer.permission, ' ']),
      answer.waits_for?.length > 0 && h('p', null, 'Publishers blocked: ', answer.waits_for.map((it) => tag('bad', `${plain(typeof it === 'string' ? it : JSON.stringify(it))} alarm`))),
      answer.held_by?.length > 0 && h('ul', null, answer.held_by.map((it) => h('li', null, toExchange(vhost, it.exchange), ': ', plain(it.fate), it.due_at ? `, due at ${time(it.due_at)}` : ''))),
      h('h3', null, 'Queues'), table(['Queue', 'Type', 'Result', '#Ready'], answer.queues.map((it) => [toQueue(vhost, it.name), it.type, tag(it.fate === 'stored' ? 'good' : 'warn', it.fate), number(it.messages_ready)]), 'None: the message is unroutable.'),
      h('h3', null, 'Route'), h('ol', null, answer.steps.map((it) => h('li', null, toExchange(vhost, it.exchange), ' \u2192 ', it.destinations.length === 0 ? 'no binding matches' : it.destinations.map((to, at) => [at > 0 && ', ', to.kind === 'queue' ? toQueue(vhost, to.name) : toExchange(vhost, to.name)]),
        it.alternate_exchange && [', then its alternate exchange ', toExchange(vhost, it.alternate_exchange)]))),
    ]);
}
