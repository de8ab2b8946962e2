// Traces: copies of what goes through a virtual host, in files of the node.

import { redraw } from '../app.js';
import { ask, path, root, sent } from '../api.js';
import { h } from '../dom.js';
import { bytes, plain } from '../format.js';
import { ICONS, button, dialog, name, problem, section, table, value, vhostField } from '../parts.js';

/** Bytes of a file that are shown. */
const SHOWN_BYTES = 64 * 1024;

function begin() {
  dialog({
    title: 'Start a trace', act: 'Start',
    fields: [
      vhostField(), { name: 'name', label: 'Name', required: true, help: 'of the trace, and of its file' },
      { name: 'pattern', label: 'Pattern', value: '#', required: true, list: ['#', 'publish.#', 'deliver.#'], help: 'publish.EXCHANGE, deliver.QUEUE; # is everything' },
      { name: 'format', label: 'Format', type: 'select', options: [['text', 'Text'], ['json', 'JSON, one object per line']], value: 'text' },
      { name: 'bytes', label: 'Maximum body bytes', type: 'number', placeholder: 'all' },
    ],
    requests: (values) => [{ method: 'PUT', address: path`/traces/${values.vhost}/${values.name}`, body: { format: values.format, pattern: values.pattern, ...(values.bytes && { max_payload_bytes: Number(values.bytes) }) } }],
    told: (values) => `Started ${plain(values.name)}`,
  });
}

export function open() {
  const page = {
    title: 'Traces', data: /** @type {Record<string, any>} */ ({}), errors: /** @type {Record<string, string>} */ ({}),
    file: '', text: '', sources: () => ({ traces: '/traces', files: '/trace-files' }), view: () => view(page),
  };
  return page;
}

async function show(page, file) {
  const answer = await ask('GET', path`/trace-files/${file}`, undefined, { raw: true });
  Object.assign(page, { file, text: answer.ok ? answer.data.slice(-SHOWN_BYTES) : answer.reason });
  redraw();
}

function view(page) {
  const { data: { traces, files }, errors } = page;
  return [
    h('div', { class: 'head' }, h('h1', null, 'Traces'), h('span', { class: 'grow' }), button('Start a trace', begin, { kind: 'primary', icon: ICONS.plus })),
    Object.values(errors).map((it) => problem(it)),
    traces && section('Running', table(['Name', 'Virtual host', 'Pattern', 'Format', 'Maximum body bytes', ''], traces.map((it) => [name(it.name), name(it.vhost), h('code', null, plain(it.pattern)), it.format, value(it.max_payload_bytes),
      button('Stop', () => dialog({ title: ['Stop ', name(it.name), '?'], says: h('p', null, 'The file stays.'), act: 'Stop the trace', requests: () => [{ method: 'DELETE', address: path`/traces/${it.vhost}/${it.name}` }], told: 'Trace stopped' }))]), 'No running traces')),
    files && section('Files', table(['File', '#Bytes', ''], files.map((it) => [name(it.name), bytes(it.size), h('div', { class: 'bar' }, button('Show', () => show(page, it.name)), h('a', { class: 'button', href: `${root}/api${sent(path`/trace-files/${it.name}`)}`, download: it.name }, 'Download'),
      button('Delete', () => dialog({ title: ['Delete ', name(it.name), '?'], act: 'Delete the file', danger: true, confirm: it.name, requests: () => [{ method: 'DELETE', address: path`/trace-files/${it.name}` }], told: 'Deleted' }), { kind: 'danger' }))]))),
    page.file && section(['The end of ', name(page.file)], h('pre', { tabindex: 0, role: 'group', 'aria-label': 'Text of the file' }, page.text.split('\n').map(plain).join('\n') || '(empty)')),
  ];
}
