// Consumers of all queues.

import { isOneVhost, link } from '../app.js';
import { h } from '../dom.js';
import { number } from '../format.js';
import { listPage } from '../list.js';
import { fields, name, state, tag, to, toChannelOf, toConnection, toQueue } from '../parts.js';

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'queue', label: 'Queue', path: 'queue.name', also: ['queue.vhost'], cell: (row) => toQueue(row.queue?.vhost, row.queue?.name), filter: { key: 'queue', path: 'queue.name', kind: 'text', help: 'orders' } },
  { id: 'vhost', label: 'Virtual host', path: 'queue.vhost', hidden: isOneVhost, cell: (row) => to(link(['queues'], { vhost: row.queue?.vhost }), name(row.queue?.vhost)) },
  { id: 'tag', label: 'Tag', path: 'consumer_tag', cell: (row) => name(row.consumer_tag), filter: { key: 'tag', path: 'consumer_tag', kind: 'text', help: 'ctag' } },
  { id: 'channel', label: 'Channel', path: 'channel_details.name', also: ['channel_details'], wide: true, cell: (row) => toChannelOf(row.channel_details), filter: { key: 'channel', path: 'channel_details.name', kind: 'text' } },
  { id: 'connection', label: 'Connection', path: 'channel_details.connection_name', hidden: true, cell: (row) => toConnection(row.channel_details?.connection_name, row.channel_details?.user_provided_name || row.channel_details?.connection_name) },
  { id: 'user', label: 'User', path: 'channel_details.user', cell: (row) => name(row.channel_details?.user), filter: { key: 'user', path: 'channel_details.user', kind: 'text', help: 'guest' } },
  { id: 'state', label: 'State', path: 'activity_status', also: ['active'], cell: (row) => (row.activity_status === 'up' ? h('span', { class: 'faint' }, 'up') : state(row.activity_status)), filter: { key: 'state', path: 'activity_status', kind: 'text', help: 'waiting' } },
  { id: 'prefetch', label: 'Prefetch', path: 'prefetch_count', num: true, cell: (row) => (row.prefetch_count ? number(row.prefetch_count) : h('span', { class: 'faint' }, 'no limit')), filter: { key: 'prefetch', path: 'prefetch_count', kind: 'number' } },
  { id: 'acks', label: 'Acknowledgement mode', path: 'ack_required', cell: (row) => (row.ack_required ? h('span', { class: 'faint' }, 'manual') : tag('warn', 'automatic')), filter: { key: 'acks', path: 'ack_required', kind: 'flag' } },
  { id: 'exclusive', label: 'Exclusive', path: 'exclusive', cell: (row) => (row.exclusive ? 'yes' : h('span', { class: 'faint' }, 'no')), filter: { key: 'exclusive', path: 'exclusive', kind: 'flag' } },
  { id: 'arguments', label: 'Arguments', path: 'arguments', wide: true, sort: false, hidden: true, cell: (row) => fields(row.arguments) },
];

export function open() {
  return listPage({
    title: 'Consumers', list: 'consumers', noun: 'consumer', columns: COLUMNS, key: (row) => `${row.channel_details?.name}\0${row.consumer_tag}\0${row.queue?.name}`, needs: ['consumer_tag'], nameOf: 'queue.name', none: 'No consumers',
  });
}
