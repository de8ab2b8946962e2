// Parts that pages are put together from.

import { app, hold, link, queueLink, exchangeLink, redraw, refresh, remember, remembered, tell, vhostNow } from './app.js';
import { ask, root, sent } from './api.js';
import { h } from './dom.js';
import { bytes, duration, number, plain, quoted, time } from './format.js';

/** Types of queues, and the word of policies for each. */
export const QUEUE_TYPES = [
  { name: 'classic', label: 'Classic: the default', policies: 'classic_queues' },
  { name: 'quorum', label: 'Quorum: with delivery limits', policies: 'quorum_queues' },
  { name: 'stream', label: 'Stream: messages stay after they are read', policies: 'streams' },
];

/** A name of somebody else's. @param {unknown} text @param {string} [empty] */
export function name(text, empty = '(none)') {
  const shown = plain(text);
  return shown === '' ? h('span', { class: 'faint' }, empty) : h('bdi', { class: 'name', title: shown }, shown);
}

/** A link to something with a name. */
export const to = (address, ...what) => h('a', { href: address }, ...what);
export const toQueue = (vhost, queue) => to(queueLink(vhost, queue), name(queue));
export const toExchange = (vhost, exchange) => to(exchangeLink(vhost, exchange), name(exchange, '(AMQP default)'));
export const toConnection = (connection, text = connection) => to(link(['connections', connection]), name(text));
/** A channel, by the name that its client gave the connection where there is one. @param {string} channel @param {any} [details] of the API */
export const toChannel = (channel, details) => to(link(['channels', channel]), details?.user_provided_name ? [name(details.user_provided_name), ` (${details.number ?? channel.replace(/^.*\((\d+)\)$/, '$1')})`] : name(channel));
/** The same of what the API has of it. @param {any} details */
export const toChannelOf = (details) => (details?.name ? toChannel(details.name, details) : '\u2013');

export function icon(paths, label) {
  return h('svg', { viewBox: '0 0 16 16', class: 'icon', 'aria-hidden': label ? null : 'true', role: label ? 'img' : null, 'aria-label': label },
    paths.map((d) => h('path', { d })));
}

export const ICONS = {
  warn: ['M8 1.8 15 14H1Z', 'M8 6v4', 'M8 11.9v.4'],
  check: ['M3 8.500 6.500 12 13 4.500'],
  close: ['M4 4l8 8', 'M12 4l-8 8'],
  pause: ['M5.500 3.500v9', 'M10.500 3.500v9'],
  play: ['M5 3.500v9l7-4.500z'],
  sort: ['M8 3v10', 'M4.500 9.500 8 13l3.500-3.500'],
  more: ['M3 8h.1', 'M8 8h.1', 'M13 8h.1'],
  columns: ['M2.500 3h11v10h-11z', 'M6.200 3v10', 'M9.800 3v10'],
  down: ['M8 2.500v8', 'M4.500 7.500 8 11l3.500-3.500', 'M3 13.500h10'],
  plus: ['M8 3v10', 'M3 8h10'],
  user: ['M8 8a2.600 2.600 0 1 0 0-5.200A2.600 2.600 0 0 0 8 8z', 'M3 13.800c.5-2.500 2.500-3.800 5-3.800s4.500 1.300 5 3.800'],
  search: ['M7 11.500a4.500 4.500 0 1 0 0-9 4.500 4.500 0 0 0 0 9z', 'M10.300 10.300 14 14'],
  menu: ['M2 4h12', 'M2 8h12', 'M2 12h12'],
  jobs: ['M3 3.500h10', 'M3 8h10', 'M3 12.500h6', 'M12 10.500v4', 'M14.500 12.500h-5'],
  copy: ['M5.500 5.500h8v8h-8z', 'M3.500 10.500h-1v-8h8v1'],
};

/**
 * @param {any} label
 * @param {() => any} act
 * @param {{kind?: string, disabled?: boolean, title?: string, icon?: string[], key?: any, pressed?: boolean, label?: string}} [options]
 */
