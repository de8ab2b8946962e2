"""Quorum queues: what RabbitMQ's own suite asks of one with a single member."""

import contextlib
import json
import random

import pika
import pika.exceptions

from harness import Skip, equal, wait_until
from pika_suite.client import (
    LIBRARY,
    Consumer,
    bodies,
    closes_channel,
    confirming,
    connect,
    get_all,
    is_leveret,
    publish,
    ready,
    wait_ready,
)
from pika_suite.consuming import numbers
from pika_suite.publishing import declared
from pika_suite.rule_consumers import pump_until
from pika_suite.rule_expiry import SOON_MS, lasting, reasons, unroutable, with_dead_letters
from pika_suite.rule_lengths import refused

SINGLE_ACTIVE = {"x-single-active-consumer": True}
RETRY_MS = 200


def quorum(ctx, channel, suffix="q", arguments=None, **options):
    return declared(ctx, channel, suffix, arguments={"x-queue-type": "quorum", **(arguments or {})}, **options)


def with_priority(value):
    return pika.BasicProperties(delivery_mode=2, priority=value)


def opened(ctx, **arguments):
    """A connection, a confirming channel of it, and a queue with these arguments (underscores for dashes)."""
    connection = connect(ctx)
    channel = confirming(connection)
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return connection, channel, quorum(ctx, channel, arguments=named)


@LIBRARY.scenario("quorum-declare-refused-406")
def declare_refused(ctx):
    connection = connect(ctx)
    queue = ctx.name()
    arguments = {"x-queue-type": "quorum"}
    for options, named in (
        ({"durable": False}, "non-durable"),
        ({"durable": True, "auto_delete": True}, "auto-delete"),
        ({"durable": True, "exclusive": True}, "exclusive-owner"),
    ):
        text = f"PRECONDITION_FAILED - invalid property '{named}' for queue '{queue}' in vhost '/'"
        with closes_channel(connection, 406, text):
            connection.channel().queue_declare(queue, arguments=arguments, **options)
    text = "PRECONDITION_FAILED - Cannot declare a server-named queue for type rabbit_quorum_queue"
    with closes_channel(connection, 406, text):
        connection.channel().queue_declare("", durable=True, arguments=arguments)
    for key, value, why in (
        ("x-max-priority", 5, " of queue type rabbit_quorum_queue"),
        ("x-queue-mode", "lazy", " of queue type rabbit_quorum_queue"),
        ("x-max-length", -5, ": {value_negative,-5}"),
        ("x-consumer-timeout", -1, ": {value_negative,-1}"),
        ("x-consumer-disconnected-timeout", -1, ": {value_negative,-1}"),
    ):
        text = f"PRECONDITION_FAILED - invalid arg '{key}' for queue '{queue}' in vhost '/'{why}"
        with closes_channel(connection, 406, text):
            connection.channel().queue_declare(queue, durable=True, arguments={**arguments, key: value})


@LIBRARY.scenario("quorum-declare-taken")
def declare_taken(ctx):
    channel = connect(ctx).channel()
    for number, (key, value) in enumerate(
        (
            ("x-delayed-retry-type", "sometimes"),
            ("x-dead-letter-strategy", "at-least-once"),
            ("x-quorum-target-group-size", "three"),
            ("x-consumer-disconnected-timeout", 30_000),
            ("x-delivery-limit", -1),
        )
    ):
        quorum(ctx, channel, f"q{number}", {key: value})


@LIBRARY.scenario("quorum-status-and-peek")
def status_and_peek(ctx):
    _, channel, queue = opened(ctx)
    publish(channel, queue, b"low", properties=with_priority(1))
    publish(channel, queue, b"high", properties=with_priority(9))
    [status] = json.loads(ctx.ctl("quorum_status", queue, "--formatter", "json"))
    equal((status["Raft State"], status["Membership"]), ("leader", "voter"))
    rows = json.loads(ctx.ctl("list_queues", "name", "type", "state", "leader", "members", "online", "--formatter", "json"))
    [row] = [row for row in rows if row["name"] == queue]
    node = status["Node Name"]
    equal((row["type"], row["state"], row["leader"]), ("quorum", "running", node))
    equal((row["members"], row["online"]), ([node], [node]))
    for position, body in ((1, "high"), (2, "low")):
        peeked = json.loads(ctx.ctl("peek", queue, str(position), "--formatter", "json"))
        equal(peeked["message"]["payload (max 64 bytes)"], body)
    equal(ready(channel, queue), 2, "peeked messages stay")


