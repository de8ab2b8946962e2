// What makes things: queues with every argument explained.

import { link } from './app.js';
import { path } from './api.js';
import { QUEUE_TYPES, argumentsOf, dialog, vhostField } from './parts.js';

/** Arguments of queues: name, types that know it, kind, what it does. @type {[string, string, string, string][]} */
const QUEUE_ARGUMENTS = [
  ['x-message-ttl', 'classic quorum', 'number', 'ms after which a ready message is discarded or dead-lettered'],
  ['x-expires', 'classic quorum', 'number', 'ms without use after which the queue is deleted'],
  ['x-max-length', 'classic quorum', 'number', 'maximum number of ready messages'],
  ['x-max-length-bytes', 'classic quorum stream', 'number', 'maximum bytes of ready messages; of a stream, its size'],
  ['x-overflow', 'classic quorum', 'drop-head reject-publish reject-publish-dlx', 'what happens to messages above the maximum'],
  ['x-dead-letter-exchange', 'classic quorum', 'text', 'exchange for messages that expire, are rejected or exceed the maximum'],
  ['x-dead-letter-routing-key', 'classic quorum', 'text', 'routing key of dead letters; default: their own'],
  ['x-dead-letter-strategy', 'quorum', 'at-most-once at-least-once', 'at-least-once keeps a dead letter until its queue has confirmed it'],
  ['x-delivery-limit', 'classic quorum', 'number', 'redeliveries before a message is dead-lettered'],
  ['x-delayed-retry-type', 'classic quorum', 'all failed returned disabled', 'which returned messages are delayed before redelivery'],
  ['x-delayed-retry-min', 'classic quorum', 'number', 'first delay, ms'],
  ['x-delayed-retry-max', 'classic quorum', 'number', 'longest delay, ms'],
  ['x-max-priority', 'classic', 'number', 'highest priority'],
  ['x-single-active-consumer', 'classic quorum', 'true false', 'one active consumer at a time'],
  ['x-consumer-timeout', 'classic quorum', 'number', 'ms within which a delivery must be acknowledged'],
  ['x-confirm-on', 'classic quorum', 'enqueue ack ack-direct', 'confirm publishers when a message is stored, or when a consumer has acknowledged it'],
  ['x-confirm-timeout', 'classic quorum', 'number', 'ms after which such a publish is nacked'],
  ['x-max-age', 'stream', 'text', 'maximum age of segments: 7D, 12h'],
  ['x-stream-max-segment-size-bytes', 'stream', 'number', 'segment size, bytes'],
  ['x-stream-initial-offset', 'stream', 'number', 'offset of the first message, to continue another stream'],
  ['x-stream-filter-size-bytes', 'stream', 'number', 'filter size of a chunk, bytes, 16 to 255'],
];

/** @param {string} [vhost] */
export function createQueue(vhost) {
  const known = /** @type {import('./parts.js').Field[]} */ (QUEUE_ARGUMENTS.map(([key, types, kind, help]) => ({
    name: key, label: key, help, only: (values) => values.more && types.split(' ').includes(values.type),
    ...(kind === 'number' ? { type: 'number' } : kind === 'text' ? {} : { type: 'select', options: ['', ...kind.split(' ')] }),
  })));
  dialog({
    title: 'Create a queue', act: 'Create', wide: true,
    fields: [
      vhostField(vhost),
      { name: 'name', label: 'Name', required: true },
      { name: 'type', label: 'Type', type: 'select', options: QUEUE_TYPES.map((it) => [it.name, it.label]), value: 'classic' },
      { name: 'durable', label: 'Durable: survives a restart', type: 'checkbox', value: true, only: (values) => values.type === 'classic' },
      { name: 'auto_delete', label: 'Auto-delete: deleted with its last consumer', type: 'checkbox', only: (values) => values.type === 'classic' },
      { name: 'more', label: 'Show all arguments', type: 'checkbox' },
      ...known,
      { name: 'other', label: 'Other arguments', type: 'textarea', rows: 2, placeholder: 'key = value, one a line', only: (values) => values.more },
    ],
    requests: (values) => {
      const args = { 'x-queue-type': values.type };
      for (const field of known.filter((it) => values[it.name] !== '' && it.only?.(values))) {
        const text = values[field.name];
        args[field.name] = field.type === 'number' ? Number(text) : text === 'true' ? true : text === 'false' ? false : text;
      }
      Object.assign(args, values.more ? argumentsOf(values.other) : {});
      const classic = values.type === 'classic';
      return [{
        method: 'PUT', address: path`/queues/${values.vhost}/${values.name}`,
        body: { durable: classic ? values.durable : true, auto_delete: classic && values.auto_delete, arguments: args },
      }];
    },
    told: (values) => `Created ${values.name}`,
    done: (values) => { location.hash = link(['queues', values.vhost, values.name]); },
  });
}
