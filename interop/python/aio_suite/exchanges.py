"""Exchanges and routing."""

from aio_suite.client import (
    bodies,
    closes_channel,
    confirming,
    connect,
    declared,
    get_all,
    missing_queue,
    publish,
    returned,
    scenario,
)
from harness import equal


async def exchange_of(ctx, channel, kind, suffix="x", **options):
    return await channel.declare_exchange(ctx.name(suffix), kind, durable=True, **options)


async def bound_queue(ctx, channel, exchange, suffix, *routing_keys, arguments=None):
    queue = await declared(ctx, channel, suffix)
    for routing_key in routing_keys:
        await queue.bind(exchange, routing_key, arguments=arguments)
    return queue


@scenario("exchange-direct")
async def direct(ctx):
    channel = await confirming(await connect(ctx))
    exchange = await exchange_of(ctx, channel, "direct")
    first = await bound_queue(ctx, channel, exchange, "q1", "a")
    second = await bound_queue(ctx, channel, exchange, "q2", "a", "b")
    for key in ("a", "b", "c"):
        await publish(exchange, key, key.encode())
    equal(await bodies(channel, first), [b"a"])
    equal(await bodies(channel, second), [b"a", b"b"])


@scenario("exchange-fanout")
async def fanout(ctx):
    channel = await confirming(await connect(ctx))
    exchange = await exchange_of(ctx, channel, "fanout")
    first = await bound_queue(ctx, channel, exchange, "q1", "one")
    second = await bound_queue(ctx, channel, exchange, "q2", "two")
    await publish(exchange, "three", b"1")
    await publish(exchange, "", b"2")
    for queue in (first, second):
        equal(await bodies(channel, queue), [b"1", b"2"])


@scenario("exchange-topic")
async def topic(ctx):
    channel = await confirming(await connect(ctx))
    exchange = await exchange_of(ctx, channel, "topic")
    published = ["a.b.c", "a..c", "a", "a.b.c.d", "", "x"]
    expected = {
        "a.*.c": ["a.b.c", "a..c"],
        "a.#": ["a.b.c", "a..c", "a", "a.b.c.d"],
        "#": published,
        "*": ["a", "x"],
    }
    queues = {}
    for index, pattern in enumerate(expected):
        queues[pattern] = await bound_queue(ctx, channel, exchange, f"q{index}", pattern)
    for key in published:
        await publish(exchange, key, b"m")
    for pattern, queue in queues.items():
        keys = [message.routing_key for message in await get_all(channel, queue)]
        equal(keys, expected[pattern], f"keys matched by {pattern}")


async def headers_case(ctx, bindings, published):
    """Publishes each header set under a number; expects each binding's list of numbers."""
    channel = await confirming(await connect(ctx))
    exchange = await exchange_of(ctx, channel, "headers")
    queues = [
        await bound_queue(ctx, channel, exchange, f"q{index}", "", arguments=arguments)
        for index, (arguments, _) in enumerate(bindings)
    ]
    for number, headers in enumerate(published, 1):
        await publish(exchange, "", str(number).encode(), headers=headers)
    for queue, (arguments, expected) in zip(queues, bindings):
        equal([int(body) for body in await bodies(channel, queue)], expected, f"matched by {arguments}")


@scenario("exchange-headers-all")
async def headers_all(ctx):
    published = [{"k": 1, "s": "v"}, {"k": 1}, {"k": "1", "s": "v"}, {"k": 1, "s": "v", "more": True}]
    await headers_case(ctx, [({"x-match": "all", "k": 1, "s": "v"}, [1, 4])], published)


@scenario("exchange-headers-any")
async def headers_any(ctx):
    published = [{"k": 1}, {"s": "v"}, {"k": 2, "s": "w"}, {}]
    await headers_case(ctx, [({"x-match": "any", "k": 1, "s": "v"}, [1, 2])], published)


@scenario("exchange-headers-all-with-x")
async def headers_all_with_x(ctx):
    bindings = [
        ({"x-match": "all-with-x", "k": 1, "x-tag": "t"}, [1]),
        ({"x-match": "all", "k": 1, "x-tag": "t"}, [1, 2]),
    ]
    await headers_case(ctx, bindings, [{"k": 1, "x-tag": "t"}, {"k": 1}])


@scenario("exchange-headers-any-with-x")
async def headers_any_with_x(ctx):
    bindings = [
        ({"x-match": "any-with-x", "k": 1, "x-tag": "t"}, [1, 2]),
        ({"x-match": "any", "k": 1, "x-tag": "t"}, [2]),
    ]
    await headers_case(ctx, bindings, [{"x-tag": "t"}, {"k": 1}, {"k": 2}])


