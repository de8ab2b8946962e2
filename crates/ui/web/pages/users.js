// Users, and what each may do.

import { app, link } from '../app.js';
import { ask, path } from '../api.js';
import { h } from '../dom.js';
import { redraw } from '../app.js';
import { number, plain } from '../format.js';
import { listPage } from '../list.js';
import { ICONS, button, control, dialog, name, nothing, problem, section, table, tag, to, vhostField } from '../parts.js';

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'name', label: 'Name', path: 'name', cell: (row) => to(link(['users', row.name]), name(row.name)) },
  { id: 'tags', label: 'Tags', path: 'tags', cell: (row) => (row.tags ?? []).map((it) => [tag(it === 'administrator' ? 'warn' : 'calm', plain(it)), ' ']), filter: { key: 'tags', path: 'tags', kind: 'text', help: 'administrator' } },
  { id: 'password', label: 'Password', path: 'password_hash', cell: (row) => (row.password_hash ? h('span', { class: 'faint' }, 'set') : tag('warn', 'none')) },
  { id: 'limits', label: 'Limits', path: 'limits', sort: false, cell: (row) => Object.entries(row.limits ?? {}).map(([key, it]) => `${key} ${number(it)}`).join(', ') },
];

const TAGS = ['', 'management', 'policymaker', 'monitoring', 'administrator'];

/** @param {any} [user] */
function edit(user) {
  dialog({
    title: user ? ['Edit ', name(user.name)] : 'Make a user', act: user ? 'Save' : 'Make it',
    fields: [
      { name: 'name', label: 'Name', required: true, value: user?.name, only: () => !user },
      { name: 'password', label: user ? 'New password' : 'Password', type: 'password', autocomplete: 'new-password', required: !user, help: user ? 'Empty: it stays as it is' : undefined },
      { name: 'tags', label: 'Tags', value: user ? user.tags.join(',') : '', list: TAGS, help: 'management, policymaker, monitoring or administrator let a user in here; several with commas' },
    ],
    requests: (values) => [{
      method: 'PUT', address: path`/users/${values.name}`, body: { ...(values.password ? { password: values.password } : { password_hash: user?.password_hash ?? '' }), tags: values.tags },
      ctl: user ? ['set_user_tags', values.name, ...values.tags.split(',').filter(Boolean)] : ['add_user', values.name],
    }],
    told: (values) => `Saved ${plain(values.name)}`,
  });
}

function permit(user, row) {
  dialog({
    title: ['Permissions of ', name(user)], act: 'Set',
    fields: [row ? { name: 'vhost', label: 'Virtual host', value: row.vhost, only: () => false } : vhostField(),
      ...['configure', 'write', 'read'].map((kind) => ({ name: kind, label: kind[0].toUpperCase() + kind.slice(1), value: row ? row[kind] : '.*', help: 'A regular expression for names; empty: none' }))],
    requests: (values) => [{ method: 'PUT', address: path`/permissions/${values.vhost}/${user}`, body: { configure: values.configure, write: values.write, read: values.read }, ctl: ['set_permissions', '--vhost', values.vhost, user, values.configure, values.write, values.read] }],
    told: 'Permissions are set',
  });
}

export function open([, user]) {
  if (user !== undefined) return one(user);
  return listPage({
    title: 'Users', list: 'users', noun: 'user', columns: COLUMNS, key: (row) => row.name, needs: ['name'], byVhost: false,
    buttons: () => button('User', () => edit(), { kind: 'primary', icon: ICONS.plus }),
  });
}

function one(user) {
  const trial = { key: 'trial', values: { vhost: '', kind: 'queue', name: '', operation: 'read', routing_key: '' }, answer: /** @type {any} */ (null), problem: '' };
  const page = {
    title: user, data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ user: path`/users/${user}`, permissions: `/users${path`/${user}`}/permissions`, topics: `/users${path`/${user}`}/topic-permissions` }),
    view: () => view(page, user, trial),
  };
  return page;
}

