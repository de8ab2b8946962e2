// The node: health checks, files, listeners, logins, memory, settings, flags.

import { app, isAdministrator, query, link, setQuery } from '../app.js';
import { path } from '../api.js';
import { h } from '../dom.js';
import { bytes, count, duration, number, plain, short } from '../format.js';
import { ICONS, button, dialog, facts, icon, name, nothing, problem, section, table, tabs, tag } from '../parts.js';

const CHECKS = [
  ['/health/checks/alarms', 'No alarm is in effect'], ['/health/checks/ready-to-serve-clients', 'Clients can connect'], ['/health/checks/is-in-service', 'Not in maintenance'], ['/health/checks/virtual-hosts', 'Virtual hosts run'],
  ['/health/checks/certificate-expiration/1/months', 'No certificate expires within a month'], ['/health/checks/below-node-connection-limit', 'Below the limit of connections'], ['/health/checks/node-is-quorum-critical', 'Nothing loses its majority with this node'],
  ['/health/checks/quorum-queues-without-elected-leaders/all-vhosts', 'Quorum queues have leaders'], ['/health/checks/metadata-store/initialized', 'Definitions are there'],
];

const NODE = 'uptime,os_pid,fd_used,fd_total,sockets_used,sockets_total,proc_used,processors,io_sync_avg_time,io_sync_count,db_dir,log_files,config_files';
/** Kinds of files, as the node calls them. */
const FILES = { log: 'Log', pages: 'Pages of backlogs', message_store: 'Large and shared bodies', streams: 'Streams', classic_v1: 'Classic queues of version 1', swap: 'Swap', other: 'Others' };

export function open() {
  const node = () => app.overview?.node ?? '';
  const page = {
    title: 'Node', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources() {
      const tab = query('tab');
      if (tab === 'settings') return { settings: '/config/effective' };
      if (tab === 'flags') return { flags: '/feature-flags', deprecated: '/deprecated-features' };
      if (!node()) return {};
      const own = /** @type {Record<string, string>} */ ({ attempts: path`/auth/attempts/${node()}`, memory: path`/nodes/${node()}/memory`, node: `${path`/nodes/${node()}`}?columns=${NODE}` });
      if (isAdministrator()) Object.assign(own, { status: '/leveret/status', listeners: '/leveret/listeners', certificates: '/leveret/tls/certificates' });
      CHECKS.forEach(([address], at) => { own[`check${at}`] = address; });
      return own;
    },
    view: () => view(page),
  };
  return page;
}

function view(page) {
  const tab = query('tab');
  return [
    h('div', { class: 'head' }, h('h1', null, 'Node'), app.overview && name(app.overview.node), h('span', { class: 'grow' }), isAdministrator() && maintenance()),
    tabs(/** @type {[string, any][]} */ ([['', 'Health'], ['settings', 'Settings in force'], ['flags', 'Feature flags']]).filter(([id]) => id !== 'settings' || isAdministrator()), tab, (id) => link(['node'], { tab: id })),
    tab === 'settings' ? settings(page) : tab === 'flags' ? flags(page) : health(page),
  ];
}

function maintenance() {
  const drained = app.state.alarms.some((it) => it.kind === 'maintenance');
  return button(drained ? 'End maintenance' : 'Put into maintenance', () => dialog({
    title: drained ? 'End maintenance?' : 'Put the node into maintenance?', says: h('p', null, drained ? 'Clients can connect again.' : 'Closes all client connections and refuses new ones until maintenance ends. This UI stays available.'), act: drained ? 'End maintenance' : 'Begin maintenance', danger: !drained,
    requests: () => [{ method: drained ? 'DELETE' : 'PUT', address: '/leveret/maintenance', ctl: [drained ? 'revive' : 'drain'] }], told: drained ? 'Maintenance has ended' : 'The node is in maintenance',
  }), { kind: drained ? 'primary' : 'danger' });
}

