// Messages as people read, write and move them.

import { redraw, refresh, tell } from './app.js';
import { ask, path } from './api.js';
import { h } from './dom.js';
import { bytes, number, plain, time } from './format.js';
import { argumentsOf, copier, dialog, download, facts, fields, name, problem, tag, toChannelOf } from './parts.js';

/** Bytes of a body that are shown of one that is longer. */
const SHOWN_BYTES = 64 * 1024;

/** Properties of messages beside headers, with their kind. @type {[string, string][]} */
const PROPERTIES = [
  ['content_type', 'text'], ['correlation_id', 'text'], ['reply_to', 'text'], ['message_id', 'text'], ['expiration', 'text'], ['type', 'text'],
  ['priority', 'number'], ['app_id', 'text'], ['user_id', 'text'], ['timestamp', 'number'], ['content_encoding', 'text'],
];

/**
 * Asks for a message and publishes it.
 * @param {{vhost: string, exchange: string, routingKey?: string, message?: any, isFixed?: boolean}} to
 */
export function publish({ vhost, exchange, routingKey = '', message, isFixed = false }) {
  const properties = message?.properties ?? {};
  dialog({
    title: ['Publish to ', name(isFixed ? routingKey : exchange, 'the default exchange')], act: 'Publish', wide: true,
    fields: [
      { name: 'routing_key', label: 'Routing key', value: routingKey, only: () => !isFixed },
      { name: 'payload', label: 'Body', type: 'textarea', rows: 7, value: message ? message.payload : '' },
      { name: 'encoding', label: 'Body encoding', type: 'select', options: [['string', 'Text'], ['base64', 'Base64']], value: message?.payload_encoding ?? 'string' },
      { name: 'persistent', label: 'Persistent: survives a restart', type: 'checkbox', value: message ? properties.delivery_mode === 2 : true },
      { name: 'headers', label: 'Headers', type: 'textarea', rows: 3, placeholder: 'key = value, one a line', value: lines(properties.headers) },
      { name: 'more', label: 'Show all properties', type: 'checkbox', value: PROPERTIES.some(([key]) => properties[key] !== undefined) },
      ...PROPERTIES.map(([key, kind]) => ({ name: `p-${key}`, label: key, type: kind, value: properties[key] === undefined ? '' : String(properties[key]), only: (values) => values.more })),
    ],
    requests: (values) => {
      const sent = /** @type {Record<string, any>} */ ({ delivery_mode: values.persistent ? 2 : 1 });
      const headers = argumentsOf(values.headers);
      if (Object.keys(headers).length > 0) sent.headers = headers;
      for (const [key, kind] of values.more ? PROPERTIES : []) {
        const text = values[`p-${key}`];
        if (text !== '') sent[key] = kind === 'number' ? Number(text) : text;
      }
      return [{
        method: 'POST', address: path`/exchanges/${vhost}/${exchange || 'amq.default'}/publish`,
        body: { routing_key: values.routing_key, properties: sent, payload: values.payload, payload_encoding: values.encoding },
      }];
    },
    done: (values, answer) => tell(answer.data?.routed ? 'Published and routed' : 'Published, but unroutable: no binding matches', !answer.data?.routed),
  });
}

const lines = (headers) => Object.entries(headers ?? {}).map(([key, value]) => `${key} = ${JSON.stringify(value)}`).join('\n');

/** Fetches messages of a queue, which a consumer would have got. @param {any} queue */
export function fetchMessages({ vhost, name: queue, messages_ready: ready }) {
  const got = { messages: /** @type {any[] | null} */ (null), busy: false, problem: '' };
  const it = dialog({
    title: ['Get messages from ', name(queue)], act: 'Get', wide: true,
    says: h('p', null, 'This consumes messages: requeued ones count as redelivered and may change their order.'),
    fields: [
      { name: 'count', label: 'Messages', type: 'number', value: '10', required: true },
      { name: 'mode', label: 'Acknowledgement', type: 'select', options: [['ack_requeue_true', 'Nack, requeue'], ['ack_requeue_false', 'Ack: remove'], ['reject_requeue_true', 'Reject, requeue'], ['reject_requeue_false', 'Reject: dead-letter']], value: 'ack_requeue_true' },
    ],
    requests: (values) => [{ method: 'POST', address: path`/queues/${vhost}/${queue}/get`, body: { count: Number(values.count), ackmode: values.mode, encoding: 'auto', truncate: 50000 } }],
    extra: () => got.messages && h('div', { class: 'messages' }, got.messages.length === 0 ? h('p', { class: 'nothing' }, 'No ready messages')
      : got.messages.map((message, at) => h('details', { key: at, class: 'message', open: at === 0 }, h('summary', null, summary(message)), messageView(message)))),
  });
  it.keeps = (answer) => { got.messages = answer.data; redraw(); };
  return ready;
}

function summary(message) {
  return [h('code', { class: 'name' }, plain(message.routing_key) || '(no key)'), ' ', h('span', { class: 'faint' }, bytes(message.payload_bytes)), ' ', message.redelivered && tag('warn', 'redelivered'), ' ', h('span', { class: 'preview' }, plain(preview(message)))];
}

/** The beginning of a body on one line. */
export function preview(message) {
  if (message.payload_encoding === 'base64') return `${message.payload_bytes} bytes, not text`;
  return String(message.payload ?? '').slice(0, 160);
}