export function button(label, act, options = {}) {
  return h('button', {
    type: 'button', class: `button ${options.kind ?? ''}`, onclick: act, disabled: options.disabled ?? false, title: options.title,
    key: options.key, 'aria-pressed': options.pressed === undefined ? null : String(options.pressed), 'aria-label': options.label,
  }, options.icon && icon(options.icon), label);
}

/** A word with a meaning. @param {string} kind good, warn, bad, calm @param {any} text @param {string} [title] */
export const tag = (kind, text, title) => h('span', { class: `tag ${kind}`, title }, text);

/** How an object with a state is. */
export function state(text) {
  const kinds = { running: 'good', up: 'good', flow: 'warn', blocked: 'bad', blocking: 'warn', idle: 'calm', down: 'bad', stopped: 'bad' };
  const kind = kinds[text] ?? 'calm';
  return kind === 'good' || kind === 'calm' ? h('span', { class: 'faint' }, text ?? '\u2013') : tag(kind, text);
}

/** The state of a consumer: a hung one is another thing than a slow one. @param {any} one with `state`, and where that is known `activity_status` */
export function consumerState(one) {
  if (!one.state) return state(one.activity_status);
  const [shown] = plain(one.state).split(': ');
  const single = one.activity_status === 'single_active' && [' ', h('span', { class: 'faint' }, 'single active')];
  const kind = /^hung/.test(shown) ? 'bad' : /^(ready|standby)/.test(shown) ? '' : 'warn';
  return [kind ? tag(kind, shown, plain(one.state)) : h('span', { class: 'faint' }, shown), single];
}

/** Consumers with their states, those first that have held a message for longest. @param {string} field @param {string} name */
export const consumersOf = (field, name) => `/consumers?${new URLSearchParams({ page: '1', page_size: '500', columns: 'consumer_tag,queue,channel_details,prefetch_count,ack_required,activity_status,state,messages_held_by_channel,oldest_held_seconds', where: `${field}=${name}`, sort: 'oldest_held_seconds', sort_reverse: 'true' })}`;

/** How many messages a consumer's channel holds, and for how long. @param {any} one */
export const heldBy = (one) => (one.messages_held_by_channel > 0 ? to(queueLink(one.queue.vhost, one.queue.name, { tab: 'messages', which: 'unacked' }), number(one.messages_held_by_channel), one.oldest_held_seconds > 0 && ` for ${duration(one.oldest_held_seconds * 1000)}`) : h('span', { class: 'faint' }, '0'));

/** A heading over what belongs together, with its tables as files. */
export function section(title, ...content) {
  const hasTable = content.flat(2).some((it) => it?.props?.class === 'scroll');
  return h('section', { class: 'card' }, (title || hasTable) && h('div', { class: 'over' }, title ? h('h2', null, title) : h('span', { class: 'grow' }), hasTable && saver()), ...content);
}

/** Saves the tables of the section it is in, or of the page. */
export function saver() {
  const save = (kind) => async (event) => {
    const tables = event.currentTarget.closest('section, main').querySelectorAll('table');
    event.currentTarget.closest('details').removeAttribute('open');
    (await import('./tables.js')).saveTables(kind, tables);
  };
  return h('details', { class: 'menu-of saver', key: 'save' }, h('summary', { 'aria-label': 'Save the table', title: 'Save the table' }, icon(ICONS.down)), h('div', { class: 'popup' }, button('CSV', save('csv')), button('JSON', save('json'))));
}

/** Names and what they are, one below the other. @param {([any, any] | false | null | undefined)[]} pairs */
export function facts(pairs) {
  return h('dl', { class: 'facts' }, pairs.flatMap((pair) => (pair ? [pair] : [])).map(([what, value]) => h('div', null, h('dt', null, what), h('dd', null, value))));
}

/** A large number with its name. */
export function tile(label, value, below, kind = '', address) {
  const inner = [h('span', { class: 'label' }, label), h('strong', null, value), h('span', { class: 'below' }, below || '\u00a0')];
  return address ? h('a', { class: `tile ${kind}`, href: address }, inner) : h('div', { class: `tile ${kind}` }, inner);
}

