// Queues and streams.

import { app, isOneVhost, may, query } from '../app.js';
import { deleteQueue, path, purgeQueue } from '../api.js';
import { levels, spark } from '../chart.js';
import { h } from '../dom.js';
import { bytes, count, duration, number, plain, rate } from '../format.js';
import { bulkDialog, listPage } from '../list.js';
import { ICONS, button, fields, name, offer, state, tag, toQueue } from '../parts.js';

const quiet = (value, text) => (value ? text : h('span', { class: 'faint' }, text));
const n = (value) => quiet(value, number(value));
const perSecond = (details) => quiet(details?.rate, rate(details?.rate ?? 0));

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'name', label: 'Name', path: 'name', also: ['vhost'], cell: (row) => toQueue(row.vhost, row.name) },
  { id: 'vhost', label: 'Virtual host', path: 'vhost', cell: (row) => name(row.vhost), hidden: isOneVhost, filter: { key: 'vhost', path: 'vhost', kind: 'text', help: 'shop' } },
  { id: 'type', label: 'Type', path: 'type', cell: (row) => (row.type === 'classic' ? h('span', { class: 'faint' }, 'classic') : tag(`type-${row.type}`, row.type)), filter: { key: 'type', path: 'type', kind: 'text', help: 'quorum' } },
  { id: 'features', label: 'Features', path: 'arguments', wide: true, also: ['durable', 'auto_delete', 'exclusive', 'policy', 'operator_policy'], sort: false, cell: features },
  { id: 'ready', label: 'Ready', path: 'messages_ready', num: true, cell: (row) => n(row.messages_ready), filter: { key: 'ready', path: 'messages_ready', kind: 'number' } },
  { id: 'unacked', label: 'Unacked', path: 'messages_unacknowledged', num: true, cell: (row) => n(row.messages_unacknowledged), filter: { key: 'unacked', path: 'messages_unacknowledged', kind: 'number' } },
  { id: 'total', label: 'Total', path: 'messages', num: true, hidden: true, cell: (row) => n(row.messages), filter: { key: 'messages', path: 'messages', kind: 'number' } },
  { id: 'change', label: 'Change', path: 'messages_details.rate', num: true, hidden: true, cell: (row) => perSecond(row.messages_details), filter: { key: 'change', path: 'messages_details.rate', kind: 'number' } },
  { id: 'trend', label: 'Last 10 min', path: 'messages_details', sort: false, cell: (row) => spark(levels(row.messages_details), `Messages in the last ten minutes, now ${row.messages_details ? row.messages ?? '' : ''}`) },
  { id: 'in', label: 'In', path: 'message_stats.publish_details.rate', num: true, cell: (row) => perSecond(row.message_stats?.publish_details), filter: { key: 'in', path: 'message_stats.publish_details.rate', kind: 'number' } },
  { id: 'out', label: 'Out', path: 'message_stats.deliver_get_details.rate', num: true, cell: (row) => perSecond(row.message_stats?.deliver_get_details), filter: { key: 'out', path: 'message_stats.deliver_get_details.rate', kind: 'number' } },
  { id: 'ack', label: 'Acked', path: 'message_stats.ack_details.rate', num: true, hidden: true, cell: (row) => perSecond(row.message_stats?.ack_details) },
  { id: 'redelivered', label: 'Redelivered', path: 'message_stats.redeliver_details.rate', num: true, hidden: true, cell: (row) => perSecond(row.message_stats?.redeliver_details) },
  { id: 'consumers', label: 'Consumers', path: 'consumers', num: true, cell: (row) => (row.consumers === 0 && row.messages_ready > 0 ? tag('warn', '0', 'Ready messages, but no consumers') : n(row.consumers)), also: ['messages_ready'], filter: { key: 'consumers', path: 'consumers', kind: 'number' } },
  { id: 'bytes', label: 'Bytes', path: 'message_bytes', num: true, cell: (row) => quiet(row.message_bytes, bytes(row.message_bytes)), filter: { key: 'bytes', path: 'message_bytes', kind: 'number' } },
  { id: 'memory', label: 'Memory', path: 'memory', num: true, hidden: true, cell: (row) => bytes(row.memory), filter: { key: 'memory', path: 'memory', kind: 'number' } },
  { id: 'delayed', label: 'Delayed', path: 'messages_delayed', num: true, hidden: true, cell: (row) => n(row.messages_delayed ?? 0) },
  { id: 'unconfirmed', label: 'Unconfirmed', path: 'messages_unconfirmed', num: true, hidden: true, cell: (row) => n(row.messages_unconfirmed ?? 0) },
  { id: 'idle', label: 'Idle', path: 'idle_ms', num: true, hidden: true, cell: (row) => duration(row.idle_ms), filter: { key: 'idle', path: 'idle_ms', kind: 'number', help: '>1h' } },
  { id: 'oldest', label: 'Oldest', path: 'oldest_message_age_seconds', num: true, hidden: true, help: 'Age of the oldest message', cell: (row) => (row.oldest_message_age_seconds ? duration(row.oldest_message_age_seconds * 1000) : '\u2013'), filter: { key: 'oldest', path: 'oldest_message_age_seconds', kind: 'number', isSeconds: true, help: '>1h' } },
  { id: 'policy', label: 'Policy', path: 'policy', hidden: true, cell: (row) => name(row.policy, '\u2013'), filter: { key: 'policy', path: 'policy', kind: 'text' } },
  { id: 'state', label: 'State', path: 'state', cell: (row) => state(row.state), filter: { key: 'state', path: 'state', kind: 'text', help: 'running' } },
  { id: 'node', label: 'Node', path: 'node', hidden: true, cell: (row) => name(row.node) },
  { id: 'version', label: 'Storage version', path: 'storage_version', num: true, hidden: true, cell: (row) => row.storage_version ?? '\u2013' },
];

