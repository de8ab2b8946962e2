"""Rules that quorum queues alone have."""

from harness import equal, wait_until
from pika_suite.client import LIBRARY, Consumer, bodies, confirming, connect, get_all, publish, ready, wait_ready
from pika_suite.consuming import numbers
from pika_suite.exchanges import bound_queue, exchange_of
from pika_suite.publishing import declared
from pika_suite.rule_dead_letters import reject_one
from pika_suite.rule_policies import set_policy

import pika.exceptions


def quorum(ctx, channel, suffix="q", **arguments):
    arguments = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return declared(ctx, channel, suffix, arguments={"x-queue-type": "quorum", **arguments})


def at_least_once(ctx, channel, exchange, **arguments):
    return quorum(
        ctx,
        channel,
        dead_letter_exchange=exchange,
        dead_letter_strategy="at-least-once",
        overflow="reject-publish",
        **arguments,
    )


def is_refused(channel, queue, body):
    try:
        publish(channel, queue, body)
    except pika.exceptions.NackError:
        return True
    return False


def reject_all(connection, queue, count):
    for _ in range(count):
        reject_one(connection, queue)


@LIBRARY.scenario("quorum-at-least-once")
def to_all_types(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = exchange_of(ctx, channel, "fanout")
    classic = bound_queue(ctx, channel, exchange, "classic", "")
    second = quorum(ctx, channel, "quorum")
    stream = declared(ctx, channel, "stream", arguments={"x-queue-type": "stream"})
    for queue in (second, stream):
        channel.queue_bind(queue, exchange)
    queue = at_least_once(ctx, channel, exchange)
    publish(channel, queue, *numbers(3))
    reject_all(connection, queue, 3)
    for target in (classic, second):
        wait_ready(channel, target, 3)
        letters = get_all(channel, target)
        equal([body for _, _, body in letters], numbers(3))
        equal({properties.headers["x-death"][0]["reason"] for _, properties, _ in letters}, {"rejected"})
    reader = connect(ctx).channel()
    reader.basic_qos(prefetch_count=10)
    consumer = Consumer(reader, stream, arguments={"x-stream-offset": "first"})
    consumer.wait(3)
    equal(consumer.bodies(), numbers(3))


@LIBRARY.scenario("quorum-at-least-once-missing")
def missing_exchange(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = ctx.name("exchange")
    queue = at_least_once(ctx, channel, exchange, max_length=2)
    publish(channel, queue, *numbers(2))
    reject_all(connection, queue, 2)
    equal(is_refused(channel, queue, b"one more"), True, "letters count as messages")
    target = bound_to_new(ctx, channel, exchange, queue)
    wait_ready(channel, target, 2)
    equal(bodies(channel, target), numbers(2))
    wait_until(lambda: not is_refused(channel, queue, b"one more"), "room")


def bound_to_new(ctx, channel, exchange, queue):
    """The exchange is there at last, with a queue, and the policy has its letters tried again."""
    channel.exchange_declare(exchange, "fanout", durable=True)
    target = bound_queue(ctx, channel, exchange, "target", "")
    set_policy(ctx, queue, {"delivery-limit": 5})
    return target


@LIBRARY.scenario("quorum-at-least-once-full")
def full_target(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = exchange_of(ctx, channel, "fanout")
    arguments = {"x-max-length": 1, "x-overflow": "reject-publish"}
    target = declared(ctx, channel, "target", arguments=arguments)
    channel.queue_bind(target, exchange)
    queue = at_least_once(ctx, channel, exchange)
    publish(channel, queue, *numbers(2))
    reject_all(connection, queue, 2)
    wait_ready(channel, target, 1)
    equal(bodies(channel, target), numbers(1))
    set_policy(ctx, queue, {"delivery-limit": 5})
    wait_ready(channel, target, 1)
    equal(bodies(channel, target), numbers(2)[1:])


@LIBRARY.scenario("restart-quorum-at-least-once")
def restart(ctx):
    ctx.own_node()
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = ctx.name("exchange")
    queue = at_least_once(ctx, channel, exchange)
    publish(channel, queue, *numbers(100))
    reject_all(connection, queue, 100)
    publish(channel, queue, b"last")  # its confirm covers the rejects
    ctx.node.kill9()
    ctx.node.start()
    channel = confirming(connect(ctx))
    equal(ready(channel, queue), 1)
    target = bound_to_new(ctx, channel, exchange, queue)
    wait_ready(channel, target, 100)
    equal(bodies(channel, target), numbers(100))
