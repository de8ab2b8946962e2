// The requests of the API, as the node lists them, to be read and sent.

import { query, redraw, setQuery } from '../app.js';
import { ask } from '../api.js';
import { h } from '../dom.js';
import { bytes, duration, number } from '../format.js';
import { ICONS, commands, control, copier, icon, problem, section, tag } from '../parts.js';

/** Characters of an answer that are shown. */
const SHOWN_MAX = 64 * 1024;

export function open() {
  const page = {
    title: 'API', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}), trials: /** @type {Map<string, any>} */ (new Map()),
    sources: () => (page.data.table ? {} : { table: '/openapi.json' }), view: () => view(page),
  };
  return page;
}

const requestsOf = (table) => Object.entries(table.paths).flatMap(([path, methods]) => Object.entries(methods).map(([method, it]) => ({ key: `${method} ${path}`, method: method.toUpperCase(), path: path.replace(/^\/api/, ''), summary: it.summary, group: it.tags[0], needs: it.description.replace('Needs: ', '') })));

function view(page) {
  const { table } = page.data;
  if (!table) return page.errors.table ? problem(page.errors.table) : h('span', { class: 'ghost' });
  const wanted = query('filter').toLowerCase().split(' ').filter(Boolean);
  const all = requestsOf(table);
  const found = all.filter((it) => wanted.every((word) => `${it.key} ${it.summary} ${it.group}`.toLowerCase().includes(word)));
  const groups = [...new Set(found.map((it) => it.group))].sort();
  return [
    h('div', { class: 'head' }, h('h1', null, 'API'), h('span', { class: 'count' }, number(found.length)), h('span', { class: 'grow' }), h('a', { href: `${location.origin}${new URL('../../../api/openapi.json', import.meta.url).pathname}`, download: 'openapi.json' }, 'OpenAPI document')),
    h('div', { class: 'bar' }, h('label', { class: 'filter' }, icon(ICONS.search), h('span', { class: 'hidden' }, 'Filter'), h('input', { type: 'search', 'data-filter': true, placeholder: 'queues delete', value: query('filter'), spellcheck: 'false', oninput: (event) => setQuery({ filter: event.target.value }) }))),
    groups.map((group) => section(group, h('div', { key: group }, found.filter((it) => it.group === group).map((it) => request(page, it))))),
  ];
}

function request(page, it) {
  const trial = page.trials.get(it.key);
  return h('details', { key: it.key, class: 'request', ontoggle: (event) => { if (event.target.open && !trial) { page.trials.set(it.key, newTrial(it)); redraw(); } } },
    h('summary', null, h('code', { class: `method ${it.method === 'GET' ? '' : 'changes'}` }, it.method), ' ', h('code', null, `/api${it.path}`), ' ', h('span', { class: 'faint' }, it.summary.split('`').map((part, at) => (at % 2 === 1 ? h('code', null, part) : part)))),
    trial && tried(it, trial));
}

function newTrial({ key, path }) {
  const names = [...path.matchAll(/\{(\w+)\}/g)].map(([, name]) => name);
  return { key, names, values: Object.fromEntries([...names.map((name) => [name, name === 'vhost' ? '/' : '']), ['query', ''], ['body', '']]), answer: null, busy: false };
}

function asked({ method, path }, { values }) {
  const address = path.replace(/\{(\w+)\}/g, (all, name) => encodeURIComponent(values[name])) + (values.query ? `?${values.query}` : '');
  return { method, address, body: values.body ? JSON.parse(values.body) : undefined };
}

async function send(it, trial) {
  const began = performance.now();
  try {
    const { method, address, body } = asked(it, trial);
    trial.busy = true;
    redraw();
    const { ok, status, data, reason } = await ask(method, address, body);
    const text = typeof data === 'string' ? data : JSON.stringify(data, null, 2);
    trial.answer = { ok, status, text: text || reason, ms: performance.now() - began };
  } catch (error) {
    trial.answer = { ok: false, status: 0, text: error.message, ms: 0 };
  }
  trial.busy = false;
  redraw();
}

function tried(it, trial) {
  const { answer } = trial;
  const isLong = /\/(search|tail|export|live)$/.test(it.path);
  let line = null;
  try {
    line = asked(it, trial);
  } catch {
    // The body is on its way to be JSON.
  }
  return h('form', { class: 'tried', onsubmit: (event) => { event.preventDefault(); send(it, trial); } },
    h('p', { class: 'faint' }, 'Needs: ', it.needs),
    h('div', { class: 'form' }, trial.names.map((name) => control(trial, { name, label: name, required: true })), control(trial, { name: 'query', label: 'Query', placeholder: 'page=1&columns=name' }), it.method !== 'GET' && control(trial, { name: 'body', label: 'Body', type: 'textarea', rows: 3, placeholder: '{}' })),
    line && commands([line]),
    isLong ? h('p', null, 'It answers with events or lines for as long as it is read: ask for it from the command line.') : h('p', null, h('button', { type: 'submit', class: `button ${it.method === 'GET' ? 'primary' : 'danger'}`, disabled: trial.busy }, 'Send')),
    answer && h('div', { role: 'status' }, h('p', null, tag(answer.ok ? 'good' : 'bad', String(answer.status || 'not sent')), ` ${duration(answer.ms)}, ${bytes(answer.text.length)} `, copier(answer.text)),
      h('pre', { tabindex: 0, role: 'group', 'aria-label': 'Answer' }, answer.text.slice(0, SHOWN_MAX) || '(empty)')));
}
