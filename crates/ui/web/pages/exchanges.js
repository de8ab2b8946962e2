// Exchanges.

import { isOneVhost, may, query } from '../app.js';
import { deleteExchange, path } from '../api.js';
import { h } from '../dom.js';
import { count, plain, rate } from '../format.js';
import { bulkDialog, listPage } from '../list.js';
import { ICONS, argumentsOf, button, dialog, name, toExchange, vhostField } from '../parts.js';

const perSecond = (details) => (details?.rate ? rate(details.rate) : h('span', { class: 'faint' }, '0/s'));

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'name', label: 'Name', path: 'name', also: ['vhost'], cell: (row) => toExchange(row.vhost, row.name) },
  { id: 'vhost', label: 'Virtual host', path: 'vhost', hidden: isOneVhost, cell: (row) => name(row.vhost), filter: { key: 'vhost', path: 'vhost', kind: 'text', help: 'shop' } },
  { id: 'type', label: 'Type', path: 'type', cell: (row) => row.type, filter: { key: 'type', path: 'type', kind: 'text', help: 'topic' } },
  { id: 'features', label: 'Features', path: 'arguments', wide: true, also: ['durable', 'auto_delete', 'internal', 'policy'], sort: false, cell: (row) => h('span', { class: 'features' }, [
    !row.durable && ['T', 'transient'], row.auto_delete && ['AD', 'auto-delete'], row.internal && ['I', 'internal'],
    ...Object.entries(row.arguments ?? {}).map(([key, value]) => [key === 'alternate-exchange' ? 'AE' : 'Args', `${key} = ${JSON.stringify(value)}`]), row.policy && [row.policy, 'policy'],
  ].filter(Boolean).map(([text, title]) => h('span', { class: 'feature', title: plain(title) }, plain(text)))) },
  { id: 'in', label: 'In', path: 'message_stats.publish_in_details.rate', num: true, cell: (row) => perSecond(row.message_stats?.publish_in_details), filter: { key: 'in', path: 'message_stats.publish_in_details.rate', kind: 'number' } },
  { id: 'out', label: 'Out', path: 'message_stats.publish_out_details.rate', num: true, cell: (row) => perSecond(row.message_stats?.publish_out_details), filter: { key: 'out', path: 'message_stats.publish_out_details.rate', kind: 'number' } },
];


const TYPES = ['direct', 'fanout', 'topic', 'headers', 'x-consistent-hash', 'x-modulus-hash', 'x-random', 'x-local-random', 'x-recent-history', 'x-jms-topic', 'x-delayed-message'];

function create() {
  dialog({
    title: 'Create an exchange', act: 'Create',
    fields: [
      vhostField(), { name: 'name', label: 'Name', required: true }, { name: 'type', label: 'Type', type: 'select', options: TYPES, value: 'topic' },
      { name: 'delayed', label: 'Type after the delay', type: 'select', options: TYPES.slice(0, 4), value: 'direct', only: (values) => values.type === 'x-delayed-message' },
      { name: 'alternate', label: 'Alternate exchange', help: 'receives unroutable messages' },
      { name: 'durable', label: 'Durable: survives a restart', type: 'checkbox', value: true },
      { name: 'auto_delete', label: 'Auto-delete: deleted with its last binding', type: 'checkbox' },
      { name: 'internal', label: 'Internal: clients cannot publish to it', type: 'checkbox' },
      { name: 'arguments', label: 'Arguments', type: 'textarea', rows: 2, placeholder: 'key = value, one a line' },
    ],
    requests: (values) => [{ method: 'PUT', address: path`/exchanges/${values.vhost}/${values.name}`, body: {
      type: values.type, durable: values.durable, auto_delete: values.auto_delete, internal: values.internal,
      arguments: { ...(values.alternate && { 'alternate-exchange': values.alternate }), ...(values.type === 'x-delayed-message' && { 'x-delayed-type': values.delayed }), ...argumentsOf(values.arguments) },
    } }],
    told: (values) => `Created ${plain(values.name)}`,
  });
}

export function open() {
  return listPage({
    title: 'Exchanges', list: 'exchanges', noun: 'exchange', columns: COLUMNS, key: (row) => `${row.vhost}\0${row.name}`, needs: ['name', 'vhost'],
    fields: [{ key: 'durable', path: 'durable', kind: 'flag' }, { key: 'internal', path: 'internal', kind: 'flag' }, { key: 'policy', path: 'policy', kind: 'text' }],
    buttons: () => may('configure', query('vhost')) && button('Add exchange', create, { kind: 'primary', icon: ICONS.plus, title: 'Create an exchange' }),
    bulk: !may('configure', '') ? undefined : [{ label: 'Delete', danger: true, act: (rows) => bulkDialog(rows, { verb: 'Delete', noun: 'exchange', name: (row) => row.name, request: deleteExchange, told: `Deleted ${count(rows.length, 'exchange')}`, says: h('p', null, 'Deletes their bindings too. Publishing to them fails then.') }) }],
  });
}
