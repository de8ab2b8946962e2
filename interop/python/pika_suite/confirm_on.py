"""Publishers that are told once their messages were consumed."""

import itertools
import threading

import pika

from harness import Skip, equal, wait_until
from pika_suite.client import LIBRARY, PERSISTENT, TRANSIENT, Consumer, closes_channel, connect, parameters
from pika_suite.exchanges import exchange_of
from pika_suite.publishing import declared

MODES = ("ack", "ack-direct")


class Publisher:
    """A channel in confirm mode on a thread of its own; keeps the bodies of what was acked and nacked."""

    def __init__(self, ctx):
        self.acked, self.nacked = [], []
        self._last, self._bodies = 0, {}
        self._is_open = threading.Event()
        self._connection = pika.SelectConnection(
            parameters(ctx.node.host, ctx.node.port),
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._on_channel),
            on_open_error_callback=lambda connection, _error: connection.ioloop.stop(),
            on_close_callback=lambda connection, _reason: connection.ioloop.stop(),
        )
        self._thread = threading.Thread(target=self._connection.ioloop.start, daemon=True)
        self._thread.start()
        ctx.on_end(self.close)
        assert self._is_open.wait(10), "the publisher is not open"
        if "leveret_version" not in self._connection.server_properties:
            raise Skip("only Leveret confirms after consuming")

    def _on_channel(self, channel):
        self._channel = channel
        channel.confirm_delivery(self._on_settled, callback=lambda _frame: self._is_open.set())

    def _on_settled(self, frame):
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        settled = sorted(t for t in self._bodies if t <= tag) if multiple else [tag]
        heard = self.acked if type(frame.method).__name__ == "Ack" else self.nacked
        heard.extend(self._bodies.pop(t) for t in settled)

    def _do(self, action):
        self._connection.ioloop.add_callback_threadsafe(action)

    def publish(self, key, *bodies, exchange="", properties=PERSISTENT):
        kinds = itertools.cycle(properties if isinstance(properties, list) else [properties])

        def send():
            for body, kind in zip(bodies, kinds):
                self._last += 1
                self._bodies[self._last] = body
                self._channel.basic_publish(exchange, key, body, kind)

        self._do(send)

    def round_trip(self):
        """What the node had to say before is heard after this."""
        for _ in range(2):
            done = threading.Event()
            self._do(lambda done=done: self._ask(lambda _frame: done.set()))
            assert done.wait(10), "no answer"

    def _ask(self, answered):
        self._channel.exchange_declare("amq.direct", passive=True, callback=answered)

    def hears(self, acked=(), nacked=()):
        """Exactly these were settled, and nothing else is."""
        acked, nacked = list(acked), list(nacked)
        wait_until(
            lambda: len(self.acked) >= len(acked) and len(self.nacked) >= len(nacked),
            f"acks of {acked} and nacks of {nacked}, got {self.acked} and {self.nacked}",
        )
        self.round_trip()
        equal((sorted(self.acked), sorted(self.nacked)), (sorted(acked), sorted(nacked)), "acks and nacks")

    def close(self):
        self._do(self._connection.close)
        self._thread.join(5)


def confirming_on(ctx, channel, mode, suffix="q", **arguments):
    arguments = {f"x-{name.replace('_', '-')}": value for name, value in arguments.items()}
    return declared(ctx, channel, suffix, arguments={"x-confirm-on": mode, **arguments})


def tag_of(message):
    return message[0].delivery_tag


def redelivered(messages):
    return [(body, method.redelivered) for method, _, body in messages]


@LIBRARY.scenario("confirm-on-ack")
def on_ack(ctx):
    for mode in MODES:
        publisher, channel = Publisher(ctx), connect(ctx).channel()
        queue = confirming_on(ctx, channel, mode, mode)
        bodies = [b"0", b"1", b"2", b"3"]
        publisher.publish(queue, *bodies, properties=[PERSISTENT, TRANSIENT])
        publisher.hears()
        messages = Consumer(channel, queue).wait(4)
        publisher.hears()
        channel.basic_ack(tag_of(messages[1]), multiple=True)
        publisher.hears(bodies[:2])
        channel.basic_ack(tag_of(messages[2]))
        publisher.hears(bodies[:3])
        channel.basic_ack(tag_of(messages[3]))
        publisher.hears(bodies)


