// Connections, senders and receivers in rhea's words, as promises.
'use strict';

const { once } = require('node:events');
const rhea = require('rhea');
const { equal, waitUntil } = require('../node/expect');

function address(queue) {
  return `/queues/${encodeURIComponent(queue)}`;
}

/** What a connection, session or link was closed with: condition and description. */
function failure(endpoint) {
  const { condition, description } = endpoint.error ?? {};
  return [condition, description];
}

function dial(ctx, options = {}) {
  const { host, port } = options.at ?? ctx.node;
  const container = rhea.create_container();
  const login = { username: 'guest', password: 'guest', reconnect: false };
  const connection = container.connect({ host, port, ...login, ...options });
  for (const name of ['connection_error', 'connection_close', 'session_error', 'disconnected', 'error']) {
    connection.on(name, () => {}); // seen by the operation that fails
  }
  ctx.onEnd(() => connection.close());
  return connection;
}

async function connect(ctx, options) {
  const connection = dial(ctx, options);
  await once(connection, 'connection_open');
  return connection;
}

/** Sends messages and waits for their outcomes. */
class Sender {
  static async open(connection, target, options = {}) {
    const sender = new Sender();
    sender.outcomes = new Map();
    sender.link = connection.open_sender({ target, ...options });
    for (const outcome of ['accepted', 'released', 'rejected', 'modified']) {
      sender.link.on(outcome, ({ delivery }) => sender.outcomes.set(delivery.id, { outcome, delivery }));
    }
    sender.link.on('sender_error', () => {});
    await once(sender.link, 'sendable');
    return sender;
  }

  /** The outcomes of the messages, in their order. */
  async send(messages) {
    const ids = [];
    for (const message of messages) {
      await waitUntil(() => this.link.sendable(), 'credit');
      ids.push(this.link.send(message).id);
    }
    await waitUntil(() => ids.every((id) => this.outcomes.has(id)), `${ids.length} outcomes`);
    return ids.map((id) => this.outcomes.get(id));
  }

  async accepted(messages) {
    const outcomes = (await this.send(messages)).map(({ outcome }) => outcome);
    equal(outcomes, messages.map(() => 'accepted'), 'outcomes');
  }
}

/** Keeps what arrives. */
class Receiver {
  static async open(connection, queue, options = {}) {
    const receiver = new Receiver();
    receiver.deliveries = [];
    receiver.link = connection.open_receiver({ source: address(queue), autoaccept: false, ...options });
    receiver.link.on('message', ({ message, delivery }) => receiver.deliveries.push({ message, delivery }));
    receiver.link.on('receiver_error', () => {});
    await once(receiver.link, 'receiver_open');
    return receiver;
  }

  /** Deliveries from the one that was given `from`, `count` of them and no more. */
  async wait(count, from = 0) {
    await waitUntil(() => this.deliveries.length >= from + count, `${count} deliveries`);
    equal(this.deliveries.length, from + count, 'deliveries');
    return this.deliveries.slice(from);
  }
}

/** The filters of a source, each [name, descriptor, value], the address beside them. */
function filtered(queue, filters) {
  const described = ([name, descriptor, value]) => [name, rhea.types.wrap_described(value, descriptor)];
  return { source: { address: address(queue), filter: Object.fromEntries(filters.map(described)) } };
}

function text(message) {
  const { body } = message;
  return (body.content ?? body).toString();
}

function data(body) {
  return rhea.message.data_section(Buffer.from(body));
}

/** The attach of a link that the node refuses: condition and description. */
async function refused(connection, open, event) {
  const link = open(connection);
  await once(link, event);
  return failure(link);
}

module.exports = { Receiver, Sender, address, connect, data, dial, failure, filtered, refused, text };
