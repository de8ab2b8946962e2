// The scenarios of interop/TLS.md with amqplib.
'use strict';

const fs = require('node:fs');
const path = require('node:path');
const amqp = require('amqplib');
const { equal } = require('./expect');
const { confirming, declared, publish } = require('./client');

const BODY = Buffer.alloc(100_000, 'hare');

function steps(version, certificate, authority) {
  const file = (name) => fs.readFileSync(path.join(process.env.INTEROP_TLS, `${name}.pem`));
  return async (ctx) => {
    const options = {
      minVersion: version,
      maxVersion: version,
      ca: [file(`${authority}_certificate`)],
      ...(certificate && { cert: file(`${certificate}_certificate`), key: file(`${certificate}_key`) }),
      ...(certificate && { credentials: amqp.credentials.external() }),
    };
    const connection = await amqp.connect(`amqps://localhost:${process.env.INTEROP_TLS_PORT}`, options);
    connection.on('error', () => {});
    ctx.onEnd(() => connection.close());
    const channel = await confirming(connection);
    const queue = await declared(ctx, channel);
    await publish(channel, queue, [BODY]);
    equal((await channel.get(queue, { noAck: true })).content.equals(BODY), true, 'the body is the same');
  };
}

function refused(run) {
  return async (ctx) => {
    const error = await run(ctx).then(() => null, (error) => error);
    equal(error !== null, true, 'it is refused');
  };
}

module.exports = {
  'tls-1.2': steps('TLSv1.2', null, 'ca'),
  'tls-1.3': steps('TLSv1.3', null, 'ca'),
  'tls-external-1.2': steps('TLSv1.2', 'client', 'ca'),
  'tls-external-1.3': steps('TLSv1.3', 'client', 'ca'),
  'tls-expired': refused(steps('TLSv1.3', 'expired', 'ca')),
  'tls-revoked': refused(steps('TLSv1.2', 'revoked', 'ca')),
  'tls-foreign': refused(steps('TLSv1.2', 'foreign', 'ca')),
  'tls-unknown-ca': refused(steps('TLSv1.3', null, 'foreign_ca')),
};
