// What makes things: queues with every argument explained.

import { link } from './app.js';
import { path } from './api.js';
import { argumentsOf, dialog, vhostField } from './parts.js';

/** Arguments of queues: name, types that know it, kind, what it does. @type {[string, string, string, string][]} */
const QUEUE_ARGUMENTS = [
  ['x-message-ttl', 'classic quorum', 'number', 'ms after which a message that waits is dropped, or dead-lettered'],
  ['x-expires', 'classic quorum', 'number', 'ms without use after which the queue goes'],
  ['x-max-length', 'classic quorum', 'number', 'messages that are ready at most'],
  ['x-max-length-bytes', 'classic quorum stream', 'number', 'their bytes at most; of a stream, the size from which old segments go'],
  ['x-overflow', 'classic quorum', 'drop-head reject-publish reject-publish-dlx', 'what happens to one message more'],
  ['x-dead-letter-exchange', 'classic quorum', 'text', 'where messages go that expire, are rejected or are too many'],
  ['x-dead-letter-routing-key', 'classic quorum', 'text', 'with which routing key; without one, with their own'],
  ['x-dead-letter-strategy', 'quorum', 'at-most-once at-least-once', 'whether a dead letter stays until it has arrived'],
  ['x-delivery-limit', 'classic quorum', 'number', 'times a message is delivered again before it is dead-lettered'],
  ['x-delayed-retry-type', 'classic quorum', 'all failed returned disabled', 'which returned messages wait before they are delivered again'],
  ['x-delayed-retry-min', 'classic quorum', 'number', 'ms they wait at first'],
  ['x-delayed-retry-max', 'classic quorum', 'number', 'ms they wait at most'],
  ['x-max-priority', 'classic', 'number', 'highest priority: messages of higher ones come first'],
  ['x-single-active-consumer', 'classic quorum', 'true false', 'one consumer at a time gets messages'],
  ['x-consumer-timeout', 'classic quorum', 'number', 'ms a consumer may keep a message without acknowledging it'],
  ['x-confirm-on', 'classic quorum', 'enqueue ack ack-direct', 'when publishers are confirmed: once it is stored, or once a consumer has acknowledged it'],
  ['x-confirm-timeout', 'classic quorum', 'number', 'ms after which such a publisher gets a nack'],
  ['x-max-age', 'stream', 'text', 'age from which old segments go: 7D, 12h'],
  ['x-stream-max-segment-size-bytes', 'stream', 'number', 'bytes of a segment'],
  ['x-stream-initial-offset', 'stream', 'number', 'offset of the first message, where the stream is to go on after another'],
  ['x-stream-filter-size-bytes', 'stream', 'number', 'bytes of a chunk\u2019s filter, 16 to 255'],
];

const TYPES = [['classic', 'Classic: the fast default'], ['quorum', 'Quorum: with delivery limits, to be replicated'], ['stream', 'Stream: kept after reading, read again']];

/** @param {string} [vhost] */
export function createQueue(vhost) {
  const known = /** @type {import('./parts.js').Field[]} */ (QUEUE_ARGUMENTS.map(([key, types, kind, help]) => ({
    name: key, label: key, help, only: (values) => values.more && types.split(' ').includes(values.type),
    ...(kind === 'number' ? { type: 'number' } : kind === 'text' ? {} : { type: 'select', options: ['', ...kind.split(' ')] }),
  })));
  dialog({
    title: 'Make a queue', act: 'Make it', wide: true,
    fields: [
      vhostField(vhost),
      { name: 'name', label: 'Name', required: true },
      { name: 'type', label: 'Type', type: 'select', options: TYPES, value: 'classic' },
      { name: 'durable', label: 'Durable: it is there after a restart', type: 'checkbox', value: true, only: (values) => values.type === 'classic' },
      { name: 'auto_delete', label: 'Auto-delete: it goes with its last consumer', type: 'checkbox', only: (values) => values.type === 'classic' },
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
    told: (values) => `Made ${values.name}`,
    done: (values) => { location.hash = link(['queues', values.vhost, values.name]); },
  });
}
