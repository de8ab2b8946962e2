"""Confirms, returns, sizes and transactions."""

import datetime
import decimal
import hashlib
import random

import pika
import pika.exceptions

from harness import equal
from pika_suite.client import (
    LIBRARY,
    PERSISTENT,
    TRANSIENT,
    AsyncPublisher,
    Consumer,
    bodies,
    closes_channel,
    confirming,
    connect,
    get_all,
    publish,
    ready,
    wait_ready,
)

BODY_15_MB = 15_000_000
BODY_20_MB = 20 * 1024 * 1024


def declared(ctx, channel, suffix="q", **options):
    queue = ctx.name(suffix)
    options.setdefault("durable", True)
    channel.queue_declare(queue, **options)
    return queue


@LIBRARY.scenario("confirm-single")
def confirm_single(ctx):
    channel = confirming(connect(ctx))
    queue = declared(ctx, channel)
    publish(channel, queue, b"kept")  # returns only on the ack, raises on a nack
    publish(channel, ctx.name("nowhere"), b"dropped")
    equal(bodies(channel, queue), [b"kept"])


@LIBRARY.scenario("confirm-batch")
def confirm_batch(ctx):
    channel = connect(ctx).channel()
    queue = declared(ctx, channel)
    for batch in range(10):
        messages = [("", queue, f"{batch}.{i}".encode(), PERSISTENT, False) for i in range(100)]
        events = AsyncPublisher(ctx).run(messages)
        equal({event[0] for event in events}, {"ack"})
    wait_ready(channel, queue, 1000)


@LIBRARY.scenario("confirm-mixed")
def confirm_mixed(ctx):
    channel = connect(ctx).channel()
    durable = declared(ctx, channel, "durable")
    transient = declared(ctx, channel, "transient", durable=False, exclusive=True)
    messages = [
        ("", (durable, transient)[i // 2 % 2], str(i).encode(), (TRANSIENT, PERSISTENT)[i % 2], False)
        for i in range(500)
    ]
    events = AsyncPublisher(ctx).run(messages)
    equal({event[0] for event in events}, {"ack"})
    for queue in (durable, transient):
        expected = [body for _, key, body, _, _ in messages if key == queue]
        equal(bodies(channel, queue), expected, queue)


@LIBRARY.scenario("confirm-multiple")
def confirm_multiple(ctx):
    channel = connect(ctx).channel()
    queue = declared(ctx, channel)
    messages = [("", queue, str(i).encode(), PERSISTENT, False) for i in range(2000)]
    publisher = AsyncPublisher(ctx)
    events = publisher.run(messages)  # fails by itself on a tag settled twice or never published
    equal({event[0] for event in events}, {"ack"})
    equal(publisher.unsettled, set())
    wait_ready(channel, queue, 2000)


@LIBRARY.scenario("mandatory-return-before-ack")
def mandatory_return(ctx):
    key = ctx.name("nowhere")
    properties = pika.BasicProperties(message_id="m-1", headers={"h": "v"}, delivery_mode=2)
    returned, acked = AsyncPublisher(ctx).run([("", key, b"come back", properties, True)])
    kind, method, returned_properties, body = returned
    equal(kind, "return", "first event")
    equal(acked[:2], ("ack", 1), "second event")
    equal((method.reply_code, method.reply_text), (312, "NO_ROUTE"))
    equal((method.exchange, method.routing_key, body), ("", key, b"come back"))
    equal(returned_properties, properties)


@LIBRARY.scenario("publish-missing-exchange-404")
def publish_missing_exchange(ctx):
    connection = connect(ctx)
    exchange = ctx.name("x")
    with closes_channel(connection, 404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        publish(confirming(connection), "k", b"m", exchange=exchange)


@LIBRARY.scenario("properties-intact")
def properties_intact(ctx):
    channel = confirming(connect(ctx))
    queue = declared(ctx, channel)
    sent = pika.BasicProperties(
        content_type="application/json",
        content_encoding="gzip",
        headers={
            "text": "grün",
            "bytes": b"\x00\xff",
            "int": 7,
            "negative": -7,
            "long": 2**40,
            "flag": True,
            "decimal": decimal.Decimal("3.14"),
            "when": datetime.datetime(2024, 5, 6, 7, 8, 9, tzinfo=datetime.timezone.utc),
            "nothing": None,
            "array": [1, "two", {"three": 3}],
            "table": {"inner": {"deep": "yes"}},
        },
        delivery_mode=2,
        priority=5,
        correlation_id="correlation",
        reply_to="reply",
        expiration="600000",
        message_id="message",
        timestamp=1_700_000_000,
        type="kind",
        user_id="guest",
        app_id="interop",
    )
    publish(channel, queue, b"", properties=sent)
    ((method, received, body),) = get_all(channel, queue)
    equal(body, b"")
    equal(method.redelivered, False)
    for name, value in vars(sent).items():
        equal(getattr(received, name), value, name)


@LIBRARY.scenario("body-15mb-intact")
def body_15_mb(ctx):
    channel = confirming(connect(ctx))
    queue = declared(ctx, channel)
    body = random.Random(15).randbytes(BODY_15_MB)
    publish(channel, queue, body)
    consumer = Consumer(channel, queue, auto_ack=True)
    consumer.wait(1, deadline_s=30)
    received = consumer.messages[0][2]
    equal(hashlib.sha256(received).hexdigest(), hashlib.sha256(body).hexdigest(), "SHA-256")


@LIBRARY.scenario("body-20mb-refused")
def body_20_mb(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel)
    text = f"PRECONDITION_FAILED - message size {BODY_20_MB} is larger than configured max size 16777216"
    with closes_channel(connection, 406, text):
        publish(channel, queue, bytes(BODY_20_MB))
    channel = confirming(connection)
    publish(channel, queue, b"still usable")
    equal(bodies(channel, queue), [b"still usable"])


@LIBRARY.scenario("tx-commit")
def tx_commit(ctx):
    connection = connect(ctx)
    channel, watcher = connection.channel(), connection.channel()
    queue = declared(ctx, channel)
    channel.tx_select()
    publish(channel, queue, b"1", b"2", b"3")
    channel.basic_qos(prefetch_count=1)  # a round trip: the publishes have been read
    equal(ready(watcher, queue), 0, "ready before the commit")
    channel.tx_commit()
    wait_ready(watcher, queue, 3)
    for expected in (b"1", b"2", b"3"):
        method, _, body = channel.basic_get(queue)
        equal(body, expected)
        channel.basic_ack(method.delivery_tag)
    channel.tx_commit()
    channel.close()
    equal(ready(watcher, queue), 0, "ready after the acks were committed")


@LIBRARY.scenario("tx-rollback")
def tx_rollback(ctx):
    connection = connect(ctx)
    channel, watcher = connection.channel(), connection.channel()
    queue = declared(ctx, channel)
    channel.tx_select()
    publish(channel, queue, b"1", b"2")
    channel.tx_rollback()
    publish(channel, queue, b"3")
    channel.tx_commit()
    wait_ready(watcher, queue, 1)
    method, _, body = channel.basic_get(queue)
    equal(body, b"3")
    channel.basic_ack(method.delivery_tag)
    channel.tx_rollback()
    channel.close()
    wait_ready(watcher, queue, 1)
    ((method, _, body),) = get_all(watcher, queue)
    equal((body, method.redelivered), (b"3", True))
