const amqp = require('amqplib');

async function main() {
  const connection = await amqp.connect(process.env.AMQP_URL || 'amqp://guest:guest@localhost:5672');
  const channel = await connection.createConfirmChannel();
  await channel.assertQueue('hello', { durable: true });

  channel.sendToQueue('hello', Buffer.from('Hello, hare!'), { persistent: true });
  await channel.waitForConfirms(); // the broker has the message on disk

  await channel.prefetch(100);
  await new Promise((resolve, reject) => {
    channel.consume('hello', (message) => {
      if (message === null) return reject(new Error('the consumer was cancelled'));
      console.log(message.content.toString());
      channel.ack(message);
      resolve();
    }).catch(reject);
  });
  await channel.close();
  await connection.close();
}

main().catch((error) => {
  console.error(error);
  process.exitCode = 1;
});
