// What is done to the messages of a queue that an operator picks: sent on, removed, brought in. What it would
// be is counted first.

import { app, look, redraw, tell } from './app.js';
import { path } from './api.js';
import { h } from './dom.js';
import { count, number, plain } from './format.js';
import { dialog, name, offer, problem, table, tag, toExchange, toQueue } from './parts.js';

/**
 * Picked messages.
 * @typedef {'all' | {filter: string} | {positions: number[]}} Select
 */

/** As a verb of the command line takes them. @param {Select} select */
const selected = (select) => (select === 'all' ? ['--all'] : 'filter' in select ? ['--filter', select.filter] : ['--positions', select.positions.join(',')]);

/** Sends messages on. @param {any} queue @param {Select} select @param {any} what says which messages these are @param {string} [first] where to, at first @param {string} [verb] */
export function redrive({ vhost, name: queue }, select, what, first = 'origin', verb = 'Redrive') {
  const address = path`/queues/${vhost}/${queue}/redrive`;
  const to = (values) => ({
    origin: 'origin', queue: { queue: values.queue }, exchange: { exchange: values.exchange, routing_key: values.routing_key }, broker: { uri: values.uri, ...(values.there && { queue: values.there }) },
  })[values.to];
  const ctl = (values, dry) => [
    'redrive_messages', '--vhost', vhost, ...(values.to === 'broker' ? ['--to-uri', values.uri] : ['--user', app.who?.name ?? 'USER']), ...selected(select), ...(values.limit ? ['--limit', values.limit] : []),
    ...{ origin: ['--to-origin'], queue: ['--to-queue', values.queue], exchange: ['--to-exchange', values.exchange, '--routing-key', values.routing_key], broker: values.there ? ['--to-queue', values.there] : ['--to-origin'] }[values.to],
    ...(values.rate ? ['--rate', values.rate] : []), ...(values.clear_deaths ? ['--clear-deaths'] : []), ...(dry ? ['--dry-run'] : []), queue,
  ];
  const body = (values, more) => ({
    select, to: to(values),
    ...(values.rate && { rate: Number(values.rate) }), ...(values.clear_deaths && { clear_deaths: true }), ...(values.limit && { limit: Number(values.limit) }), ...more,
  });
  dialog({
    title: [`${verb} `, what], wide: true,
    says: h('p', null, 'Republishes messages, then removes them: each once its new queue has confirmed it. Unroutable messages stay.'),
    fields: [
      { name: 'to', label: 'Destination', type: 'select', options: [['origin', 'Original exchange and routing key'], ['queue', 'A queue'], ['exchange', 'An exchange'], ['broker', 'Another broker']], value: first },
      { name: 'queue', label: 'Queue', required: true, only: (values) => values.to === 'queue' },
      { name: 'exchange', label: 'Exchange', required: true, only: (values) => values.to === 'exchange' }, { name: 'routing_key', label: 'Routing key', only: (values) => values.to === 'exchange' },
      { name: 'uri', label: 'URI', required: true, placeholder: 'amqps://user:password@host/vhost', autocomplete: 'off', only: (values) => values.to === 'broker' }, { name: 'there', label: 'Queue at that broker', placeholder: 'original exchange and routing key', only: (values) => values.to === 'broker' },
      { name: 'limit', label: 'Maximum messages', type: 'number', placeholder: 'all' }, { name: 'rate', label: 'Messages per second', type: 'number', placeholder: 'no limit' },
      { name: 'clear_deaths', label: 'Remove x-death headers', type: 'checkbox' },
    ],
    count: { requests: (values) => [{ method: 'POST', address, body: body(values, { dry_run: true }), ctl: ctl(values, true) }], shown: ([counted]) => targets(vhost, counted, verb) },
    act: ([counted]) => `${verb} ${count(counted?.matched ?? 0, 'message')}`,
    // No more than were counted.
    requests: (values, [counted]) => [{ method: 'POST', address, body: body(values, { limit: counted?.matched }), ctl: ctl({ ...values, limit: String(counted?.matched) }, false) }],
    done: (values, answer) => { tell(`Job ${answer.data?.job}: ${verb === 'Move' ? 'moving' : 'redriving'} ${count(answer.data?.total ?? 0, 'message')}`); look(); },
  });
}

