"""Confirms, returns, sizes and transactions."""

import asyncio
import datetime
import decimal
import hashlib
import random

from aio_pika import DeliveryMode, Message
from aiormq import spec

from aio_suite.client import (
    Consumer,
    bodies,
    closes_channel,
    confirming,
    connect,
    declared,
    get_all,
    numbers,
    persistent,
    plain,
    publish,
    ready,
    returned,
    scenario,
    wait_ready,
    with_redelivered,
)
from harness import equal
from pika_suite.publishing import BODY_15_MB, BODY_20_MB


async def publish_at_once(channel, messages):
    """Publishes all (key, message) without waiting in between; every result has to be an ack."""
    publishing = [channel.default_exchange.publish(message, key, mandatory=False) for key, message in messages]
    results = await asyncio.gather(*publishing)
    equal({type(result) for result in results}, {spec.Basic.Ack}, "settled as")
    return results


@scenario("confirm-single")
async def confirm_single(ctx):
    channel = await confirming(await connect(ctx))
    queue = await declared(ctx, channel)
    for key in (queue.name, ctx.name("nowhere")):
        result = await publish(channel.default_exchange, key, b"kept")
        equal(type(result), spec.Basic.Ack)
    equal(await bodies(channel, queue), [b"kept"])


@scenario("confirm-batch")
async def confirm_batch(ctx):
    channel = await confirming(await connect(ctx))
    queue = await declared(ctx, channel)
    for _ in range(10):
        await publish_at_once(channel, [(queue.name, persistent(body)) for body in numbers(100)])
    await wait_ready(channel, queue, 1000)