def held(ctx, count):
    """A consumer that holds so many messages, of a queue with a limit that they do not reach."""
    connection, channel, queue = opened(ctx, delivery_limit=3)
    publish(channel, queue, *numbers(count))
    consumer = Consumer(connection.channel(), queue)
    consumer.wait(count)
    return consumer


@LIBRARY.scenario("quorum-requeue-multiple")
def requeue_multiple(ctx):
    consumer = held(ctx, 100)
    consumer.channel.basic_nack(100, multiple=True, requeue=True)
    again = consumer.wait(200)[100:]
    equal([(body, method.redelivered) for method, _, body in again], [(body, True) for body in numbers(100)])


@LIBRARY.scenario("quorum-requeue-each")
def requeue_each(ctx):
    consumer = held(ctx, 100)
    tags = random.sample(range(1, 101), 100)
    for tag in tags:
        consumer.channel.basic_nack(tag, requeue=True)
    again = consumer.wait(200)[100:]
    equal([body for _, _, body in again], [numbers(100)[tag - 1] for tag in tags])


@LIBRARY.scenario("quorum-cancel-held")
def cancel_held(ctx):
    connection, channel, queue = opened(ctx)
    publish(channel, queue, *numbers(4))
    holder = connection.channel()
    holder.basic_qos(prefetch_count=3)
    consumer = Consumer(holder, queue, consumer_tag="again")
    consumer.wait(3)
    consumer.stop()
    equal(channel.queue_declare(queue, passive=True).method.consumer_count, 0)
    equal(ready(channel, queue), 1)
    holder.basic_ack(1)
    holder.basic_reject(2, requeue=False)
    holder.basic_reject(3, requeue=True)
    wait_ready(channel, queue, 2)
    again = Consumer(holder, queue, consumer_tag="again")
    equal([body for _, _, body in again.wait(2)], [b"2", b"3"])


@LIBRARY.scenario("quorum-priorities")
def priorities(ctx):
    """Strictly by priority, 4 where there is none; what came back goes before all of them."""
    _, channel, queue = opened(ctx)
    for number, value in enumerate([None, 0, 9, 4, 1, 31, 200, None]):
        publish(channel, queue, str(number), properties=with_priority(value))
    method, _, body = channel.basic_get(queue)
    equal(body, b"5")
    equal([channel.basic_get(queue)[2] for _ in range(2)], [b"6", b"2"])
    channel.basic_nack(0, multiple=True, requeue=True)
    wait_ready(channel, queue, 8)
    equal(bodies(channel, queue), [b"5", b"6", b"2", b"0", b"3", b"7", b"4", b"1"])


@LIBRARY.scenario("quorum-drop-head")
def drop_head(ctx):
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel, queue_type="quorum", max_length=3)
    publish(channel, queue, *numbers(6))
    wait_ready(channel, dead, 3)
    letters = get_all(channel, dead)
    equal(([body for _, _, body in letters], reasons(letters)), (numbers(3), ["maxlen"] * 3))
    equal(bodies(channel, queue), numbers(3, 6))


@LIBRARY.scenario("quorum-reject-publish")
def reject_publish(ctx):
    connection, channel, queue = opened(ctx, max_length=2, overflow="reject-publish")
    if not is_leveret(connection):
        raise Skip("RabbitMQ takes some messages more before its publishers hear that a queue is full")
    equal([refused(channel, queue, body) for body in numbers(4)], [False, False, True, True])
    equal(channel.basic_get(queue, auto_ack=True)[2], b"0")
    assert not refused(channel, queue, b"room again")
    equal(bodies(channel, queue), [b"1", b"room again"])


