// The search over everything: pages, queues, exchanges, connections, users, and what can be done.

import { app, exchangeLink, isAdministrator, isPolicymaker, link, queueLink, redraw, remembered, setPaused, tell, vhostNow } from './app.js';
import { ask, get, path } from './api.js';
import { h } from './dom.js';
import { plain } from './format.js';
import { saveView } from './parts.js';

/** Objects of each kind that are shown. */
const FOUND_MAX = 6;
/** Queues, and pages of each, that are looked through for a message. */
const SEARCHED_MAX = 50;
const PAGES_MAX = 5;
/** Time after a key before the node is asked, ms. */
const PATIENCE_MS = 120;

const it = { isOpen: false, text: '', at: 0, found: /** @type {any[]} */ ([]), timer: 0, opener: /** @type {any} */ (null), node: /** @type {any} */ (null), asked: 0 };

/** @param {{label: string, address: string}[]} pages */
export function openPalette(pages) {
  if (it.isOpen) return;
  Object.assign(it, { isOpen: true, text: '', at: 0, found: [], opener: document.activeElement, pages });
  redraw();
}

function close() {
  it.node?.close();
  it.isOpen = false;
  redraw();
  if (it.opener?.isConnected) it.opener.focus();
}

const commands = () => [
  { kind: 'command', label: app.paused ? 'Resume' : 'Pause', run: () => setPaused(!app.paused) },
  { kind: 'command', label: 'Save this view', run: saveView },
  { kind: 'command', label: 'Save the tables of this page as CSV', run: () => import('./tables.js').then((module) => module.saveTables('csv')) },
  { kind: 'command', label: 'Save the tables of this page as JSON', run: () => import('./tables.js').then((module) => module.saveTables('json')) },
  { kind: 'command', label: 'Create a queue', run: () => import('./create.js').then((module) => module.createQueue()) },
];

function entries() {
  const wanted = it.text.trim().toLowerCase();
  const matches = (entry) => entry.label.toLowerCase().includes(wanted);
  return [.../** @type {any} */ (it).pages.map((page) => ({ kind: 'page', ...page })), ...remembered('views', []).map((view) => ({ kind: 'view', label: view.name, address: view.address })), ...commands()].filter(matches).concat(it.found, wanted === '' || /\s/.test(wanted) ? [] : [{ kind: 'command', label: `Find the message with id ${it.text.trim()}`, run: () => findMessage(it.text.trim()) }]);
}

/** Opens the first queue that has a message with an id, of those of the virtual host that have messages. @param {string} id */
async function findMessage(id) {
  const filter = `properties.message_id = '${id.replaceAll("'", "''")}'`;
  tell(`Searching for the message with id ${id}\u2026`);
  const vhost = vhostNow();
  const queues = await get(`/queues${vhost ? path`/${vhost}` : ''}?page=1&page_size=${SEARCHED_MAX}&columns=name,vhost&where=messages>0&sort=messages`);
  if (!queues.ok) return tell(queues.reason, true);
  for (const queue of queues.data.items) {
    let from = 'head';
    for (let n = 0; n < PAGES_MAX && from !== null; n += 1) {
      const answer = await ask('POST', path`/queues/${queue.vhost}/${queue.name}/browse`, { from, which: 'all', limit: 1, headers_only: true, filter });
      if (answer.ok && answer.data.messages.length > 0) {
        location.hash = queueLink(queue.vhost, queue.name, { tab: 'messages', mf: filter, which: 'all' });
        return undefined;
      }
      from = answer.ok ? answer.data.next : null;
    }
  }
  return tell(`No message with id ${id} in the ${queues.data.items.length} queues that were searched`, true);
}

