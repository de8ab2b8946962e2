// Handshake, heartbeats, channels and losing the connection.
'use strict';

const { equal, waitUntil } = require('../expect');
const client = require('../client');
const { Consumer, connect, declared, filled, getAll, numbers, plain, withRedelivered } = client;

const HEARTBEAT_S = 1;
const CAPABILITIES = [
  'publisher_confirms',
  'exchange_exchange_bindings',
  'basic.nack',
  'consumer_cancel_notify',
  'connection.blocked',
  'consumer_priorities',
  'authentication_failure_close',
  'per_consumer_qos',
  'direct_reply_to',
];

async function capabilities(ctx) {
  const { serverProperties } = (await connect(ctx)).connection;
  for (const name of CAPABILITIES) equal(serverProperties.capabilities[name], true, name);
  equal([typeof serverProperties.product, typeof serverProperties.version], ['string', 'string']);
}

async function channels2000(ctx) {
  const connection = await connect(ctx);
  const channels = [];
  for (let i = 0; i < 2000; i += 1) channels.push(await plain(connection));
  const queue = await declared(ctx, channels[0]);
  for (const channel of channels) equal(await channel.get(queue), false);
  equal(new Set(channels.map((channel) => channel.ch)).size, 2000, 'channel numbers');
  await connection.close();
}

async function refusedConnect(ctx, options) {
  try {
    await connect(ctx, options);
  } catch (error) {
    return error;
  }
  throw new Error('the connection was not refused');
}

async function wrongPassword(ctx) {
  const error = await refusedConnect(ctx, { password: 'wrong' });
  const text =
    'ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. For details see the broker logfile.';
  equal([error.message.includes('403'), client.replyText(error)], [true, text]);
}

// amqplib only says that it met a connection.close; the relay sees which.
async function unknownVhost(ctx) {
  const relay = await ctx.relay();
  const error = await refusedConnect(ctx, { at: relay, vhost: 'interop-missing' });
  equal(error.message.includes('ConnectionClose'), true, error.message);
  const text = Buffer.from('NOT_ALLOWED - vhost interop-missing not found');
  const at = relay.lastFromServer.indexOf(text);
  if (at < 3) throw new Error(`not closed with ${text}: ${relay.lastFromServer}`);
  equal(relay.lastFromServer.readUInt16BE(at - 3), 530, 'reply code');
  equal(relay.lastFromServer[at - 1], text.length, 'length of the reply text');
}

async function updateSecret(ctx) {
  const connection = await connect(ctx);
  await connection.updateSecret(Buffer.from('guest'), 'interop');
  await declared(ctx, await plain(connection));
}

async function heartbeatIdle(ctx) {
  const relay = await ctx.relay();
  const connection = await connect(ctx, { at: relay, heartbeat: HEARTBEAT_S });
  equal(connection.connection.heartbeat, HEARTBEAT_S, 'negotiated heartbeat');
  const seen = () => relay.fromServer.count >= 4 && relay.fromClient.count >= 4;
  await waitUntil(seen, '4 heartbeats from each side', 20_000);
  await declared(ctx, await plain(connection));
}

async function heartbeatSilent(ctx) {
  const relay = await ctx.relay();
  const connection = await connect(ctx, { at: relay, heartbeat: HEARTBEAT_S });
  await (await plain(connection)).close();
  const mutedAt = relay.muteClient();
  await waitUntil(() => relay.serverClosedAt, 'closed for silence', (5 * HEARTBEAT_S + 2) * 1000);
  const silentMs = relay.serverClosedAt - mutedAt;
  if (silentMs < HEARTBEAT_S * 1000) throw new Error(`closed after ${silentMs} ms, before one interval`);
}

async function redeliveredAfterLoss(ctx) {
  const { channel: watcher, queue } = await filled(ctx, 5);
  const relay = await ctx.relay();
  const channel = await plain(await connect(ctx, { at: relay }));
  await channel.prefetch(3);
  await (await Consumer.start(channel, queue)).wait(3);
  relay.cut();
  const consumer = await Consumer.start(watcher, queue, { noAck: true });
  const received = withRedelivered(await consumer.wait(5)).sort();
  equal(
    received,
    numbers(0, 5).map((body) => [body, Number(body) < 3]),
  );
  equal(await getAll(watcher, queue), []);
}

module.exports = {
  capabilities,
  'channels-2000': channels2000,
  'auth-wrong-password-403': wrongPassword,
  'vhost-unknown-530': unknownVhost,
  'update-secret': updateSecret,
  'heartbeat-idle-survives': heartbeatIdle,
  'heartbeat-silent-peer-closed': heartbeatSilent,
  'redelivered-after-connection-loss': redeliveredAfterLoss,
};
