// The node's log, and what happens to its objects, as they come: two exchanges that are watched.

import { link, query, redraw } from '../app.js';
import { get, path } from '../api.js';
import { h } from '../dom.js';
import { plain } from '../format.js';
import { fields, nothing, problem, tabs, tag } from '../parts.js';
import { watch } from '../tail.js';

const KINDS = { error: 'bad', warning: 'warn', info: 'calm', debug: 'calm' };

const TABS = {
  '': {
    exchange: 'amq.rabbitmq.log', hint: "Condition: routing_key IN ('warning', 'error')", noun: 'line', setting: 'log.exchange = true',
    columns: [{ label: 'Level', cell: (it) => tag(KINDS[it.routing_key] ?? 'calm', plain(it.routing_key)) }, { label: 'Line', kind: 'line', cell: (it) => plain(String(it.payload ?? '').replace(/^\S+ \S+ \[\w+\] /, '').trimEnd()) }],
  },
  events: {
    exchange: 'amq.rabbitmq.event', hint: "Condition: routing_key LIKE 'queue.%'", noun: 'event', setting: 'event_exchange.vhost = /',
    columns: [{ label: 'Event', cell: (it) => h('code', null, plain(it.routing_key)) }, { label: 'About', cell: (it) => fields(it.properties?.headers) }],
  },
};

export function open() {
  /** @type {Record<string, {view: () => any, close: () => void} | null>} */
  const parts = {};
  const page = {
    title: 'Log and events', data: /** @type {Record<string, any>} */ ({}), errors: {}, sources: () => ({}),
    close: () => Object.values(parts).forEach((part) => part?.close()),
    view: () => view(parts),
  };
  return page;
}

async function find(parts, tab) {
  const { exchange, columns, hint, noun } = TABS[tab];
  parts[tab] = { view: () => h('span', { class: 'ghost' }), close() {} };
  const answer = await get(`/exchanges?page=1&page_size=1&columns=name,vhost&use_regex=true&name=${encodeURIComponent(`^${exchange.replaceAll('.', '\\.')}$`)}`);
  const found = answer.data?.items?.[0];
  parts[tab] = !answer.ok ? { view: () => problem(answer.reason), close() {} } : found ? watch(path`/exchanges/${found.vhost}/${exchange}`, { columns, hint, noun }) : null;
  redraw();
}

function view(parts) {
  const tab = TABS[query('tab')] ? query('tab') : '';
  if (parts[tab] === undefined) find(parts, tab);
  return [
    h('div', { class: 'head' }, h('h1', null, 'Log and events')),
    tabs([['', 'Log'], ['events', 'Events']], tab, (id) => link(['log'], { tab: id })),
    parts[tab] === null ? nothing(`The node does not tell this to an exchange. With `, h('code', null, TABS[tab].setting), ' in its configuration it does, after a restart.') : parts[tab]?.view(),
  ];
}
