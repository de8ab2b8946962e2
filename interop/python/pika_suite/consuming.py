"""Consumers, acknowledgements, prefetch and get."""

import pika

from harness import equal, starts, wait_until
from pika_suite.client import (
    LIBRARY,
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
from pika_suite.publishing import declared


def filled(ctx, count, suffix="q"):
    """A connection, a confirm channel and a queue holding bodies 0..count-1."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel, suffix)
    publish(channel, queue, *numbers(count))
    return connection, channel, queue


def numbers(*bounds):
    return [str(number).encode() for number in range(*bounds)]


def with_redelivered(messages):
    return [(body, method.redelivered) for method, _, body in messages]


@LIBRARY.scenario("consume-prefetch")
def prefetch(ctx):
    connection, watcher, queue = filled(ctx, 20)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=5)
    consumer = Consumer(channel, queue)
    consumer.wait(5)
    equal(ready(watcher, queue), 15)
    for acked in range(1, 21):
        channel.basic_ack(acked)
        consumer.wait(min(5 + acked, 20))
        equal(ready(watcher, queue), max(15 - acked, 0))
    equal(with_redelivered(consumer.messages), [(body, False) for body in numbers(20)])
    equal([method.delivery_tag for method, _, _ in consumer.messages], list(range(1, 21)))


@LIBRARY.scenario("qos-per-consumer")
def qos_per_consumer(ctx):
    connection, watcher, queue_a = filled(ctx, 10, "a")
    queue_b = declared(ctx, watcher, "b")
    publish(watcher, queue_b, *numbers(10))
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    consumer_a = Consumer(channel, queue_a)
    channel.basic_qos(prefetch_count=3)
    consumer_b = Consumer(channel, queue_b)
    consumer_a.wait(2)
    consumer_b.wait(3)
    equal((ready(watcher, queue_a), ready(watcher, queue_b)), (8, 7))
    equal((len(consumer_a.messages), len(consumer_b.messages)), (2, 3))


@LIBRARY.scenario("ack-multiple")
def ack_multiple(ctx):
    connection, watcher, queue = filled(ctx, 10)
    channel = connection.channel()
    Consumer(channel, queue).wait(10)
    channel.basic_ack(7, multiple=True)
    channel.close()
    wait_ready(watcher, queue, 3)
    equal(with_redelivered(get_all(watcher, queue)), [(body, True) for body in numbers(7, 10)])


@LIBRARY.scenario("nack-requeue-order")
def nack_requeue_order(ctx):
    connection, watcher, queue = filled(ctx, 5)
    channel = connection.channel()
    consumer = Consumer(channel, queue)
    consumer.wait(5)
    consumer.stop()
    channel.basic_nack(3, requeue=True)
    wait_ready(watcher, queue, 1)
    channel.basic_nack(0, multiple=True, requeue=True)
    wait_ready(watcher, queue, 5)
    equal(with_redelivered(get_all(watcher, queue)), [(body, True) for body in numbers(5)])


@LIBRARY.scenario("nack-discard")
def nack_discard(ctx):
    connection, watcher, queue = filled(ctx, 3)
    channel = connection.channel()
    Consumer(channel, queue).wait(3)
    channel.basic_nack(3, multiple=True, requeue=False)
    channel.close()
    equal(bodies(watcher, queue), [])


@LIBRARY.scenario("reject-requeue")
def reject_requeue(ctx):
    connection, _, queue = filled(ctx, 2)
    channel = connection.channel()
    first, _, body = channel.basic_get(queue)
    equal((body, first.redelivered), (b"0", False))
    channel.basic_reject(first.delivery_tag, requeue=True)
    again, _, body = channel.basic_get(queue)
    equal((body, again.redelivered, again.delivery_tag), (b"0", True, 2))


@LIBRARY.scenario("reject-discard")
def reject_discard(ctx):
    connection, watcher, queue = filled(ctx, 1)
    channel = connection.channel()
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.close()
    equal(bodies(watcher, queue), [])


@LIBRARY.scenario("basic-get")
def basic_get(ctx):
    connection, watcher, queue = filled(ctx, 3)
    channel = connection.channel()
    method, _, body = channel.basic_get(queue)
    equal((body, method.message_count, method.redelivered), (b"0", 2, False))
    method, _, body = channel.basic_get(queue, auto_ack=True)
    equal((body, method.message_count), (b"1", 1))
    channel.close()
    wait_ready(watcher, queue, 2)
    equal(with_redelivered(get_all(watcher, queue)), [(b"0", True), (b"2", False)])


@LIBRARY.scenario("basic-get-empty")
def basic_get_empty(ctx):
    channel = connect(ctx).channel()
    queue = declared(ctx, channel)
    equal(channel.basic_get(queue), (None, None, None))


@LIBRARY.scenario("basic-recover")
def basic_recover(ctx):
    connection, watcher, queue = filled(ctx, 3)
    channel = connection.channel()
    for _ in range(3):
        channel.basic_get(queue)
    channel.basic_recover(requeue=True)
    wait_ready(watcher, queue, 3)
    equal(with_redelivered(get_all(watcher, queue)), [(body, True) for body in numbers(3)])


@LIBRARY.scenario("unknown-delivery-tag-406")
def unknown_delivery_tag(ctx):
    connection, _, queue = filled(ctx, 1)
    with closes_channel(connection, 406, "PRECONDITION_FAILED - unknown delivery tag 99"):
        channel = connection.channel()
        channel.basic_ack(99)
        channel.queue_declare(queue, passive=True)
    with closes_channel(connection, 406, "PRECONDITION_FAILED - unknown delivery tag 1"):
        channel = connection.channel()
        channel.basic_get(queue)
        channel.basic_ack(1)
        channel.basic_ack(1)
        channel.queue_declare(queue, passive=True)


@LIBRARY.scenario("consumer-cancel")
def consumer_cancel(ctx):
    connection, watcher, queue = filled(ctx, 4)
    channel = connection.channel()
    channel.basic_qos(prefetch_count=2)
    consumer = Consumer(channel, queue)
    consumer.wait(2)
    consumer.stop()
    channel.basic_ack(1)
    channel.basic_ack(2)
    channel.basic_qos(prefetch_count=1)  # a round trip: the acks have been read and accepted
    equal(ready(watcher, queue), 2)
    equal(len(consumer.messages), 2)


@LIBRARY.scenario("consumer-cancel-notify")
def consumer_cancel_notify(ctx):
    connection = connect(ctx)
    channel = connection.channel()
    queue = declared(ctx, channel)
    consumer = Consumer(channel, queue)
    connection.channel().queue_delete(queue)
    wait_until(lambda: consumer.cancelled, "basic.cancel from the server", step=consumer.pump)
    equal(consumer.cancelled[0].method.consumer_tag, consumer.tag)
    channel.queue_declare(declared(ctx, channel, "other"), passive=True)


@LIBRARY.scenario("consumer-exclusive-403")
def consumer_exclusive(ctx):
    connection = connect(ctx)
    channel = connection.channel()
    shared, owned = declared(ctx, channel, "shared"), declared(ctx, channel, "owned")
    Consumer(channel, shared)
    Consumer(channel, owned, exclusive=True)
    for queue, options in ((shared, {"exclusive": True}), (owned, {})):
        text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
        with closes_channel(connection, 403, text):
            Consumer(connection.channel(), queue, **options)


@LIBRARY.scenario("consumer-priority")
def consumer_priority(ctx):
    connection = connect(ctx)
    watcher = confirming(connection)
    queue = declared(ctx, watcher)
    low_channel, high_channel = connection.channel(), connection.channel()
    for channel in (low_channel, high_channel):
        channel.basic_qos(prefetch_count=2)
    low = Consumer(low_channel, queue, arguments={"x-priority": 1})
    high = Consumer(high_channel, queue, arguments={"x-priority": 10})
    publish(watcher, queue, *numbers(6))
    high.wait(2)
    low.wait(2)
    equal((high.bodies(), low.bodies()), ([b"0", b"1"], [b"2", b"3"]))
    equal(ready(watcher, queue), 2)
    high_channel.basic_ack(1)
    high.wait(3)
    equal((high.bodies()[2], len(low.messages)), (b"4", 2))


@LIBRARY.scenario("consumer-tag-server-made")
def consumer_tag_server_made(ctx):
    """The blocking adapter always makes its own tag; the frame below it may leave the tag to the server."""
    connection = connect(ctx)
    channel = connection.channel()
    queue = declared(ctx, channel)
    answers = []
    consume = pika.spec.Basic.Consume(queue=queue, consumer_tag="")
    channel._impl._rpc(consume, answers.append, [pika.spec.Basic.ConsumeOk])
    wait_until(lambda: answers, "consume-ok", step=lambda: connection.process_data_events(0.05))
    starts(answers[0].method.consumer_tag, "amq.ctag-")


@LIBRARY.scenario("direct-reply-to")
def direct_reply_to(ctx):
    connection = connect(ctx)
    client, server = connection.channel(), connection.channel()
    queue = declared(ctx, server)
    replies = Consumer(client, "amq.rabbitmq.reply-to", auto_ack=True)
    requests = Consumer(server, queue, auto_ack=True)
    properties = pika.BasicProperties(reply_to="amq.rabbitmq.reply-to", correlation_id="c-1")
    publish(client, queue, b"request", properties=properties)
    ((_, received, _),) = requests.wait(1)
    starts(received.reply_to, "amq.rabbitmq.reply-to.")
    answer = pika.BasicProperties(correlation_id=received.correlation_id)
    publish(server, received.reply_to, b"reply", properties=answer)
    ((_, received, body),) = replies.wait(1)
    equal((body, received.correlation_id), (b"reply", "c-1"))