@LIBRARY.scenario("quorum-purge-and-delete")
def purge_and_delete(ctx):
    connection, channel, queue = opened(ctx)
    publish(channel, queue, *numbers(3))
    channel.basic_get(queue)
    equal(channel.queue_purge(queue).method.message_count, 2)
    channel.basic_nack(1, requeue=True)
    wait_ready(channel, queue, 1)
    if is_leveret(connection):  # elsewhere conditions are not implemented
        text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' not empty"
        with closes_channel(connection, 406, text):
            connection.channel().queue_delete(queue, if_empty=True)
        consumer = Consumer(connection.channel(), queue, auto_ack=True)
        consumer.wait(1)
        text = f"PRECONDITION_FAILED - queue '{queue}' in vhost '/' in use"
        with closes_channel(connection, 406, text):
            connection.channel().queue_delete(queue, if_unused=True)
        consumer.stop()
        wait_ready(channel, queue, 0)
        channel.queue_delete(queue, if_unused=True, if_empty=True)
    else:
        equal(channel.queue_delete(queue).method.message_count, 1)


@LIBRARY.scenario("quorum-ttl-mixed")
def ttl_mixed(ctx):
    """A message without a time before one whose time is over: nobody is given the latter."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue, dead = with_dead_letters(ctx, channel, queue_type="quorum")
    publish(channel, queue, b"stays")
    publish(channel, queue, b"goes", properties=lasting(SOON_MS))
    if is_leveret(connection):
        wait_ready(channel, dead, 1)
    else:
        connection.sleep(SOON_MS / 1000 * 2)  # where only the first in the queue expires
    equal(channel.basic_get(queue, auto_ack=True)[2], b"stays")
    wait_ready(channel, dead, 1)
    equal(reasons(get_all(channel, dead)), ["expired"])


@LIBRARY.scenario("quorum-expires")
def expires(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    unused, used = (quorum(ctx, channel, suffix, {"x-expires": 200}) for suffix in ("unused", "used"))
    consumer = Consumer(connection.channel(), used, auto_ack=True)
    wait_until(lambda: unroutable(channel, unused), "the unused queue gone")
    assert not unroutable(channel, used), "a queue with a consumer expired"
    consumer.stop()
    wait_until(lambda: unroutable(channel, used), "the queue without its consumer gone")


@LIBRARY.scenario("quorum-redelivery-counts")
def redelivery_counts(ctx):
    """Failed deliveries count against the limit, those that were given back untried do not."""
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel, queue_type="quorum", delivery_limit=1)
    publish(channel, queue, b"poison")

    def counts(give_back, **options):
        method, properties, _ = channel.basic_get(queue)
        give_back(method.delivery_tag, requeue=True, **options)
        headers = properties.headers or {}
        return headers.get("x-delivery-count", 0), headers.get("x-acquired-count", 0)

    equal([counts(channel.basic_nack) for _ in range(3)], [(0, 0), (0, 1), (0, 2)])
    equal([counts(channel.basic_reject) for _ in range(2)], [(0, 3), (1, 4)])
    wait_ready(channel, dead, 1)
    equal(reasons(get_all(channel, dead)), ["delivery_limit"])


@LIBRARY.scenario("quorum-dead-letter-order")
def dead_letter_order(ctx):
    channel = confirming(connect(ctx))
    for reason, arguments in (
        ("rejected", {}),
        ("expired", {"message_ttl": SOON_MS}),
        ("delivery_limit", {"delivery_limit": 0}),
    ):
        queue, dead = with_dead_letters(ctx, channel, reason, queue_type="quorum", **arguments)
        publish(channel, queue, *numbers(5))
        if reason != "expired":
            holder = channel.connection.channel()
            while holder.basic_get(queue)[0] is not None:
                pass
            if reason == "rejected":
                holder.basic_nack(0, multiple=True, requeue=False)
            else:
                holder.close()
        wait_ready(channel, dead, 5)
        letters = get_all(channel, dead)
        equal(([body for _, _, body in letters], reasons(letters)), (numbers(5), [reason] * 5))


@LIBRARY.scenario("quorum-delayed-retry")
def delayed_retry(ctx):
    channel = confirming(connect(ctx))
    for retried, nack_waits, reject_waits in (
        ("all", True, True),
        ("failed", False, True),
        ("returned", True, False),
        ("disabled", False, False),
    ):
        arguments = {"x-delayed-retry-type": retried, "x-delayed-retry-min": RETRY_MS}
        for give_back, waits in ((channel.basic_nack, nack_waits), (channel.basic_reject, reject_waits)):
            queue = quorum(ctx, channel, f"{retried}.{give_back.__name__}", arguments)
            publish(channel, queue, b"late")
            give_back(channel.basic_get(queue)[0].delivery_tag, requeue=True)
            publish(channel, queue, b"other")
            first = channel.basic_get(queue, auto_ack=True)[2]
            equal(first, b"other" if waits else b"late", f"{retried} {give_back.__name__}")
            wait_ready(channel, queue, 1)


@LIBRARY.scenario("quorum-single-active-takeover")
def single_active_takeover(ctx):
    """The consumer of higher priority waits until the active one holds nothing."""
    connection = connect(ctx)
    channel = confirming(connection)
    for limit in (20, -1):
        queue = quorum(ctx, channel, f"q{limit}", {**SINGLE_ACTIVE, "x-delivery-limit": limit})
        low = Consumer(connection.channel(), queue, arguments={"x-priority": 1})
        publish(channel, queue, b"0")
        low.wait(1)
        high = Consumer(connection.channel(), queue, arguments={"x-priority": 3})
        publish(channel, queue, b"1")
        low.channel.basic_nack(1, requeue=True)
        equal([(body, method.redelivered) for method, _, body in high.wait(2)], [(b"0", True), (b"1", False)])
        equal(len(low.messages), 1)
        high.channel.close()
        pump_until([low], 3)
        equal(low.bodies(), [b"0", b"0", b"1"])
        low.channel.close()


@LIBRARY.scenario("quorum-single-active-get-405")
def single_active_get(ctx):
    connection, _, queue = opened(ctx, single_active_consumer=True)
    text = f"RESOURCE_LOCKED - cannot obtain access to locked queue '{queue}' in vhost '/'. basic.get operations "
    text += "are not supported by quorum queues with single active consumer"
    with closes_channel(connection, 405, text):
        connection.channel().basic_get(queue)


@LIBRARY.scenario("quorum-exclusive-consumers")
def exclusive_consumers(ctx):
    connection, channel, queue = opened(ctx)
    consumers = [Consumer(connection.channel(), queue, exclusive=True) for _ in range(2)]
    publish(channel, queue, *numbers(4))
    pump_until(consumers, 4)
    equal([len(consumer.messages) for consumer in consumers], [2, 2])


@LIBRARY.scenario("quorum-global-prefetch")
def global_prefetch(ctx):
    """A consumer's own, as long as the node does not permit what it was before."""
    connection, channel, queue = opened(ctx)
    publish(channel, queue, *numbers(4))
    shared = connection.channel()
    shared.basic_qos(prefetch_count=1, global_qos=True)
    consumers = [Consumer(shared, queue) for _ in range(2)]
    pump_until(consumers, 2)
    equal([len(consumer.messages) for consumer in consumers], [1, 1])
    equal(ready(channel, queue), 2)


@LIBRARY.scenario("quorum-consumer-timeout")
def consumer_timeout(ctx):
    connection, channel, queue = opened(ctx, consumer_timeout=300)
    consumer = Consumer(connection.channel(), queue)
    publish(channel, queue, b"forgotten")
    consumer.wait(1)
    wait_until(lambda: consumer.cancelled, "basic.cancel", step=consumer.pump)
    wait_ready(channel, queue, 1)
    holder = connection.channel()
    holder.basic_get(queue)
    text = "PRECONDITION_FAILED - delivery acknowledgement on channel"
    with closes_channel(connection, 406, text, prefix=True), contextlib.suppress(AssertionError):
        wait_until(lambda: not holder.is_open, "the channel is closed", step=lambda: holder.basic_qos(prefetch_count=1))
    wait_ready(channel, queue, 1)
    equal(channel.basic_get(queue, auto_ack=True)[0].redelivered, True)
