// Publishes jobs to a quorum queue, each once whatever happens: node once.js URI QUEUE PUBLISHER COUNT
'use strict';

const amqp = require('amqplib');
const { setTimeout: pause } = require('node:timers/promises');

const WINDOW = 200; // unconfirmed jobs: further ones are left where they come from
const RECONNECT_MS = 100;
const NACK_PAUSE_MS = 100;

class Publisher {
  constructor(uri, queue, name, jobs) {
    // `kept`: jobs without a confirm by publishing id, in rising order
    Object.assign(this, { uri, queue, name, jobs, kept: new Map(), lastId: 0, published: 0, done: false });
  }

  async run() {
    while (!this.done) {
      try {
        await this.publishOn(await amqp.connect(this.uri));
      } catch (error) {
        console.error(`publishing goes on after: ${error.message}`);
      }
      if (!this.done) await pause(RECONNECT_MS);
    }
  }

  /** Until everything is confirmed or the connection is lost. */
  async publishOn(connection) {
    connection.on('error', (error) => console.error(error.message)); // 'close' follows
    const closed = new Promise((resolve) => {
      connection.on('close', resolve);
    });
    this.channel = await connection.createConfirmChannel();
    this.channel.on('error', () => connection.close().catch(() => {}));
    await this.channel.assertQueue(this.queue, { durable: true, arguments: { 'x-queue-type': 'quorum' } });
    const finished = new Promise((resolve) => {
      this.finish = resolve;
    });
    for (const id of [...this.kept.keys()]) this.publish(id); // the queue drops what it has
    this.fill();
    await Promise.race([closed, finished]);
    this.channel = null;
    if (this.done) await connection.close();
  }

  /** Publishes new jobs while there is room. */
  fill() {
    while (this.kept.size < WINDOW) {
      const { value: job, done } = this.jobs.next();
      if (done) break;
      this.lastId += 1;
      this.kept.set(this.lastId, job);
      this.publish(this.lastId);
    }
    if (this.kept.size === 0) {
      this.done = true;
      this.finish();
    }
  }

  publish(id) {
    const { channel } = this;
    this.published += 1;
    const headers = { 'x-publisher-id': this.name, 'x-publishing-id': id };
    channel.sendToQueue(this.queue, this.kept.get(id), { headers }, (error) => {
      if (channel !== this.channel) return; // of a connection that is gone
      if (error === null) {
        this.kept.delete(id);
        this.fill();
      } else {
        // Refused, and not in the queue: it may come again.
        setTimeout(() => channel === this.channel && this.publish(id), NACK_PAUSE_MS);
      }
    });
  }
}

function* numbered(count) {
  for (let number = 0; number < count; number += 1) yield Buffer.from(`job-${number}`);
}

const [uri, queue, name, count] = process.argv.slice(2);
const publisher = new Publisher(uri, queue, name, numbered(Number(count)));
publisher.run().then(() => {
  console.log(`${count} jobs confirmed, ${publisher.published} publishes`);
});
