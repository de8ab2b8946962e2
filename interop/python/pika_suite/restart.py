"""What survives kill -9 and a clean stop of the node."""

import threading

import pika
import pika.exceptions

from harness import equal, wait_until
from pika_suite.client import (
    LIBRARY,
    PERSISTENT,
    TRANSIENT,
    AsyncPublisher,
    confirming,
    connect,
    get_all,
    missing_queue,
    parameters,
    publish,
)

QUEUE_ARGUMENTS = {"x-max-priority": 3}
RECOVERY_MESSAGES = 1000
KILL_AFTER = 300
RECOVERY_DEADLINE_S = 40


def persistent(number):
    return pika.BasicProperties(delivery_mode=2, headers={"number": number}, message_id=str(number))


def fill_and_restart(ctx, restart):
    """Definitions and messages before the restart; all that must be there after it."""
    names = {kind: ctx.name(kind) for kind in ("outer", "inner", "plain", "arguments", "fleeting")}
    ctx.own_node()
    channel = confirming(connect(ctx))
    channel.exchange_declare(names["outer"], "topic", durable=True)
    channel.exchange_declare(names["inner"], "fanout", durable=True)
    channel.exchange_bind(names["inner"], names["outer"], "a.#")
    channel.queue_declare(names["plain"], durable=True)
    channel.queue_declare(names["arguments"], durable=True, arguments=QUEUE_ARGUMENTS)
    channel.queue_bind(names["arguments"], names["inner"], "")
    channel.queue_declare(names["fleeting"])
    messages = [("", names["plain"], f"body {i}".encode(), persistent(i), False) for i in range(1000)]
    for position in range(200):
        messages.insert(position * 6, ("", names["plain"], b"transient", TRANSIENT, False))
    equal({event[0] for event in AsyncPublisher(ctx).run(messages)}, {"ack"})

    restart()
    connection = connect(ctx)
    channel = confirming(connection)
    received = [(properties, body) for _, properties, body in get_all(channel, names["plain"]) if body != b"transient"]
    equal([body for _, body in received], [f"body {i}".encode() for i in range(1000)], "persistent messages")
    equal([properties for properties, _ in received], [persistent(i) for i in range(1000)], "their properties")
    channel.exchange_declare(names["outer"], passive=True)
    channel.exchange_declare(names["outer"], "topic", durable=True)
    channel.queue_declare(names["arguments"], durable=True, arguments=QUEUE_ARGUMENTS)
    publish(channel, "a.b", b"routed", exchange=names["outer"], properties=PERSISTENT, mandatory=True)
    equal([body for _, _, body in get_all(channel, names["arguments"])], [b"routed"])
    missing_queue(connection, names["fleeting"])


@LIBRARY.scenario("restart-durable-survives")
def durable_survives(ctx):
    def kill_and_start():
        ctx.node.kill9()
        ctx.node.start()

    fill_and_restart(ctx, kill_and_start)


@LIBRARY.scenario("restart-clean-stop-survives")
def clean_stop_survives(ctx):
    def stop_and_start():
        equal(ctx.node.stop(), 0, "exit status after SIGTERM")
        ctx.node.start()

    fill_and_restart(ctx, stop_and_start)


class Reconnecting(threading.Thread):
    """Runs `work(channel)` on a new connection each time the last one was lost, until `done`."""

    def __init__(self, ctx, done):
        super().__init__(daemon=True)
        self.ctx, self.done, self.error = ctx, done, None

    def run(self):
        node = self.ctx.node
        while not self.done.is_set():
            try:
                connection = pika.BlockingConnection(parameters(node.host, node.port, connection_attempts=1))
                self.work(connection)
                connection.close()
            except pika.exceptions.AMQPConnectionError:
                self.done.wait(0.05)  # before the next attempt to connect
            except BaseException as error:
                self.error = error
                self.done.set()


class Publisher(Reconnecting):
    def __init__(self, ctx, queue, done):
        super().__init__(ctx, done)
        self.queue = queue
        self.confirmed = []
        self.attempts = 0

    def work(self, connection):
        channel = confirming(connection)
        while len(self.confirmed) < RECOVERY_MESSAGES:
            self.attempts += 1
            body = f"{len(self.confirmed)}:{self.attempts}"
            channel.basic_publish("", self.queue, body, PERSISTENT)
            self.confirmed.append(body)
        self.done.wait()


class Subscriber(Reconnecting):
    def __init__(self, ctx, queue, done):
        super().__init__(ctx, done)
        self.queue = queue
        self.seen = {}

    def work(self, connection):
        channel = connection.channel()
        channel.basic_qos(prefetch_count=20)
        channel.basic_consume(self.queue, self.on_message)
        while not self.done.is_set():
            connection.process_data_events(0.05)

    def on_message(self, channel, method, _properties, body):
        self.seen.setdefault(body.decode(), []).append(method.redelivered)
        channel.basic_ack(method.delivery_tag)


@LIBRARY.scenario("restart-client-recovery")
def client_recovery(ctx):
    queue = ctx.name()
    node = ctx.own_node()
    connect(ctx).channel().queue_declare(queue, durable=True)
    done = threading.Event()
    ctx.on_end(done.set)
    publisher, subscriber = Publisher(ctx, queue, done), Subscriber(ctx, queue, done)
    publisher.start()
    subscriber.start()

    def check_alive():
        assert publisher.error is None and subscriber.error is None, (publisher.error, subscriber.error)
        done.wait(0.01)

    wait_until(lambda: len(publisher.confirmed) >= KILL_AFTER, "confirms before the kill", 20, check_alive)
    node.kill9()
    node.start()
    wait_until(
        lambda: len(publisher.confirmed) == RECOVERY_MESSAGES and subscriber.seen.keys() >= set(publisher.confirmed),
        "every confirmed message consumed",
        RECOVERY_DEADLINE_S,
        check_alive,
    )
    for body, flags in subscriber.seen.items():
        assert all(flags[1:]), f"message {body} came again without redelivered: {flags}"
