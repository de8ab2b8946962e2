// Publishes jobs and keeps each until it is confirmed: node resend.js URI QUEUE COUNT
'use strict';

const amqp = require('amqplib');
const { setTimeout: pause } = require('node:timers/promises');

const WINDOW = 200; // unconfirmed jobs: further ones are left where they come from
const TIMEOUT_MS = Number(process.env.RESEND_TIMEOUT_S ?? 30) * 1000; // without an answer
const NACK_PAUSE_MS = 100;
const TICK_MS = 100;
const RECONNECT_MS_MIN = 100;
const RECONNECT_MS_MAX = 5000;

class Publisher {
  constructor(uri, queue, jobs) {
    Object.assign(this, { uri, queue, jobs, kept: new Map(), published: 0, done: false });
  }

  async run() {
    let pauseMs = RECONNECT_MS_MIN;
    while (!this.done) {
      try {
        const connection = await amqp.connect(this.uri);
        pauseMs = RECONNECT_MS_MIN;
        await this.publishOn(connection);
      } catch (error) {
        console.error(`publishing goes on after: ${error.message}`);
      }
      if (!this.done) await pause(pauseMs);
      pauseMs = Math.min(2 * pauseMs, RECONNECT_MS_MAX);
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
    await this.channel.assertQueue(this.queue, { durable: true, arguments: { 'x-confirm-on': 'ack' } });
    for (const job of this.kept.values()) Object.assign(job, { tries: 0, dueAt: 0 });
    const ticks = setInterval(() => this.tick(), TICK_MS);
    const finished = new Promise((resolve) => {
      this.finish = resolve;
    });
    this.tick();
    await Promise.race([closed, finished]);
    clearInterval(ticks);
    if (this.done) await connection.close();
  }

  /** Publishes again what is overdue, and new jobs while there is room. */
  tick() {
    const now = Date.now();
    for (const job of this.kept.values()) {
      if (job.dueAt <= now) this.publish(job);
    }
    this.fill();
  }

  fill() {
    while (this.kept.size < WINDOW) {
      const { value: job, done } = this.jobs.next();
      if (done) break;
      this.kept.set(job.id, Object.assign(job, { tries: 0 }));
      this.publish(job);
    }
    if (this.kept.size === 0) {
      this.done = true;
      this.finish();
    }
  }

  publish(job) {
    job.dueAt = Date.now() + TIMEOUT_MS * 2 ** Math.min(job.tries, 10);
    job.tries += 1;
    this.published += 1;
    const [channel, attempt] = [this.channel, job.tries];
    channel.sendToQueue(this.queue, job.body, { messageId: job.id }, (error) => {
      if (channel !== this.channel) return; // of a connection that is gone
      if (error === null) {
        this.kept.delete(job.id); // whichever publish of the job it answers
        this.fill();
      } else if (attempt === job.tries) {
        job.dueAt = Date.now() + NACK_PAUSE_MS;
      }
    });
  }
}

function* numbered(count) {
  for (let number = 0; number < count; number += 1) {
    yield { id: `job-${number}`, body: Buffer.from('work') };
  }
}

const [uri, queue, count] = process.argv.slice(2);
const publisher = new Publisher(uri, queue, numbered(Number(count)));
publisher.run().then(() => {
  console.log(`${count} jobs confirmed, ${publisher.published} publishes`);
});