const SHORT = {
  'x-message-ttl': 'TTL', 'x-expires': 'Exp', 'x-max-length': 'Lim', 'x-max-length-bytes': 'Lim B', 'x-dead-letter-exchange': 'DLX', 'x-max-priority': 'Pri',
  'x-single-active-consumer': 'SAC', 'x-overflow': 'Ovfl', 'x-delivery-limit': 'DL', 'x-confirm-on': 'Confirm', 'x-max-age': 'Age',
};

function features(row) {
  const args = Object.entries(row.arguments ?? {}).filter(([key]) => key !== 'x-queue-type');
  const all = [
    !row.durable && ['T', 'transient'], row.auto_delete && ['AD', 'auto-delete'], row.exclusive && ['Excl', 'exclusive'],
    ...args.map(([key, value]) => [SHORT[key] ?? 'Args', `${key} = ${JSON.stringify(value)}`]),
    row.policy && [plain(row.policy), 'policy', 'policy'], row.operator_policy && [plain(row.operator_policy), 'operator policy', 'policy'],
  ].filter(Boolean);
  return h('span', { class: 'features' }, all.map(([text, title, kind]) => h('span', { class: `feature ${kind ?? ''}`, title: plain(title) }, text)));
}

/** Queues of a virtual host by one request. */
const many = (action) => ({
  address: (row) => path`/bulk/queues/${row.vhost}/${action}`,
  shown: (figure, counted) => [`${count(figure('messages_ready'), 'ready message')}, ${number(figure('messages_unacknowledged'))} unacked, ${count(figure('consumers'), 'consumer')}.`, figure('streams') > 0 && ` ${count(figure('streams'), 'stream')} with ${count(figure('messages_in_streams'), 'message')} ${action === 'purge' ? 'cannot be purged.' : 'as well.'}`, offer(counted.every((it) => it.figures?.undo) && { ...counted[0]?.figures.undo, all: counted.every((it) => it.figures.undo.all) })],
});

/** Messages of rows, with those of streams or without them. */
const messages = (rows, withStreams) => rows.reduce((sum, row) => sum + (withStreams || row.type !== 'stream' ? row.messages ?? 0 : 0), 0);

export function open() {
  return listPage({
    title: 'Queues and streams', list: 'queues', noun: 'queue', columns: COLUMNS, key: (row) => `${row.vhost}\0${row.name}`, needs: ['name', 'vhost', 'messages', 'type'],
    parameters: { lengths_age: '600', lengths_incr: '30' },
    fields: [
      { key: 'durable', path: 'durable', kind: 'flag' }, { key: 'exclusive', path: 'exclusive', kind: 'flag' }, { key: 'auto-delete', path: 'auto_delete', kind: 'flag' },
      { key: 'redelivered', path: 'message_stats.redeliver_details.rate', kind: 'number' }, { key: 'delayed', path: 'messages_delayed', kind: 'number' }, { key: 'arguments', path: 'arguments', kind: 'text', help: 'x-max-length' },
    ],
    buttons: () => may('configure', query('vhost')) && button('Add queue', () => import('../create.js').then((it) => it.createQueue()), { kind: 'primary', icon: ICONS.plus, title: 'Create a queue or a stream' }),
    bulk: !may('configure', '') && !may('read', '') ? undefined : [
      { label: 'Purge', danger: true, act: (rows) => bulkDialog(rows, { verb: 'Purge', noun: 'queue', name: (row) => row.name, request: purgeQueue, bulk: many('purge'), told: `Purged ${count(rows.length, 'queue')}`, says: h('p', null, `Deletes all ready messages: about ${number(messages(rows, false))}. Messages of streams stay.`) }) },
      { label: 'Delete', danger: true, act: (rows) => bulkDialog(rows, { verb: 'Delete', noun: 'queue', name: (row) => row.name, request: deleteQueue, bulk: many('delete'), told: `Deleted ${count(rows.length, 'queue')}`, says: h('p', null, `Deletes their bindings and about ${number(messages(rows, true))} messages.`) }) },
    ],
    none: app.vhosts.length ? 'No queues yet' : 'You have no permission in any virtual host',
  });
}
