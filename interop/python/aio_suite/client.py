"""Connections, publishing and expectations in aio-pika's words."""

import asyncio
import functools
import logging

import aio_pika
import aiormq.exceptions
from aio_pika import DeliveryMode, Message

from harness import Library, equal, starts
from pika_suite.client import clean_up

CLOSE_DEADLINE_S = 5
CHANNEL_ERRORS = {
    403: aiormq.exceptions.ChannelAccessRefused,
    404: aiormq.exceptions.ChannelNotFoundEntity,
    405: aiormq.exceptions.ChannelLockedResource,
    406: aiormq.exceptions.ChannelPreconditionFailed,
}

logging.getLogger("aiormq").setLevel(logging.CRITICAL)
logging.getLogger("aio_pika").setLevel(logging.CRITICAL)

LIBRARY = Library("aio-pika", clean_up)


def scenario(scenario_id):
    """Registers a coroutine; its connections are closed when it ends."""

    def register(coroutine):
        async def with_connections(ctx):
            ctx.connections = []
            try:
                await asyncio.wait_for(coroutine(ctx), ctx.deadline_s - 1)
            finally:
                closing = [connection.close() for connection in reversed(ctx.connections)]
                await asyncio.wait_for(asyncio.gather(*closing, return_exceptions=True), CLOSE_DEADLINE_S)

        @LIBRARY.scenario(scenario_id)
        @functools.wraps(coroutine)
        def run(ctx):
            asyncio.run(with_connections(ctx))

        return coroutine

    return register


async def wait_until(condition, what, deadline_s=10):
    """Lets events happen until the condition, which may be a coroutine function, holds."""
    deadline = asyncio.get_running_loop().time() + deadline_s
    while True:
        value = condition()
        if asyncio.iscoroutine(value):
            value = await value
        if value:
            return value
        assert asyncio.get_running_loop().time() < deadline, f"not within {deadline_s} s: {what}"
        await asyncio.sleep(0.005)


async def connect(ctx, at=None, connector=aio_pika.connect, **options):
    at = at or ctx.node
    connection = await connector(host=at.host, port=at.port, **options)
    ctx.connections.append(connection)
    return connection


async def plain(connection):
    return await connection.channel(publisher_confirms=False)


async def confirming(connection):
    return await connection.channel()


async def declared(ctx, channel, suffix="q", **options):
    options.setdefault("durable", True)
    return await channel.declare_queue(ctx.name(suffix), **options)


def persistent(body, **properties):
    return Message(body, delivery_mode=DeliveryMode.PERSISTENT, **properties)


async def publish(exchange, routing_key, *bodies, mandatory=False, **properties):
    """Publishes in order and waits for each confirm; returns the last result."""
    result = None
    for body in bodies:
        result = await exchange.publish(persistent(body, **properties), routing_key, mandatory=mandatory)
    return result


def returned(result):
    """Whether publishing ended in a basic.return instead of an ack."""
    return isinstance(result, aiormq.abc.DeliveredMessage)


async def ready(channel, queue):
    return (await channel.declare_queue(queue.name, passive=True)).declaration_result.message_count


async def wait_ready(channel, queue, count):
    async def reached():
        return await ready(channel, queue) == count

    await wait_until(reached, f"{count} ready in {queue.name}")


async def get_all(channel, queue):
    """Everything ready in the queue, with no-ack."""
    queue = await channel.get_queue(queue.name, ensure=False)
    messages = []
    while (message := await queue.get(no_ack=True, fail=False)) is not None:
        messages.append(message)
    return messages


async def bodies(channel, queue):
    return [message.body for message in await get_all(channel, queue)]


def with_redelivered(messages):
    return [(message.body, message.redelivered) for message in messages]


def numbers(*bounds):
    return [str(number).encode() for number in range(*bounds)]


async def filled(ctx, count, suffix="q"):
    """A connection, a confirm channel and a queue holding bodies 0..count-1."""
    connection = await connect(ctx)
    channel = await confirming(connection)
    queue = await declared(ctx, channel, suffix)
    await publish(channel.default_exchange, queue.name, *numbers(count))
    return connection, channel, queue


class Consumer:
    """Keeps what arrives."""

    @classmethod
    async def start(cls, channel, queue, **options):
        consumer = cls()
        consumer.messages = []
        consumer.queue = await channel.get_queue(queue.name, ensure=False)
        consumer.tag = await consumer.queue.consume(consumer.on_message, **options)
        return consumer

    async def on_message(self, message):
        self.messages.append(message)

    def bodies(self):
        return [message.body for message in self.messages]

    async def wait(self, count, deadline_s=10):
        await wait_until(lambda: len(self.messages) >= count, f"{count} deliveries", deadline_s)
        equal(len(self.messages), count, "deliveries")
        return self.messages

    async def stop(self):
        await self.queue.cancel(self.tag)


async def closes_channel(connection, code, text, work, prefix=False):
    """`work(channel)` makes the server close its channel with this code and text; the connection survives."""
    channel = await confirming(connection)
    closed = []
    channel.close_callbacks.add(lambda _channel, error: closed.append(error))
    try:
        await work(channel)
    except aiormq.exceptions.AMQPError:
        pass  # what the channel was closed with is what counts
    await wait_until(lambda: closed, f"channel closed with {code} {text}")
    equal(type(closed[0]), CHANNEL_ERRORS[code], "reply code as exception")
    (starts if prefix else equal)(closed[0].args[0], text, "reply text")
    await (await confirming(connection)).close()


async def missing_queue(connection, name):
    text = f"NOT_FOUND - no queue '{name}' in vhost '/'"
    await closes_channel(connection, 404, text, lambda channel: channel.declare_queue(name, passive=True))
