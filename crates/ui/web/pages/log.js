// The last lines of the node's log, and the last of what happened to its objects, as they come.

import { link, query, setQuery } from '../app.js';
import { h } from '../dom.js';
import { number, plain, time } from '../format.js';
import { ICONS, button, commands, dialog, fields, icon, problem, section, table, tabs, tag } from '../parts.js';

/** Lines, or events, at a time. */
const SHOWN = 100;
const KINDS = { error: 'bad', warning: 'warn', info: 'calm', debug: 'calm' };
const LEVELS = [['', 'all'], ['info', 'info and above'], ['warning', 'warnings and errors'], ['error', 'errors']];

/** What names nothing that a reader knows. */
const UNSAID = ['pid', 'connection', 'connected_at', 'node', 'timestamp_in_ms', 'user_who_performed_action'];

/** What an event is about: its name and virtual host first, and who did it last. @param {Record<string, any>} headers */
function about({ name, vhost, ...rest }) {
  const { user_who_performed_action: by } = rest;
  const more = Object.entries(rest).filter(([key, it]) => !UNSAID.includes(key) && it !== '' && JSON.stringify(it) !== '{}');
  return fields(Object.fromEntries([['name', name], ['vhost', vhost], ...more, ['by', by]].filter(([, it]) => it !== undefined)));
}

/** @typedef {{list: string, path: string, noun: string, heads: string[], cells: (it: any) => any[], asks: () => Record<string, string>, ctl: string[], hint: string}} Kind */

/** @type {Record<string, Kind>} */
const TABS = {
  '': {
    list: 'lines', path: '/leveret/log', noun: 'line', heads: ['Time', 'Level', 'Category', 'Line'], hint: 'Text of a line', ctl: ['log_tail', '--number', String(SHOWN)],
    cells: (it) => [h('span', { class: 'when' }, time(it.timestamp)), tag(KINDS[it.level] ?? 'calm', plain(it.level)), h('span', { class: 'faint' }, plain(String(it.category).replace(/^rabbitmq\.?/, ''))), h('span', { class: 'line' }, plain(it.text))],
    asks: () => ({ lines: String(SHOWN), level: query('level') }),
  },
  events: {
    list: 'events', path: '/leveret/events', noun: 'event', heads: ['Time', 'Event', 'Details'], hint: 'Text of an event', ctl: ['consume_event_stream'],
    cells: (it) => [h('span', { class: 'when' }, time(it.timestamp)), h('code', { class: 'when' }, plain(it.event)), h('div', { class: 'about' }, about(it.headers))],
    asks: () => ({ count: String(SHOWN), name: query('event') }),
  },
};

const tab = () => TABS[query('tab')] ?? TABS[''];

function address({ path, asks }) {
  const words = Object.entries({ ...asks(), text: query('text'), before: query('before') }).filter(([, value]) => value !== '');
  return `${path}?${new URLSearchParams(words)}`;
}

export function open() {
  const page = {
    title: 'Log and events', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    sources: () => ({ [tab().list]: address(tab()) }),
    view: () => view(page),
  };
  return page;
}

/** Texts as they were typed, with the spaces that the address has not. */
const typed = /** @type {Record<string, string>} */ ({});
let typing = 0;

/** An input whose text goes to the address a moment after it was typed. */
function words(key, label, hint) {
  const type = (event) => {
    clearTimeout(typing);
    typed[key] = event.target.value;
    typing = window.setTimeout(() => setQuery({ [key]: typed[key].trim(), before: '' }), 150);
  };
  return h('label', { class: 'filter', key }, icon(ICONS.search), h('span', { class: 'hidden' }, label), h('input', { type: 'search', 'data-filter': key === 'text', spellcheck: 'false', autocomplete: 'off', placeholder: hint, value: typed[key]?.trim() === query(key) ? typed[key] : query(key), oninput: type }));
}

function setLevel(level) {
  dialog({
    title: 'Log level', act: 'Set', says: h('p', null, 'Until the next start of the node, which takes the level of its configuration.'),
    fields: [{ name: 'level', label: 'Minimum level', type: 'select', options: ['debug', 'info', 'warning', 'error', 'none'], value: level }],
    requests: ({ level }) => [{ method: 'PUT', address: `/leveret/log/level/${level}`, ctl: ['set_log_level', level] }], told: 'Log level set',
  });
}

function view(page) {
  const kind = tab();
  const { noun, list, hint } = kind;
  const known = page.data[list];
  return [
    h('div', { class: 'head' }, h('h1', null, 'Log and events'), h('span', { class: 'grow' }), known?.level && h('div', { class: 'bar' }, button(`Log level: ${plain(known.level)}`, () => setLevel(known.level), { title: 'Minimum level that is logged' }))),
    tabs([['', 'Log'], ['events', 'Events']], query('tab'), (id) => link(['log'], { tab: id })),
    h('div', { class: 'bar' },
      list === 'events' ? words('event', 'Events', 'queue.* or connection.#') : h('label', { class: 'inline', key: 'level' }, h('span', null, 'Level'), h('select', { onchange: (event) => setQuery({ level: event.target.value, before: '' }) }, LEVELS.map(([id, label]) => h('option', { value: id, selected: query('level') === id }, label)))),
      words('text', 'Text', hint)),
    page.errors[list] && problem(page.errors[list]),
    known ? shown(kind, known) : !page.errors[list] && h('span', { class: 'ghost' }),
    commands([{ method: 'GET', address: address(kind), ctl: kind.ctl }]),
  ];
}

function shown({ noun, list, heads, cells }, known) {
  const all = [...known[list]].reverse();
  const first = all.at(-1)?.n ?? 0;
  const isFiltered = query('text') || query('level') || query('event');
  return [
    section(null, table(heads, all.map(cells), isFiltered ? `No matching ${noun}s` : `No ${noun}s yet`)),
    h('div', { class: 'pager' }, h('span', { class: 'faint' }, `${number(known.next - 1)} ${noun}s since the node started`), h('span', { class: 'grow' }),
      query('before') && button('Latest', () => setQuery({ before: '' }, true)), button('Earlier', () => setQuery({ before: first }, true), { disabled: all.length < SHOWN })),
  ];
}