/** Why something could not be shown. */
export function problem(text) {
  return h('p', { class: 'problem', role: 'alert' }, icon(ICONS.warn), ' ', text);
}

export const nothing = (...text) => h('p', { class: 'nothing' }, ...text);

/** A small table without pages. @param {any[]} heads @param {any[][]} rows @param {any} [none] */
export function table(heads, rows, none = 'None') {
  if (rows.length === 0) return nothing(none);
  const kinds = heads.map((head) => (head === '' ? 'act' : typeof head === 'string' && head.startsWith('#') ? 'num' : null));
  const labels = heads.map((head) => (typeof head === 'string' ? head.replace('#', '') : null));
  return h('div', { class: 'scroll', tabindex: 0, role: 'group', 'aria-label': 'Table' }, h('table', { class: 'small' },
    h('thead', null, h('tr', null, heads.map((head, at) => h('th', { scope: 'col', class: kinds[at] }, head === '' ? h('span', { class: 'hidden' }, 'Actions') : labels[at] ?? head)))),
    h('tbody', null, rows.map((row) => h('tr', null, row.map((cell, at) => h('td', { class: kinds[at], 'data-label': labels[at] || null }, cell)))))));
}

/** The tabs of a page. @param {[string, any][]} tabs @param {string} open @param {(tab: string) => string} address */
export function tabs(tabs, open, address) {
  return h('nav', { class: 'tabs', 'aria-label': 'Parts of this page' }, tabs.map(([id, label]) => h('a', {
    href: address(id), 'aria-current': id === open ? 'page' : null,
  }, label)));
}

export function value(it) {
  if (it === null || it === undefined) return h('span', { class: 'faint' }, '\u2013');
  if (it === true) return 'yes';
  if (it === false) return 'no';
  if (typeof it === 'number') return number(it);
  if (typeof it === 'object') return h('code', { class: 'json' }, plain(JSON.stringify(it)));
  return name(it);
}

/** Arguments, headers and the like. @param {Record<string, any> | null | undefined} object */
export function fields(object) {
  const entries = Object.entries(object ?? {});
  if (entries.length === 0) return h('span', { class: 'faint' }, '\u2013');
  return h('ul', { class: 'fields' }, entries.map(([key, it]) => h('li', null, h('span', { class: 'field' }, plain(key)), ' ', value(it))));
}

// ---- what changes something

/**
 * @typedef {{method: string, address: string, body?: any, ctl?: string[] | null, also?: string[][], headers?: Record<string, string>}} Request
 */

/** A text without the passwords in addresses. @param {string} text */
const withoutPassword = (text) => text.replace(/(\w:\/\/[^:@/\s]*:)[^@/\s]*@/g, '$1PASSWORD@');
const withoutSecrets = (key, it) => (/^password/.test(key) && it ? 'PASSWORD' : typeof it === 'string' ? withoutPassword(it) : it);

/** The same with curl. @param {Request} request */
function curl({ method, address, body, headers = {} }) {
  const words = ['curl', '-u', quoted(app.who?.name ?? 'USER')];
  if (method !== 'GET') words.push('-X', method);
  for (const [key, it] of Object.entries(headers)) words.push('-H', quoted(`${key}: ${it}`));
  if (body instanceof Blob) words.push('--data-binary', '@FILE');
  else if (body !== undefined) words.push('-H', quoted('content-type: application/json'), '-d', quoted(JSON.stringify(body, withoutSecrets)));
  words.push(quoted(`${location.origin}${root}/api${sent(address)}`));
  return words.join(' ');
}

/** The same on the command line. @param {Request[]} requests */
export function commands(requests) {
  const lines = requests.slice(0, 3).flatMap((request) => [
    ['curl', curl(request)],
    ...[...(request.ctl ? [request.ctl] : []), ...request.also ?? []].map((words) => ['leveret ctl', ['leveret', 'ctl', ...words.map(withoutPassword)].map(quoted).join(' ')]),
  ]);
  if (lines.length === 0) return null;
  return h('details', { class: 'commands' }, h('summary', null, 'Command line'),
    lines.map(([tool, line]) => h('div', { class: 'command' }, h('span', { class: 'label' }, tool), h('code', null, line), copier(line))),
    requests.length > 3 && h('p', { class: 'faint' }, `and so on for ${requests.length - 3} more`));
}

