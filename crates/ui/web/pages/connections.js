// Connections of clients.

import { isOneVhost, query } from '../app.js';
import { path } from '../api.js';
import { h } from '../dom.js';
import { bytes, client, count, number, plain, protocol, time } from '../format.js';
import { bulkDialog, listPage } from '../list.js';
import { name, state, tag, toConnection } from '../parts.js';

/** @param {any} details */
const perSecond = (details) => (details?.rate ? `${bytes(details.rate)}/s` : h('span', { class: 'faint' }, '0 B/s'));

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'name', label: 'Name', path: 'name', also: ['user_provided_name'], cell: (row) => h('span', { class: 'one' }, toConnection(row.name, row.user_provided_name || row.name), row.user_provided_name && [' ', h('span', { class: 'faint' }, plain(row.name).replace(/ -> .*/, ''))]), filter: { key: 'name', path: 'user_provided_name', kind: 'text', help: 'worker' } },
  { id: 'vhost', label: 'Virtual host', path: 'vhost', hidden: isOneVhost, cell: (row) => name(row.vhost) },
  { id: 'user', label: 'User', path: 'user', cell: (row) => name(row.user), filter: { key: 'user', path: 'user', kind: 'text', help: 'guest' } },
  { id: 'state', label: 'State', path: 'state', cell: (row) => state(row.state), filter: { key: 'state', path: 'state', kind: 'text', help: 'blocked' } },
  { id: 'protocol', label: 'Protocol', path: 'protocol', cell: (row) => protocol(row.protocol) },
  { id: 'tls', label: 'TLS', path: 'ssl', cell: (row) => (row.ssl ? tag('good', 'TLS') : h('span', { class: 'faint' }, 'no')), filter: { key: 'tls', path: 'ssl', kind: 'flag' } },
  { id: 'channels', label: 'Channels', path: 'channels', num: true, cell: (row) => number(row.channels), filter: { key: 'channels', path: 'channels', kind: 'number' } },
  { id: 'in', label: 'From client', path: 'recv_oct_details.rate', num: true, cell: (row) => perSecond(row.recv_oct_details), filter: { key: 'in', path: 'recv_oct_details.rate', kind: 'number' } },
  { id: 'out', label: 'To client', path: 'send_oct_details.rate', num: true, cell: (row) => perSecond(row.send_oct_details), filter: { key: 'out', path: 'send_oct_details.rate', kind: 'number' } },
  { id: 'client', label: 'Client', path: 'client_properties.product', also: ['client_properties.version'], cell: client, filter: { key: 'client', path: 'client_properties.product', kind: 'text', help: 'pika' } },
  { id: 'since', label: 'Connected', path: 'connected_at', hidden: true, cell: (row) => time(row.connected_at) },
  { id: 'host', label: 'From', path: 'peer_host', hidden: true, cell: (row) => plain(row.peer_host), filter: { key: 'host', path: 'peer_host', kind: 'text', help: '10.0' } },
];

const closeConnection = (row) => ({ method: 'DELETE', address: path`/connections/${row.name}`, headers: { 'x-reason': 'Closed by hand' }, ctl: null });

export function open() {
  return listPage({
    title: 'Connections', list: 'connections', noun: 'connection', columns: COLUMNS, key: (row) => row.name, needs: ['name', 'vhost'],
    none: query('vhost') ? 'No connections to this virtual host' : 'No connections',
    bulk: [{ label: 'Close', danger: true, act: (rows) => bulkDialog(rows, { verb: 'Close', noun: 'connection', name: (row) => row.name, request: closeConnection, bulk: { address: () => '/bulk/connections', body: { explanation: 'Closed by hand' }, shown: () => null }, told: `Closed ${count(rows.length, 'connection')}`, says: h('p', null, 'Their unacked messages return to their queues. Most clients reconnect.') }) }],
  });
}
