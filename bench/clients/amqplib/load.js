// The load of bench/clients/run by amqplib: a connection that publishes, a connection that consumes.
'use strict';

const { parseArgs } = require('node:util');
const amqplib = require('amqplib');

const WINDOW = 200;
const QUEUE = 'bench-real';
const { values: options } = parseArgs({
  options: {
    uri: { type: 'string' },
    rate: { type: 'string', default: '0' },
    time: { type: 'string', short: 'z', default: '10' },
  },
});
const rate = Number(options.rate);
let figures = { sent: 0, received: 0, latency: [], confirm: [] };

const now = () => process.hrtime.bigint();

async function consume() {
  const connection = await amqplib.connect(options.uri);
  const channel = await connection.createChannel();
  await channel.assertQueue(QUEUE, { durable: false, autoDelete: true });
  await channel.prefetch(WINDOW);
  await channel.consume(QUEUE, (message) => {
    figures.latency.push(Number(now() - message.content.readBigUInt64BE(4)));
    figures.received += 1;
    channel.ack(message);
  });
}

async function publish() {
  const connection = await amqplib.connect(options.uri);
  const channel = await connection.createConfirmChannel();
  const began = performance.now();
  let sent = 0;
  let confirmed = 0;
  const more = () => {
    let allowed = confirmed + WINDOW;
    if (rate > 0) {
      allowed = Math.min(allowed, Math.floor(((performance.now() - began) * rate) / 1000) + 1);
    }
    while (sent < allowed) {
      sent += 1;
      const at = now();
      const body = Buffer.alloc(12);
      body.writeBigUInt64BE(at, 4);
      channel.publish('', QUEUE, body, {}, () => {
        confirmed += 1;
        figures.confirm.push(Number(now() - at));
        if (rate === 0) more();
      });
      figures.sent += 1;
    }
  };
  if (rate > 0) setInterval(more, 2);
  more();
}

function percentiles(nanoseconds) {
  const sorted = nanoseconds.length > 0 ? Float64Array.from(nanoseconds).sort() : [0];
  const at = (share) => Math.floor(sorted[Math.floor(share * (sorted.length - 1))] / 1000);
  return [0, 0.5, 0.75, 0.95, 0.99].map(at).join('/');
}

async function main() {
  await consume();
  await publish();
  const began = performance.now();
  let last = began;
  setInterval(() => {
    const { sent, received, latency, confirm } = figures;
    figures = { sent: 0, received: 0, latency: [], confirm: [] };
    const at = performance.now();
    const perSecond = (n) => ((n * 1000) / (at - last)).toFixed(0);
    console.log(
      `time ${((at - began) / 1000).toFixed(3)} s, sent: ${perSecond(sent)} msg/s, ` +
        `received: ${perSecond(received)} msg/s, min/median/75th/95th/99th consumer latency: ` +
        `${percentiles(latency)} µs, confirm latency: ${percentiles(confirm)} µs`,
    );
    last = at;
    if (at - began > Number(options.time) * 1000) process.exit(0);
  }, 1000);
}

main().catch((error) => {
  console.error(error.message);
  process.exit(1);
});
