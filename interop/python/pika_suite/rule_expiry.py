"""Messages and queues whose time is over."""

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
from pika_suite.exchanges import bound_queue, exchange_of
from pika_suite.publishing import declared

SOON_MS = 50
LATE_MS = 600_000


def lasting(expiration_ms, **properties):
    return pika.BasicProperties(delivery_mode=2, expiration=str(expiration_ms), **properties)


def with_dead_letters(ctx, channel, suffix="q", **arguments):
    """A queue with these arguments (underscores for dashes), and the queue of its dead letters."""
    exchange = exchange_of(ctx, channel, "fanout", f"{suffix}.x")
    dead = bound_queue(ctx, channel, exchange, f"{suffix}.dead", "")
    named = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    queue = declared(ctx, channel, suffix, arguments={"x-dead-letter-exchange": exchange, **named})
    return queue, dead


def reasons(messages):
    return [properties.headers["x-death"][0]["reason"] for _, properties, _ in messages]


@LIBRARY.scenario("rule-ttl-queue")
def ttl_queue(ctx):
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel, message_ttl=SOON_MS)
    publish(channel, queue, b"1", b"2")
    wait_ready(channel, dead, 2)
    letters = get_all(channel, dead)
    equal([body for _, _, body in letters], [b"1", b"2"])
    equal(reasons(letters), ["expired", "expired"])
    equal(ready(channel, queue), 0)


@LIBRARY.scenario("rule-ttl-message")
def ttl_message(ctx):
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel)
    publish(channel, queue, b"soon", properties=lasting(SOON_MS))
    publish(channel, queue, b"late", properties=lasting(LATE_MS))
    wait_ready(channel, dead, 1)
    ((_, properties, body),) = get_all(channel, dead)
    equal((body, properties.expiration), (b"soon", None))
    equal(properties.headers["x-death"][0]["original-expiration"], str(SOON_MS))
    ((_, properties, body),) = get_all(channel, queue)
    equal((body, properties.expiration), (b"late", str(LATE_MS)))


@LIBRARY.scenario("rule-ttl-smaller-wins")
def ttl_smaller(ctx):
    channel = confirming(connect(ctx))
    short, dead_of_short = with_dead_letters(ctx, channel, "short", message_ttl=SOON_MS)
    long, dead_of_long = with_dead_letters(ctx, channel, "long", message_ttl=LATE_MS)
    publish(channel, short, b"by the queue's", properties=lasting(LATE_MS))
    publish(channel, long, b"by its own", properties=lasting(SOON_MS))
    wait_ready(channel, dead_of_short, 1)
    wait_ready(channel, dead_of_long, 1)


@LIBRARY.scenario("rule-ttl-in-the-middle")
def ttl_in_the_middle(ctx):
    connection = connect(ctx)
    if not is_leveret(connection):
        raise Skip("only the message at the head expires there")
    channel = confirming(connection)
    queue, dead = with_dead_letters(ctx, channel)
    publish(channel, queue, b"head")
    publish(channel, queue, b"middle", properties=lasting(SOON_MS))
    publish(channel, queue, b"tail")
    wait_ready(channel, dead, 1)
    equal(bodies(channel, dead), [b"middle"])
    equal(bodies(channel, queue), [b"head", b"tail"])


@LIBRARY.scenario("rule-ttl-zero")
def ttl_zero(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue, dead = with_dead_letters(ctx, channel, message_ttl=0)
    publish(channel, queue, b"nobody waits")
    wait_ready(channel, dead, 1)
    consumer = Consumer(connection.channel(), queue, auto_ack=True)
    publish(channel, queue, b"somebody waits")
    consumer.wait(1)
    equal(consumer.bodies(), [b"somebody waits"])
    consumer.stop()
    publish(channel, queue, b"nobody again")
    wait_ready(channel, dead, 2)
    equal(bodies(channel, dead), [b"nobody waits", b"nobody again"])


@LIBRARY.scenario("rule-ttl-unacked")
def ttl_unacked(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue, dead = with_dead_letters(ctx, channel, message_ttl=SOON_MS * 4)
    publish(channel, queue, b"held")
    holder = connection.channel()
    method, _, _ = holder.basic_get(queue)
    publish(channel, queue, b"not held")  # its death shows that the time is over for both
    wait_ready(channel, dead, 1)
    equal(bodies(channel, dead), [b"not held"])
    holder.basic_nack(method.delivery_tag, requeue=True)
    wait_ready(channel, dead, 1)
    equal(bodies(channel, dead), [b"held"])


@LIBRARY.scenario("rule-expires")
def expires(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    arguments = {"x-expires": 200}
    unused = declared(ctx, channel, "unused", arguments=arguments)
    used = declared(ctx, channel, "used", arguments=arguments)
    consumer = Consumer(connection.channel(), used, auto_ack=True)
    wait_until(lambda: unroutable(channel, unused), "the unused queue gone")
    assert not unroutable(channel, used), "a queue with a consumer expired"
    consumer.stop()
    wait_until(lambda: unroutable(channel, used), "the queue without its consumer gone")


def unroutable(channel, queue):
    """Whether the queue is gone, asked in a way that does not count as a use of it."""
    try:
        publish(channel, queue, b"still there?", mandatory=True)
    except pika.exceptions.UnroutableError:
        return True
    return False


REFUSED = [
    ({"x-message-ttl": -1}, "x-message-ttl", "{value_negative,-1}"),
    ({"x-message-ttl": "soon"}, "x-message-ttl", '"expected integer, got longstr"'),
    ({"x-expires": 0}, "x-expires", "{value_zero,0}"),
    ({"x-max-length": -1}, "x-max-length", "{value_negative,-1}"),
    ({"x-max-priority": 256}, "x-max-priority", "{max_value_exceeded,256}"),
    ({"x-overflow": "bad"}, "x-overflow", "invalid_overflow"),
    ({"x-dead-letter-routing-key": "k"}, "x-dead-letter-routing-key", "routing_key_but_no_dlx_defined"),
    ({"x-single-active-consumer": "yes"}, "x-single-active-consumer", "{unacceptable_type,longstr}"),
]


@LIBRARY.scenario("rule-arguments-refused-406")
def arguments_refused(ctx):
    connection = connect(ctx)
    queue = ctx.name()
    for arguments, name, why in REFUSED:
        text = f"PRECONDITION_FAILED - invalid arg '{name}' for queue '{queue}' in vhost '/': {why}"
        with closes_channel(connection, 406, text):
            connection.channel().queue_declare(queue, arguments=arguments, durable=True)


@LIBRARY.scenario("rule-ttl-keeps-order")
def ttl_keeps_order(ctx):
    """What was given back stands where it stood, and expires with its time, not later."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue, dead = with_dead_letters(ctx, channel, message_ttl=SOON_MS * 6)
    publish(channel, queue, b"0", b"1", b"2")
    holder = connection.channel()
    for _ in range(2):
        holder.basic_get(queue)
    holder.basic_nack(2, multiple=True, requeue=True)
    wait_ready(channel, dead, 3)
    equal(bodies(channel, dead), [b"0", b"1", b"2"])
