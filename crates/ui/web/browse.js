// The messages of a queue or stream, looked at without being felt by anybody: pages, a search that says how
// far it is, one message beside the list, two compared, what is seen as a file.

import { isAdministrator, query, redraw, redrawFed, setQuery } from './app.js';
import { ask, events, path, root, sent, stream } from './api.js';
import { h } from './dom.js';
import { bytes, count, duration, number, plain, time } from './format.js';
import { holder, messageView, preview, publish } from './messages.js';
import { button, name, nothing, problem, saver, table, tag } from './parts.js';
import { bringIn, redrive, remove } from './redrive.js';

/** Messages of a page. */
const PAGE = 100;
/** Bytes of a body in the list; one that is opened is shown with more. */
const LIST_BYTES = 200;
const OPEN_BYTES = 256 * 1024;
/** Selected messages that the address has. */
const LINKED_MAX = 50;

const NAMES = ['$.', 'exchange', 'routing_key', 'redelivered', 'body', 'x-death.reason', 'x-death.queue', 'x-death.exchange', 'x-death.count', 'properties.message_id', 'properties.correlation_id', 'properties.content_type',
  'properties.type', 'properties.app_id', 'properties.priority', 'properties.timestamp', 'properties.delivery_mode'];

/** The state of the tab. @param {any} queue */
export function browser(queue) {
  const of = path`/queues/${queue.vhost}/${queue.name}`;
  const it = {
    queue, of, isStream: queue.type === 'stream', filter: query('mf'), which: query('which', 'ready'), from: query('from', queue.type === 'stream' ? 'tail' : 'head'), at: query('at'),
    messages: /** @type {any[] | null} */ (null), next: /** @type {any} */ (null), asked: query('mf'), told: '', problem: '', column: 0, busy: false,
    open: /** @type {any} */ (null), marked: /** @type {any[]} */ ([]), stop: /** @type {AbortController | null} */ (null), earlier: /** @type {any[]} */ ([]), start: /** @type {any} */ (null),
  };
  look(it, startOf(it));
  return { view: () => view(it), close: () => it.stop?.abort() };
}

function startOf(it) {
  if (it.from === 'position' && it.at !== '') return { position: Number(it.at) };
  if (it.from === 'time' && it.at) return { timestamp: new Date(it.at).getTime() };
  return it.from === 'tail' ? 'tail' : 'head';
}

const body = (it, from, more) => ({ from, which: it.which, ...(it.filter.trim() ? { filter: it.filter.trim() } : {}), ...more });

/** A page from somewhere on. */
async function look(it, from, back = false) {
  it.stop?.abort();
  it.stop = new AbortController();
  it.busy = true;
  it.problem = '';
  redraw();
  try {
    const answer = await ask('POST', `${it.of}/browse`, body(it, from, { limit: PAGE, payload_bytes: LIST_BYTES }), { signal: it.stop.signal });
    it.busy = false;
    if (answer.ok) {
      if (!back && it.start !== null && it.messages) it.earlier.push(it.start);
      Object.assign(it, { messages: answer.data.messages, next: answer.data.next, start: from, column: 0 });
      const [opened, selected] = [query('open'), query('sel').split(',')];
      it.marked = [...it.marked, ...it.messages.filter((message) => selected.includes(String(message.position)) && !it.marked.some((one) => one.position === message.position))].map((one) => it.messages.find((message) => message.position === one.position) ?? one);
      const found = opened !== '' && it.open === null && it.messages.find((message) => String(message.position) === opened);
      if (found) open(it, found);
      it.told = `Scanned ${number(answer.data.scanned)}${it.filter.trim() ? `, ${number(answer.data.matched)} match` : ''}.`;
    } else Object.assign(it, { problem: answer.reason, column: answer.column ?? 0 });
  } catch (error) {
    if (error.name !== 'AbortError') throw error;
  }
  redraw();
}

