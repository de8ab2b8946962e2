// Channels.

import { isOneVhost } from '../app.js';
import { h } from '../dom.js';
import { number, rate } from '../format.js';
import { listPage } from '../list.js';
import { consumerState, name, state, tag, toChannel } from '../parts.js';

const perSecond = (details) => (details?.rate ? rate(details.rate) : h('span', { class: 'faint' }, '0/s'));
const n = (value) => (value ? number(value) : h('span', { class: 'faint' }, '0'));

/** The state of the channel, or of its worst consumer where that is none to be content with. */
const channelState = (row) => (/^(hung|at|client|blocked)/.test(row.consumer_state ?? '') ? consumerState({ state: row.consumer_state }) : state(row.state));

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'name', label: 'Channel', path: 'name', wide: true, also: ['number', 'connection_details'], cell: (row) => toChannel(row.name, { ...row.connection_details, number: row.number }) },
  { id: 'vhost', label: 'Virtual host', path: 'vhost', hidden: isOneVhost, cell: (row) => name(row.vhost) },
  { id: 'user', label: 'User', path: 'user', cell: (row) => name(row.user), filter: { key: 'user', path: 'user', kind: 'text', help: 'guest' } },
  { id: 'state', label: 'State', path: 'state', also: ['consumer_state'], cell: (row) => channelState(row), filter: { key: 'state', path: 'consumer_state', kind: 'text', help: 'hung' } },
  { id: 'mode', label: 'Mode', path: 'confirm', also: ['transactional'], cell: (row) => (row.confirm ? tag('calm', 'confirms') : row.transactional ? tag('calm', 'transactions') : h('span', { class: 'faint' }, '\u2013')), filter: { key: 'confirms', path: 'confirm', kind: 'flag' } },
  { id: 'consumers', label: 'Consumers', path: 'consumer_count', num: true, cell: (row) => n(row.consumer_count), filter: { key: 'consumers', path: 'consumer_count', kind: 'number' } },
  { id: 'prefetch', label: 'Prefetch', path: 'prefetch_count', num: true, cell: (row) => n(row.prefetch_count) },
  { id: 'unacked', label: 'Unacked', path: 'messages_unacknowledged', num: true, cell: (row) => n(row.messages_unacknowledged), filter: { key: 'unacked', path: 'messages_unacknowledged', kind: 'number' } },
  { id: 'unconfirmed', label: 'Unconfirmed', path: 'messages_unconfirmed', num: true, cell: (row) => n(row.messages_unconfirmed), filter: { key: 'unconfirmed', path: 'messages_unconfirmed', kind: 'number' } },
  { id: 'publish', label: 'Published', path: 'message_stats.publish_details.rate', num: true, cell: (row) => perSecond(row.message_stats?.publish_details), filter: { key: 'in', path: 'message_stats.publish_details.rate', kind: 'number' } },
  { id: 'deliver', label: 'Delivered', path: 'message_stats.deliver_get_details.rate', num: true, cell: (row) => perSecond(row.message_stats?.deliver_get_details), filter: { key: 'out', path: 'message_stats.deliver_get_details.rate', kind: 'number' } },
  { id: 'ack', label: 'Acked', path: 'message_stats.ack_details.rate', num: true, cell: (row) => perSecond(row.message_stats?.ack_details) },
];

export function open() {
  return listPage({ title: 'Channels', list: 'channels', noun: 'channel', columns: COLUMNS, key: (row) => row.name, needs: ['name', 'vhost'], none: 'No channels' });
}
