"""Who is given which message, and how often."""

import pika

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
    server_version,
    wait_ready,
)
from pika_suite.consuming import numbers
from pika_suite.publishing import declared
from pika_suite.rule_expiry import reasons, with_dead_letters

SINGLE_ACTIVE = {"x-single-active-consumer": True}


def pump_until(consumers, count):
    """Waits until the consumers were given so many messages together."""

    def step():
        for consumer in consumers:
            consumer.pump()

    wait_until(lambda: sum(len(consumer.messages) for consumer in consumers) >= count, f"{count} deliveries", step=step)


@LIBRARY.scenario("rule-priority")
def priority(ctx):
    channel = confirming(connect(ctx))
    queue = declared(ctx, channel, arguments={"x-max-priority": 5})
    for number, value in enumerate([None, 0, 9, 5, 1, 200, None]):
        publish(channel, queue, str(number), properties=pika.BasicProperties(delivery_mode=2, priority=value))
    messages = get_all(channel, queue)
    equal([body for _, _, body in messages], [b"2", b"3", b"5", b"4", b"0", b"1", b"6"])
    equal([properties.priority for _, properties, _ in messages], [9, 5, 200, 1, None, 0, None])


@LIBRARY.scenario("rule-priority-requeued")
def priority_requeued(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel, arguments={"x-max-priority": 2})
    for number, value in enumerate([1, 2, 1]):
        publish(channel, queue, str(number), properties=pika.BasicProperties(delivery_mode=2, priority=value))
    holder = connection.channel()
    for expected in (b"1", b"0"):
        equal(holder.basic_get(queue)[2], expected)
    holder.basic_nack(2, multiple=True, requeue=True)
    wait_ready(channel, queue, 3)
    equal(bodies(channel, queue), [b"1", b"0", b"2"])


@LIBRARY.scenario("rule-round-robin")
def round_robin(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel)
    consumers = [Consumer(connection.channel(), queue, auto_ack=True) for _ in range(3)]
    publish(channel, queue, *numbers(9))
    pump_until(consumers, 9)
    equal([len(consumer.messages) for consumer in consumers], [3, 3, 3])


@LIBRARY.scenario("rule-single-active-failover")
def single_active(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel, arguments=SINGLE_ACTIVE)
    first, second, third = (Consumer(connection.channel(), queue) for _ in range(3))
    publish(channel, queue, *numbers(2))
    first.wait(2)
    first.stop()
    publish(channel, queue, b"2")
    second.wait(1)
    first.channel.basic_ack(1)  # what it was given stays its own after the cancel
    first.channel.close()
    second.wait(2)
    equal([(body, method.redelivered) for method, _, body in second.messages], [(b"2", False), (b"1", True)])
    second.channel.close()
    third.wait(2)
    equal([(body, method.redelivered) for method, _, body in third.messages], [(b"1", True), (b"2", True)])
    equal(len(first.messages), 2)


@LIBRARY.scenario("rule-single-active-exclusive-403")
def single_active_exclusive(ctx):
    connection = connect(ctx)
    queue = declared(ctx, connection.channel(), arguments=SINGLE_ACTIVE)
    text = f"ACCESS_REFUSED - queue '{queue}' in vhost '/' in exclusive use"
    with closes_channel(connection, 403, text):
        Consumer(connection.channel(), queue, exclusive=True)


@LIBRARY.scenario("rule-consumer-priority-wrong-406")
def consumer_priority_wrong(ctx):
    connection = connect(ctx)
    queue = declared(ctx, connection.channel())
    text = f"PRECONDITION_FAILED - invalid arg 'x-priority' for queue '{queue}' in vhost '/': "
    text += '"expected integer, got longstr"'
    with closes_channel(connection, 406, text):
        Consumer(connection.channel(), queue, arguments={"x-priority": "high"})