/** All that match, one by one as they are found. */
async function search(it) {
  it.stop?.abort();
  const stop = new AbortController();
  it.stop = stop;
  Object.assign(it, { busy: true, problem: '', messages: [], next: null, earlier: [], start: null, told: 'Searching\u2026' });
  redraw();
  const began = Date.now();
  try {
    const headers = { 'content-type': 'application/json', accept: 'text/event-stream, application/json' };
    const response = await stream(`${it.of}/search`, { method: 'POST', headers, body: JSON.stringify(body(it, startOf(it), { payload_bytes: LIST_BYTES, limit: PAGE })) }, stop.signal);
    if (!response.ok || !response.body) {
      const told = await response.json().catch(() => null);
      Object.assign(it, { problem: told?.reason ?? `the node answered with status ${response.status}`, column: told?.column ?? 0 });
    } else {
      for await (const { event, data: text } of events(response.body)) {
        const data = JSON.parse(text);
        if (event === 'match' && it.messages.length < PAGE) it.messages.push(data);
        if (event === 'progress' || event === 'end') it.told = `Scanned ${number(data.scanned)}, ${number(data.matched)} match (${duration(Date.now() - began)})${event === 'end' && data.reason === 'limit' ? '; there may be more: Next' : event === 'end' && !data.complete ? `; it ended early: ${plain(data.reason)}` : ''}.`;
        if (event === 'end') it.next = data.next;
        if (event === 'error') it.problem = plain(data.reason ?? 'the search broke off');
        redrawFed();
      }
    }
  } catch (error) {
    if (error.name !== 'AbortError') it.problem = error.name === 'TimeoutError' ? 'the node does not answer' : 'the search broke off';
    else it.told += ' Stopped.';
  }
  if (it.stop === stop) it.busy = false;
  redraw();
}

/** Opens one message, with its whole body. */
async function open(it, message) {
  it.open = message;
  setQuery({ open: message.position });
  if (!message.payload_truncated) return;
  const answer = await ask('POST', `${it.of}/browse`, { from: { position: message.position }, limit: 1, which: 'all', payload_bytes: OPEN_BYTES });
  const whole = answer.data?.messages?.[0];
  if (answer.ok && whole?.position === message.position && it.open === message) it.open = whole;
  redraw();
}

function change(it, changes) {
  Object.assign(it, changes, { earlier: [], start: null });
  it.asked = it.filter.trim();
  setQuery({ mf: it.filter.trim(), which: it.which === 'ready' ? '' : it.which, from: it.from === (it.isStream ? 'tail' : 'head') ? '' : it.from, at: ['position', 'time'].includes(it.from) ? it.at : '' });
  if (!['position', 'time'].includes(it.from) || it.at !== '') look(it, startOf(it));
}

function completions(it) {
  const seen = new Set(NAMES);
  for (const message of it.messages ?? []) for (const key of Object.keys(message.properties?.headers ?? {})) if (/^[A-Za-z_$][\w$]*$/.test(key)) seen.add(key);
  const words = it.filter.split(' ');
  const last = words.pop() ?? '';
  if (last === '') return [];
  return [...seen].filter((word) => word.startsWith(last) && word !== last).slice(0, 10).map((word) => [...words, word].join(' '));
}

function bar(it) {
  const choice = (label, key, options) => h('label', { class: 'inline' }, h('span', null, label), h('select', { onchange: (event) => change(it, { [key]: event.target.value }) }, options.map(([id, text]) => h('option', { value: id, selected: it[key] === id }, text))));
  return h('form', { class: 'bar', onsubmit: (event) => { event.preventDefault(); change(it, {}); } },
    choice('From', 'from', [['head', 'oldest'], ['tail', 'newest'], ['position', it.isStream ? 'offset' : 'position'], ['time', 'time']]),
    it.from === 'position' && h('label', null, h('span', { class: 'hidden' }, 'Position'), h('input', { type: 'number', min: 0, class: 'at', value: it.at, onchange: (event) => change(it, { at: event.target.value }) })),
    it.from === 'time' && h('label', null, h('span', { class: 'hidden' }, 'Time'), h('input', { type: 'datetime-local', step: 1, value: it.at, onchange: (event) => change(it, { at: event.target.value }) })),
    !it.isStream && choice('State', 'which', [['ready', 'ready'], ['unacked', 'unacked'], ['delayed', 'delayed'], ['all', 'all']]),
    h('label', { class: 'filter' }, h('span', { class: 'hidden' }, 'Condition'), h('input', {
      type: 'search', class: 'sql', 'data-filter': true, spellcheck: 'false', autocomplete: 'off', list: 'message-names', value: it.filter, placeholder: "Condition: tenant = 'a' AND $.total > 10", oninput: (event) => { it.filter = event.target.value; redraw(); },
    })),
    h('datalist', { id: 'message-names' }, completions(it).map((word) => h('option', { value: word }))),
    h('button', { type: 'submit', class: 'button primary' }, 'Browse'),
    it.busy ? button('Stop', () => { it.stop?.abort(); it.busy = false; redraw(); }) : it.filter.trim() !== '' && button('Search all', () => search(it), { title: 'Scans the queue until a page of matches is found' }),
    menu(it));
}

