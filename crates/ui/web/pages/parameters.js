// Parameters: of plugins and components by virtual host, and of the whole cluster.

import { path } from '../api.js';
import { h } from '../dom.js';
import { plain } from '../format.js';
import { ICONS, button, dialog, name, problem, section, table, value, vhostField } from '../parts.js';

function edit(isGlobal, it) {
  dialog({
    title: it ? ['Edit ', name(it.name)] : isGlobal ? 'Set a global parameter' : 'Set a parameter', act: 'Set',
    fields: [
      it || isGlobal ? { name: 'vhost', label: '', value: it?.vhost, only: () => false } : vhostField(),
      { name: 'component', label: 'Component', required: true, value: it?.component ?? '', only: () => !it && !isGlobal, help: 'Name of the plugin' },
      { name: 'name', label: 'Name', required: true, value: it?.name ?? '', only: () => !it },
      { name: 'value', label: 'Value, in JSON', type: 'textarea', rows: 6, value: it ? JSON.stringify(it.value, null, 1) : '' },
    ],
    requests: (values) => {
      const of = JSON.parse(values.value || 'null');
      return [isGlobal ? { method: 'PUT', address: path`/global-parameters/${values.name}`, body: { name: values.name, value: of }, ctl: ['set_global_parameter', values.name, JSON.stringify(of)] }
        : { method: 'PUT', address: path`/parameters/${values.component}/${values.vhost}/${values.name}`, body: { component: values.component, vhost: values.vhost, name: values.name, value: of }, ctl: ['set_parameter', '--vhost', values.vhost, values.component, values.name, JSON.stringify(of)] }];
    },
    told: (values) => `Set ${plain(values.name)}`,
  });
}

function clear(isGlobal, it) {
  dialog({
    title: ['Clear ', name(it.name), '?'], act: 'Clear the parameter', danger: true, confirm: it.name,
    requests: () => [isGlobal ? { method: 'DELETE', address: path`/global-parameters/${it.name}`, ctl: ['clear_global_parameter', it.name] }
      : { method: 'DELETE', address: path`/parameters/${it.component}/${it.vhost}/${it.name}`, ctl: ['clear_parameter', '--vhost', it.vhost, it.component, it.name] }],
    told: 'Cleared',
  });
}

export function open() {
  const page = {
    title: 'Parameters', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ parameters: '/parameters', global: '/global-parameters' }),
    view: () => [h('div', { class: 'head' }, h('h1', null, 'Parameters')), list(page, 'parameters'), list(page, 'global')],
  };
  return page;
}

function list(page, key) {
  const isGlobal = key === 'global';
  const rows = page.data[key];
  if (!rows) return page.errors[key] ? problem(page.errors[key]) : h('span', { class: 'ghost' });
  const acts = (it) => h('div', { class: 'bar' }, button('Edit', () => edit(isGlobal, it)), button('Clear', () => clear(isGlobal, it), { kind: 'danger' }));
  return section([isGlobal ? 'Global parameters ' : 'Virtual host parameters ', button('Add', () => edit(isGlobal, null), { icon: ICONS.plus, kind: isGlobal ? '' : 'primary', label: isGlobal ? 'Global parameter' : 'Parameter' })],
    isGlobal ? table(['Name', 'Value', ''], rows.map((it) => [name(it.name), value(it.value), acts(it)])) : table(['Component', 'Name', 'Virtual host', 'Value', ''], rows.map((it) => [name(it.component), name(it.name), name(it.vhost), value(it.value), acts(it)])));
}
