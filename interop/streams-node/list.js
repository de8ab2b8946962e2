// More scenarios of ../STREAMS.md, as far as rabbitmq-stream-js-client can say them; by the names there.
'use strict';

const { randomBytes } = require('node:crypto');
const { setTimeout: pause } = require('node:timers/promises');
const { connect, Offset } = require('rabbitmq-stream-js-client');
const { equal, waitUntil } = require('../node/expect');

/** One scenario's client, streams and what it has been given. */
class Lab {
  constructor(node) {
    this.node = node;
    this.clients = [];
    this.stream = `interop.stream-js.${randomBytes(6).toString('hex')}`;
  }

  async client(listeners = {}) {
    const { host: hostname, port } = this.node;
    const login = { username: 'guest', password: 'guest', vhost: '/' };
    const client = await connect({ hostname, port, ...login, listeners, connectionName: this.stream });
    this.clients.push(client);
    return client;
  }

  /** A client, with a new stream. */
  async begin() {
    this.main = await this.client();
    await this.main.createStream({ stream: this.stream });
    return this.main;
  }

  /** Publishes texts, and waits until all are confirmed. */
  async publish(texts, { options = () => ({}), filter, ref } = {}) {
    const client = await this.client();
    const publisher = await client.declarePublisher({ stream: this.stream, publisherRef: ref }, filter);
    let confirmed = 0;
    publisher.on('publish_confirm', (error, ids) => {
      confirmed += error ? NaN : ids.length;
    });
    for (const text of texts) await publisher.send(Buffer.from(String(text)), options(text));
    await publisher.flush();
    await waitUntil(() => confirmed === texts.length, `${texts.length} confirms`);
    await client.close();
  }

  /** What a consumer is given, in the list that is returned. */
  async read(offset, params = {}, client = this.main) {
    const texts = [];
    const handle = (message) => {
      texts.push(message.content.toString());
    };
    texts.consumer = await client.declareConsumer({ stream: this.stream, offset, ...params }, handle);
    return texts;
  }

  /** A client may wait for an end that the deletion of its stream has brought already: on no broker for long. */
  async close() {
    const closed = async () => {
      await this.main?.deleteStream({ stream: this.stream }).catch(() => {});
      for (const client of this.clients) await client.close().catch(() => {});
    };
    await Promise.race([closed(), pause(500, null, { ref: false })]);
  }
}

const numbers = (from, to) => Array.from({ length: to - from }, (_, n) => String(from + n));

const given = (texts, expected, what) =>
  waitUntil(() => texts.length >= expected.length, `${what}: ${expected.length} messages`).then(() =>
    equal([...texts], expected, what),
  );

/** A scenario of a stream with a thousand messages, read from there. */
const readFrom = (offset, expected) => async (lab) => {
  await lab.begin();
  await lab.publish(numbers(0, 1000));
  await given(await lab.read(offset), expected, 'messages');
};

