// Consumers of all queues.

import { isOneVhost, link, queueLink } from '../app.js';
import { h } from '../dom.js';
import { duration, number } from '../format.js';
import { listPage } from '../list.js';
import { consumerState, fields, name, tag, to, toChannelOf, toConnection, toQueue } from '../parts.js';

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'queue', label: 'Queue', path: 'queue.name', also: ['queue.vhost'], cell: (row) => toQueue(row.queue?.vhost, row.queue?.name), filter: { key: 'queue', path: 'queue.name', kind: 'text', help: 'orders' } },
  { id: 'vhost', label: 'Virtual host', path: 'queue.vhost', hidden: isOneVhost, cell: (row) => to(link(['queues'], { vhost: row.queue?.vhost }), name(row.queue?.vhost)) },
  { id: 'tag', label: 'Tag', path: 'consumer_tag', cell: (row) => name(row.consumer_tag), filter: { key: 'tag', path: 'consumer_tag', kind: 'text', help: 'ctag' } },
  { id: 'channel', label: 'Channel', path: 'channel_details.name', also: ['channel_details'], wide: true, cell: (row) => toChannelOf(row.channel_details), filter: { key: 'channel', path: 'channel_details.name', kind: 'text' } },
  { id: 'connection', label: 'Connection', path: 'channel_details.connection_name', hidden: true, cell: (row) => toConnection(row.channel_details?.connection_name, row.channel_details?.user_provided_name || row.channel_details?.connection_name) },
  { id: 'user', label: 'User', path: 'channel_details.user', cell: (row) => name(row.channel_details?.user), filter: { key: 'user', path: 'channel_details.user', kind: 'text', help: 'guest' } },
  { id: 'state', label: 'State', path: 'state', also: ['activity_status'], cell: consumerState, filter: { key: 'state', path: 'state', kind: 'text', help: 'hung' } },
  { id: 'unacked', label: 'Unacked', path: 'messages_held_by_channel', num: true, cell: (row) => (row.messages_held_by_channel > 0 ? to(queueLink(row.queue?.vhost, row.queue?.name, { tab: 'messages', which: 'unacked' }), number(row.messages_held_by_channel)) : h('span', { class: 'faint' }, '0')), filter: { key: 'unacked', path: 'messages_held_by_channel', kind: 'number' } },
  { id: 'oldest', label: 'Oldest unacked', path: 'oldest_held_seconds', num: true, cell: (row) => (row.oldest_held_seconds > 0 ? duration(row.oldest_held_seconds * 1000) : h('span', { class: 'faint' }, '\u2013')), filter: { key: 'oldest', path: 'oldest_held_seconds', kind: 'number', isSeconds: true, help: '10min' } },
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