/** Copies a text. @param {string} text */
export function copier(text, label = 'Copy') {
  return h('button', { type: 'button', class: 'button quiet', title: label, 'aria-label': label, onclick: async () => {
    try {
      await navigator.clipboard.writeText(text);
      tell('Copied');
    } catch {
      tell('The browser does not allow copying here', true);
    }
  } }, icon(ICONS.copy));
}

/** A file for the reader to keep. @param {string} file @param {BlobPart[]} content @param {string} type */
export function download(file, content, type) {
  const address = URL.createObjectURL(new Blob(content, { type }));
  const anchor = document.createElement('a');
  anchor.href = address;
  anchor.download = file;
  anchor.click();
  setTimeout(() => URL.revokeObjectURL(address), 10000);
}

/** Carries out one request after the other. @param {Request[]} requests @param {(n: number) => void} [progress] */
async function carryOut(requests, progress) {
  const failed = [];
  const answers = [];
  const undo = /** @type {string[]} */ ([]);
  let last = null;
  for (const [at, request] of requests.entries()) {
    last = await ask(request.method, request.address, request.body, { headers: request.headers });
    answers.push(last.data);
    undo.push(...last.undo ?? []);
    if (!last.ok) failed.push({ request, reason: last.reason });
    progress?.(at + 1);
  }
  return { failed, last, answers, undo };
}

/**
 * A dialog with fields and what follows from them.
 * @typedef {{name: string, label: string, type?: string, value?: any, options?: any[], help?: any, required?: boolean,
 *   placeholder?: string, rows?: number, only?: (values: any) => boolean, list?: string[], wide?: boolean, autocomplete?: string}} Field
 * @param {{title: any, says?: any, fields?: Field[], act: string | ((counted: any[]) => string), danger?: boolean, confirm?: string, wide?: boolean,
 *   count?: {requests: (values: Record<string, any>) => Request[], shown: (counted: any[]) => any},
 *   requests: (values: Record<string, any>, counted: any[]) => Request[], done?: (values: any, answer: any) => void, told?: string | ((values: any, answer: any) => string),
 *   extra?: (values: any, dialog: any) => any, leaves?: string}} spec `leaves` is where to go from what is no more; `count` tells what
 *   would be done, and only then is it done
 * @returns {any} with `keeps` set it stays open, and that is given the answer
 */
export function dialog(spec) {
  const opener = /** @type {any} */ (document.activeElement);
  const it = {
    spec, key: Math.random(), values: {}, problem: '', busy: false, done: 0, typed: '', node: /** @type {any} */ (null), counted: /** @type {any[] | null} */ (null),
    changed() { it.counted = null; },
    close() {
      it.node?.close();
      app.dialogs = app.dialogs.filter((other) => other !== it);
      redraw();
      if (opener?.isConnected) opener.focus();
    },
  };
  for (const field of spec.fields ?? []) it.values[field.name] = field.value ?? (field.type === 'checkbox' ? false : '');
  app.dialogs = [...app.dialogs, it];
  redraw();
  return it;
}

function requestsOf(it) {
  try {
    return it.spec.count && !it.counted ? it.spec.count.requests(it.values) : it.spec.requests(it.values, it.counted ?? []);
  } catch (error) {
    return error;
  }
}