function targets(vhost, { matched, targets: all, first }, verb) {
  return [
    h('p', null, h('strong', null, `${count(matched, 'message')} would be ${verb === 'Move' ? 'moved' : 'redriven'}`), matched > 0 && ':'),
    table(['#Messages', 'Destination', 'Routing key', 'Result'], all.map((it) => [number(it.messages), it.exchange === undefined ? '\u2013' : it.exchange === '' ? toQueue(vhost, it.routing_key) : toExchange(vhost, it.exchange), it.exchange === undefined ? '' : name(it.routing_key, '(empty)'),
      it.problem ? tag('bad', `stays: ${plain(it.problem)}`) : tag('good', 'exists')]), 'None'),
    sample(first),
  ];
}

const sample = (first) => first?.length > 0 && h('details', null, h('summary', null, `The first ${number(first.length)}`), table(['#Position', 'Routing key', 'Body'], first.map((it) => [number(it.position), name(it.routing_key, '(empty)'), h('span', { class: 'preview' }, plain(String(it.payload ?? '').slice(0, 80)))])));

/** Removes messages. @param {any} queue @param {Select} select @param {any} what @param {() => void} [done] */
export function remove({ vhost, name: queue }, select, what, done) {
  const address = path`/queues/${vhost}/${queue}/remove`;
  const ctl = (values, more) => ['remove_messages', '--vhost', vhost, ...selected(select), ...(values.limit ? ['--limit', values.limit] : []), ...more, queue];
  const body = (values, more) => ({ select, ...(values.limit && { limit: Number(values.limit) }), ...more });
  dialog({
    title: ['Remove ', what], wide: true, danger: true, confirm: queue,
    says: h('p', null, 'Unacked messages stay.'),
    fields: [{ name: 'limit', label: 'Maximum messages', type: 'number', placeholder: 'all' }],
    count: { requests: (values) => [{ method: 'POST', address, body: body(values, { dry_run: true }), ctl: ctl(values, ['--dry-run']) }], shown: ([counted]) => [h('p', null, h('strong', null, `${count(counted.matched, 'message')} would be removed.`), offer(counted.undo)), sample(counted.first)] },
    act: ([counted]) => `Remove ${count(counted?.matched ?? 0, 'message')}`,
    requests: (values, [counted]) => [{ method: 'POST', address, body: body(values, { expected: counted?.matched }), ctl: ctl(values, ['--expected', String(counted?.matched)]) }],
    told: (values, answer) => `Removed ${count(answer.data?.removed ?? 0, 'message')}`,
    done: () => done?.(),
  });
}

/** Publishes the lines of a file. @param {string} address of what takes them, below `/api` @param {any} where @param {() => void} [done] */
export function bringIn(address, where, done) {
  const it = { file: /** @type {File | null} */ (null), answer: /** @type {any} */ (null), problem: '' };
  const shown = dialog({
    title: ['Import messages into ', where], act: 'Import',
    says: h('p', null, 'A file of messages as exported here: NDJSON, one object per line. Each message is published as you.'),
    extra: () => [
      h('label', { class: 'control wide' }, h('span', null, 'File'), h('input', { type: 'file', required: true, accept: '.ndjson,.jsonl,.json,application/x-ndjson', onchange: (event) => { it.file = event.target.files[0] ?? null; it.answer = null; redraw(); } })),
      it.answer && h('div', { role: 'status' }, h('p', null, h('strong', null, `${number(it.answer.published)} published, ${number(it.answer.routed)} routed.`)), lost('Unroutable', it.answer.not_routed), lost('Rejected by a queue', it.answer.refused)),
    ],
    requests: () => [{ method: 'POST', address: `${address}/import`, body: it.file ?? new Blob() }],
    done: () => done?.(),
  });
  shown.keeps = (answer) => { it.answer = answer.data; redraw(); done?.(); };
}

const lost = (why, all) => all?.length > 0 && [problem(`${why}:`), table(['#Line', 'Routing key'], all.map((it) => [number(it.line), name(it.routing_key, '(empty)')]))];
