// Users, and what each may do.

import { app, link } from '../app.js';
import { ask, path } from '../api.js';
import { h } from '../dom.js';
import { redraw } from '../app.js';
import { number, plain } from '../format.js';
import { listPage } from '../list.js';
import { ICONS, button, control, dialog, name, nothing, problem, section, table, tag, to, vhostField } from '../parts.js';

/** Permissions of all users, as they are shown in the list. */
const shown = { permissions: () => /** @type {any[]} */ ([]) };

function vhostsOf(user) {
  const all = shown.permissions().filter((it) => it.user === user);
  if (all.length === 0) return tag('warn', 'none');
  return [all.slice(0, 3).map((it, at) => [at > 0 && ', ', name(it.vhost)]), all.length > 3 && ` and ${number(all.length - 3)} more`];
}

/** @type {import('../list.js').Column[]} */
const COLUMNS = [
  { id: 'name', label: 'Name', path: 'name', cell: (row) => to(link(['users', row.name]), name(row.name)) },
  { id: 'tags', label: 'Tags', path: 'tags', cell: (row) => (row.tags ?? []).map((it) => [tag(it === 'administrator' ? 'warn' : 'calm', plain(it)), ' ']), filter: { key: 'tags', path: 'tags', kind: 'text', help: 'administrator' } },
  { id: 'password', label: 'Password', path: 'password_hash', cell: (row) => (row.password_hash ? h('span', { class: 'faint' }, 'set') : tag('warn', 'none')) },
  { id: 'vhosts', label: 'Virtual hosts', path: 'name', sort: false, cell: (row) => vhostsOf(row.name) },
  { id: 'limits', label: 'Limits', path: 'limits', sort: false, cell: (row) => Object.entries(row.limits ?? {}).map(([key, it]) => `${key} ${number(it)}`).join(', ') },
];

const TAGS = ['', 'management', 'policymaker', 'monitoring', 'administrator'];

const tagsOf = (values) => values.tags.split(',').map((it) => it.trim()).filter(Boolean);
const permission = (values, user) => ({ method: 'PUT', address: path`/permissions/${values.vhost}/${user}`, body: { configure: values.configure, write: values.write, read: values.read }, ctl: ['set_permissions', '--vhost', values.vhost, user, values.configure, values.write, values.read] });

/** @param {any} [user] */
function edit(user) {
  dialog({
    title: user ? ['Edit ', name(user.name)] : 'Add user', act: user ? 'Save' : 'Add user',
    fields: [
      { name: 'name', label: 'Name', required: true, value: user?.name, only: () => !user },
      { name: 'password', label: user ? 'New password' : 'Password', type: 'password', autocomplete: 'new-password', required: !user, help: user ? 'Empty: unchanged' : undefined },
      { name: 'tags', label: 'Tags', value: user ? user.tags.join(',') : '', list: TAGS, help: 'management, policymaker, monitoring or administrator give access to this UI; separate with commas' },
      { ...vhostField(), label: 'Permissions in virtual host', only: () => !user, options: [...vhostField().options, ['', 'none']] },
      ...['configure', 'write', 'read'].map((kind) => ({ name: kind, label: kind[0].toUpperCase() + kind.slice(1), value: '.*', only: (values) => !user && values.vhost !== '' })),
    ],
    requests: (values) => [{
      method: 'PUT', address: path`/users/${values.name}`, body: { ...(values.password ? { password: values.password } : { password_hash: user?.password_hash ?? '' }), tags: values.tags },
      ctl: user ? ['set_user_tags', values.name, ...tagsOf(values)] : ['add_user', values.name], also: !user && tagsOf(values).length > 0 ? [['set_user_tags', values.name, ...tagsOf(values)]] : [],
    }, ...(user || values.vhost === '' ? [] : [permission(values, values.name)])],
    told: (values) => `Saved ${plain(values.name)}`,
  });
}

