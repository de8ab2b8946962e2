// What the suite's node has: some of everything, and names that want to be more than names.

export const HOSTILE = ['<img src=x onerror=alert(1)>', 'a\tb\x01c', '\u202egnp.exe', '   ', 'per%cent/slash?#&', 'x'.repeat(255)];

/** Messages that were rejected. */
export const DEAD = 120;

const part = encodeURIComponent;

/** @param {import('./node.js').Node} node */
export async function seed(node) {
  const put = (path, body) => node.ask('PUT', path, body);
  await put('/vhosts/shop', { description: 'The web shop' });
  await put('/permissions/shop/guest', { configure: '.*', write: '.*', read: '.*' });
  await put('/users/clerk', { password: 'clerk', tags: 'management' });
  await put('/permissions/shop/clerk', { configure: '', write: '', read: '.*' });
  await put('/exchanges/%2F/orders', { type: 'topic', durable: true });
  await put('/exchanges/%2F/retries', { type: 'direct', durable: true });
  for (let at = 0; at < 130; at += 10) await Promise.all(Array.from({ length: 10 }, (_, n) => put(`/queues/%2F/work-${String(at + n).padStart(3, '0')}`, { durable: true })));
  for (const name of HOSTILE) await put(`/queues/%2F/${part(name)}`, { durable: true });
  await put('/queues/%2F/paid', { durable: true, arguments: { 'x-queue-type': 'quorum', 'x-delivery-limit': 5 } });
  await put('/queues/%2F/events', { durable: true, arguments: { 'x-queue-type': 'stream' } });
  await put('/queues/%2F/graveyard', { durable: true });
  await put('/queues/%2F/failing', { durable: true, arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'graveyard' } });
  await put('/queues/%2F/hasty', { durable: true, arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'graveyard', 'x-message-ttl': 0 } });
  await node.ask('POST', '/bindings/%2F/e/orders/q/failing', { routing_key: 'failed.#' });
  // So many that a job with them at one a second goes on for as long as anybody looks.
  const failed = (key) => node.ask('POST', '/exchanges/%2F/orders/publish', { routing_key: key, payload: key, payload_encoding: 'string', properties: {} });
  for (let at = 1; at < DEAD; at += 20) await Promise.all(Array.from({ length: Math.min(20, DEAD - at) }, () => failed('failed.a')));
  await failed('failed.<b>');
  await node.ask('POST', '/queues/%2F/failing/get', { count: DEAD, ackmode: 'reject_requeue_false', encoding: 'auto' });
  await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'hasty', payload: 'late', payload_encoding: 'string', properties: {} });
  await put('/exchanges/%2F/later', { type: 'x-delayed-message', durable: true, arguments: { 'x-delayed-type': 'direct' } });
  await node.ask('POST', '/bindings/%2F/e/later/q/paid', { routing_key: 'reminder' });
  for (const ms of [3600000, 7200000]) await node.ask('POST', '/exchanges/%2F/later/publish', { routing_key: 'reminder', payload: 'x', payload_encoding: 'string', properties: { delivery_mode: 2, headers: { 'x-delay': ms } } });
  await node.ask('POST', '/bindings/%2F/e/orders/e/retries', { routing_key: 'again' });
  await put('/queues/%2F/buried', { durable: true });
  await put('/queues/%2F/late', { durable: true, arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': 'buried', 'x-message-ttl': 0 } });
  await node.ask('POST', '/exchanges/%2F/amq.default/publish', { routing_key: 'late', payload: 'late', payload_encoding: 'string', properties: { delivery_mode: 2 } });
  await put('/queues/shop/baskets', { durable: true });
  await put('/policies/%2F/short', { pattern: '^work-', definition: { 'max-length': 1000 }, priority: 1, 'apply-to': 'queues' });
  await node.ask('POST', '/bindings/%2F/e/orders/q/paid', { routing_key: 'order.*' });
  await node.ask('POST', '/bindings/%2F/e/orders/q/events', { routing_key: '#' });
  for (let n = 0; n < 5; n += 1) {
    await node.ask('POST', '/exchanges/%2F/orders/publish', {
      routing_key: 'order.paid', payload: JSON.stringify({ order: n, note: '<b>bold</b>' }), payload_encoding: 'string',
      properties: { delivery_mode: 2, headers: { tenant: `t${n}` }, message_id: `m-${n}` },
    });
  }
}