async function find() {
  const text = it.text.trim();
  const asked = (it.asked += 1);
  if (text === '') {
    it.found = [];
    redraw();
    return;
  }
  const list = (kind, more = '') => get(`/${kind}?page=1&page_size=${FOUND_MAX}&columns=name${more}&name=${encodeURIComponent(text)}`);
  const where = (kind, columns, field) => get(`/${kind}?page=1&page_size=${FOUND_MAX}&columns=${columns}&where=${encodeURIComponent(`${field}:${text}`)}`);
  const [queues, exchanges, connections, named, consumers, users, policies] = await Promise.all([
    list('queues', ',vhost,type'), list('exchanges', ',vhost'), list('connections', ',user_provided_name'), where('connections', 'name,user_provided_name', 'user_provided_name'), where('consumers', 'consumer_tag,queue', 'consumer_tag'),
    isAdministrator() ? list('users') : null, isPolicymaker() ? get('/policies') : null,
  ]);
  if (asked !== it.asked) return;
  const rows = (answer) => (answer?.ok ? answer.data.items : []);
  it.found = [
    ...rows(queues).map((row) => ({ kind: row.type, label: row.name, vhost: row.vhost, address: queueLink(row.vhost, row.name) })),
    ...rows(exchanges).map((row) => ({ kind: 'exchange', label: row.name || '(AMQP default)', vhost: row.vhost, address: exchangeLink(row.vhost, row.name) })),
    ...[...rows(named), ...rows(connections).filter((row) => !rows(named).some((one) => one.name === row.name))].map((row) => ({ kind: 'connection', label: row.user_provided_name ? `${row.user_provided_name} ${row.name}` : row.name, address: link(['connections', row.name]) })),
    ...rows(consumers).map((row) => ({ kind: 'consumer', label: row.consumer_tag, vhost: row.queue?.name, address: queueLink(row.queue?.vhost, row.queue?.name, { tab: 'consumers' }) })),
    ...(policies?.ok && Array.isArray(policies.data) ? policies.data : []).filter((row) => row.name.toLowerCase().includes(text.toLowerCase())).slice(0, FOUND_MAX).map((row) => ({ kind: 'policy', label: row.name, vhost: row.vhost, address: link(['policies'], { vhost: row.vhost }) })),
    ...rows(users).map((row) => ({ kind: 'user', label: row.name, address: link(['users', row.name]) })),
  ];
  redraw();
}

function go(entry) {
  if (!entry) return;
  it.opener = null;
  close();
  if (entry.run) entry.run();
  else location.hash = entry.address;
}

function key(event, all) {
  const by = { ArrowDown: 1, ArrowUp: -1 }[event.key];
  if (by) it.at = (it.at + by + all.length) % Math.max(1, all.length);
  else if (event.key === 'Enter') go(all[it.at]);
  else return;
  event.preventDefault();
  redraw();
}

export function palette() {
  if (!it.isOpen) return null;
  const all = entries();
  it.at = Math.min(it.at, Math.max(0, all.length - 1));
  return h('dialog', { key: 'palette', class: 'palette', 'aria-label': 'Search everything', mounted: (node) => { it.node = node; node.showModal(); node.querySelector('input').focus(); }, oncancel: (event) => { event.preventDefault(); close(); } },
    h('input', {
      type: 'text', role: 'combobox', 'aria-expanded': 'true', 'aria-controls': 'found', 'aria-label': 'Search everything', 'aria-activedescendant': all.length > 0 ? `found-${it.at}` : null, autocomplete: 'off', spellcheck: 'false',
      placeholder: 'Queue, exchange, connection, consumer tag, policy, user, message id, page\u2026', value: it.text, onkeydown: (event) => key(event, all),
      oninput: (event) => { it.text = event.target.value; it.at = 0; clearTimeout(it.timer); it.timer = window.setTimeout(find, PATIENCE_MS); redraw(); },
    }),
    h('ul', { id: 'found', role: 'listbox', 'aria-label': 'Found' }, all.map((entry, at) => h('li', {
      id: `found-${at}`, role: 'option', 'aria-selected': String(at === it.at), onclick: () => go(entry),
    }, h('span', { class: 'name' }, plain(entry.label)), entry.vhost && h('span', { class: 'faint' }, plain(entry.vhost)), h('span', { class: 'grow' }), h('span', { class: 'faint' }, entry.kind)))),
    all.length === 0 && h('p', { class: 'nothing' }, 'No matches'));
}