@scenario("exchange-default")
async def default_exchange(ctx):
    connection = await connect(ctx)
    channel = await confirming(connection)
    queue = await declared(ctx, channel)
    await publish(channel.default_exchange, queue.name, b"to the queue's name")
    equal(await bodies(channel, queue), [b"to the queue's name"])

    async def bind(victim):
        await (await victim.get_queue(queue.name, ensure=False)).bind("", "another-name")

    await closes_channel(connection, 403, "ACCESS_REFUSED - operation not permitted on the default exchange", bind)


@scenario("exchange-alternate")
async def alternate(ctx):
    channel = await confirming(await connect(ctx))
    fallback = await exchange_of(ctx, channel, "fanout", "ae")
    exchange = await exchange_of(ctx, channel, "direct", arguments={"alternate-exchange": fallback.name})
    routed = await bound_queue(ctx, channel, exchange, "q1", "a")
    unrouted = await bound_queue(ctx, channel, fallback, "q2", "")
    await publish(exchange, "a", b"a")
    equal(returned(await publish(exchange, "b", b"b", mandatory=True)), False, "returned")
    equal(await bodies(channel, routed), [b"a"])
    (message,) = await get_all(channel, unrouted)
    equal((message.exchange, message.routing_key, message.body), (exchange.name, "b", b"b"))


@scenario("exchange-internal")
async def internal(ctx):
    connection = await connect(ctx)
    channel = await confirming(connection)
    inner = await exchange_of(ctx, channel, "fanout", "i", internal=True)
    outer = await exchange_of(ctx, channel, "direct")
    await inner.bind(outer, "k")
    queue = await bound_queue(ctx, channel, inner, "q", "")
    await publish(outer, "k", b"through")
    equal(await bodies(channel, queue), [b"through"])

    async def refused(victim):
        await publish(await victim.get_exchange(inner.name, ensure=False), "k", b"refused")

    text = f"ACCESS_REFUSED - cannot publish to internal exchange '{inner.name}' in vhost '/'"
    await closes_channel(connection, 403, text, refused)


@scenario("exchange-auto-delete")
async def auto_delete(ctx):
    connection = await connect(ctx)
    channel = await confirming(connection)
    exchange = await exchange_of(ctx, channel, "fanout", auto_delete=True)
    first = await bound_queue(ctx, channel, exchange, "q1", "")
    second = await bound_queue(ctx, channel, exchange, "q2", "")
    await first.unbind(exchange, "")
    await channel.get_exchange(exchange.name)
    await second.unbind(exchange, "")
    text = f"NOT_FOUND - no exchange '{exchange.name}' in vhost '/'"
    await closes_channel(connection, 404, text, lambda victim: victim.get_exchange(exchange.name))


@scenario("exchange-to-exchange")
async def exchange_to_exchange(ctx):
    channel = await confirming(await connect(ctx))
    source = await exchange_of(ctx, channel, "topic", "s")
    destination = await exchange_of(ctx, channel, "fanout", "d")
    await destination.bind(source, "a.#")
    await source.bind(destination, "a.#")
    queue = await bound_queue(ctx, channel, destination, "q", "")
    await publish(source, "a.b", b"yes")
    await publish(source, "z", b"no")
    equal(await bodies(channel, queue), [b"yes"])
    await destination.unbind(source, "a.#")
    equal(returned(await publish(source, "a.b", b"unbound", mandatory=True)), True, "returned after the unbind")


@scenario("passive-missing-404")
async def passive_missing(ctx):
    connection = await connect(ctx)
    await missing_queue(connection, ctx.name("q"))
    exchange = ctx.name("x")
    text = f"NOT_FOUND - no exchange '{exchange}' in vhost '/'"
    await closes_channel(connection, 404, text, lambda victim: victim.get_exchange(exchange))


@scenario("redeclare-inequivalent-406")
async def redeclare_inequivalent(ctx):
    connection = await connect(ctx)
    channel = await confirming(connection)
    exchange = await exchange_of(ctx, channel, "direct")
    queue = ctx.name("q")

    def declare(on, ttl):
        return on.declare_queue(queue, durable=True, arguments={"x-message-ttl": ttl})

    await declare(channel, 60000)
    await declare(channel, 60000)
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'x-message-ttl' for queue '{queue}' in vhost '/': "
        "received '70000' but current is '60000'"
    )
    await closes_channel(connection, 406, text, lambda victim: declare(victim, 70000))
    text = (
        f"PRECONDITION_FAILED - inequivalent arg 'type' for exchange '{exchange.name}' in vhost '/': "
        "received 'fanout' but current is 'direct'"
    )
    work = lambda victim: victim.declare_exchange(exchange.name, "fanout", durable=True)  # noqa: E731
    await closes_channel(connection, 406, text, work)