function permit(user, row) {
  dialog({
    title: ['Permissions of ', name(user)], act: 'Set',
    fields: [row ? { name: 'vhost', label: 'Virtual host', value: row.vhost, only: () => false } : vhostField(),
      ...['configure', 'write', 'read'].map((kind) => ({ name: kind, label: kind[0].toUpperCase() + kind.slice(1), value: row ? row[kind] : '.*', help: 'A regular expression for names; empty: none' }))],
    requests: (values) => [permission(values, user)],
    told: 'Permissions set',
  });
}

export function open([, user]) {
  if (user !== undefined) return one(user);
  const list = listPage({
    title: 'Users', list: 'users', noun: 'user', columns: COLUMNS, key: (row) => row.name, needs: ['name'], byVhost: false,
    buttons: () => button('Add user', () => edit(), { kind: 'primary', icon: ICONS.plus }),
    sources: () => ({ permissions: '/permissions' }),
  });
  shown.permissions = () => list.data.permissions ?? [];
  return list;
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
  if (!it) return [h('div', { class: 'head' }, head, h('h1', null, name(user))), page.errors.user ? nothing(it === null ? 'User not found.' : page.errors.user) : h('div', { class: 'tile' }, h('span', { class: 'ghost' }))];
  return [
    h('div', { class: 'head' }, head, h('h1', null, name(user)), it.tags.map((one) => tag('calm', plain(one))), h('span', { class: 'grow' }), button('Edit', () => edit(it)),
      button('Delete', () => dialog({ title: ['Delete ', name(user), '?'], says: h('p', null, 'Deletes the permissions too, and closes all connections of this user.'), act: 'Delete the user', danger: true, confirm: user, requests: () => [{ method: 'DELETE', address: path`/users/${user}`, ctl: ['delete_user', user] }], told: 'Deleted', leaves: link(['users']) }), { kind: 'danger' })),
    section(['Permissions ', button('Set', () => permit(user, null))], table(['Virtual host', 'Configure', 'Write', 'Read', ''], (permissions ?? []).map((row) => [name(row.vhost), ...['configure', 'write', 'read'].map((kind) => (row[kind] === '' ? h('span', { class: 'faint' }, 'none') : h('code', null, plain(row[kind])))), h('div', { class: 'bar' }, button('Edit', () => permit(user, row)),
      button('Clear', () => dialog({ title: ['Clear the permissions of ', name(user), '?'], says: h('p', null, 'Revokes all permissions of this user in ', name(row.vhost), '.'), act: 'Clear', danger: true, requests: () => [{ method: 'DELETE', address: path`/permissions/${row.vhost}/${user}`, ctl: ['clear_permissions', '--vhost', row.vhost, user] }], told: 'Cleared' }), { kind: 'danger' }))]), 'None: this user cannot connect to any virtual host.')),
    topics?.length > 0 && section('Topic permissions', table(['Virtual host', 'Exchange', 'Write', 'Read'], topics.map((row) => [name(row.vhost), name(row.exchange, '(AMQP default)'), h('code', null, plain(row.write)), h('code', null, plain(row.read))]))),
    section('Check a permission', h('form', { onsubmit: (event) => { event.preventDefault(); tryOut(user, trial); } }, h('div', { class: 'form' },
      control(trial, { ...vhostField(trial.values.vhost) }), control(trial, { name: 'operation', label: 'Operation', type: 'select', options: ['configure', 'write', 'read'] }),
      control(trial, { name: 'kind', label: 'Object', type: 'select', options: ['queue', 'exchange'] }), control(trial, { name: 'name', label: 'Name' }),
      trial.values.kind === 'exchange' && trial.values.operation !== 'configure' && control(trial, { name: 'routing_key', label: 'Routing key', help: 'For topic permissions of topic exchanges' })), h('p', null, h('button', { type: 'submit', class: 'button' }, 'Check'))),
    trial.problem && problem(trial.problem),
    trial.answer && h('p', { role: 'status' }, tag(trial.answer.allowed ? 'good' : 'bad', trial.answer.allowed ? 'Allowed' : 'Refused'), ' ', plain(trial.answer.reason), trial.answer.pattern ? [': ', h('code', null, plain(trial.answer.pattern))] : '')),
  ];
}