/** The bytes of a body. @param {any} message */
function bodyBytes(message) {
  if (message.payload_encoding === 'base64') return Uint8Array.from(atob(message.payload ?? ''), (char) => char.charCodeAt(0));
  return new TextEncoder().encode(message.payload ?? '');
}

/** Forms a body can be shown in. */
const FORMS = [['json', 'JSON'], ['text', 'Text'], ['hex', 'Hex'], ['base64', 'Base64']];

function asJson(message) {
  if (message.payload_encoding === 'base64') return null;
  try {
    return JSON.stringify(JSON.parse(message.payload), null, 2);
  } catch {
    return null;
  }
}

/** Bytes as offset, hex and text beside: as many a line as fit beside a list. @param {Uint8Array} content */
function hex(content) {
  const lines = [];
  const width = window.innerWidth < 1800 ? 8 : 16;
  for (let at = 0; at < content.length; at += width) {
    const row = [...content.subarray(at, at + width)];
    const text = row.map((byte) => (byte >= 32 && byte < 127 ? String.fromCharCode(byte) : '.')).join('');
    lines.push(`${at.toString(16).padStart(8, '0')}  ${row.map((byte) => byte.toString(16).padStart(2, '0')).join(' ').padEnd(3 * width - 1)}  ${text}`);
  }
  return lines.join('\n');
}

function base64(content) {
  let text = '';
  for (const byte of content) text += String.fromCharCode(byte);
  return btoa(text).replace(/.{76}/g, '$&\n');
}

const formOf = new WeakMap();

/** A body in the form that the reader likes. @param {any} message */
function bodyView(message) {
  if (message.payload === undefined) return h('p', { class: 'nothing' }, 'Body hidden');
  const json = asJson(message);
  const form = formOf.get(message) ?? (json ? 'json' : message.payload_encoding === 'base64' ? 'hex' : 'text');
  const content = bodyBytes(message);
  const shown = content.subarray(0, SHOWN_BYTES);
  const text = form === 'json' && json ? json : form === 'hex' ? hex(shown) : form === 'base64' ? base64(shown) : new TextDecoder().decode(shown);
  return h('div', { class: 'body-of' },
    h('div', { class: 'bar' }, h('div', { class: 'segments', role: 'group', 'aria-label': 'Form of the body' }, FORMS.filter(([id]) => id !== 'json' || json).map(([id, label]) => h('button', {
      type: 'button', 'aria-pressed': String(id === form), onclick: () => { formOf.set(message, id); redraw(); },
    }, label))),
    h('span', { class: 'faint' }, bytes(message.payload_bytes ?? content.length), message.payload_truncated && `, the first ${bytes(content.length)} shown`), h('span', { class: 'grow' }), copier(text, 'Copy the body'),
    h('button', { type: 'button', class: 'button', onclick: () => download(`message-${message.position ?? message.properties?.message_id ?? 'body'}`, [content], 'application/octet-stream') }, 'Save')),
    h('pre', { tabindex: 0, role: 'group', 'aria-label': 'Body', class: form === 'hex' ? 'hex' : null }, text === '' ? h('span', { class: 'faint' }, '(empty)') : visible(text)));
}

/** A text over lines in which control characters and marks of direction are seen. */
function visible(text) {
  return text.split('\n').map((line) => line.split(/( +)/).map((part) => (part.startsWith(' ') ? part : plain(part))).join('')).join('\n');
}

const SKIPPED = new Set(['headers']);

/** Who holds a message: a consumer, or a channel that fetched it. @param {any} it */
export const holder = (it) => (it.consumer_tag ? ['the consumer ', name(it.consumer_tag)] : it.name ? 'a channel, by basic.get' : 'a closed channel');

/** A message: properties, headers, body. @param {any} message @param {any} [actions] */
export function messageView(message, actions) {
  const properties = Object.entries(message.properties ?? {}).filter(([key]) => !SKIPPED.has(key));
  return h('div', { class: 'message-of' },
    facts(/** @type {[any, any][]} */ ([
      ['Exchange', name(message.exchange, '(AMQP default)')], ['Routing key', name(message.routing_key, '(empty)')],
      message.position !== undefined && [message.offset === undefined ? 'Position' : 'Offset', number(message.position)],
      message.timestamp !== undefined && ['Stored at', time(message.timestamp)],
      message.redelivered !== undefined && ['Redelivered', message.redelivered ? tag('warn', message.deliveries ? `${message.deliveries} times` : 'yes') : 'no'],
      message.expires_at && ['Expires at', time(message.expires_at)], message.due_at && ['Due at', time(message.due_at)],
      ...properties.map(([key, value]) => [key, key === 'delivery_mode' ? (value === 2 ? 'persistent' : 'transient') : key === 'timestamp' ? time(Number(value) * 1000) : name(String(value))]),
    ])),
    message.holder && h('p', null, 'Held by ', holder(message.holder), message.holder.name && [' on ', toChannelOf(message.holder), ', user ', name(message.holder.user)], `, since ${time(message.holder.since)}.`),
    h('h3', null, 'Headers'), fields(message.properties?.headers),
    message.sections && [h('h3', null, 'Sections of AMQP 1.0'), h('pre', null, JSON.stringify(message.sections, null, 2))],
    h('h3', null, 'Body'), bodyView(message), actions);
}

/** Carries out one request and tells what came of it. */
export async function act(method, address, body, told) {
  const answer = await ask(method, address, body);
  if (answer.ok) tell(told);
  else tell(answer.reason, true);
  refresh();
  return answer;
}
