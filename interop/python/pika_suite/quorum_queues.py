"""Rules that quorum queues alone have."""

from harness import equal, wait_until
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
from pika_suite.confirm_on import Publisher, redelivered, tag_of
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


@LIBRARY.scenario("quorum-confirm-on")
def confirm_on(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    queue = quorum(ctx, channel, confirm_on="ack")
    publisher.publish(queue, *numbers(4))
    publisher.hears()
    consumer = Consumer(channel, queue)
    messages = consumer.wait(4)
    publisher.hears()
    channel.basic_ack(tag_of(messages[1]), multiple=True)
    publisher.hears(numbers(2))
    channel.basic_nack(tag_of(messages[2]), requeue=True)
    channel.basic_reject(tag_of(messages[3]), requeue=False)
    publisher.hears(numbers(2), [b"3"])
    channel.basic_ack(tag_of(consumer.wait(5)[4]))
    publisher.hears(numbers(3), [b"3"])


@LIBRARY.scenario("quorum-confirm-on-discard")
def confirm_on_discard(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    heard = []

    def refuses(body, act=lambda queue: None, **arguments):
        queue = quorum(ctx, channel, body.decode(), confirm_on="ack", **arguments)
        publisher.publish(queue, body)
        publisher.round_trip()
        act(queue)
        heard.append(body)
        publisher.hears([], heard)

    def fail(queue):
        channel.basic_reject(channel.basic_get(queue)[0].delivery_tag, requeue=True)

    refuses(b"expired", message_ttl=50)
    refuses(b"purged", channel.queue_purge)
    refuses(b"deleted", channel.queue_delete)
    refuses(b"dropped", lambda queue: publish(channel, queue, b"another"), max_length=1)
    refuses(b"tried", fail, delivery_limit=0)
    refuses(b"waited", confirm_timeout=50)


@LIBRARY.scenario("quorum-confirm-on-fanout")
def confirm_on_fanout(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    exchange = exchange_of(ctx, channel, "fanout")
    waiting = quorum(ctx, channel, confirm_on="ack")
    classic = declared(ctx, channel, "classic", arguments={"x-confirm-on": "ack"})
    plain = [declared(ctx, channel, "plain"), quorum(ctx, channel, "quorum")]
    stream = declared(ctx, channel, "stream", arguments={"x-queue-type": "stream"})
    for queue in (waiting, classic, *plain, stream):
        channel.queue_bind(queue, exchange)
    publisher.publish("", b"all", exchange=exchange)
    publisher.hears()
    channel.basic_ack(tag_of(Consumer(channel, waiting).wait(1)[0]))
    publisher.hears()
    channel.basic_ack(tag_of(Consumer(channel, classic).wait(1)[0]))
    publisher.hears([b"all"])


@LIBRARY.scenario("quorum-confirm-on-dead-letter")
def confirm_on_dead_letter(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    dead = quorum(ctx, channel, "dead", confirm_on="ack")
    to = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
    queue = quorum(ctx, channel, confirm_on="ack", **to)
    publisher.publish(queue, b"1", b"2")
    Consumer(channel, queue).wait(2)
    channel.basic_nack(0, multiple=True, requeue=False)
    letters = Consumer(channel, dead).wait(2)
    publisher.hears()
    channel.basic_ack(tag_of(letters[0]))
    channel.basic_reject(tag_of(letters[1]), requeue=False)
    publisher.hears([b"1"], [b"2"])


@LIBRARY.scenario("quorum-confirm-on-direct-406")
def confirm_on_direct(ctx):
    connection = connect(ctx)
    Publisher(ctx)  # skips where nobody confirms after consuming
    text = (
        f"PRECONDITION_FAILED - invalid arg 'x-confirm-on' for queue '{ctx.name('q')}' in vhost '/': "
        "\"quorum queues confirm on enqueue or ack, not on 'ack-direct'\""
    )
    with closes_channel(connection, 406, text):
        quorum(ctx, connection.channel(), confirm_on="ack-direct")


@LIBRARY.scenario("restart-quorum-confirm-on")
def confirm_on_restart(ctx):
    ctx.own_node()
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    queue = quorum(ctx, channel, confirm_on="ack")
    publisher.publish(queue, b"before")
    publisher.hears()
    publish(confirming(connect(ctx)), quorum(ctx, channel, "other"), b"covers it")
    ctx.node.kill9()
    ctx.node.start()
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    publisher.publish(queue, b"after")
    messages = Consumer(channel, queue).wait(2)
    equal(redelivered(messages), [(b"before", True), (b"after", False)])
    channel.basic_ack(0, multiple=True)
    publisher.hears([b"after"])