async function submit(it) {
  const requests = requestsOf(it);
  if (requests instanceof Error) {
    it.problem = requests.message;
    redraw();
    return;
  }
  it.busy = true;
  it.problem = '';
  it.done = 0;
  // What is shown may go by this.
  if (it.spec.leaves) hold();
  redraw();
  const counts = it.spec.count && !it.counted;
  const { failed, last, answers, undo } = await carryOut(requests, (n) => {
    it.done = n;
    redraw();
  });
  it.busy = false;
  if (failed.length > 0) {
    it.problem = requests.length === 1 ? failed[0].reason : `${failed.length} of ${requests.length} failed; the first: ${failed[0].reason}`;
    redraw();
    refresh();
    return;
  }
  if (counts) {
    it.counted = answers;
    redraw();
    return;
  }
  if (it.keeps) {
    it.keeps(last);
    refresh();
    return;
  }
  it.close();
  const told = typeof it.spec.told === 'function' ? it.spec.told(it.values, last) : it.spec.told;
  if (told) tell(told, false, undo.length === 0 ? undefined : { label: 'Undo', run: () => import('./jobs.js').then((jobs) => jobs.bringBack(undo)) });
  it.spec.done?.(it.values, last);
  if (it.spec.leaves) location.hash = it.spec.leaves;
  else refresh();
}

/** The views of the open dialogs. */
export function dialogs() {
  return app.dialogs.map((it) => {
    const { spec } = it;
    const requests = requestsOf(it);
    const isCounted = !spec.count || it.counted !== null;
    const isOpen = spec.confirm === undefined || !isCounted || it.typed === spec.confirm || it.typed === plain(spec.confirm);
    const id = `dialog-${it.key}`;
    return h('dialog', {
      key: it.key, class: spec.wide ? 'wide' : null, 'aria-labelledby': id,
      mounted: (node) => { it.node = node; node.showModal(); },
      oncancel: (event) => { event.preventDefault(); it.close(); },
    }, h('form', { method: 'dialog', onsubmit: (event) => { event.preventDefault(); if (isOpen && !it.busy) submit(it); } },
      h('header', null, h('h2', { id }, spec.title), h('button', { type: 'button', class: 'button quiet', 'aria-label': 'Close', onclick: () => it.close() }, icon(ICONS.close))),
      h('div', { class: 'body' },
        spec.says && h('div', { class: 'says' }, spec.says),
        h('div', { class: 'form' }, (spec.fields ?? []).filter((field) => !field.only || field.only(it.values)).map((field) => control(it, field))),
        spec.extra?.(it.values, it),
        spec.count && it.counted && h('div', { role: 'status', class: 'counted' }, spec.count.shown(it.counted)),
        spec.confirm !== undefined && isCounted && h('label', { class: 'control wide' }, h('span', null, 'To confirm, type ', h('code', { class: 'name' }, plain(spec.confirm))),
          h('input', { type: 'text', autocomplete: 'off', spellcheck: 'false', value: it.typed, oninput: (event) => { it.typed = event.target.value; redraw(); } })),
        it.problem && problem(it.problem),
        !(requests instanceof Error) && commands(requests)),
      h('footer', null,
        it.busy && Array.isArray(requests) && requests.length > 1 && h('span', { class: 'faint' }, `${it.done} of ${requests.length}`),
        button('Cancel', () => it.close()),
        h('button', { type: 'submit', class: `button ${spec.danger && isCounted ? 'danger' : 'primary'}`, disabled: !isOpen || it.busy }, !isCounted ? 'Count first' : typeof spec.act === 'function' ? spec.act(it.counted ?? []) : spec.act))));
  });
}

/** Whether what is about to go could be brought back. @param {any} of what the node offers */
export const offer = (of) => (of ? ` ${of.all ? 'Can be undone' : `Up to ${bytes(of.bytes_max)} can be restored`} for ${duration(of.seconds * 1000)}.` : ' This cannot be undone.');

/** The same, asked for by a dry run. @param {string} address */
export function asked(address) {
  const it = { text: '' };
  ask('DELETE', `${address}?dry_run=true`).then((answer) => { it.text = answer.ok ? offer(answer.data?.undo) : ''; redraw(); });
  return () => it.text && h('p', { role: 'status' }, it.text);
}