@LIBRARY.scenario("confirm-on-enqueue")
def on_enqueue(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    publisher.publish(confirming_on(ctx, channel, "enqueue"), b"kept")
    publisher.hears([b"kept"])


@LIBRARY.scenario("confirm-on-requeue")
def requeue(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    queue = confirming_on(ctx, channel, "ack")
    consumer = Consumer(channel, queue)
    publisher.publish(queue, b"back")
    channel.basic_reject(tag_of(consumer.wait(1)[0]), requeue=True)
    channel.basic_nack(tag_of(consumer.wait(2)[1]), requeue=True)
    equal(redelivered(consumer.wait(3)), [(b"back", False), (b"back", True), (b"back", True)])
    publisher.hears()
    channel.basic_ack(tag_of(consumer.messages[2]))
    publisher.hears([b"back"])
    heard = [b"back"]
    for mode in MODES:
        lost = connect(ctx)
        queue = confirming_on(ctx, channel, mode, mode)
        publisher.publish(queue, mode.encode())
        Consumer(lost.channel(), queue).wait(1)
        lost.close()
        other = Consumer(channel, queue)
        equal(redelivered(other.wait(1)), [(mode.encode(), True)])
        publisher.hears(heard)
        channel.basic_ack(tag_of(other.messages[0]))
        heard.append(mode.encode())
        publisher.hears(heard)


@LIBRARY.scenario("confirm-on-discard")
def discard(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    rejecting = confirming_on(ctx, channel, "ack", "rejecting")
    publisher.publish(rejecting, b"rejected")
    consumer = Consumer(channel, rejecting)
    channel.basic_reject(tag_of(consumer.wait(1)[0]), requeue=False)
    publisher.hears([], [b"rejected"])
    publisher.publish(confirming_on(ctx, channel, "ack", "expiring", message_ttl=50), b"expired")
    publisher.hears([], [b"rejected", b"expired"])
    purged = confirming_on(ctx, channel, "ack", "purged")
    publisher.publish(purged, b"purged")
    publisher.hears([], [b"rejected", b"expired"])
    channel.queue_purge(purged)
    publisher.hears([], [b"rejected", b"expired", b"purged"])
    publisher.publish(purged, b"deleted")
    publisher.round_trip()
    channel.queue_delete(purged)
    heard = [b"rejected", b"expired", b"purged", b"deleted"]
    publisher.hears([], heard)
    publisher.publish(confirming_on(ctx, channel, "ack", "dropping", max_length=1), b"dropped", b"stays")
    publisher.hears([], [*heard, b"dropped"])
    refusing = confirming_on(ctx, channel, "ack", "refusing", max_length=1, overflow="reject-publish")
    publisher.publish(refusing, b"taken", b"refused")
    publisher.hears([], [*heard, b"dropped", b"refused"])


@LIBRARY.scenario("confirm-on-limits")
def limits(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    queue = confirming_on(ctx, channel, "ack", "few", confirm_on_max_pending=2)
    publisher.publish(queue, b"1", b"2", b"3")
    publisher.hears([], [b"3"])
    consumer = Consumer(channel, queue)
    channel.basic_ack(tag_of(consumer.wait(2)[0]))
    publisher.hears([b"1"], [b"3"])
    publisher.publish(queue, b"4")
    publisher.hears([b"1"], [b"3"])
    consumer.wait(3)
    queue = confirming_on(ctx, channel, "ack", "small", confirm_on_max_pending_bytes=5)
    publisher.publish(queue, b"1234", b"56")
    publisher.hears([b"1"], [b"3", b"56"])
    queue = confirming_on(ctx, channel, "ack", "served", confirm_on_no_consumer="nack")
    publisher.publish(queue, b"nobody")
    publisher.hears([b"1"], [b"3", b"56", b"nobody"])
    consumer = Consumer(channel, queue)
    publisher.publish(queue, b"somebody")
    channel.basic_ack(tag_of(consumer.wait(1)[0]))
    publisher.hears([b"1", b"somebody"], [b"3", b"56", b"nobody"])


@LIBRARY.scenario("confirm-on-two-queues")
def two_queues(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    exchange = exchange_of(ctx, channel, "fanout")
    queues = [confirming_on(ctx, channel, mode, mode) for mode in MODES]
    for queue in (*queues, declared(ctx, channel, "plain")):
        channel.queue_bind(queue, exchange)
    consumers = [Consumer(channel, queue) for queue in queues]
    publisher.publish("", b"both", exchange=exchange)
    recorded, direct = [consumer.wait(1)[0] for consumer in consumers]
    channel.basic_ack(tag_of(recorded))
    publisher.hears()
    channel.basic_ack(tag_of(direct))
    publisher.hears([b"both"])
    publisher.publish("", b"one", exchange=exchange)
    recorded, direct = [consumer.wait(2)[1] for consumer in consumers]
    channel.basic_reject(tag_of(recorded), requeue=False)
    publisher.hears([b"both"], [b"one"])
    channel.basic_ack(tag_of(direct))
    publisher.hears([b"both"], [b"one"])


@LIBRARY.scenario("confirm-on-dead-letter")
def dead_letter(ctx):
    publisher, channel = Publisher(ctx), connect(ctx).channel()
    dead = confirming_on(ctx, channel, "ack", "dead")
    to = {"dead_letter_exchange": "", "dead_letter_routing_key": dead}
    queue = confirming_on(ctx, channel, "ack", **to)
    publisher.publish(queue, b"1", b"2")
    Consumer(channel, queue).wait(2)
    channel.basic_nack(0, multiple=True, requeue=False)
    letters = Consumer(channel, dead).wait(2)
    publisher.hears()
    channel.basic_ack(tag_of(letters[0]))
    publisher.hears([b"1"])
    channel.basic_reject(tag_of(letters[1]), requeue=False)
    publisher.hears([b"1"], [b"2"])


@LIBRARY.scenario("confirm-on-direct-540")
def direct_540(ctx):
    publisher, connection = Publisher(ctx), connect(ctx)
    channel = connection.channel()
    queue = confirming_on(ctx, channel, "ack-direct")
    publisher.publish(queue, b"1", b"2")
    first = Consumer(channel, queue).wait(2)[0]
    text = (
        f"NOT_IMPLEMENTED - basic.reject and basic.nack are not implemented for queue '{queue}' in vhost '/': "
        "it confirms on ack-direct (x-confirm-on)"
    )
    with closes_channel(connection, 540, text):
        channel.basic_reject(tag_of(first), requeue=True)
        channel.queue_declare(queue, passive=True)
    publisher.hears()
    channel = connection.channel()
    other = Consumer(channel, queue)
    equal(redelivered(other.wait(2)), [(b"1", True), (b"2", True)])
    channel.basic_ack(0, multiple=True)
    publisher.hears([b"1", b"2"])


@LIBRARY.scenario("confirm-on-auto-ack")
def auto_ack(ctx):
    for mode in MODES:
        publisher, channel = Publisher(ctx), connect(ctx).channel()
        queue = confirming_on(ctx, channel, mode, mode)
        publisher.publish(queue, b"1", b"2")
        publisher.hears()
        consumer = Consumer(channel, queue, auto_ack=True)
        consumer.wait(2)
        publisher.hears([b"1", b"2"])
        consumer.stop()
        publisher.publish(queue, b"3")
        publisher.hears([b"1", b"2"])
        equal(channel.basic_get(queue, auto_ack=True)[2], b"3")
        publisher.hears([b"1", b"2", b"3"])


@LIBRARY.scenario("confirm-on-timeout")
def timeout(ctx):
    for mode in MODES:
        publisher, channel, holder = Publisher(ctx), connect(ctx).channel(), connect(ctx).channel()
        queue = confirming_on(ctx, channel, mode, mode, confirm_timeout=300)
        publisher.publish(queue, b"ready")
        publisher.hears([], [b"ready"])
        equal(channel.basic_get(queue)[0], None, "what was refused")
        consumer = Consumer(holder, queue)
        publisher.publish(queue, b"held", b"lost")
        messages = consumer.wait(2)
        publisher.hears([], [b"ready", b"held", b"lost"])
        holder.basic_ack(tag_of(messages[0]))
        holder.close()
        publisher.hears([], [b"ready", b"held", b"lost"])
        equal(channel.basic_get(queue)[0], None, "what came back")


@LIBRARY.scenario("confirm-on-direct-timeout")
def direct_timeout(ctx):
    publisher, connection = Publisher(ctx), connect(ctx)
    channel = connection.channel()
    queue = confirming_on(ctx, channel, "ack-direct", consumer_timeout=500)
    publisher.publish(queue, b"1", b"2")
    consumer = Consumer(channel, queue)
    consumer.wait(2)
    text = (
        "PRECONDITION_FAILED - delivery acknowledgement on channel 1 timed out. Timeout value used: 500 ms. "
        "This timeout value can be configured, see consumers doc guide to learn more"
    )
    with closes_channel(connection, 406, text):
        wait_until(lambda: channel.is_closed, "the end of the channel", 20, consumer.pump)
        raise channel._closing_reason
    publisher.hears()
    channel = connection.channel()
    other = Consumer(channel, queue)
    equal(redelivered(other.wait(2)), [(b"1", True), (b"2", True)])
    channel.basic_ack(0, multiple=True)
    publisher.hears([b"1", b"2"])


@LIBRARY.scenario("restart-confirm-on")
def restart(ctx):
    ctx.own_node()
    for mode in MODES:
        publisher, channel = Publisher(ctx), connect(ctx).channel()
        queue = confirming_on(ctx, channel, mode, mode)
        publisher.publish(queue, b"before")
        publisher.hears()
        ctx.node.kill9()
        ctx.node.start()
        publisher, channel = Publisher(ctx), connect(ctx).channel()
        publisher.publish(queue, b"again")
        publisher.hears()
        consumer = Consumer(channel, queue)
        equal(redelivered(consumer.wait(1)), [(b"again", False)])
        channel.basic_ack(tag_of(consumer.messages[0]))
        publisher.hears([b"again"])
