// Runs scenarios of AMQP 1.0 with rhea; amqplib is at the other end of some.
'use strict';

const { once } = require('node:events');
const rhea = require('rhea');
const amqp091 = require('../node/client');
const harness = require('../node/harness');
const { equal, starts, waitUntil } = require('../node/expect');
const { Receiver, Sender, address, connect, data, dial, failure, filtered, refused, text } = require('./client');

const N_MESSAGES = 500;

function bodies(deliveries) {
  return deliveries.map(({ message }) => text(message));
}

/** A channel of amqplib and a queue; a connection of rhea. */
async function begin(ctx, options) {
  const channel = await amqp091.confirming(await amqp091.connect(ctx));
  const queue = await amqp091.declared(ctx, channel, 'q', options);
  return { channel, queue, connection: await connect(ctx) };
}

function messages(begun, end) {
  return amqp091.numbers(begun, end).map((body) => ({ durable: true, body: data(body) }));
}

async function goesThrough(ctx, queueOptions) {
  const { channel, queue, connection } = await begin(ctx, queueOptions);
  const sender = await Sender.open(connection, address(queue));
  await sender.accepted(messages(0, N_MESSAGES));
  const receiver = await Receiver.open(connection, queue, { credit_window: 50 });
  for (let n = 0; n < N_MESSAGES; n += 1) {
    await waitUntil(() => receiver.deliveries.length > n, `delivery ${n}`);
    receiver.deliveries[n].delivery.accept();
  }
  equal(bodies(receiver.deliveries), amqp091.numbers(0, N_MESSAGES), 'bodies');
  receiver.link.close();
  await once(receiver.link, 'receiver_close');
  await amqp091.waitReady(channel, queue, 0);
}

/** A receiver of replies, by a queue of its own that is never stored. */
async function replies(connection, options = {}) {
  const source = { dynamic: true, expiry_policy: 'link-detach', capabilities: ['rabbitmq:volatile-queue'] };
  const receiver = await Receiver.open(connection, '', { source, snd_settle_mode: 1, ...options });
  return { receiver, queue: receiver.link.source.address };
}

/** A session that begins behind what is to be written: its answer tells that the node has that. */
function leaves(connection) {
  const session = connection.create_session();
  session.begin();
  return once(session, 'session_open');
}

const stream = { arguments: { 'x-queue-type': 'stream' } };
const OFFSET = 'rabbitmq:stream-offset-spec';
const BLOOM = 'rabbitmq:stream-filter';
const byCredit = { credit_window: 0 };

/** The names of the filters that the node has put in place. */
function inPlace(receiver) {
  return Object.keys(receiver.link.remote.attach.source.filter ?? {});
}

/** A map with symbols as keys. */
function symbols(map) {
  return rhea.types.wrap_symbolic_map(map);
}

/** All deliveries that there are, by a drain. */
async function drained(receiver) {
  const ended = once(receiver.link, 'receiver_drained');
  receiver.link.drain = true;
  receiver.link.add_credit(1_000);
  await ended;
  return receiver.deliveries;
}

const quorum = { arguments: { 'x-queue-type': 'quorum' } };

/** Two consumers of a queue with a single active consumer; the first one goes. */
async function tellsActive(ctx, queueArguments) {
  const { queue, connection } = await begin(ctx, { arguments: { ...queueArguments, 'x-single-active-consumer': true } });
  const open = async () => {
    const receiver = await Receiver.open(connection, queue, byCredit);
    const [told, onFlow] = [[], receiver.link.on_flow];
    receiver.link.on_flow = function (frame) {
      const active = frame.performative.properties?.['rabbitmq:active'];
      if (active !== undefined) told.push(active);
      onFlow.call(this, frame);
    };
    receiver.link.add_credit(10);
    await waitUntil(() => told.length > 0, 'a flow that tells activity');
    return [receiver, told];
  };
  const [first, toldFirst] = await open();
  const [second, toldSecond] = await open();
  equal([toldFirst, toldSecond], [[true], [false]], 'told at first');
  first.link.close();
  await waitUntil(() => toldSecond.length > 1, 'a take-over');
  equal([toldFirst, toldSecond], [[true], [false, true]], 'told afterwards');
  await (await Sender.open(connection, address(queue))).accepted(messages(0, 3));
  equal(bodies(await second.wait(3)), ['0', '1', '2'], 'bodies');
}

