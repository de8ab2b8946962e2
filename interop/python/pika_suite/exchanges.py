"""Exchanges and routing."""

import pika

from harness import equal
from pika_suite.client import LIBRARY, bodies, closes_channel, confirming, connect, get_all, keys, publish


def headers(**values):
    return pika.BasicProperties(headers=values, delivery_mode=2)


def bound_queue(ctx, channel, exchange, suffix, *routing_keys, arguments=None):
    queue = ctx.name(suffix)
    channel.queue_declare(queue, durable=True)
    for routing_key in routing_keys:
        channel.queue_bind(queue, exchange, routing_key, arguments)
    return queue


def exchange_of(ctx, channel, kind, suffix="x", **options):
    exchange = ctx.name(suffix)
    channel.exchange_declare(exchange, kind, durable=True, **options)
    return exchange


@LIBRARY.scenario("exchange-direct")
def direct(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "direct")
    first = bound_queue(ctx, channel, exchange, "q1", "a")
    second = bound_queue(ctx, channel, exchange, "q2", "a", "b")
    for key in ("a", "b", "c"):
        publish(channel, key, key, exchange=exchange)
    equal(bodies(channel, first), [b"a"])
    equal(bodies(channel, second), [b"a", b"b"])


@LIBRARY.scenario("exchange-fanout")
def fanout(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "fanout")
    queues = [bound_queue(ctx, channel, exchange, "q1", "one"), bound_queue(ctx, channel, exchange, "q2", "two")]
    publish(channel, "three", b"1", exchange=exchange)
    publish(channel, "", b"2", exchange=exchange)
    for queue in queues:
        equal(bodies(channel, queue), [b"1", b"2"])


@LIBRARY.scenario("exchange-topic")
def topic(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "topic")
    published = ["a.b.c", "a..c", "a", "a.b.c.d", "", "x"]
    expected = {
        "a.*.c": ["a.b.c", "a..c"],
        "a.#": ["a.b.c", "a..c", "a", "a.b.c.d"],
        "#": published,
        "*": ["a", "x"],
    }
    queues = {
        pattern: bound_queue(ctx, channel, exchange, f"q{index}", pattern) for index, pattern in enumerate(expected)
    }
    for key in published:
        publish(channel, key, b"m", exchange=exchange)
    for pattern, queue in queues.items():
        equal(keys(channel, queue), expected[pattern], f"keys matched by {pattern}")


def headers_case(ctx, bindings, published):
    """Publishes each header set under a number; expects each binding's list of numbers."""
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "headers")
    queues = [
        bound_queue(ctx, channel, exchange, f"q{index}", "", arguments=arguments)
        for index, (arguments, _) in enumerate(bindings)
    ]
    for number, values in enumerate(published, 1):
        publish(channel, "", str(number), exchange=exchange, properties=headers(**values))
    for queue, (arguments, expected) in zip(queues, bindings):
        equal([int(body) for body in bodies(channel, queue)], expected, f"matched by {arguments}")


@LIBRARY.scenario("exchange-headers-all")
def headers_all(ctx):
    published = [{"k": 1, "s": "v"}, {"k": 1}, {"k": "1", "s": "v"}, {"k": 1, "s": "v", "more": True}]
    headers_case(ctx, [({"x-match": "all", "k": 1, "s": "v"}, [1, 4])], published)


@LIBRARY.scenario("exchange-headers-any")
def headers_any(ctx):
    published = [{"k": 1}, {"s": "v"}, {"k": 2, "s": "w"}, {}]
    headers_case(ctx, [({"x-match": "any", "k": 1, "s": "v"}, [1, 2])], published)


@LIBRARY.scenario("exchange-headers-all-with-x")
def headers_all_with_x(ctx):
    bindings = [
        ({"x-match": "all-with-x", "k": 1, "x-tag": "t"}, [1]),
        ({"x-match": "all", "k": 1, "x-tag": "t"}, [1, 2]),
    ]
    headers_case(ctx, bindings, [{"k": 1, "x-tag": "t"}, {"k": 1}])


@LIBRARY.scenario("exchange-headers-any-with-x")
def headers_any_with_x(ctx):
    bindings = [
        ({"x-match": "any-with-x", "k": 1, "x-tag": "t"}, [1, 2]),
        ({"x-match": "any", "k": 1, "x-tag": "t"}, [2]),
    ]
    headers_case(ctx, bindings, [{"x-tag": "t"}, {"k": 1}, {"k": 2}])


