"""Exchange types that are names and arguments to client libraries."""

import json

import pika

from harness import equal, wait_until
from pika_suite.client import (
    LIBRARY,
    Consumer,
    bodies,
    closes_channel,
    confirming,
    connect,
    get_all,
    keys,
    publish,
    ready,
    wait_ready,
)
from pika_suite.exchanges import bound_queue, exchange_of, headers
from pika_suite.rule_policies import set_policy


@LIBRARY.scenario("type-consistent-hash")
def consistent_hash(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = exchange_of(ctx, channel, "x-consistent-hash")
    one = bound_queue(ctx, channel, exchange, "q1", "1")
    three = bound_queue(ctx, channel, exchange, "q2", "3")
    published = [f"key {number}" for number in range(400)]
    for key in published:
        publish(channel, key, b"1", b"2", exchange=exchange)
    homes = {queue: keys(channel, queue) for queue in (one, three)}
    equal(sorted(homes[one] + homes[three]), sorted(published * 2), "keys")
    for queue, found in homes.items():
        equal(found[::2], found[1::2], f"both messages of a key in {queue}")
    assert 0 < len(homes[one]) < len(homes[three])
    late = bound_queue(ctx, channel, exchange, "q3", "2")
    for key in published:
        publish(channel, key, b"3", exchange=exchange)
    moved = set(keys(channel, late))
    assert moved
    for queue, before in homes.items():
        equal(set(keys(channel, queue)), set(before) - moved, "what the new queue did not take")
    with closes_channel(connection, 406, 'PRECONDITION_FAILED - The binding key must be an integer: <<"none">>'):
        channel.queue_bind(late, exchange, "none")


@LIBRARY.scenario("type-consistent-hash-property")
def consistent_hash_property(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = exchange_of(ctx, channel, "x-consistent-hash", arguments={"hash-property": "message_id"})
    queues = [bound_queue(ctx, channel, exchange, f"q{number}", "1") for number in range(2)]
    for number in range(50):
        properties = pika.BasicProperties(message_id=f"message {number}", delivery_mode=2)
        publish(channel, "a", f"{number}", exchange=exchange, properties=properties)
        publish(channel, "b", f"{number}", exchange=exchange, properties=properties)
    for queue in queues:
        found = bodies(channel, queue)
        assert found
        equal(found[::2], found[1::2], "both messages of an id")
    arguments = {"hash-property": "message_id", "hash-header": "user"}
    with closes_channel(connection, 406, "PRECONDITION_FAILED - hash-header and hash-property are mutually exclusive"):
        exchange_of(ctx, channel, "x-consistent-hash", "both", arguments=arguments)


@LIBRARY.scenario("type-modulus-hash")
def modulus_hash(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "x-modulus-hash")
    queues = [bound_queue(ctx, channel, exchange, f"q{number}", "") for number in range(2)]
    published = [f"key {number}" for number in range(100)]
    for key in published:
        publish(channel, key, b"1", b"2", exchange=exchange)
    found = [keys(channel, queue) for queue in queues]
    equal(sorted(found[0] + found[1]), sorted(published * 2), "keys")
    for of_queue in found:
        assert of_queue
        equal(of_queue[::2], of_queue[1::2], "both messages of a key")


def all_delivered(consumers, count):
    """Waits until that many messages were delivered to all together; acknowledges them. Their keys, by consumer."""

    def pump():
        for consumer in consumers:
            consumer.pump()

    wait_until(lambda: sum(len(one.messages) for one in consumers) >= count, f"{count} deliveries", step=pump)
    found = []
    for consumer in consumers:
        found.append([method.routing_key for method, _, _ in consumer.messages])
        consumer.channel.basic_ack(0, multiple=True)
        consumer.pump()
        consumer.messages.clear()
    equal(sum(map(len, found)), count, "deliveries")
    assert all(found), found
    return found


@LIBRARY.scenario("type-sharded")
def sharded(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = exchange_of(ctx, channel, "x-modulus-hash")
    set_policy(ctx, exchange, {"shards-per-node": 2}, "two", apply_to="exchanges")
    # pika would wait for ever for an answer that names the exchange's name as queue.
    listed = ctx.ctl("list_queues", "name").splitlines()
    shards = sorted(name for name in listed if name.startswith(f"sharding: {exchange} - "))
    equal([name[-4:] for name in shards], [" - 0", " - 1"], "shards")
    shards.append(f"{shards[0][:-1]}2")
    ctx.names.extend(shards)
    consumers = [Consumer(connect(ctx).channel(), exchange) for _ in range(2)]
    published = [f"key {number}" for number in range(100)]
    for key in published:
        publish(channel, key, b"1", b"2", exchange=exchange)
    found = all_delivered(consumers, 200)
    equal(sorted(found[0] + found[1]), sorted(published * 2), "keys")
    for of_one in found:
        equal(of_one[::2], of_one[1::2], "both messages of a key")
    set_policy(ctx, exchange, {"shards-per-node": 3}, "three", priority=1, apply_to="exchanges")
    consumers.append(Consumer(connect(ctx).channel(), exchange))
    for key in published:
        publish(channel, key, b"3", exchange=exchange)
    equal(sorted(sum(all_delivered(consumers, 100), [])), sorted(published), "keys")
    equal([ready(channel, shard) for shard in shards], [0, 0, 0], "left")
    with closes_channel(connection, 406, f'PRECONDITION_FAILED - Can\'t delete sharded queue: <<"{exchange}">>'):
        connection.channel().queue_delete(exchange)


@LIBRARY.scenario("type-random")
def random(ctx):
    channel = confirming(connect(ctx))
    for kind in ("x-random", "x-local-random"):
        exchange = exchange_of(ctx, channel, kind, kind)
        queues = [bound_queue(ctx, channel, exchange, f"{kind}.{number}", "") for number in range(2)]
        for number in range(200):
            publish(channel, "key", f"{number}", exchange=exchange)
        found = [len(bodies(channel, queue)) for queue in queues]
        equal(sum(found), 200, kind)
        assert all(found), found


@LIBRARY.scenario("type-recent-history")
def recent_history(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "x-recent-history", arguments={"x-recent-history-length": 3})
    for number in range(1, 5):
        publish(channel, "key", f"{number}", exchange=exchange)
    publish(channel, "key", b"5", exchange=exchange, properties=headers(**{"x-recent-history-no-store": True}))
    queue = bound_queue(ctx, channel, exchange, "q", "")
    equal(bodies(channel, queue), [b"2", b"3", b"4"])


@LIBRARY.scenario("type-jms-topic")
def jms_topic(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "x-jms-topic")
    sql = {"rabbitmq_jms_selector": "colour = 'blue' AND weight BETWEEN 1 AND 10"}
    term = {"rjms_erlang_selector": "{'like',{'ident',<<\"colour\">>},<<\"r%\">>,no_escape}."}
    first = bound_queue(ctx, channel, exchange, "q1", "", arguments=sql)
    second = bound_queue(ctx, channel, exchange, "q2", "", arguments=term)
    for number, (colour, weight) in enumerate([("blue", 5), ("blue", 11), ("red", 5)], 1):
        properties = headers(colour=colour, weight=weight)
        publish(channel, "key", f"{number}", exchange=exchange, properties=properties)
    equal(bodies(channel, first), [b"1"])
    equal(bodies(channel, second), [b"3"])


@LIBRARY.scenario("type-deduplication")
def deduplication(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "x-message-deduplication", arguments={"x-cache-size": 10})
    queue = bound_queue(ctx, channel, exchange, "q", "")
    for number, name in enumerate(["a", "b", "a"], 1):
        properties = headers(**{"x-deduplication-header": name})
        publish(channel, "key", f"{number}", exchange=exchange, properties=properties)
    publish(channel, "key", b"4", b"5", exchange=exchange)
    equal(bodies(channel, queue), [b"1", b"2", b"4", b"5"])


def delayed(delay_ms):
    return headers(**{"x-delay": delay_ms})


@LIBRARY.scenario("type-delayed")
def delayed_message(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = exchange_of(ctx, channel, "x-delayed-message", arguments={"x-delayed-type": "topic"})
    queue = bound_queue(ctx, channel, exchange, "q", "a.*")
    other = bound_queue(ctx, channel, exchange, "other", "#")
    for body, delay_ms in (("late", 300), ("soon", 100), ("cancelled", 3_600_000)):
        publish(channel, "a.b", body, exchange=exchange, properties=delayed(delay_ms))
    publish(channel, "a.b", b"now", exchange=exchange)
    publish(channel, "b", b"also soon", exchange=exchange, properties=delayed(100))
    wait_ready(channel, queue, 3)
    wait_ready(channel, other, 4)
    found = get_all(channel, queue)
    equal([body for _, _, body in found], [b"now", b"soon", b"late"])
    equal([(properties.headers or {}).get("x-delay") for _, properties, _ in found], [None, -100, -300])
    equal(bodies(channel, other)[-1], b"late")
    refused = "PRECONDITION_FAILED - Invalid argument, 'x-delayed-type' must be an existing exchange type"
    with closes_channel(connection, 406, refused):
        exchange_of(ctx, channel, "x-delayed-message", "untyped")


@LIBRARY.scenario("type-delayed-restart")
def delayed_restart(ctx):
    node = ctx.own_node()
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "x-delayed-message", arguments={"x-delayed-type": "direct"})
    queue = bound_queue(ctx, channel, exchange, "q", "key")
    for number in range(100):
        publish(channel, "key", f"{number}", exchange=exchange, properties=delayed(1_500 + 5 * number))
    publish(channel, "key", b"listed", exchange=exchange, properties=delayed(3_600_000))
    node.kill9()
    node.start()
    channel = connect(ctx).channel()
    wait_ready(channel, queue, 100)
    equal(bodies(channel, queue), [str(number).encode() for number in range(100)])
    (waiting,) = json.loads(ctx.ctl("list_delayed_messages", exchange, "--formatter", "json"))
    equal((waiting["routing_key"], waiting["body_bytes"]), ("key", len("listed")))
    ctx.ctl("cancel_delayed_message", exchange, str(waiting["id"]))
    equal(json.loads(ctx.ctl("list_delayed_messages", exchange, "--formatter", "json")), [])
