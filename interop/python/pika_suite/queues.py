"""Queue lifetimes, ownership and deletion."""

import contextlib

from harness import equal, starts
from pika_suite.client import (
    LIBRARY,
    Consumer,
    bodies,
    closes_channel,
    confirming,
    connect,
    missing_queue,
    publish,
    ready,
    wait_ready,
)
from pika_suite.consuming import filled
from pika_suite.publishing import declared


@contextlib.contextmanager
def locked(connection, queue):
    text = f"RESOURCE_LOCKED - cannot obtain exclusive access to locked queue '{queue}' in vhost '/'"
    with closes_channel(connection, 405, text, prefix=True):
        yield connection.channel()


@LIBRARY.scenario("queue-exclusive-405")
def exclusive(ctx):
    owner, other = connect(ctx).channel(), connect(ctx)
    queue = declared(ctx, owner, durable=False, exclusive=True)
    with locked(other, queue) as channel:
        channel.queue_declare(queue, passive=True)
    with locked(other, queue) as channel:
        channel.basic_consume(queue, lambda *_: None)
    with locked(other, queue) as channel:
        channel.basic_get(queue)
    with locked(other, queue) as channel:
        channel.queue_purge(queue)
    with locked(other, queue) as channel:
        channel.queue_delete(queue)
    publish(confirming(other), queue, b"from elsewhere")
    equal(bodies(owner, queue), [b"from elsewhere"])


@LIBRARY.scenario("queue-exclusive-gone")
def exclusive_gone(ctx):
    first, second, watcher = connect(ctx), connect(ctx), connect(ctx)
    queue = ctx.name()
    channel = confirming(first)
    channel.queue_declare(queue, exclusive=True)
    publish(channel, queue, b"dies with its connection")
    first.close()
    declare_ok = second.channel().queue_declare(queue, exclusive=True)
    equal(declare_ok.method.message_count, 0)
    second.close()
    missing_queue(watcher, queue)


@LIBRARY.scenario("queue-server-named")
def server_named(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = ctx.name("x")
    channel.exchange_declare(exchange, "direct")
    queue = channel.queue_declare("", exclusive=True).method.queue
    starts(queue, "amq.gen-")
    channel.queue_bind("", exchange, "key")
    consumer = Consumer(channel, "", auto_ack=True)
    publish(channel, "key", b"1", exchange=exchange)
    publish(channel, queue, b"2")
    consumer.wait(2)
    equal(consumer.bodies(), [b"1", b"2"])
    channel.queue_declare(queue, passive=True)
    with closes_channel(connection, 403, "ACCESS_REFUSED - queue name 'amq.gen-", prefix=True):
        connection.channel().queue_declare(queue, exclusive=True)


@LIBRARY.scenario("queue-auto-delete")
def auto_delete(ctx):
    connection = connect(ctx)
    channel = connection.channel()
    queue = declared(ctx, channel, durable=False, auto_delete=True)
    first, second = Consumer(channel, queue), Consumer(channel, queue)
    first.stop()
    channel.queue_declare(queue, passive=True)
    second.stop()
    missing_queue(connection, queue)


@LIBRARY.scenario("queue-purge")
def purge(ctx):
    connection, watcher, queue = filled(ctx, 5)
    channel = connection.channel()
    for _ in range(2):
        channel.basic_get(queue)
    equal(watcher.queue_purge(queue).method.message_count, 3, "purge-ok")
    equal(ready(watcher, queue), 0)
    channel.basic_nack(2, multiple=True, requeue=True)
    wait_ready(watcher, queue, 2)


@LIBRARY.scenario("queue-delete-if-unused")
def delete_if_unused(ctx):
    connection = connect(ctx)
    channel = connection.channel()
    queue = declared(ctx, channel)
    consumer = Consumer(channel, queue)
    with closes_channel(connection, 406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"):
        connection.channel().queue_delete(queue, if_unused=True)
    consumer.stop()
    channel.queue_delete(queue, if_unused=True)
    missing_queue(connection, queue)


@LIBRARY.scenario("queue-delete-if-empty")
def delete_if_empty(ctx):
    connection, channel, queue = filled(ctx, 1)
    with closes_channel(connection, 406, f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"):
        connection.channel().queue_delete(queue, if_empty=True)
    channel.queue_purge(queue)
    channel.queue_delete(queue, if_empty=True)
    missing_queue(connection, queue)
    equal(channel.queue_delete(queue).method.message_count, 0)