/** What can be done to all that match, and to more than them. */
function menu(it) {
  const filter = it.filter.trim();
  const select = filter ? { filter } : 'all';
  const what = filter ? 'all matching messages' : 'all ready messages';
  return h('details', { class: 'menu-of', key: 'more' }, h('summary', { class: 'button' }, 'More'), h('div', { class: 'popup' },
    h('a', { class: 'button', href: `${root}/api${sent(`${it.of}/export?${new URLSearchParams({ which: it.which, ...(filter ? { filter } : {}) })}`)}`, download: 'messages.ndjson', title: 'All that match, with whole bodies, an object a line' }, 'Export all'),
    button('Import\u2026', () => bringIn(it.of, name(it.queue.name), () => look(it, startOf(it)))),
    !it.isStream && it.which === 'ready' && [button('Redrive all\u2026', () => redrive(it.queue, select, what)), button('Remove all\u2026', () => remove(it.queue, select, what, () => look(it, startOf(it))), { kind: 'danger' })]));
}

function list(it) {
  const mark = (message) => {
    it.marked = it.marked.includes(message) ? it.marked.filter((one) => one !== message) : [...it.marked, message];
    setQuery({ sel: it.marked.slice(0, LINKED_MAX).map((one) => one.position).join(',') });
  };
  return h('div', { class: 'list', tabindex: 0, role: 'group', 'aria-label': 'Messages' }, h('table', { class: 'rows browse' },
    h('thead', null, h('tr', null, h('th', { class: 'pick' }, h('span', { class: 'hidden' }, 'Select')), h('th', { class: 'num', scope: 'col' }, it.isStream ? 'Offset' : 'Position'), h('th', { scope: 'col' }, it.isStream ? 'Stored' : 'State'), h('th', { scope: 'col' }, 'Routing key'), h('th', { class: 'num', scope: 'col' }, 'Size'), h('th', { scope: 'col' }, 'Body'))),
    h('tbody', null, it.messages.map((message) => h('tr', { key: message.position, class: it.open?.position === message.position ? 'selected' : null },
      h('td', { class: 'pick' }, h('input', { type: 'checkbox', 'aria-label': `Select ${message.position}`, checked: it.marked.includes(message), onchange: () => mark(message) })),
      h('td', { class: 'num', 'data-label': it.isStream ? 'Offset' : 'Position' }, h('button', { type: 'button', class: 'button quiet open', 'aria-expanded': String(it.open?.position === message.position), onclick: () => open(it, message) }, number(message.position))),
      h('td', { 'data-label': it.isStream ? 'Stored' : 'State' }, it.isStream ? time(message.timestamp) : [message.state === 'ready' ? h('span', { class: 'faint' }, 'ready') : tag('warn', message.state), message.holder && [' by ', holder(message.holder)], message.redelivered && [' ', tag('warn', 'redelivered')], message.deaths?.length > 0 && [' ', tag('bad', plain(message.deaths[0].reason))]]),
      h('td', { class: 'wide', 'data-label': 'Routing key' }, name(message.routing_key, '(empty)')), h('td', { class: 'num', 'data-label': 'Body' }, bytes(message.payload_bytes)), h('td', { class: 'preview' }, message.payload === undefined ? '(hidden)' : plain(preview(message)) || '(empty)'))))));
}

function chosen(it) {
  const select = { positions: it.marked.map((message) => message.position) };
  const what = count(it.marked.length, 'message');
  const done = () => { it.marked = []; setQuery({ sel: '', open: '' }); look(it, it.start ?? startOf(it), true); };
  return h('div', { class: 'bulk', role: 'region', 'aria-label': 'Selection' }, h('strong', null, `${what} selected`), button('Clear', () => { it.marked = []; setQuery({ sel: '' }); }, { kind: 'quiet' }), h('span', { class: 'grow' }),
    it.marked.length === 1 && h('span', { class: 'faint' }, 'Select one more to compare'),
    !it.isStream && [button('Redrive\u2026', () => redrive(it.queue, select, what)), button('Remove\u2026', () => remove(it.queue, select, what, done), { kind: 'danger' })]);
}