@LIBRARY.scenario("rule-delivery-limit")
def delivery_limit(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    kind = {} if is_leveret(connection) else {"queue_type": "quorum"}  # classic queues have no limit there
    queue, dead = with_dead_letters(ctx, channel, delivery_limit=2, **kind)
    publish(channel, queue, b"poison")
    consumer = Consumer(connection.channel(), queue)
    for tries in range(3):
        consumer.wait(tries + 1)
        method, properties, _ = consumer.messages[tries]
        equal((properties.headers or {}).get("x-delivery-count"), tries or None, "x-delivery-count")
        equal(method.redelivered, tries > 0, "redelivered")
        consumer.channel.basic_reject(method.delivery_tag, requeue=True)
    wait_ready(channel, dead, 1)
    letters = get_all(channel, dead)
    equal(reasons(letters), ["delivery_limit"])
    equal(len(consumer.messages), 3)


@LIBRARY.scenario("rule-single-active-keeps")
def single_active_keeps(ctx):
    """In a classic queue the active consumer stays so, whatever the priority of who comes later."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel, arguments=SINGLE_ACTIVE)
    first = Consumer(connection.channel(), queue, auto_ack=True)
    second = Consumer(connection.channel(), queue, auto_ack=True, arguments={"x-priority": 10})
    publish(channel, queue, *numbers(2))
    first.wait(2)
    first.stop()
    publish(channel, queue, b"2")
    second.wait(1)
    equal((first.bodies(), second.bodies()), (numbers(2), [b"2"]))


@LIBRARY.scenario("rule-delayed-retry")
def delayed_retry(ctx):
    connection = connect(ctx)
    if not is_leveret(connection):
        raise Skip("classic queues do not delay there")
    channel = confirming(connection)
    arguments = {"x-delayed-retry-type": "failed", "x-delayed-retry-min": 200, "x-delayed-retry-max": 300}
    queue = declared(ctx, channel, arguments=arguments)
    publish(channel, queue, b"fails")
    consumer = Consumer(connection.channel(), queue)
    ((method, _, _),) = consumer.wait(1)
    consumer.channel.basic_reject(method.delivery_tag, requeue=True)
    publish(channel, queue, b"overtakes", b"is given back")
    messages = consumer.wait(3)
    consumer.channel.basic_nack(messages[2][0].delivery_tag, requeue=True)  # no failure: not delayed
    messages = consumer.wait(5)
    seen = [(body, method.redelivered) for method, _, body in messages]
    given_back = [(b"is given back", False), (b"is given back", True)]
    equal(seen, [(b"fails", False), (b"overtakes", False), *given_back, (b"fails", True)])


def close_at_once(channel):
    """Closes a channel without cancelling its consumers before, as pika does with those it knows of."""
    channel._impl._consumers.clear()
    channel._impl.close()
    wait_until(lambda: channel.is_closed, "the channel closed", step=lambda: channel.connection.process_data_events(0.05))


@LIBRARY.scenario("rule-single-active-order")
def single_active_order(ctx):
    """When the active consumer's channel ends, the next one goes on where it was."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel, arguments=SINGLE_ACTIVE)
    ending, going_on = connect(ctx).channel(), connection.channel()
    ending.basic_qos(prefetch_count=1)
    going_on.basic_qos(prefetch_count=1)
    first, second = Consumer(ending, queue), Consumer(going_on, queue)
    publish(channel, queue, *numbers(3))
    first.wait(1)
    close_at_once(ending)
    for count in range(1, 4):
        second.wait(count)
        going_on.basic_ack(count)
    found = [(body, method.redelivered) for method, _, body in second.messages]
    equal(found, [(b"0", True), (b"1", False), (b"2", False)])


@LIBRARY.scenario("rule-single-active-cancel")
def single_active_cancel(ctx):
    """After a cancel the next one is served at once, whatever the last one still holds."""
    connection = connect(ctx)
    if server_version(connection) < (4, 0):
        raise Skip("the next one waits there until something is published")
    channel = confirming(connection)
    queue = declared(ctx, channel, arguments=SINGLE_ACTIVE)
    consumers = []
    for _ in range(2):
        own = connection.channel()
        own.basic_qos(prefetch_count=1)
        consumers.append(Consumer(own, queue))
    first, second = consumers
    publish(channel, queue, *numbers(2))
    first.wait(1)
    first.stop()
    second.wait(1)
    equal(second.bodies(), [b"1"])
    first.channel.basic_ack(1)


@LIBRARY.scenario("rule-recover-settles-406")
def recover_settles(ctx):
    """What was given back by recover cannot be acknowledged any more."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel)
    publish(channel, queue, b"0")
    for multiple in (False, True):
        holder = connection.channel()
        tag = holder.basic_get(queue)[0].delivery_tag
        holder.basic_recover(requeue=True)
        with closes_channel(connection, 406, f"PRECONDITION_FAILED - unknown delivery tag {tag}"):
            holder.basic_ack(tag, multiple=multiple)
            holder.basic_qos(prefetch_count=1)
    equal(bodies(channel, queue), [b"0"])


@LIBRARY.scenario("rule-channel-close-order")
def channel_close_order(ctx):
    """What the consumers of a channel held comes back in order when it closes."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel)
    closing = connection.channel()
    closing.basic_qos(prefetch_count=2)
    leaving = [Consumer(closing, queue) for _ in range(2)]
    left = Consumer(connection.channel(), queue, arguments={"x-priority": -1})
    publish(channel, queue, *numbers(4))
    pump_until(leaving, 4)
    close_at_once(closing)
    left.wait(4)
    found = [(body, method.redelivered) for method, _, body in left.messages]
    equal(found, [(body, True) for body in numbers(4)])