@LIBRARY.scenario("exchange-default")
def default_exchange(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue = ctx.name()
    channel.queue_declare(queue, durable=True)
    publish(channel, queue, b"to the queue's name")
    equal(bodies(channel, queue), [b"to the queue's name"])
    with closes_channel(connection, 403, "ACCESS_REFUSED - operation not permitted on the default exchange"):
        channel.queue_bind(queue, "", "another-name")


@LIBRARY.scenario("exchange-alternate")
def alternate(ctx):
    channel = confirming(connect(ctx))
    fallback = exchange_of(ctx, channel, "fanout", "ae")
    exchange = exchange_of(ctx, channel, "direct", arguments={"alternate-exchange": fallback})
    routed = bound_queue(ctx, channel, exchange, "q1", "a")
    unrouted = bound_queue(ctx, channel, fallback, "q2", "")
    publish(channel, "a", b"a", exchange=exchange)
    publish(channel, "b", b"b", exchange=exchange, mandatory=True)  # pika raises UnroutableError on a return
    equal(bodies(channel, routed), [b"a"])
    ((method, _, body),) = get_all(channel, unrouted)
    equal((method.exchange, method.routing_key, body), (exchange, "b", b"b"))


@LIBRARY.scenario("exchange-internal")
def internal(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    inner = exchange_of(ctx, channel, "fanout", "i", internal=True)
    outer = exchange_of(ctx, channel, "direct")
    channel.exchange_bind(inner, outer, "k")
    queue = bound_queue(ctx, channel, inner, "q", "")
    publish(channel, "k", b"through", exchange=outer)
    equal(bodies(channel, queue), [b"through"])
    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{inner}' in vhost '/'"
    with closes_channel(connection, 403, text):
        publish(channel, "k", b"refused", exchange=inner)


@LIBRARY.scenario("exchange-auto-delete")
def auto_delete(ctx):
    connection = connect(ctx)
    channel = connection.channel()
    exchange = exchange_of(ctx, channel, "fanout", auto_delete=True)
    first = bound_queue(ctx, channel, exchange, "q1", "")
    second = bound_queue(ctx, channel, exchange, "q2", "")
    channel.queue_unbind(first, exchange, "")
    channel.exchange_declare(exchange, passive=True)
    channel.queue_unbind(second, exchange, "")
    with closes_channel(connection, 404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        channel.exchange_declare(exchange, passive=True)


@LIBRARY.scenario("exchange-to-exchange")
def exchange_to_exchange(ctx):
    channel = confirming(connect(ctx))
    source = exchange_of(ctx, channel, "topic", "s")
    destination = exchange_of(ctx, channel, "fanout", "d")
    channel.exchange_bind(destination, source, "a.#")
    channel.exchange_bind(source, destination, "a.#")
    queue = bound_queue(ctx, channel, destination, "q", "")
    publish(channel, "a.b", b"yes", exchange=source)
    publish(channel, "z", b"no", exchange=source)
    equal(bodies(channel, queue), [b"yes"])
    channel.exchange_unbind(destination, source, "a.#")
    try:
        publish(channel, "a.b", b"unbound", exchange=source, mandatory=True)
    except pika.exceptions.UnroutableError:
        return
    raise AssertionError("not returned after the unbind")


@LIBRARY.scenario("passive-missing-404")
def passive_missing(ctx):
    connection = connect(ctx)
    queue, exchange = ctx.name("q"), ctx.name("x")
    with closes_channel(connection, 404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        connection.channel().queue_declare(queue, passive=True)
    with closes_channel(connection, 404, f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"):
        connection.channel().exchange_declare(exchange, passive=True)


@LIBRARY.scenario("redeclare-inequivalent-406")
def redeclare_inequivalent(ctx):
    connection = connect(ctx)
    channel = connection.channel()
    queue, exchange = ctx.name("q"), exchange_of(ctx, channel, "direct")
    for _ in range(2):
        channel.queue_declare(queue, durable=True, arguments={"x-message-ttl": 60000})
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost '/': "
        "received '70000' but current is '60000'"
    )
    with closes_channel(connection, 406, text):
        channel.queue_declare(queue, durable=True, arguments={"x-message-ttl": 70000})
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange}' in vhost '/': "
        "received 'fanout' but current is 'direct'"
    )
    with closes_channel(connection, 406, text):
        connection.channel().exchange_declare(exchange, "fanout", durable=True)
