"""Consumers, acknowledgements, prefetch and get."""

from aio_pika import Message

from aio_suite.client import (
    Consumer,
    bodies,
    closes_channel,
    confirming,
    connect,
    declared,
    filled,
    get_all,
    numbers,
    plain,
    publish,
    ready,
    scenario,
    wait_ready,
    wait_until,
    with_redelivered,
)
from harness import Skip, equal, starts


async def on_channel(connection, queue):
    """A fresh channel and the queue as seen through it."""
    channel = await plain(connection)
    return channel, await channel.get_queue(queue.name, ensure=False)


@scenario("consume-prefetch")
async def prefetch(ctx):
    connection, watcher, queue = await filled(ctx, 20)
    channel = await plain(connection)
    await channel.set_qos(5)
    consumer = await Consumer.start(channel, queue)
    await consumer.wait(5)
    equal(await ready(watcher, queue), 15)
    for acked in range(1, 21):
        await consumer.messages[acked - 1].ack()
        await consumer.wait(min(5 + acked, 20))
        equal(await ready(watcher, queue), max(15 - acked, 0))
    equal(with_redelivered(consumer.messages), [(body, False) for body in numbers(20)])
    equal([message.delivery_tag for message in consumer.messages], list(range(1, 21)))


@scenario("qos-per-consumer")
async def qos_per_consumer(ctx):
    connection, watcher, queue_a = await filled(ctx, 10, "a")
    queue_b = await declared(ctx, watcher, "b")
    await publish(watcher.default_exchange, queue_b.name, *numbers(10))
    channel = await plain(connection)
    await channel.set_qos(2)
    consumer_a = await Consumer.start(channel, queue_a)
    await channel.set_qos(3)
    consumer_b = await Consumer.start(channel, queue_b)
    await consumer_a.wait(2)
    await consumer_b.wait(3)
    equal((await ready(watcher, queue_a), await ready(watcher, queue_b)), (8, 7))
    equal((len(consumer_a.messages), len(consumer_b.messages)), (2, 3))


@scenario("ack-multiple")
async def ack_multiple(ctx):
    connection, watcher, queue = await filled(ctx, 10)
    channel = await plain(connection)
    consumer = await Consumer.start(channel, queue)
    messages = await consumer.wait(10)
    await messages[6].ack(multiple=True)
    await channel.close()
    await wait_ready(watcher, queue, 3)
    equal(with_redelivered(await get_all(watcher, queue)), [(body, True) for body in numbers(7, 10)])


@scenario("nack-requeue-order")
async def nack_requeue_order(ctx):
    connection, watcher, queue = await filled(ctx, 5)
    channel = await plain(connection)
    consumer = await Consumer.start(channel, queue)
    messages = await consumer.wait(5)
    await consumer.stop()
    await messages[2].nack(multiple=False, requeue=True)
    await wait_ready(watcher, queue, 1)
    await (await channel.get_underlay_channel()).basic_nack(0, multiple=True, requeue=True)
    await wait_ready(watcher, queue, 5)
    equal(with_redelivered(await get_all(watcher, queue)), [(body, True) for body in numbers(5)])


@scenario("nack-discard")
async def nack_discard(ctx):
    connection, watcher, queue = await filled(ctx, 3)
    channel = await plain(connection)
    consumer = await Consumer.start(channel, queue)
    messages = await consumer.wait(3)
    await messages[2].nack(multiple=True, requeue=False)
    await channel.close()
    equal(await bodies(watcher, queue), [])


@scenario("reject-requeue")
async def reject_requeue(ctx):
    connection, _, queue = await filled(ctx, 2)
    _, queue = await on_channel(connection, queue)
    first = await queue.get()
    await first.reject(requeue=True)
    again = await queue.get()
    equal(with_redelivered([first, again]), [(b"0", False), (b"0", True)])
    equal(again.delivery_tag, 2)


@scenario("reject-discard")
async def reject_discard(ctx):
    connection, watcher, queue = await filled(ctx, 1)
    channel, queue = await on_channel(connection, queue)
    await (await queue.get()).reject(requeue=False)
    await channel.close()
    equal(await bodies(watcher, queue), [])


@scenario("basic-get")
async def basic_get(ctx):
    connection, watcher, queue = await filled(ctx, 3)
    channel, queue = await on_channel(connection, queue)
    first = await queue.get()
    second = await queue.get(no_ack=True)
    equal(with_redelivered([first, second]), [(b"0", False), (b"1", False)])
    equal((first.message_count, second.message_count), (2, 1))
    await channel.close()
    await wait_ready(watcher, queue, 2)
    equal(with_redelivered(await get_all(watcher, queue)), [(b"0", True), (b"2", False)])


@scenario("basic-get-empty")
async def basic_get_empty(ctx):
    queue = await declared(ctx, await plain(await connect(ctx)))
    equal(await queue.get(fail=False), None)