/** Has a message that waits to be tried again go on now or at another time. */
function retry(it, { position, due_at }, now = false) {
  const done = () => { it.open = null; setQuery({ open: '' }); look(it, it.start ?? startOf(it), true); };
  import('./pages/delayed.js').then((delayed) => delayed.move({ vhost: it.queue.vhost, queue: it.queue.name }, { id: position, due_ms: due_at }, now, done));
}

function details(it) {
  const message = it.open;
  return h('section', { class: 'card detail', 'aria-label': 'Message' },
    h('div', { class: 'bar' }, h('h2', null, `Message ${number(message.position)}`), h('span', { class: 'grow' }),
      message.state === 'delayed' && it.queue.type === 'quorum' && isAdministrator() && [button('Retry now', () => retry(it, message, true)), button('Reschedule', () => retry(it, message))],
      message.payload !== undefined && !message.payload_truncated && button('Publish again\u2026', () => publish({ vhost: it.queue.vhost, exchange: message.exchange, routingKey: message.routing_key, message })), button('Close', () => { it.open = null; setQuery({ open: '' }); }, { kind: 'quiet' })),
    message.deaths?.length > 0 && [h('h3', null, 'Deaths'), table(['Reason', 'Queue', 'Exchange', '#Times', 'Last'], message.deaths.map((death) => [tag('bad', plain(death.reason)), name(death.queue), name(death.exchange, '(AMQP default)'), number(death.count), time((death.time ?? 0) * 1000)]))],
    messageView(message));
}

/** Two messages, and where they differ. */
function compared([left, right]) {
  const flat = (message) => ({ exchange: message.exchange, routing_key: message.routing_key, ...Object.fromEntries(Object.entries(message.properties ?? {}).filter(([key]) => key !== 'headers')), ...Object.fromEntries(Object.entries(message.properties?.headers ?? {}).map(([key, value]) => [`header ${key}`, value])), body: message.payload });
  const [a, b] = [flat(left), flat(right)];
  const differing = [...new Set([...Object.keys(a), ...Object.keys(b)])].filter((key) => JSON.stringify(a[key]) !== JSON.stringify(b[key]));
  const cell = (value) => (value === undefined ? h('span', { class: 'faint' }, 'not there') : h('code', null, plain(typeof value === 'string' ? value.slice(0, 2000) : JSON.stringify(value))));
  return h('section', { class: 'card' }, h('h2', null, 'Differences'), table(['Part', number(left.position), number(right.position)], differing.map((key) => [h('code', null, plain(key)), cell(a[key]), cell(b[key])]), 'None, as far as the list shows'));
}

function view(it) {
  if (query('mf') !== it.asked) {
    Object.assign(it, { asked: query('mf'), filter: query('mf'), earlier: [], start: null });
    look(it, startOf(it));
  }
  return [
    bar(it),
    it.problem && problem([it.column > 0 && h('code', null, plain(it.filter.slice(0, it.column - 1)), h('mark', null, plain(it.filter.slice(it.column - 1)) || '\u2423')), ' ', plain(it.problem)]),
    h('p', { class: 'faint', role: 'status' }, it.busy && !it.messages ? 'Loading\u2026' : it.told, ' Browsing delivers no messages.'),
    it.marked.length > 0 && chosen(it),
    it.marked.length === 2 && compared(it.marked),
    it.messages && (it.messages.length === 0 ? !it.busy && nothing(it.filter.trim() ? 'No matching messages' : ['No messages. ', button('Publish one', () => publish({ vhost: it.queue.vhost, exchange: '', routingKey: it.queue.name, isFixed: true }))]) : h('div', { class: `split ${it.open ? 'both' : ''}` }, list(it), it.open && details(it))),
    h('div', { class: 'pager' }, button('Back', () => look(it, it.earlier.pop(), true), { disabled: it.earlier.length === 0 || it.busy }), button('Next', () => look(it, it.next), { disabled: !it.next || it.busy }),
      button('Refresh', () => look(it, it.start ?? startOf(it), true), { kind: 'quiet', disabled: it.busy }), h('span', { class: 'grow' }), it.messages?.length > 0 && saver()),
  ];
}
