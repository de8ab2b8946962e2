// Exchanges that hold messages back until they are due.

import { link, listPath, query } from '../app.js';
import { path } from '../api.js';
import { h } from '../dom.js';
import { bytes, duration, number, plain, time } from '../format.js';
import { button, dialog, name, nothing, problem, section, table, tag, to, toExchange } from '../parts.js';

/** Messages of an exchange that are shown. */
const SHOWN_MAX = 500;

export function open([, vhost, exchange]) {
  const page = {
    title: 'Delayed messages', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}), vhost, exchange,
    sources: () => (/** @type {Record<string, string>} */ (exchange === undefined ? { exchanges: `${listPath('exchanges')}?page=1&page_size=500&columns=name,vhost,type,arguments,messages_delayed&where=type=x-delayed-message&sort=name` }
      : { held: `${path`/leveret/exchanges/${vhost}/${exchange}/delayed`}?limit=${SHOWN_MAX}` })),
    view: () => (exchange === undefined ? exchanges(page) : held(page)),
  };
  return page;
}

function exchanges(page) {
  const { data: { exchanges: all }, errors } = page;
  if (!all) return errors.exchanges ? problem(errors.exchanges) : h('span', { class: 'ghost' });
  return [
    h('div', { class: 'head' }, h('h1', null, 'Delayed messages'), query('vhost') && name(query('vhost'))),
    section('Delayed message exchanges', table(['Exchange', 'Virtual host', 'Type after the delay', '#Delayed', ''], all.items.map((it) => [toExchange(it.vhost, it.name), name(it.vhost), plain(it.arguments?.['x-delayed-type'] ?? ''), number(it.messages_delayed), to(link(['delayed', it.vhost, it.name]), 'Messages')]),
      'None. An exchange of type x-delayed-message delays a message by the milliseconds in its header x-delay.')),
  ];
}

function cancel({ vhost, exchange }, it) {
  dialog({
    title: 'Delete the message?', says: h('p', null, `The message is due at ${time(it.due_ms)}.`), act: 'Delete the message', danger: true,
    requests: () => [{ method: 'DELETE', address: path`/leveret/exchanges/${vhost}/${exchange}/delayed/${it.id}` }], told: 'Deleted',
  });
}

/**
 * Has messages go on at another time, of an exchange or of a quorum queue: one, or those that a filter picks.
 * @param {{vhost: string, exchange?: string, queue?: string}} of @param {any} it @param {boolean} [now] @param {() => void} [done]
 */
export function move({ vhost, exchange, queue }, it, now = false, done) {
  const [address, verb] = queue ? [path`/leveret/queues/${vhost}/${queue}/delayed`, it ? 'reschedule_retry' : 'reschedule_retries']
    : [path`/leveret/exchanges/${vhost}/${exchange ?? ''}/delayed`, `reschedule_delayed_message${it ? '' : 's'}`];
  const body = (values) => ({ ...(!now && { delay_ms: Math.round(Number(values.seconds) * 1000) }), ...(!it && { filter: values.filter }) });
  const delay = (values) => (now ? [] : ['--delay-ms', String(Math.round(Number(values.seconds) * 1000))]);
  dialog({
    title: it ? (now ? 'Publish the message now?' : 'Reschedule the message') : 'Reschedule messages', act: now ? 'Publish now' : 'Reschedule',
    says: h('p', null, it ? `Due at ${time(it.due_ms)}.` : 'All messages that match the filter. 0 seconds: now.'),
    fields: [
      ...(it ? [] : [{ name: 'filter', label: 'Filter', required: true, wide: true, placeholder: "routing_key LIKE 'a.%'" }]),
      ...(now ? [] : [{ name: 'seconds', label: 'Seconds from now', type: 'number', required: true, value: 0 }]),
    ],
    requests: (values) => [{ method: 'PUT', address: it ? `${address}/${it.id}` : address, body: body(values), ctl: [verb, '--vhost', vhost, ...delay(values), ...(it ? [] : ['--filter', values.filter]), queue ?? exchange ?? '', ...(it ? [String(it.id)] : [])] }],
    told: now ? 'Published' : 'Rescheduled', done,
  });
}

function held(page) {
  const { data: { held: all }, errors } = page;
  return [
    h('div', { class: 'head' }, h('p', { class: 'crumb' }, to(link(['delayed']), 'Delayed messages')), h('h1', null, 'Delayed by ', toExchange(page.vhost, page.exchange)), h('span', { class: 'grow' }), button('Reschedule', () => move(page, null))),
    errors.held && nothing(errors.held),
    all ? section('', table(['Due', 'Routing key', '#Body', 'Kept', ''], all.map((it) => [[time(it.due_ms), ' ', h('span', { class: 'faint' }, it.due_ms > Date.now() ? `in ${duration(it.due_ms - Date.now())}` : 'due')], it.routing_key === null ? h('span', { class: 'faint' }, 'on disk') : name(it.routing_key, '(empty)'), bytes(it.body_bytes), it.persistent ? tag('calm', 'persistent') : 'transient', h('div', { class: 'bar' }, button('Publish now', () => move(page, it, true)), button('Reschedule', () => move(page, it)), button('Delete', () => cancel(page, it), { kind: 'danger' }))]), 'No delayed messages'),
      all.length >= SHOWN_MAX && h('p', { class: 'faint' }, `The first ${number(SHOWN_MAX)}`)) : !errors.held && h('span', { class: 'ghost' }),
  ];
}