async function tryOut(user, trial) {
  const { vhost, kind, name: object, operation, routing_key: key } = trial.values;
  const hasKey = kind === 'exchange' && operation !== 'configure' && key !== '';
  const answer = await ask('GET', `${path`/explain/permission/${vhost || app.vhosts[0]?.name || '/'}/${user}`}?${new URLSearchParams({ kind, name: object, operation, ...(hasKey && { routing_key: key }) })}`);
  trial.problem = answer.ok ? '' : answer.reason;
  trial.answer = answer.ok ? answer.data : null;
  redraw();
}

function view(page, user, trial) {
  const { user: it, permissions, topics } = page.data;
  const head = h('p', { class: 'crumb' }, to(link(['users']), 'Users'));
  if (!it) return [h('div', { class: 'head' }, head, h('h1', null, name(user))), page.errors.user ? nothing(it === null ? 'There is no such user.' : page.errors.user) : h('div', { class: 'tile' }, h('span', { class: 'ghost' }))];
  return [
    h('div', { class: 'head' }, head, h('h1', null, name(user)), it.tags.map((one) => tag('calm', plain(one))), h('span', { class: 'grow' }), button('Edit', () => edit(it)),
      button('Delete', () => dialog({ title: ['Delete ', name(user), '?'], says: h('p', null, 'The permissions go too, and what is connected as this user is closed.'), act: 'Delete the user', danger: true, confirm: user, requests: () => [{ method: 'DELETE', address: path`/users/${user}`, ctl: ['delete_user', user] }], told: 'Deleted', leaves: link(['users']) }), { kind: 'danger' })),
    section(['Permissions ', button('Set', () => permit(user, null))], table(['Virtual host', 'Configure', 'Write', 'Read', ''], (permissions ?? []).map((row) => [name(row.vhost), ...['configure', 'write', 'read'].map((kind) => (row[kind] === '' ? h('span', { class: 'faint' }, 'none') : h('code', null, plain(row[kind])))), h('div', { class: 'bar' }, button('Edit', () => permit(user, row)),
      button('Clear', () => dialog({ title: ['Clear the permissions of ', name(user), '?'], says: h('p', null, 'In the virtual host ', name(row.vhost), ' this user can do nothing any more.'), act: 'Clear', danger: true, requests: () => [{ method: 'DELETE', address: path`/permissions/${row.vhost}/${user}`, ctl: ['clear_permissions', '--vhost', row.vhost, user] }], told: 'Cleared' }), { kind: 'danger' }))]), 'None: this user can enter no virtual host.')),
    topics?.length > 0 && section('Topic permissions', table(['Virtual host', 'Exchange', 'Write', 'Read'], topics.map((row) => [name(row.vhost), name(row.exchange, '(AMQP default)'), h('code', null, plain(row.write)), h('code', null, plain(row.read))]))),
    section('May this user do it?', h('form', { onsubmit: (event) => { event.preventDefault(); tryOut(user, trial); } }, h('div', { class: 'form' },
      control(trial, { ...vhostField(trial.values.vhost) }), control(trial, { name: 'operation', label: 'Operation', type: 'select', options: ['configure', 'write', 'read'] }),
      control(trial, { name: 'kind', label: 'On', type: 'select', options: ['queue', 'exchange'] }), control(trial, { name: 'name', label: 'With the name' }),
      trial.values.kind === 'exchange' && trial.values.operation !== 'configure' && control(trial, { name: 'routing_key', label: 'Routing key', help: 'Of topic exchanges, for topic permissions' })), h('p', null, h('button', { type: 'submit', class: 'button' }, 'Ask'))),
    trial.problem && problem(trial.problem),
    trial.answer && h('p', { role: 'status' }, tag(trial.answer.allowed ? 'good' : 'bad', trial.answer.allowed ? 'Yes' : 'No'), ' ', plain(trial.answer.reason), trial.answer.pattern ? [': ', h('code', null, plain(trial.answer.pattern))] : '')),
  ];
}
