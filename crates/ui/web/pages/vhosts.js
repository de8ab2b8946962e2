// Virtual hosts.

import { isAdministrator, link } from '../app.js';
import { path } from '../api.js';
import { h } from '../dom.js';
import { bytes, count, number, plain, rate } from '../format.js';
import { listPage } from '../list.js';
import { ICONS, QUEUE_TYPES, button, dialog, name, tag, to } from '../parts.js';

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'name', label: 'Name', path: 'name', cell: (row) => to(link(['queues'], { vhost: row.name }), name(row.name)) },
  { id: 'description', label: 'Description', path: 'description', wide: true, cell: (row) => plain(row.description ?? '') },
  { id: 'type', label: 'Default queue type', path: 'default_queue_type', cell: (row) => plain(row.default_queue_type ?? '') },
  { id: 'ready', label: 'Ready', path: 'messages_ready', num: true, cell: (row) => number(row.messages_ready), filter: { key: 'ready', path: 'messages_ready', kind: 'number' } },
  { id: 'unacked', label: 'Unacked', path: 'messages_unacknowledged', num: true, cell: (row) => number(row.messages_unacknowledged) },
  { id: 'in', label: 'Published', path: 'message_stats.publish_details.rate', num: true, cell: (row) => rate(row.message_stats?.publish_details?.rate ?? 0) },
  { id: 'out', label: 'Delivered', path: 'message_stats.deliver_get_details.rate', num: true, cell: (row) => rate(row.message_stats?.deliver_get_details?.rate ?? 0) },
  { id: 'recv', label: 'From clients', path: 'recv_oct_details.rate', num: true, cell: (row) => `${bytes(row.recv_oct_details?.rate ?? 0)}/s` },
  { id: 'state', label: 'State', path: 'tracing', also: ['protected_from_deletion'], sort: false, cell: (row) => [row.tracing && tag('warn', 'traced'), row.protected_from_deletion && tag('good', 'protected')] },
  { id: 'act', label: 'Actions', path: 'name', sort: false, wide: true, cell: (row) => isAdministrator() && h('div', { class: 'bar' }, button('Edit', () => edit(row)), button('Delete', () => remove(row), { kind: 'danger' })) },
];

function edit(row) {
  dialog({
    title: row ? ['Edit ', name(row.name)] : 'Add virtual host', act: row ? 'Save' : 'Add',
    fields: [
      { name: 'name', label: 'Name', required: true, value: row?.name, only: () => !row },
      { name: 'description', label: 'Description', value: row?.description }, { name: 'type', label: 'Default queue type', type: 'select', options: QUEUE_TYPES.map((it) => it.name), value: row?.default_queue_type ?? 'classic' },
      { name: 'tracing', label: 'Trace messages to amq.rabbitmq.trace', type: 'checkbox', value: row?.tracing },
    ],
    requests: (values) => [{ method: 'PUT', address: path`/vhosts/${values.name}`, body: { description: values.description, default_queue_type: values.type, tracing: values.tracing }, ctl: row ? null : ['add_vhost', values.name, '--description', values.description] }],
    told: (values) => `${row ? 'Saved' : 'Added'} ${plain(values.name)}`,
  });
}

function remove(row) {
  dialog({
    title: ['Delete ', name(row.name), '?'], says: h('p', null, `Deletes its queues with ${count(row.messages ?? 0, 'message')}, exchanges, bindings, policies and permissions, and closes its connections.`),
    act: 'Delete the virtual host', danger: true, confirm: row.name, requests: () => [{ method: 'DELETE', address: path`/vhosts/${row.name}`, ctl: ['delete_vhost', row.name] }], told: `Deleted ${plain(row.name)}`,
  });
}

export function open() {
  return listPage({
    title: 'Virtual hosts', list: 'vhosts', noun: 'virtual host', columns: COLUMNS, key: (row) => row.name, needs: ['name', 'messages', 'description', 'default_queue_type', 'tracing'], byVhost: false,
    buttons: () => isAdministrator() && button('Add virtual host', () => edit(null), { kind: 'primary', icon: ICONS.plus }),
  });
}