/** One field of a form whose values are `it.values`. @param {any} it @param {Field} field */
export function control(it, field) {
  const id = `f-${it.key ?? 'page'}-${field.name}`;
  const set = (to) => { it.values[field.name] = to; it.changed?.(field.name); redraw(); };
  const common = { id, name: field.name, required: field.required ?? false, 'aria-describedby': field.help ? `${id}-help` : null };
  const help = field.help && h('small', { id: `${id}-help` }, field.help);
  if (field.type === 'checkbox') {
    return h('div', { class: 'control check' }, h('label', null, h('input', { ...common, type: 'checkbox', checked: it.values[field.name], onchange: (event) => set(event.target.checked) }), ' ', field.label), help);
  }
  let input;
  if (field.type === 'select') {
    input = h('select', { ...common, onchange: (event) => set(event.target.value) }, (field.options ?? []).map((option) => {
      const [of, label] = Array.isArray(option) ? option : [option, option];
      return h('option', { value: of, selected: it.values[field.name] === of }, label);
    }));
  } else if (field.type === 'textarea') {
    input = h('textarea', { ...common, rows: field.rows ?? 5, spellcheck: 'false', value: it.values[field.name], placeholder: field.placeholder, oninput: (event) => set(event.target.value) });
  } else {
    input = h('input', {
      ...common, type: field.type ?? 'text', value: it.values[field.name], placeholder: field.placeholder, autocomplete: field.autocomplete ?? 'off',
      spellcheck: 'false', list: field.list ? `${id}-list` : null, oninput: (event) => set(event.target.value),
    });
  }
  return h('div', { class: `control ${field.wide || field.type === 'textarea' ? 'wide' : ''}` }, h('label', { for: id }, field.label), input,
    field.list && h('datalist', { id: `${id}-list` }, field.list.map((option) => h('option', { value: option }))), help);
}

/** Keeps the address of what is shown under a name, in this browser. */
export function saveView() {
  dialog({
    title: 'Save this view', says: h('p', null, 'Saves the page, filter, order, columns and time range in this browser.'), act: 'Save',
    fields: [{ name: 'name', label: 'Name', required: true, value: plain(app.page?.title), wide: true }], requests: () => [],
    done: (values) => { remember('views', [...remembered('views', []).filter((view) => view.name !== values.name), { name: values.name, address: location.hash }]); redraw(); },
  });
}

/** Virtual hosts to choose from, those of the address first. */
export function vhostField(value) {
  const names = app.vhosts.map((vhost) => vhost.name);
  const first = names.includes('/') ? '/' : names[0] ?? '/';
  return { name: 'vhost', label: 'Virtual host', type: 'select', options: names.map((vhost) => [vhost, plain(vhost)]), value: value || (names.includes(vhostNow()) ? vhostNow() : first) };
}

/**
 * `key = value` lines as an object: numbers, true and false, JSON; everything else is text.
 * @param {string} text
 */
export function argumentsOf(text) {
  const object = {};
  for (const line of text.split('\n').map((it) => it.trim()).filter(Boolean)) {
    const at = line.indexOf('=');
    if (at < 1) throw new Error(`"${line}" is not key = value`);
    const [key, raw] = [line.slice(0, at).trim(), line.slice(at + 1).trim()];
    try {
      object[key] = JSON.parse(raw);
    } catch {
      object[key] = raw;
    }
  }
  return object;
}

// ---- dialogs whose modules come when they are opened

/** @param {Parameters<typeof import('./messages.js').publish>[0]} of */
export const publish = (of) => import('./messages.js').then((it) => it.publish(of));
/** @param {any} queue */
export const fetchMessages = (queue) => import('./messages.js').then((it) => it.fetchMessages(queue));
/** @param {any} queue */
export const move = (queue) => import('./redrive.js').then((it) => it.redrive(queue, 'all', 'all ready messages', 'queue', 'Move'));
/** @param {Parameters<typeof import('./bind.js').bindTo>[0]} known */
export const bindTo = (known) => import('./bind.js').then((it) => it.bindTo(known));
/** @param {any} binding */
export const unbind = (binding) => import('./bind.js').then((it) => it.unbind(binding));
