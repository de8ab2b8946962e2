// Definitions: saved, and brought in after a look at what would change.

import { app, redraw, tell } from '../app.js';
import { ask } from '../api.js';
import { h } from '../dom.js';
import { bytes, count, number, plain } from '../format.js';
import { button, commands, download, nothing, problem, section, tag } from '../parts.js';

/** Longest document that is looked at, bytes. */
const DOCUMENT_BYTES_MAX = 20000000;

export function open() {
  const it = { vhost: '', text: '', file: '', answer: /** @type {any} */ (null), problem: '', busy: false };
  return { title: 'Definitions', data: {}, errors: {}, sources: () => ({}), view: () => view(it) };
}

const within = (it) => (it.vhost ? `/${encodeURIComponent(it.vhost)}` : '');

async function save(it) {
  const answer = await ask('GET', `/definitions${within(it)}`, undefined, { raw: true, patience: 0 });
  if (!answer.ok) return tell(answer.reason, true);
  download(`definitions-${new Date().toISOString().slice(0, 10)}.json`, [answer.data], 'application/json');
}

async function read(it, files) {
  const file = files?.[0];
  if (!file) return;
  it.answer = null;
  if (file.size > DOCUMENT_BYTES_MAX) it.problem = `The file has more than ${bytes(DOCUMENT_BYTES_MAX)}: use leveret ctl import_definitions.`;
  else {
    it.file = file.name;
    it.text = await file.text();
    it.problem = '';
    await look(it);
  }
  redraw();
}

async function send(it, address) {
  it.busy = true;
  redraw();
  const answer = await ask('POST', `${address}${within(it)}?lenient=true`, it.text, { headers: { 'content-type': 'application/json' }, patience: 0 });
  it.busy = false;
  it.problem = answer.ok ? '' : answer.reason;
  redraw();
  return answer;
}

async function look(it) {
  const answer = await send(it, '/explain/definitions');
  it.answer = answer.ok ? answer.data : null;
  redraw();
}

async function bring(it) {
  const answer = await send(it, '/definitions');
  if (!answer.ok) return;
  tell(`Imported ${plain(it.file)}`);
  it.answer = null;
  it.text = '';
  redraw();
}

function view(it) {
  return [
    h('div', { class: 'head' }, h('h1', null, 'Definitions')),
    h('label', { class: 'control' }, h('span', null, 'Scope'), h('select', { onchange: (event) => { it.vhost = event.target.value; it.answer = null; redraw(); } }, h('option', { value: '', selected: it.vhost === '' }, 'All virtual hosts'), app.vhosts.map((one) => h('option', { value: one.name, selected: it.vhost === one.name }, plain(one.name))))),
    section('Export', h('p', null, 'Virtual hosts, users with hashed passwords, permissions, policies, parameters, exchanges, queues and bindings, in the format of RabbitMQ. No messages.'), button('Export', () => save(it), { kind: 'primary' }),
      commands([{ method: 'GET', address: `/definitions${within(it)}`, ctl: it.vhost ? null : ['export_definitions', 'definitions.json'] }])),
    section('Import', h('p', null, 'A definitions file of Leveret or of RabbitMQ 3.8 to 4.3. Changes are shown before they are made.'),
      h('label', { class: 'control' }, h('span', null, 'File'), h('input', { type: 'file', accept: '.json,application/json', onchange: (event) => read(it, event.target.files) })),
      it.problem && problem(it.problem), it.answer && changes(it)),
  ];
}

/** An object as it is, and as it would be. */
function changed(one) {
  if (!one.before) return [tag('good', 'new'), ' ', plain(one.object)];
  return h('details', null, h('summary', null, tag('warn', 'other'), ' ', plain(one.object)), h('pre', null, `${JSON.stringify(one.before, null, 1)}\n\u2192 ${JSON.stringify(one.after, null, 1)}`));
}

function changes(it) {
  const { answer } = it;
  const all = answer.changes ?? [];
  return h('div', { role: 'status' },
    all.length === 0 ? nothing('The document changes nothing: all of it is there.') : [h('p', null, h('strong', null, `${count(answer.changed_count, 'object')} would change:`)), h('ul', null, all.slice(0, 200).map((one) => h('li', null, changed(one)))),
      answer.changed_count > 200 && h('p', { class: 'faint' }, `and ${number(answer.changed_count - 200)} more`)],
    answer.warnings?.length > 0 && h('ul', null, answer.warnings.map((one) => h('li', null, tag('warn', 'warning'), ' ', plain(one)))),
    h('p', null, button(it.busy ? 'Importing\u2026' : 'Import it', () => bring(it), { kind: 'primary', disabled: it.busy })));
}
