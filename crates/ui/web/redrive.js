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

/** Sends messages on. @param {any} queue @param {Select} select @param {any} what says which messages these are @param {string} [first] where to, at first */
export function redrive({ vhost, name: queue }, select, what, first = 'origin') {
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
    title: ['Redrive ', what], wide: true,
    says: h('p', null, 'Sends messages back to work. Each is confirmed at its new place before it leaves this queue. What finds no place stays.'),
    fields: [
      { name: 'to', label: 'Where to', type: 'select', options: [['origin', 'Where each came from: its exchange and key'], ['queue', 'A queue'], ['exchange', 'An exchange, by a key'], ['broker', 'Another broker']], value: first },
      { name: 'queue', label: 'Queue', required: true, only: (values) => values.to === 'queue' },
      { name: 'exchange', label: 'Exchange', required: true, only: (values) => values.to === 'exchange' }, { name: 'routing_key', label: 'Routing key', only: (values) => values.to === 'exchange' },
      { name: 'uri', label: 'Its URI', required: true, placeholder: 'amqps://user:password@host/vhost', autocomplete: 'off', only: (values) => values.to === 'broker' }, { name: 'there', label: 'Queue there', placeholder: 'where each came from', only: (values) => values.to === 'broker' },
      { name: 'limit', label: 'How many at most', type: 'number', placeholder: 'all' }, { name: 'rate', label: 'How many a second', type: 'number', placeholder: 'no limit' },
      { name: 'clear_deaths', label: 'Take off what says where they died', type: 'checkbox' },
    ],
    count: { requests: (values) => [{ method: 'POST', address, body: body(values, { dry_run: true }), ctl: ctl(values, true) }], shown: ([counted]) => targets(vhost, counted) },
    act: ([counted]) => `Redrive ${count(counted?.matched ?? 0, 'message')}`,
    // No more than were counted.
    requests: (values, [counted]) => [{ method: 'POST', address, body: body(values, { limit: counted?.matched }), ctl: ctl({ ...values, limit: String(counted?.matched) }, false) }],
    done: (values, answer) => { tell(`Job ${answer.data?.job} redrives ${count(answer.data?.total ?? 0, 'message')}`); look(); },
  });
}

function targets(vhost, { matched, targets: all, first }) {
  return [
    h('p', null, h('strong', null, `${count(matched, 'message')} would be redriven`), matched > 0 && ':'),
    table(['#Messages', 'To', 'By the key', ''], all.map((it) => [number(it.messages), it.exchange === undefined ? '\u2013' : it.exchange === '' ? toQueue(vhost, it.routing_key) : toExchange(vhost, it.exchange), it.exchange === undefined ? '' : name(it.routing_key, '(empty)'),
      it.problem ? tag('bad', `stays: ${plain(it.problem)}`) : tag('good', 'is there')]), 'None'),
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
    says: h('p', null, 'What a consumer holds stays its own.'),
    fields: [{ name: 'limit', label: 'How many at most', type: 'number', placeholder: 'all' }],
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
    title: ['Bring messages into ', where], act: 'Publish them',
    says: h('p', null, 'A file of messages, an object a line, as they are saved here (NDJSON). Each is published in your name.'),
    extra: () => [
      h('label', { class: 'control wide' }, h('span', null, 'File'), h('input', { type: 'file', required: true, accept: '.ndjson,.jsonl,.json,application/x-ndjson', onchange: (event) => { it.file = event.target.files[0] ?? null; it.answer = null; redraw(); } })),
      it.answer && h('div', { role: 'status' }, h('p', null, h('strong', null, `${number(it.answer.published)} published, ${number(it.answer.routed)} routed.`)), lost('No queue got it', it.answer.not_routed), lost('A queue refused it', it.answer.refused)),
    ],
    requests: () => [{ method: 'POST', address: `${address}/import`, body: it.file ?? new Blob() }],
    done: () => done?.(),
  });
  shown.keeps = (answer) => { it.answer = answer.data; redraw(); done?.(); };
}

const lost = (why, all) => all?.length > 0 && [problem(`${why}:`), table(['#Line', 'Routing key'], all.map((it) => [number(it.line), name(it.routing_key, '(empty)')]))];