const scenarios = {
  async 'stream-declare-delete'(lab) {
    const client = await lab.begin();
    await client.createStream({ stream: lab.stream });
    const refused = await client
      .createStream({ stream: lab.stream, arguments: { 'max-age': '60s' } })
      .then(() => null, String);
    if (!refused?.includes('17')) throw new Error(`not 17: ${refused}`);
    await client.deleteStream({ stream: lab.stream });
    const gone = await client.deleteStream({ stream: lab.stream }).then(() => null, String);
    if (!gone?.includes('2')) throw new Error(`not 2: ${gone}`);
  },

  async 'stream-deduplication'(lab) {
    await lab.begin();
    // The client takes 0 for no id.
    const options = (text) => ({ publishingId: BigInt(text) + 1n });
    await lab.publish(numbers(0, 100), { ref: 'once', options });
    await lab.publish(numbers(50, 150), { ref: 'once', options });
    await lab.publish(['marker']);
    await given(await lab.read(Offset.first()), [...numbers(0, 150), 'marker'], 'each once');
  },

  async 'stream-filter'(lab) {
    await lab.begin();
    const filter = (message) => message.applicationProperties?.region;
    for (const region of ['north', 'south', undefined, 'north']) {
      const options = () => (region ? { applicationProperties: { region } } : {});
      await lab.publish(Array(200).fill(region ?? 'none'), { filter, options });
    }
    const only = (values, matchUnfiltered) => ({
      filter: { values, matchUnfiltered, postFilterFunc: (it) => values.includes(it.applicationProperties?.region) },
    });
    await given(await lab.read(Offset.first(), only(['north'], false)), Array(400).fill('north'), 'north');
  },

  'stream-offset-first': readFrom(Offset.first(), numbers(0, 1000)),
  'stream-offset-number': readFrom(Offset.offset(777n), numbers(777, 1000)),

  async 'stream-offset-last'(lab) {
    await lab.begin();
    await lab.publish(numbers(0, 1000));
    await lab.publish(['last']);
    await given(await lab.read(Offset.last()), ['last'], 'the last chunk');
  },

  async 'stream-offset-next'(lab) {
    await lab.begin();
    await lab.publish(numbers(0, 1000));
    const texts = await lab.read(Offset.next());
    await lab.publish(numbers(1000, 1010));
    await given(texts, numbers(1000, 1010), 'what comes next');
  },

  async 'stream-offset-timestamp'(lab) {
    await lab.begin();
    await lab.publish(numbers(0, 1000));
    const published = Date.now();
    await waitUntil(() => Date.now() > published + 1, 'the clock');
    const since = new Date();
    await lab.publish(numbers(1000, 1010));
    await given(await lab.read(Offset.timestamp(since)), numbers(1000, 1010), 'since then');
  },

  async 'stream-offset-stored'(lab) {
    const client = await lab.begin();
    await lab.publish(numbers(0, 1000));
    const first = await lab.read(Offset.first(), { consumerRef: 'reader' });
    await given(first, numbers(0, 1000), 'all');
    await first.consumer.storeOffset(499n);
    const stored = () => client.queryOffset({ reference: 'reader', stream: lab.stream }).catch(() => null);
    await waitUntil(async () => (await stored()) === 499n, 'the stored offset');
    await client.closeConsumer(first.consumer.extendedId);
    const next = (await stored()) + 1n;
    await given(await lab.read(Offset.offset(next), { consumerRef: 'reader' }), numbers(500, 1000), 'from there on');
  },

  async 'stream-super-hash'(lab) {
    lab.main = await lab.client();
    await lab.main.createSuperStream({ streamName: lab.stream }, undefined, 3);
    try {
      const texts = [];
      await lab.main.declareSuperStreamConsumer(
        { superStream: lab.stream, consumerRef: 'reader', offset: Offset.first() },
        (message) => void texts.push(message.content.toString()),
      );
      const publisher = await lab.main.declareSuperStreamPublisher({ superStream: lab.stream }, (text) => text);
      for (const text of [...numbers(0, 300), ...numbers(0, 300)]) await publisher.send(Buffer.from(text), {});
      await waitUntil(() => texts.length >= 600, 'all messages');
      equal(texts.toSorted(), [...numbers(0, 300), ...numbers(0, 300)].toSorted(), 'each key twice');
    } finally {
      await lab.main.deleteSuperStream({ streamName: lab.stream });
    }
  },

  async 'stream-single-active'(lab) {
    await lab.begin();
    const other = await lab.client();
    const listener = async (reference, stream) => {
      const stored = await lab.main.queryOffset({ reference, stream }).catch(() => -1n);
      return Offset.offset(stored + 1n);
    };
    const params = { consumerRef: 'group', singleActive: true, consumerUpdateListener: listener };
    const first = await lab.read(Offset.first(), params);
    const second = await lab.read(Offset.first(), params, other);
    await lab.publish(numbers(0, 100));
    await given(first, numbers(0, 100), 'the first');
    equal(second.length, 0, 'the second waits');
    await first.consumer.storeOffset(99n);
    const stored = () => lab.main.queryOffset({ reference: 'group', stream: lab.stream }).catch(() => null);
    await waitUntil(async () => (await stored()) === 99n, 'the stored offset');
    await lab.main.closeConsumer(first.consumer.extendedId);
    await lab.publish(numbers(100, 200));
    await given(second, numbers(100, 200), 'the second');
  },
};

module.exports = Object.fromEntries(
  Object.entries(scenarios).map(([id, scenario]) => [
    id,
    async (node) => {
      const lab = new Lab(node);
      try {
        await scenario(lab);
      } finally {
        await lab.close();
      }
    },
  ]),
);
