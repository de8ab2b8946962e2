// Messages as they come to a queue, a stream or an exchange, shown until the reader has seen enough.

import { app, query, redraw, redrawFed, setQuery } from './app.js';
import { events, stream } from './api.js';
import { h } from './dom.js';
import { bytes, number, plain, time } from './format.js';
import { messageView, preview } from './messages.js';
import { button, commands, name, nothing, problem, saver } from './parts.js';

/** Messages that are kept, the last first, and bytes of each body. */
const KEPT_MAX = 300;
const BODY_BYTES = 16 * 1024;
/** Rows that are shown. */
const SHOWN_MAX = 50;
/** Shortest time between two draws, each of which lays out the whole table, ms. */
const DRAWN_EVERY_MS = 400;

/** The state of a view. @param {string} of what is watched, an address below `/api` */
export function watch(of) {
  const it = {
    of, filter: query('tf'), messages: /** @type {any[]} */ ([]), n: 0, leftOut: 0, passed: 0, problem: '', told: '', open: /** @type {any} */ (null),
    stop: /** @type {AbortController | null} */ (null),
    /** The node watches, too. */
    isWatched: false,
  };
  begin(it);
  return { view: () => view(it), close: () => it.stop?.abort() };
}

/** As the command line watches it. */
function ctl(it) {
  const [, kind, vhost, of] = it.of.split('/').map(decodeURIComponent);
  return [kind === 'exchanges' ? 'tail_exchange' : 'tail_messages', '--vhost', vhost, ...(it.filter.trim() ? ['--filter', it.filter.trim()] : []), of];
}

const address = (it) => `${it.of}/tail?${new URLSearchParams({ payload_bytes: String(BODY_BYTES), ...(it.filter.trim() ? { filter: it.filter.trim() } : {}) })}`;

async function begin(it) {
  it.stop?.abort();
  const stop = new AbortController();
  Object.assign(it, { stop, isWatched: false, problem: '', told: 'No message yet. Messages from before are not shown.' });
  redraw();
  try {
    const response = await stream(address(it), {}, stop.signal);
    if (!response.ok || !response.body) it.problem = (await response.json().catch(() => null))?.reason ?? `the node answered with status ${response.status}`;
    else {
      it.isWatched = true;
      redraw();
      for await (const { event, data } of events(response.body)) {
        const told = JSON.parse(data);
        if (event === 'message') it.n += 1;
        // What is there stays while the reader has it pause.
        if (event === 'message' && app.paused) it.passed += 1;
        else if (event === 'message') {
          it.messages.unshift({ ...told, n: it.n, came: Date.now() });
          it.messages.length = Math.min(it.messages.length, KEPT_MAX);
        }
        if (event === 'left_out') it.leftOut += told.count;
        if (event === 'end' || event === 'error') it.problem = `The node has ended it: ${told.reason}`;
        redrawFed(DRAWN_EVERY_MS);
      }
      it.problem ||= 'The node has ended the live tail.';
    }
  } catch (error) {
    if (error.name !== 'AbortError') it.problem = error.name === 'TimeoutError' ? 'The node does not answer.' : 'The connection was lost.';
  }
  if (it.stop === stop) it.stop = null;
  redraw();
}

function view(it) {
  const shown = it.messages.length;
  return [
    h('form', { class: 'bar', onsubmit: (event) => { event.preventDefault(); setQuery({ tf: it.filter.trim() }); begin(it); } },
      h('label', { class: 'filter' }, h('span', { class: 'hidden' }, 'Condition'), h('input', { type: 'search', class: 'sql', 'data-filter': true, spellcheck: 'false', autocomplete: 'off', value: it.filter, placeholder: "Condition: routing_key LIKE 'eu.%'", oninput: (event) => { it.filter = event.target.value; } })),
      h('button', { type: 'submit', class: 'button primary' }, it.stop ? 'Apply' : 'Start'), it.stop && button('Stop', () => { it.stop?.abort(); it.stop = null; redraw(); }), shown > 0 && button('Clear', () => { Object.assign(it, { messages: [], open: null, n: 0, leftOut: 0, passed: 0 }); redraw(); }, { kind: 'quiet' }), shown > 0 && saver()),
    it.problem && problem(plain(it.problem)),
    h('p', { class: 'faint' }, it.stop ? it.isWatched ? h('span', { class: 'live' }, app.paused ? 'Paused' : 'Watching') : 'Connecting\u2026' : 'Stopped', ` \u00b7 ${number(it.n)} received`, it.leftOut > 0 && `, ${number(it.leftOut)} skipped: at most 50 a second are shown`, it.passed > 0 && `, ${number(it.passed)} while paused`, it.n > shown && `, the last ${number(shown)} are here`, '. Publishers are unaffected.'),
    shown === 0 ? nothing(it.stop ? it.told : '') : h('div', { class: `split ${it.open ? 'both' : ''}` }, list(it), it.open && h('section', { class: 'card detail', 'aria-label': 'Message' }, h('div', { class: 'bar' }, h('h2', null, `Received at ${time(it.open.came)}`), h('span', { class: 'grow' }), button('Close', () => { it.open = null; redraw(); }, { kind: 'quiet' })), messageView(it.open))),
    commands([{ method: 'GET', address: address(it), ctl: ctl(it) }]),
  ];
}

const list = (it) => h('div', { class: 'list', tabindex: 0, role: 'group', 'aria-label': 'The last messages' }, h('table', { class: 'rows browse tailed' },
  h('thead', null, h('tr', null, ['Received', 'Exchange', 'Routing key', 'Size', 'Body'].map((head) => h('th', { scope: 'col', class: head === 'Size' ? 'num' : null }, head)))),
  h('tbody', null, it.messages.slice(0, SHOWN_MAX).map((message) => rowOf(it, message)))));

/** A row is made once, and again when it is opened or closed: what comes is put before those that are there. */
function rowOf(it, message) {
  const isOpen = it.open?.n === message.n;
  if (message.row && message.isOpen === isOpen) return message.row;
  message.isOpen = isOpen;
  message.row = h('tr', { key: message.n, class: isOpen ? 'selected' : null },
    h('td', null, h('button', { type: 'button', class: 'button quiet open', 'aria-expanded': String(isOpen), onclick: () => { it.open = message; redraw(); } }, time(message.came).slice(11))),
    h('td', { 'data-label': 'Exchange' }, name(message.exchange, '(AMQP default)')), h('td', { 'data-label': 'Routing key' }, name(message.routing_key, '(empty)')),
    h('td', { class: 'num', 'data-label': 'Size' }, bytes(message.payload_bytes)), h('td', { class: 'preview', 'data-label': 'Body' }, message.payload === undefined ? '(hidden)' : plain(preview(message)) || '(empty)'));
  return message.row;
}