@scenario("basic-recover")
async def basic_recover(ctx):
    connection, watcher, queue = await filled(ctx, 3)
    channel, queue = await on_channel(connection, queue)
    for _ in range(3):
        await queue.get()
    await (await channel.get_underlay_channel()).basic_recover(requeue=True)
    await wait_ready(watcher, queue, 3)
    equal(with_redelivered(await get_all(watcher, queue)), [(body, True) for body in numbers(3)])


@scenario("unknown-delivery-tag-406")
async def unknown_delivery_tag(ctx):
    connection, _, queue = await filled(ctx, 1)

    async def ack_99(channel):
        await (await channel.get_underlay_channel()).basic_ack(99)

    async def ack_twice(channel):
        on_channel = await channel.get_queue(queue.name, ensure=False)
        tag = (await on_channel.get()).delivery_tag
        for _ in range(2):
            await (await channel.get_underlay_channel()).basic_ack(tag)

    await closes_channel(connection, 406, "PRECONDITION_FAILED - unknown delivery tag 99", ack_99)
    await closes_channel(connection, 406, "PRECONDITION_FAILED - unknown delivery tag 1", ack_twice)


@scenario("consumer-cancel")
async def consumer_cancel(ctx):
    connection, watcher, queue = await filled(ctx, 4)
    channel = await plain(connection)
    await channel.set_qos(2)
    consumer = await Consumer.start(channel, queue)
    messages = await consumer.wait(2)
    await consumer.stop()
    for message in list(messages):
        await message.ack()
    await channel.set_qos(1)  # a round trip: the acks have been read and accepted
    equal(await ready(watcher, queue), 2)
    equal(len(consumer.messages), 2)


@scenario("consumer-cancel-notify")
async def consumer_cancel_notify(ctx):
    connection = await connect(ctx)
    channel = await plain(connection)
    queue = await declared(ctx, channel)
    cancelled = []
    (await channel.get_underlay_channel()).on_consumer_cancel_callbacks.add(cancelled.append)
    consumer = await Consumer.start(channel, queue)
    await (await plain(connection)).queue_delete(queue.name)
    await wait_until(lambda: cancelled, "basic.cancel from the server")
    equal(cancelled[0].consumer_tag, consumer.tag)
    await declared(ctx, channel, "other")


@scenario("consumer-exclusive-403")
async def consumer_exclusive(ctx):
    connection = await connect(ctx)
    channel = await plain(connection)
    shared, owned = await declared(ctx, channel, "shared"), await declared(ctx, channel, "owned")
    await Consumer.start(channel, shared)
    await Consumer.start(channel, owned, exclusive=True)
    for queue, options in ((shared, {"exclusive": True}), (owned, {})):
        text = f"ACCESS_REFUSED - queue '{queue.name}' in vhost '/' in exclusive use"
        await closes_channel(connection, 403, text, lambda victim: Consumer.start(victim, queue, **options))


@scenario("consumer-priority")
async def consumer_priority(ctx):
    connection = await connect(ctx)
    watcher = await confirming(connection)
    queue = await declared(ctx, watcher)
    low_channel, high_channel = await plain(connection), await plain(connection)
    for channel in (low_channel, high_channel):
        await channel.set_qos(2)
    low = await Consumer.start(low_channel, queue, arguments={"x-priority": 1})
    high = await Consumer.start(high_channel, queue, arguments={"x-priority": 10})
    await publish(watcher.default_exchange, queue.name, *numbers(6))
    await high.wait(2)
    await low.wait(2)
    equal((high.bodies(), low.bodies()), (numbers(2), numbers(2, 4)))
    equal(await ready(watcher, queue), 2)
    await high.messages[0].ack()
    await high.wait(3)
    equal((high.bodies()[2], len(low.messages)), (b"4", 2))


@scenario("consumer-tag-server-made")
async def consumer_tag_server_made(_ctx):
    raise Skip("aio-pika makes its own tag when none is given")


@scenario("direct-reply-to")
async def direct_reply_to(ctx):
    connection = await connect(ctx)
    client, server = await plain(connection), await plain(connection)
    queue = await declared(ctx, server)
    reply_queue = await client.get_queue("amq.rabbitmq.reply-to", ensure=False)
    replies = await Consumer.start(client, reply_queue, no_ack=True)
    requests = await Consumer.start(server, queue, no_ack=True)
    request = Message(b"request", reply_to="amq.rabbitmq.reply-to", correlation_id="c-1")
    await client.default_exchange.publish(request, queue.name, mandatory=False)
    (received,) = await requests.wait(1)
    starts(received.reply_to, "amq.rabbitmq.reply-to.")
    reply = Message(b"reply", correlation_id=received.correlation_id)
    await server.default_exchange.publish(reply, received.reply_to, mandatory=False)
    (answer,) = await replies.wait(1)
    equal((answer.body, answer.correlation_id), (b"reply", "c-1"))
