// Limits of virtual hosts and users.

import { path } from '../api.js';
import { h } from '../dom.js';
import { number } from '../format.js';
import { button, dialog, name, problem, section, table, vhostField } from '../parts.js';

function set(kind) {
  const ofVhost = kind === 'vhost';
  dialog({
    title: ofVhost ? 'Set a virtual host limit' : 'Set a user limit', act: 'Set',
    fields: [
      ofVhost ? vhostField() : { name: 'user', label: 'User', required: true },
      { name: 'limit', label: 'Limit', type: 'select', options: ofVhost ? ['max-connections', 'max-queues'] : ['max-connections', 'max-channels'] },
      { name: 'value', label: 'Value', type: 'number', required: true, help: 'Negative: unlimited' },
    ],
    requests: (values) => [{
      method: 'PUT', address: ofVhost ? path`/vhost-limits/${values.vhost}/${values.limit}` : path`/user-limits/${values.user}/${values.limit}`, body: { value: Number(values.value) },
      ctl: ofVhost ? ['set_vhost_limits', '--vhost', values.vhost, JSON.stringify({ [values.limit]: Number(values.value) })] : ['set_user_limits', values.user, JSON.stringify({ [values.limit]: Number(values.value) })],
    }],
    told: 'The limit is set',
  });
}

export function open() {
  const page = {
    title: 'Limits', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ vhost: '/vhost-limits', user: '/user-limits' }),
    view: () => [h('div', { class: 'head' }, h('h1', null, 'Limits')), list(page, 'vhost', 'Virtual hosts'), list(page, 'user', 'Users')],
  };
  return page;
}

function list(page, kind, title) {
  const rows = page.data[kind];
  if (!rows) return page.errors[kind] ? problem(page.errors[kind]) : h('span', { class: 'ghost' });
  const entries = rows.flatMap((row) => Object.entries(row.value).map(([limit, value]) => ({ of: row[kind], limit, value })));
  return section([title, ' ', button('Set a limit', () => set(kind))], table([kind === 'vhost' ? 'Virtual host' : 'User', 'Limit', '#Value', ''], entries.map((it) => [name(it.of), h('code', null, it.limit), number(it.value),
    button('Clear', () => dialog({ title: 'Clear the limit?', says: h('p', null, name(it.of), ` has no ${it.limit} any more.`), act: 'Clear', requests: () => [{ method: 'DELETE', address: path`/${kind}-limits/${it.of}/${it.limit}` }], told: 'Cleared' }))]), 'None'));
}