function health(page) {
  const { attempts, memory, listeners, certificates, node, status } = page.data;
  const told = (at) => (page.errors[`check${at}`] ? [tag('bad', 'fails'), ' ', plain(page.errors[`check${at}`])] : page.data[`check${at}`] ? tag('good', 'passes') : '\u2026');
  const parts = Object.entries(memory?.memory ?? {}).filter(([key, value]) => typeof value === 'number' && value > 0);
  const failing = CHECKS.filter((_, at) => page.errors[`check${at}`]).length;
  const passed = CHECKS.filter((_, at) => page.data[`check${at}`] && !page.errors[`check${at}`]).length;
  return [
    h('p', { class: 'lead', role: 'status' }, failing > 0 ? [tag('bad', count(failing, 'check')), failing === 1 ? ' fails.' : ' fail.'] : passed === CHECKS.length && [tag('good', 'Healthy'), ` All ${passed} checks pass.`]),
    section('Health checks', table(['Check', 'Status', 'Address'], CHECKS.map(([address, label], at) => [label, told(at), h('code', null, `/api${address}`)]))),
    node && section('Process', facts([
      ['Version', status ? `${status.product_version}, as RabbitMQ ${status.rabbitmq_version}` : app.overview?.product_version], ['Up for', duration(node.uptime)], ['Process', `${node.os_pid}, ${count(node.processors, 'core')}`],
      ['File descriptors', `${number(node.fd_used)} of ${number(node.fd_total)}`], ['Sockets', `${number(node.sockets_used)} of ${number(node.sockets_total)}`], ['fsyncs', `${number(node.io_sync_count)}, recently ${short(node.io_sync_avg_time ?? 0)} ms each`],
      ['Data', h('code', null, plain(node.db_dir))], ['Configuration', paths(node.config_files)], ['Log files', paths(node.log_files)],
    ])),
    status && files(status),
    listeners && section('Listeners', table(['Protocol', '#Port', 'Address', 'Purpose'], listeners.map((it) => [it.protocol, String(it.port), h('code', null, plain(it.interface)), plain(it.purpose)]))),
    certificates?.length > 0 && section('Certificates', table(['Subject', 'Expires', 'File'], certificates.map((it) => [name(it.subject), plain(it.not_after ?? it.expires ?? ''), name(it.file ?? it.certfile ?? '')]))),
    section('Logins since the start', table(['Protocol', '#Attempts', '#Succeeded', '#Failed'], (attempts ?? []).map((it) => [it.protocol, number(it.auth_attempts), number(it.auth_attempts_succeeded), it.auth_attempts_failed > 0 ? tag('warn', number(it.auth_attempts_failed)) : '0']), 'None yet')),
    memory && section('Memory', facts([['Resident', bytes(memory.memory.total?.rss)], ...parts.map(([key, value]) => /** @type {[any, any]} */ ([key.replaceAll('_', ' '), bytes(value)]))])),
  ];
}

const paths = (all) => (all?.length ? all.map((it) => h('div', null, h('code', null, plain(it)))) : h('span', { class: 'faint' }, 'none'));

/** What is in files, and what could not be read. */
function files({ storage, file_io: io, losses }) {
  const lost = [[losses.messages, 'message', 'lost'], [losses.unreadable_bytes, 'byte', 'that could not be read'], [losses.log_bytes_cut_off, 'byte', 'cut off the end of the log']].filter(([n]) => n > 0);
  const kinds = Object.keys(FILES).filter((kind) => storage?.[kind] || io[kind]?.read_bytes > 0 || io[kind]?.write_bytes > 0);
  const of = (kind, figure, form) => (storage?.[kind] ? form(storage[kind][figure]) : '\u2013');
  return section('Files', lost.length > 0 && problem(lost.map(([n, noun, what]) => `${count(n, noun)} ${what}`).join(', ')),
    table(['Kind', '#Files', '#Size', '#Needed', '#Read', '#Written'], kinds.map((kind) => [FILES[kind], of(kind, 'files', number), of(kind, 'bytes', bytes), of(kind, 'needed_bytes', bytes), bytes(io[kind]?.read_bytes ?? 0), bytes(io[kind]?.write_bytes ?? 0)])));
}

function settings(page) {
  const text = page.data.settings;
  if (!text) return page.errors.settings ? problem(page.errors.settings) : h('span', { class: 'ghost' });
  const wanted = query('filter').toLowerCase();
  const lines = String(text).split('\n').filter(Boolean).map((line) => line.split(' = ')).filter(([key]) => key.includes(wanted));
  return [
    h('div', { class: 'bar' }, h('label', { class: 'filter' }, icon(ICONS.search), h('span', { class: 'hidden' }, 'Filter'), h('input', { type: 'search', 'data-filter': true, spellcheck: 'false', autocomplete: 'off', placeholder: 'Part of a name', value: query('filter'), oninput: (event) => setQuery({ filter: event.target.value.trim() }) }))),
    section('Settings in force', table(['Setting', 'Value'], lines.map(([key, ...rest]) => [h('code', null, key), h('code', null, plain(rest.join(' = ')))]))),
  ];
}

function flags(page) {
  const { flags: all, deprecated } = page.data;
  if (!all) return page.errors.flags ? problem(page.errors.flags) : h('span', { class: 'ghost' });
  return [
    section('Feature flags', table(['Flag', 'State', 'Stability', ''], all.map((it) => [h('code', null, plain(it.name)), it.state === 'enabled' ? tag('good', 'enabled') : tag('warn', it.state), it.stability,
      it.state !== 'enabled' && isAdministrator() && button('Enable', () => dialog({ title: 'Enable the feature flag?', says: h('p', null, 'A feature flag cannot be disabled again.'), act: 'Enable', requests: () => [{ method: 'PUT', address: path`/feature-flags/${it.name}/enable`, ctl: ['enable_feature_flag', it.name] }], told: 'Enabled' }))]))),
    deprecated ? section('Deprecated features', table(['Feature', 'Phase', 'State'], deprecated.map((it) => [h('code', null, plain(it.name)), plain(it.deprecation_phase.replaceAll('_', ' ')), plain(it.state)]))) : nothing(''),
  ];
}
