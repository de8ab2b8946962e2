// Messages as they come to a queue, a stream or an exchange, shown until the reader has seen enough.

import { query, redraw, setQuery } from './app.js';
import { events, root, sent } from './api.js';
import { h } from './dom.js';
import { bytes, number, plain, time } from './format.js';
import { messageView, preview } from './messages.js';
import { button, commands, name, nothing, problem, saver } from './parts.js';

/** Messages that are kept, the last first, and bytes of each body. */
const KEPT_MAX = 300;
const BODY_BYTES = 16 * 1024;

/** The state of a view. @param {string} of what is watched, an address below `/api` */
export function watch(of) {
  const it = {
    of, filter: query('tf'), messages: /** @type {any[]} */ ([]), n: 0, leftOut: 0, problem: '', told: '', open: /** @type {any} */ (null),
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
  Object.assign(it, { stop, isWatched: false, problem: '', told: 'Waiting for the first. What came before is not shown.' });
  redraw();
  try {
    const response = await fetch(`${root}/api${sent(address(it))}`, { signal: stop.signal, headers: { 'x-requested-with': 'leveret' }, cache: 'no-store' });
    if (!response.ok || !response.body) it.problem = (await response.json().catch(() => null))?.reason ?? `the node answered with status ${response.status}`;
    else {
      it.isWatched = true;
      redraw();
      for await (const { event, data } of events(response.body)) {
        const told = JSON.parse(data);
        if (event === 'message') it.messages = [{ ...told, n: (it.n += 1), came: Date.now() }, ...it.messages.slice(0, KEPT_MAX - 1)];
        if (event === 'left_out') it.leftOut += told.count;
        if (event === 'end' || event === 'error') it.problem = `It has ended: ${told.reason}`;
        redraw();
      }
      it.problem ||= 'The node has ended it.';
    }
  } catch (error) {
    if (error.name !== 'AbortError') it.problem = 'It broke off.';
  }
  if (it.stop === stop) it.stop = null;
  redraw();
}

function view(it) {
  const shown = it.messages.length;
  return [
    h('form', { class: 'bar', onsubmit: (event) => { event.preventDefault(); setQuery({ tf: it.filter.trim() }); begin(it); } },
      h('label', { class: 'filter' }, h('span', { class: 'hidden' }, 'Condition'), h('input', { type: 'search', class: 'sql', 'data-filter': true, spellcheck: 'false', autocomplete: 'off', value: it.filter, placeholder: "Condition: routing_key LIKE 'eu.%'", oninput: (event) => { it.filter = event.target.value; } })),
      h('button', { type: 'submit', class: 'button primary' }, it.stop ? 'Watch with this' : 'Watch'), it.stop && button('Stop', () => { it.stop?.abort(); it.stop = null; redraw(); }), shown > 0 && button('Clear', () => { Object.assign(it, { messages: [], open: null, n: 0, leftOut: 0 }); redraw(); }, { kind: 'quiet' }), shown > 0 && saver()),
    it.problem && problem(plain(it.problem)),
    h('p', { class: 'faint' }, it.stop ? it.isWatched ? h('span', { class: 'live' }, 'Watching') : 'Beginning\u2026' : 'Stopped', ` \u00b7 ${number(it.n)} seen`, it.leftOut > 0 && `, ${number(it.leftOut)} left out: 50 a second are shown`, it.n > shown && `, the last ${number(shown)} are here`, '. Nobody who publishes waits for it.'),
    shown === 0 ? nothing(it.stop ? it.told : '') : h('div', { class: `split ${it.open ? 'both' : ''}` }, list(it), it.open && h('section', { class: 'card detail', 'aria-label': 'Message' }, h('div', { class: 'bar' }, h('h2', null, `Came at ${time(it.open.came)}`), h('span', { class: 'grow' }), button('Close', () => { it.open = null; redraw(); }, { kind: 'quiet' })), messageView(it.open))),
    commands([{ method: 'GET', address: address(it), ctl: ctl(it) }]),
  ];
}

const list = (it) => h('div', { class: 'list', tabindex: 0, role: 'group', 'aria-label': 'The last messages' }, h('table', { class: 'rows browse' },
  h('thead', null, h('tr', null, ['Came', 'Exchange', 'Routing key', 'Body', 'Beginning'].map((head) => h('th', { scope: 'col', class: head === 'Body' ? 'num' : null }, head)))),
  h('tbody', null, it.messages.slice(0, 100).map((message) => h('tr', { key: message.n, class: it.open?.n === message.n ? 'selected' : null },
    h('td', null, h('button', { type: 'button', class: 'button quiet open', 'aria-expanded': String(it.open?.n === message.n), onclick: () => { it.open = message; redraw(); } }, time(message.came).slice(11))),
    h('td', { 'data-label': 'Exchange' }, name(message.exchange, '(AMQP default)')), h('td', { 'data-label': 'Routing key' }, name(message.routing_key, '(empty)')),
    h('td', { class: 'num', 'data-label': 'Body' }, bytes(message.payload_bytes)), h('td', { class: 'preview', 'data-label': 'Beginning' }, message.payload === undefined ? '(hidden)' : plain(preview(message)) || '(empty)'))))));
