"""Queue lifetimes, ownership and deletion."""

from aio_suite.client import (
    Consumer,
    bodies,
    closes_channel,
    confirming,
    connect,
    declared,
    filled,
    missing_queue,
    plain,
    publish,
    ready,
    scenario,
    wait_ready,
    wait_until,
)
from harness import equal, starts


@scenario("queue-exclusive-405")
async def exclusive(ctx):
    owner, other = await plain(await connect(ctx)), await connect(ctx)
    queue = await declared(ctx, owner, durable=False, exclusive=True)

    async def through(channel, method, **options):
        await getattr(await channel.get_queue(queue.name, ensure=False), method)(**options)

    attempts = [
        lambda channel: channel.declare_queue(queue.name, passive=True),
        lambda channel: Consumer.start(channel, queue),
        lambda channel: through(channel, "get"),
        lambda channel: through(channel, "purge"),
        lambda channel: through(channel, "delete", if_unused=False, if_empty=False),
    ]
    text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue.name}' in vhost '/'"
    for attempt in attempts:
        await closes_channel(other, 405, text, attempt, prefix=True)
    await publish((await confirming(other)).default_exchange, queue.name, b"from elsewhere")
    equal(await bodies(owner, queue), [b"from elsewhere"])


@scenario("queue-exclusive-gone")
async def exclusive_gone(ctx):
    first, second, watcher = await connect(ctx), await connect(ctx), await connect(ctx)
    channel = await confirming(first)
    queue = await declared(ctx, channel, durable=False, exclusive=True)
    await publish(channel.default_exchange, queue.name, b"dies with its connection")
    await first.close()
    again = await (await plain(second)).declare_queue(queue.name, exclusive=True)
    equal(again.declaration_result.message_count, 0)
    await second.close()
    await missing_queue(watcher, queue.name)


@scenario("queue-server-named")
async def server_named(ctx):
    """The library remembers the server's name, so the empty name is used on the channel below it."""
    connection = await connect(ctx)
    channel = await confirming(connection)
    exchange = await channel.declare_exchange(ctx.name("x"), "direct")
    queue = await channel.declare_queue("", exclusive=True)
    starts(queue.name, "amq.gen-")
    received = []

    async def on_message(message):
        received.append(message.body)

    underlay = await channel.get_underlay_channel()
    await underlay.queue_bind("", exchange.name, "key")
    await underlay.basic_consume("", on_message, no_ack=True)
    await publish(exchange, "key", b"1")
    await publish(channel.default_exchange, queue.name, b"2")
    await wait_until(lambda: len(received) == 2, "2 deliveries")
    equal(received, [b"1", b"2"])
    await channel.declare_queue(queue.name, passive=True)
    text = "ACCESS_REFUSED - queue name 'amq.gen-"
    work = lambda victim: victim.declare_queue(queue.name, exclusive=True)  # noqa: E731
    await closes_channel(connection, 403, text, work, prefix=True)


@scenario("queue-auto-delete")
async def auto_delete(ctx):
    connection = await connect(ctx)
    channel = await plain(connection)
    queue = await declared(ctx, channel, durable=False, auto_delete=True)
    first, second = await Consumer.start(channel, queue), await Consumer.start(channel, queue)
    await first.stop()
    await channel.declare_queue(queue.name, passive=True)
    await second.stop()
    await missing_queue(connection, queue.name)


@scenario("queue-purge")
async def purge(ctx):
    connection, watcher, queue = await filled(ctx, 5)
    channel = await plain(connection)
    on_channel = await channel.get_queue(queue.name, ensure=False)
    await on_channel.get()
    second = await on_channel.get()
    equal((await queue.purge()).message_count, 3, "purge-ok")
    equal(await ready(watcher, queue), 0)
    await second.nack(multiple=True, requeue=True)
    await wait_ready(watcher, queue, 2)


@scenario("queue-delete-if-unused")
async def delete_if_unused(ctx):
    connection = await connect(ctx)
    channel = await plain(connection)
    queue = await declared(ctx, channel)
    consumer = await Consumer.start(channel, queue)
    text = f"PRECONDITION_FAILED - queue '{queue.name}' in vhost '/' in use"
    await closes_channel(connection, 406, text, lambda victim: victim.queue_delete(queue.name, if_unused=True))
    await consumer.stop()
    await channel.queue_delete(queue.name, if_unused=True)
    await missing_queue(connection, queue.name)


@scenario("queue-delete-if-empty")
async def delete_if_empty(ctx):
    connection, channel, queue = await filled(ctx, 1)
    text = f"PRECONDITION_FAILED - queue '{queue.name}' in vhost '/' not empty"
    await closes_channel(connection, 406, text, lambda victim: victim.queue_delete(queue.name, if_empty=True))
    await queue.purge()
    await channel.queue_delete(queue.name, if_empty=True)
    await missing_queue(connection, queue.name)
    equal((await channel.queue_delete(queue.name)).message_count, 0)