@scenario("confirm-mixed")
async def confirm_mixed(ctx):
    channel = await confirming(await connect(ctx))
    durable = await declared(ctx, channel, "durable")
    transient = await declared(ctx, channel, "transient", durable=False, exclusive=True)
    modes = (DeliveryMode.NOT_PERSISTENT, DeliveryMode.PERSISTENT)
    messages = [
        ((durable, transient)[i // 2 % 2].name, Message(str(i).encode(), delivery_mode=modes[i % 2]))
        for i in range(500)
    ]
    await publish_at_once(channel, messages)
    for queue in (durable, transient):
        equal(await bodies(channel, queue), [message.body for key, message in messages if key == queue.name])


@scenario("confirm-multiple")
async def confirm_multiple(ctx):
    channel = await confirming(await connect(ctx))
    queue = await declared(ctx, channel)
    results = await publish_at_once(channel, [(queue.name, persistent(body)) for body in numbers(2000)])
    for tag, result in enumerate(results, 1):
        settles = result.delivery_tag == tag or (result.multiple and result.delivery_tag > tag)
        assert settles and result.delivery_tag <= 2000, f"{tag} settled by {result}"
    await wait_ready(channel, queue, 2000)


@scenario("mandatory-return-before-ack")
async def mandatory_return(ctx):
    """The library resolves a publish with whatever comes first, the return or the ack."""
    channel = await confirming(await connect(ctx))
    key = ctx.name("nowhere")
    properties = {"message_id": "m-1", "headers": {"h": "v"}}
    result = await publish(channel.default_exchange, key, b"come back", mandatory=True, **properties)
    equal(returned(result), True, "returned before the ack")
    delivery = result.delivery
    equal((delivery.reply_code, delivery.reply_text), (312, "NO_ROUTE"))
    equal((delivery.exchange, delivery.routing_key, result.body), ("", key, b"come back"))
    received = result.header.properties
    equal((received.message_id, received.headers, received.delivery_mode), ("m-1", {"h": "v"}, 2))
    result = await publish(channel.default_exchange, key, b"next")
    equal(result.delivery_tag, 2, "tag of the next ack")


@scenario("publish-missing-exchange-404")
async def publish_missing_exchange(ctx):
    exchange = ctx.name("x")

    async def work(victim):
        await publish(await victim.get_exchange(exchange, ensure=False), "k", b"m")

    await closes_channel(await connect(ctx), 404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'", work)


@scenario("properties-intact")
async def properties_intact(ctx):
    channel = await confirming(await connect(ctx))
    queue = await declared(ctx, channel)
    moment = datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc)
    sent = {
        "content_type": "application/json",
        "content_encoding": "gzip",
        "headers": {
            "text": "grün",
            "bytes": bytearray(b"\x00\xff"),
            "int": 7,
            "negative": -7,
            "long": 2**40,
            "flag": True,
            "double": 1.5,
            "decimal": decimal.Decimal("3.14"),
            "when": moment,
            "nothing": None,
            "array": [1, "two", {"three": 3}],
            "table": {"inner": {"deep": "yes"}},
        },
        "priority": 5,
        "correlation_id": "correlation",
        "reply_to": "reply",
        "expiration": 600,
        "message_id": "message",
        "timestamp": moment,
        "type": "kind",
        "user_id": "guest",
        "app_id": "interop",
    }
    await publish(channel.default_exchange, queue.name, b"", **sent)
    (received,) = await get_all(channel, queue)
    equal((received.body, received.delivery_mode), (b"", DeliveryMode.PERSISTENT))
    for name, value in sent.items():
        equal(getattr(received, name), value, name)


@scenario("body-15mb-intact")
async def body_15_mb(ctx):
    channel = await confirming(await connect(ctx))
    queue = await declared(ctx, channel)
    body = random.Random(15).randbytes(BODY_15_MB)
    await publish(channel.default_exchange, queue.name, body)
    consumer = await Consumer.start(channel, queue, no_ack=True)
    (message,) = await consumer.wait(1, deadline_s=30)
    equal(hashlib.sha256(message.body).hexdigest(), hashlib.sha256(body).hexdigest(), "SHA-256")


@scenario("body-20mb-refused")
async def body_20_mb(ctx):
    connection = await connect(ctx)
    channel = await confirming(connection)
    queue = await declared(ctx, channel)
    text = f"PRECONDITION_FAILED - message size {BODY_20_MB} is larger than configured max size 16777216"

    async def work(victim):
        await publish(victim.default_exchange, queue.name, bytes(BODY_20_MB))

    await closes_channel(connection, 406, text, work)
    await publish(channel.default_exchange, queue.name, b"still usable")
    equal(await bodies(channel, queue), [b"still usable"])


@scenario("tx-commit")
async def tx_commit(ctx):
    connection = await connect(ctx)
    channel, watcher = await plain(connection), await plain(connection)
    queue = await declared(ctx, channel)
    transaction = channel.transaction()
    await transaction.select()
    await publish(channel.default_exchange, queue.name, b"1", b"2", b"3")
    await channel.set_qos(1)  # a round trip: the publishes have been read
    equal(await ready(watcher, queue), 0, "ready before the commit")
    await transaction.commit()
    await wait_ready(watcher, queue, 3)
    for expected in (b"1", b"2", b"3"):
        message = await queue.get()
        equal(message.body, expected)
        await message.ack()
    await transaction.commit()
    await channel.close()
    equal(await ready(watcher, queue), 0, "ready after the acks were committed")


@scenario("tx-rollback")
async def tx_rollback(ctx):
    connection = await connect(ctx)
    channel, watcher = await plain(connection), await plain(connection)
    queue = await declared(ctx, channel)
    transaction = channel.transaction()
    await transaction.select()
    await publish(channel.default_exchange, queue.name, b"1", b"2")
    await transaction.rollback()
    await publish(channel.default_exchange, queue.name, b"3")
    await transaction.commit()
    await wait_ready(watcher, queue, 1)
    message = await queue.get()
    equal(message.body, b"3")
    await message.ack()
    await transaction.rollback()
    await channel.close()
    await wait_ready(watcher, queue, 1)
    equal(with_redelivered(await get_all(watcher, queue)), [(b"3", True)])