const scenarios = {
  'publish-consume': (ctx) => goesThrough(ctx),
  'publish-consume-quorum': (ctx) => goesThrough(ctx, quorum),

  async 'settled-both-ways'(ctx) {
    const { queue, connection } = await begin(ctx);
    const sender = await Sender.open(connection, address(queue), { snd_settle_mode: 1 });
    for (const message of messages(0, 100)) sender.link.send(message);
    const receiver = await Receiver.open(connection, queue, { snd_settle_mode: 1 });
    const deliveries = await receiver.wait(100);
    equal(bodies(deliveries), amqp091.numbers(0, 100), 'bodies');
    equal(deliveries.every(({ delivery }) => delivery.remote_settled), true, 'settled');
  },

  async 'bare-message-is-kept'(ctx) {
    const { queue, connection } = await begin(ctx, quorum);
    const sent = {
      durable: true,
      priority: 3,
      message_id: 7,
      to: 'somewhere',
      subject: 'hares',
      correlation_id: 'c',
      content_type: 'text/plain',
      group_id: 'warren',
      message_annotations: { 'x-mine': 'yes' },
      application_properties: { ears: 2, soft: true, name: 'leveret' },
      body: [1, 'two', { three: 3 }],
    };
    await (await Sender.open(connection, address(queue))).accepted([sent]);
    const [{ message, delivery }] = await (await Receiver.open(connection, queue)).wait(1);
    const fields = ['durable', 'priority', 'message_id', 'correlation_id', 'to', 'subject', 'content_type', 'group_id'];
    for (const field of [...fields, 'application_properties', 'body']) equal(message[field], sent[field], field);
    equal(message.message_annotations['x-mine'], 'yes', 'annotation of the publisher');
    equal(message.message_annotations['x-routing-key'], queue, 'annotation of the broker');
    delivery.accept();
  },

  async 'replies-between-protocols'(ctx) {
    const { channel, queue, connection } = await begin(ctx);
    const requester = await replies(connection);
    starts(requester.queue, '/queues/amq.rabbitmq.reply-to.', 'address');
    const request = { reply_to: requester.queue, correlation_id: 'c', body: data('ask') };
    await (await Sender.open(connection, address(queue))).accepted([request]);
    const [asked] = await amqp091.getAll(channel, queue);
    const { replyTo, correlationId } = asked.properties;
    equal(`/queues/${replyTo}`, requester.queue, 'reply-to in AMQP 0-9-1');
    await amqp091.publish(channel, replyTo, ['of 0-9-1'], { correlationId });
    const responder = await Sender.open(connection, requester.queue);
    await responder.accepted([{ correlation_id: 'd', body: data('of 1.0') }]);
    const heard = (await requester.receiver.wait(2)).map(({ message }) => [message.correlation_id, text(message)]);
    equal(heard, [['c', 'of 0-9-1'], ['d', 'of 1.0']], 'replies');
    requester.receiver.link.close();
    await once(requester.receiver.link, 'receiver_close');
    const [{ outcome }] = await responder.send([{ body: data('late') }]);
    equal(outcome, 'released', 'nobody waits for it');
  },

  async 'temporary-queue'(ctx) {
    const { channel, connection } = await begin(ctx);
    const source = { dynamic: true, capabilities: ['temporary-queue'] };
    const receiver = await Receiver.open(connection, '', { source });
    const queue = receiver.link.source.address;
    starts(queue, '/queues/amq.dyn-', 'address');
    const sender = await Sender.open(await connect(ctx), queue);
    await sender.accepted(messages(0, 1));
    const [{ message, delivery }] = await receiver.wait(1);
    equal(text(message), '0', 'body');
    delivery.accept();
    receiver.link.close();
    await once(receiver.link, 'receiver_close');
    const lost = once(sender.link, 'sender_error');
    sender.link.send(messages(1, 2)[0]);
    await lost;
    equal(failure(sender.link)[0], 'amqp:resource-deleted', 'the publisher learns that its queue is gone');
    const missing = await refused(connection, (it) => it.open_sender(queue), 'sender_error');
    equal(missing[0], 'amqp:not-found', 'condition');
    await amqp091.closesChannel(await amqp091.connect(ctx), 404, 'NOT_FOUND', (it) => it.checkQueue(queue.slice(8)), { prefix: true });
    await channel.close();
  },

  async 'replies-need-credit'(ctx) {
    const { connection } = await begin(ctx);
    const { receiver, queue } = await replies(connection, { credit_window: 0 });
    const responder = await Sender.open(connection, queue);
    await responder.accepted([{ body: data('dropped') }]);
    receiver.link.add_credit(2);
    await leaves(connection);
    const drained = once(receiver.link, 'receiver_drained');
    await responder.accepted([{ body: data('taken') }]);
    equal(bodies(await receiver.wait(1)), ['taken'], 'replies');
    receiver.link.drain = true;
    receiver.link.add_credit(1);
    await drained;
    await responder.accepted([{ body: data('dropped again') }]);
    receiver.link.drain = false;
    receiver.link.add_credit(1);
    await leaves(connection);
    await responder.accepted([{ body: data('last') }]);
    equal(bodies(await receiver.wait(1, 1)), ['last'], 'replies');
    const source = { dynamic: true, capabilities: ['rabbitmq:volatile-queue'] };
    const unsettled = await refused(connection, (it) => it.open_receiver({ source }), 'receiver_error');
    equal(unsettled[0], 'amqp:invalid-field', 'condition');
  },

  async 'from-amqp091'(ctx) {
    const { channel, queue, connection } = await begin(ctx);
    const headers = { ears: 2, 'x-mine': 'yes' };
    const properties = { headers, messageId: 'm', contentType: 'text/plain', appId: 'warren', replyTo: 'r' };
    await amqp091.publish(channel, queue, ['hello'], properties);
    const [{ message }] = await (await Receiver.open(connection, queue)).wait(1);
    equal(text(message), 'hello', 'body');
    equal(message.application_properties, { ears: 2 }, 'application properties');
    equal(message.message_annotations['x-mine'], 'yes', 'annotation');
    const { message_id, content_type, group_id, reply_to, durable } = message;
    equal([message_id, content_type, group_id, reply_to, durable], ['m', 'text/plain', 'warren', '/queues/r', true]);
  },

  async 'to-amqp091'(ctx) {
    const { channel, queue, connection } = await begin(ctx);
    const message = {
      durable: true,
      ttl: 60_000,
      message_id: 'm',
      reply_to: '/queues/a%20b',
      group_id: 'warren',
      message_annotations: { 'x-mine': 'yes' },
      application_properties: { ears: 2, name: 'leveret' },
      body: data('hello'),
    };
    await (await Sender.open(connection, address(queue))).accepted([message]);
    const consumer = await amqp091.Consumer.start(channel, queue);
    const [{ content, properties }] = await consumer.wait(1);
    equal(content.toString(), 'hello', 'body');
    const { messageId, replyTo, appId, deliveryMode, expiration, headers } = properties;
    equal([messageId, replyTo, appId, deliveryMode, expiration], ['m', 'a b', 'warren', 2, '60000'], 'properties');
    equal({ ...headers }, { ears: 2, name: 'leveret', 'x-mine': 'yes' }, 'headers');
  },

  async outcomes(ctx) {
    const { channel, queue, connection } = await begin(ctx, quorum);
    const sender = await Sender.open(connection, address(queue));
    await sender.accepted(messages(0, 1));
    const receiver = await Receiver.open(connection, queue);
    const next = async () => (await receiver.wait(1, receiver.deliveries.length)).at(0);
    const first = await next();
    equal([first.message.first_acquirer, first.message.delivery_count ?? 0], [true, 0], 'the first time');
    first.delivery.release();
    const second = await next();
    equal(second.message.first_acquirer ?? false, false, 'the second time');
    second.delivery.modified({ delivery_failed: true });
    (await next()).delivery.accept();
    await amqp091.waitReady(channel, queue, 0);
  },

  async 'rejected-is-dead-lettered'(ctx) {
    const channel = await amqp091.confirming(await amqp091.connect(ctx));
    const dead = await amqp091.declared(ctx, channel, 'dead');
    const dlx = { arguments: { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead } };
    const { queue, connection } = await begin(ctx, dlx);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, 2));
    const deliveries = await (await Receiver.open(connection, queue)).wait(2);
    deliveries[0].delivery.reject();
    deliveries[1].delivery.modified({ undeliverable_here: true });
    const letters = await (await Receiver.open(connection, dead)).wait(2);
    equal(bodies(letters), ['0', '1'], 'dead letters');
    const { message_annotations } = letters[0].message;
    equal(message_annotations['x-first-death-reason'], 'rejected', 'reason');
    equal(message_annotations['x-first-death-queue'], queue, 'queue');
  },

  async 'modified-annotations'(ctx) {
    const channel = await amqp091.confirming(await amqp091.connect(ctx));
    const dead = await amqp091.declared(ctx, channel, 'dead');
    const dlx = { 'x-dead-letter-exchange': '', 'x-dead-letter-routing-key': dead };
    const { queue, connection } = await begin(ctx, { arguments: { ...quorum.arguments, ...dlx } });
    const published = { ...messages(0, 1)[0], message_annotations: { 'x-by': 'the publisher' } };
    await (await Sender.open(connection, address(queue))).accepted([published]);
    const receiver = await Receiver.open(connection, queue);
    const annotations = (of) => of.message.message_annotations;
    const [first] = await receiver.wait(1);
    first.delivery.modified({ delivery_failed: true, message_annotations: { 'x-by': 'rhea', 'x-tries': 1 } });
    const [second] = await receiver.wait(1, 1);
    equal([annotations(second)['x-by'], annotations(second)['x-tries']], ['rhea', 1], 'annotations');
    equal(second.message.delivery_count, 1, 'delivery count');
    const at = Date.now() + 700;
    second.delivery.modified({ message_annotations: { 'x-tries': 2, 'x-opt-delivery-time': at } });
    const [third] = await receiver.wait(1, 2);
    equal(Date.now() >= at, true, 'it comes at its time');
    equal([annotations(third)['x-by'], annotations(third)['x-tries']], ['rhea', 2], 'annotations');
    third.delivery.modified({ undeliverable_here: true, message_annotations: { 'x-why': 'enough' } });
    const consumer = await amqp091.Consumer.start(channel, dead);
    const [{ properties: { headers } }] = await consumer.wait(1);
    equal([headers['x-by'], headers['x-tries'], headers['x-why']], ['rhea', 2, 'enough'], 'headers');
    equal(headers['x-first-death-reason'], 'rejected', 'reason');
  },

  async 'modified-with-reserved-keys'(ctx) {
    const { channel, queue, connection } = await begin(ctx, quorum);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, 1));
    const receiver = await Receiver.open(connection, queue);
    const [{ delivery }] = await receiver.wait(1);
    const ended = once(receiver.link, 'receiver_close');
    delivery.modified({ delivery_failed: true, message_annotations: { mine: 1 } });
    await ended;
    equal(failure(receiver.link)[0], 'amqp:invalid-field', 'condition');
    await amqp091.waitReady(channel, queue, 1);
    equal(connection.is_open(), true, 'the connection is open');
  },

  async 'consumer-timeout'(ctx) {
    const { queue, connection } = await begin(ctx, quorum);
    const sender = await Sender.open(connection, address(queue));
    await sender.accepted(messages(0, 1));
    const properties = { 'rabbitmq:consumer-timeout': rhea.types.wrap_uint(500) };
    const slow = await Receiver.open(connection, queue, { properties });
    const [{ delivery }] = await slow.wait(1);
    const other = await Receiver.open(await connect(ctx), queue);
    const [again] = await other.wait(1);
    equal(bodies([again]), ['0'], 'it comes back');
    again.delivery.accept();
    other.link.close();
    await once(other.link, 'receiver_close');
    const state = await waitUntil(() => delivery.remote_state, 'the outcome');
    equal(state.constructor.composite_type, 'released', 'outcome');
    equal([delivery.remote_settled, slow.link.is_open()], [false, true], 'and to be settled');
    delivery.release();
    await sender.accepted(messages(1, 2));
    equal(bodies(await slow.wait(1, 1)), ['1'], 'it goes on once it has settled');
  },

  async 'unroutable-is-released'(ctx) {
    const connection = await connect(ctx);
    const sender = await Sender.open(connection, `/exchanges/amq.direct/${ctx.name()}`);
    const [{ outcome }] = await sender.send(messages(0, 1));
    equal(outcome, 'released', 'outcome');
  },

  async 'full-queue-rejects'(ctx) {
    const full = { arguments: { 'x-max-length': 1, 'x-overflow': 'reject-publish' } };
    const { queue, connection } = await begin(ctx, full);
    const sender = await Sender.open(connection, address(queue));
    await sender.accepted(messages(0, 1));
    const [{ outcome, delivery }] = await sender.send(messages(1, 2));
    equal(outcome, 'rejected', 'outcome');
    equal(delivery.remote_state.error.info.queue, queue, 'queue of the refusal');
  },

  async 'anonymous-terminus'(ctx) {
    const { queue, connection } = await begin(ctx);
    equal(connection.remote.open.offered_capabilities.includes('ANONYMOUS-RELAY'), true, 'capability');
    const sender = await Sender.open(connection, { address: null });
    const [message] = messages(0, 1);
    await sender.accepted([{ ...message, to: address(queue) }]);
    const missing = `/exchanges/${ctx.name()}/key`;
    const to = [undefined, 'q', missing, address(ctx.name('nowhere')), address(queue)];
    const outcomes = await sender.send(to.map((it) => ({ ...message, to: it })));
    equal(
      outcomes.map(({ outcome }) => outcome),
      ['rejected', 'rejected', 'rejected', 'released', 'accepted'],
      'outcomes',
    );
    equal(
      outcomes.slice(0, 3).map(({ delivery }) => delivery.remote_state.error.condition),
      ['amqp:precondition-failed', 'amqp:precondition-failed', 'amqp:not-found'],
      'conditions',
    );
    const { description } = outcomes[0].delivery.remote_state.error;
    equal(description, "anonymous terminus requires 'to' address to be set", 'description');
    const deliveries = await (await Receiver.open(connection, queue)).wait(2);
    equal(deliveries[0].message.to, address(queue), 'to is kept');
    const settling = await Sender.open(connection, { address: null }, { snd_settle_mode: 1 });
    const detached = once(settling.link, 'sender_error');
    settling.link.send(message, 'tag');
    await detached;
    equal(failure(settling.link)[0], 'amqp:precondition-failed', 'condition of the detach');
    equal(settling.link.error.info['delivery-tag'].toString(), 'tag', 'delivery tag');
  },

  async 'foreign-user-id-detaches'(ctx) {
    const { queue, connection } = await begin(ctx);
    const sender = await Sender.open(connection, address(queue));
    const [message] = messages(0, 1);
    await sender.accepted([{ ...message, user_id: 'guest' }]);
    const detached = once(sender.link, 'sender_error');
    sender.link.send({ ...message, user_id: 'somebody' });
    await detached;
    const text = "user_id property set to 'somebody' but authenticated user was 'guest'";
    equal(failure(sender.link), ['amqp:unauthorized-access', text], 'condition and text');
    await (await Sender.open(connection, address(queue))).accepted([message]);
  },

  async 'bad-messages-detach'(ctx) {
    const { queue, connection } = await begin(ctx);
    for (const [annotations, condition, text] of [
      [{ mine: 'yes' }, 'amqp:decode-error', 'failed to parse message: '],
      [{ 'x-cc': 'key' }, 'amqp:invalid-field', "bad value for 'x-cc' message-annotation: "],
    ]) {
      const sender = await Sender.open(connection, address(queue));
      const detached = once(sender.link, 'sender_error');
      sender.link.send({ message_annotations: annotations, body: data('m') });
      await detached;
      const [told, description] = failure(sender.link);
      equal(told, condition, 'condition');
      starts(description, text, 'text');
    }
  },

  async 'topic-exchange'(ctx) {
    const { channel, queue, connection } = await begin(ctx);
    await channel.bindQueue(queue, 'amq.topic', 'a.*');
    const sender = await Sender.open(connection, '/exchanges/amq.topic/a.b%2Fc');
    await sender.accepted(messages(0, 1));
    const other = await Sender.open(connection, '/exchanges/amq.topic/b.b');
    equal((await other.send(messages(1, 2)))[0].outcome, 'released', 'outcome of another key');
    const [{ message }] = await (await Receiver.open(connection, queue)).wait(1);
    equal(message.message_annotations['x-routing-key'], 'a.b/c', 'key');
  },

  async 'large-messages'(ctx) {
    const { queue, connection } = await begin(ctx);
    const body = 'x'.repeat(1_000_000);
    const large = Array.from({ length: 5 }, () => ({ durable: true, body: data(body) }));
    await (await Sender.open(connection, address(queue))).accepted(large);
    const deliveries = await (await Receiver.open(connection, queue)).wait(5);
    equal(bodies(deliveries).every((it) => it === body), true, 'bodies');
  },

  async 'credit-is-kept-to'(ctx) {
    const { queue, connection } = await begin(ctx);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, 20));
    const receiver = await Receiver.open(connection, queue, { credit_window: 0 });
    receiver.link.add_credit(7);
    await receiver.wait(7);
    receiver.link.add_credit(1);
    await receiver.wait(1, 7);
    const drained = once(receiver.link, 'receiver_drained');
    receiver.link.drain = true;
    receiver.link.add_credit(100);
    await drained;
    equal(bodies(receiver.deliveries), amqp091.numbers(0, 20), 'bodies');
    equal(receiver.link.credit, 0, 'credit after the drain');
  },

  async 'stream-offsets'(ctx) {
    const { queue, connection } = await begin(ctx, stream);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, 20));
    const from = async (spec) => {
      const receiver = await Receiver.open(connection, queue, filtered(queue, [[OFFSET, OFFSET, spec]]));
      equal(inPlace(receiver), [OFFSET], 'filters in place');
      return receiver;
    };
    equal(bodies(await (await from('first')).wait(20)), amqp091.numbers(0, 20), 'from the first on');
    const [{ message }] = await (await from(rhea.types.wrap_ulong(15))).wait(5);
    equal([text(message), message.message_annotations['x-stream-offset']], ['15', 15], 'from an offset on');
    equal((await (await from('1h')).wait(20)).length, 20, 'from an hour ago on');
    const next = await from('next');
    await (await Sender.open(connection, address(queue))).accepted(messages(20, 21));
    equal(bodies(await next.wait(1)), ['20'], 'the next');
  },

  async 'stream-bloom-filters'(ctx) {
    const { queue, connection } = await begin(ctx, stream);
    const sender = await Sender.open(connection, address(queue));
    for (const value of ['red', 'blue', undefined]) {
      const message_annotations = value ? { 'x-stream-filter-value': value } : undefined;
      await sender.accepted([{ message_annotations, body: data(value ?? 'none') }]);
    }
    const read = async (value, ...more) => {
      const filters = [[OFFSET, OFFSET, 'first'], [BLOOM, BLOOM, value], ...more];
      return bodies(await drained(await Receiver.open(connection, queue, { ...filtered(queue, filters), ...byCredit })));
    };
    equal(await read('red'), ['red'], 'one value');
    const list = rhea.types.wrap_list(['blue', 'red'].map((it) => rhea.types.wrap_string(it)));
    equal(await read(list), ['red', 'blue'], 'a list');
    const unfiltered = ['u', 'rabbitmq:stream-match-unfiltered', true];
    equal(await read('blue', unfiltered), ['blue', 'none'], 'without a value too');
  },

  async 'property-filters'(ctx) {
    const { queue, connection } = await begin(ctx, stream);
    const sent = amqp091.numbers(0, 200).map((body) => ({
      subject: `order.${body % 2 ? 'eu' : 'us'}`,
      group_id: 'g',
      application_properties: { n: Number(body), colour: body % 10 ? 'red' : 'blue' },
      body: data(body),
    }));
    await (await Sender.open(connection, address(queue))).accepted(sent);
    const read = async (...filters) => {
      const options = { ...filtered(queue, [[OFFSET, OFFSET, 'first'], ...filters]), ...byCredit };
      const receiver = await Receiver.open(connection, queue, options);
      return [inPlace(receiver).slice(1), await drained(receiver)];
    };
    const properties = { subject: '&s:.us' };
    const application = { colour: 'blue' };
    const [names, found] = await read(['p', 0x173, symbols(properties)], ['a', 'amqp:application-properties-filter', application]);
    equal(names, ['p', 'a'], 'filters in place');
    equal(bodies(found), amqp091.numbers(0, 20).map((it) => String(it * 10)), 'by properties');
    const [{ message }] = found;
    equal([message.subject, message.group_id, message.application_properties.n], ['order.us', 'g', 0], 'the bare message');
    const [sql, some] = await read(['sql-filter', 0x120, "p.subject LIKE '%.eu' AND n > 190"]);
    equal([sql, bodies(some)], [['sql-filter'], ['191', '193', '195', '197', '199']], 'by SQL');
    equal((await read(['sql-filter', 'amqp:sql-filter', 'n BETWEEN 1 AND 2']))[0], [], 'bad SQL is not in place');
  },

  async 'filter-that-passes-nothing'(ctx) {
    const { queue, connection } = await begin(ctx, stream);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, N_MESSAGES));
    const filters = filtered(queue, [[OFFSET, OFFSET, 'first'], ['sql-filter', 0x120, 'missing = 1']]);
    const receiver = await Receiver.open(connection, queue, { ...filters, ...byCredit });
    equal((await drained(receiver)).length, 0, 'deliveries');
    receiver.link.close();
    await once(receiver.link, 'receiver_close');
  },

  async 'no-filters-of-queues'(ctx) {
    const { queue, connection } = await begin(ctx);
    const receiver = await Receiver.open(connection, queue, filtered(queue, [[OFFSET, OFFSET, 'first']]));
    equal(inPlace(receiver), [], 'filters in place');
    equal(receiver.link.remote.attach.source.distribution_mode, 'move', 'distribution mode');
  },

  'active-consumer-is-told': (ctx) => tellsActive(ctx, {}),
  'active-consumer-is-told-quorum': (ctx) => tellsActive(ctx, quorum.arguments),

  async 'lost-client-gives-back'(ctx) {
    const { channel, queue, connection } = await begin(ctx);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, 10));
    const other = await connect(ctx);
    await (await Receiver.open(other, queue)).wait(10);
    other.socket.destroy();
    await amqp091.waitReady(channel, queue, 10);
    const again = await (await Receiver.open(connection, queue)).wait(10);
    equal(bodies(again), amqp091.numbers(0, 10), 'bodies');
    equal(again.some(({ message }) => message.first_acquirer), false, 'nobody acquires them first');
  },

  async 'detached-gives-back'(ctx) {
    const { channel, queue, connection } = await begin(ctx);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, 10));
    const receiver = await Receiver.open(connection, queue);
    await receiver.wait(10);
    receiver.link.close();
    await once(receiver.link, 'receiver_close');
    await amqp091.waitReady(channel, queue, 10);
  },

  async 'queue-is-deleted'(ctx) {
    const { channel, queue, connection } = await begin(ctx);
    const receiver = await Receiver.open(connection, queue);
    const ended = once(receiver.link, 'receiver_close');
    await channel.deleteQueue(queue);
    await ended;
    equal(failure(receiver.link)[0], 'amqp:resource-deleted', 'condition');
  },

  async 'bad-addresses'(ctx) {
    const connection = await connect(ctx);
    const name = ctx.name();
    const missing = (it) => it.open_receiver({ source: address(name) });
    const [condition, description] = await refused(connection, missing, 'receiver_error');
    equal([condition, description], ['amqp:not-found', `no queue '${name}' in vhost '/'`], 'no queue');
    const old = (it) => it.open_sender({ target: '/queue/q' });
    equal((await refused(connection, old, 'sender_error'))[0], 'amqp:invalid-field', 'version 1');
    equal(connection.is_open(), true, 'the connection is open');
  },

  async 'refused-logins'(ctx) {
    const connection = dial(ctx, { password: 'wrong' });
    const [{ error }] = await once(connection, 'connection_error').catch((it) => [{ error: it }]);
    starts(String(error?.condition ?? error), 'amqp:unauthorized-access', 'wrong password');
  },

  async 'unknown-vhost'(ctx) {
    const connection = dial(ctx, { hostname: 'vhost:nowhere' });
    await once(connection, 'connection_error');
    const text = "AMQP 1.0 connection failed: virtual host 'nowhere' does not exist";
    equal(failure(connection), ['amqp:unauthorized-access', text], 'condition and text');
  },

  async 'listed-over-http'(ctx) {
    const node = await ctx.ownNode({ http: true });
    const { queue, connection } = await begin(ctx);
    await (await Sender.open(connection, address(queue))).accepted([{ durable: true, subject: 'hares', body: [1, { two: 3 }] }]);
    await (await Receiver.open(connection, queue, { credit_window: 5 })).wait(1);
    const authorization = `Basic ${Buffer.from('guest:guest').toString('base64')}`;
    const ask = async (path, init = {}) => {
      const response = await fetch(`http://${node.host}:${node.httpPort}/api${path}`, { ...init, headers: { authorization } });
      equal(response.status, 200, path);
      return response.json();
    };
    const listed = (await ask('/connections')).find((it) => it.protocol === 'AMQP 1-0');
    equal([listed.container_id, listed.channels], [connection.local.open.container_id, 1], 'connection');
    const [session] = await ask(`/connections/${encodeURIComponent(listed.name)}/sessions`);
    equal([session.channel_number, session.outgoing_unsettled_deliveries], [0, 1], 'session');
    const [incoming] = session.incoming_links;
    equal([incoming.target_address, incoming.delivery_count, incoming.unconfirmed_messages], [address(queue), 1, 0], 'incoming link');
    const [outgoing] = session.outgoing_links;
    equal([outgoing.source_address, outgoing.queue_name, outgoing.credit], [address(queue), queue, 4], 'outgoing link');
    const [consumer] = await ask('/consumers');
    equal(consumer.channel_details.connection_name, listed.name, 'connection of the consumer');
    const which = JSON.stringify({ which: 'all', payload_bytes: 1000 });
    const browsed = await ask(`/queues/%2F/${encodeURIComponent(queue)}/browse`, { method: 'POST', body: which });
    const { properties, amqp_value: body } = browsed.messages[0].sections;
    equal([properties.subject, body], ['hares', [1, { two: 3 }]], 'sections');
  },

  async 'restart-kill-9'(ctx) {
    await ctx.ownNode();
    const { queue, connection } = await begin(ctx, quorum);
    await (await Sender.open(connection, address(queue))).accepted(messages(0, N_MESSAGES));
    await ctx.node.kill9();
    await ctx.node.start();
    const receiver = await Receiver.open(await connect(ctx), queue, { credit_window: N_MESSAGES });
    equal(bodies(await receiver.wait(N_MESSAGES)), amqp091.numbers(0, N_MESSAGES), 'bodies');
  },

  async 'annotations-survive-kill-9'(ctx) {
    await ctx.ownNode();
    const { queue, connection } = await begin(ctx, quorum);
    const sender = await Sender.open(connection, address(queue));
    await sender.accepted(messages(0, 1));
    const receiver = await Receiver.open(connection, queue, { credit_window: 0 });
    receiver.link.add_credit(1);
    const [{ delivery }] = await receiver.wait(1);
    delivery.modified({ message_annotations: { 'x-mine': 'kept' } });
    // It is on disk behind the outcome.
    await leaves(connection);
    await sender.accepted(messages(1, 2));
    await ctx.node.kill9();
    await ctx.node.start();
    const again = await Receiver.open(await connect(ctx), queue);
    const [{ message }] = await again.wait(2);
    equal(message.message_annotations['x-mine'], 'kept', 'annotation');
  },
};

const only = process.argv.slice(2);
const chosen = Object.keys(scenarios).filter((id) => only.length === 0 || only.includes(id));
harness.run(chosen, scenarios, 'rhea').then((status) => process.exit(status));
