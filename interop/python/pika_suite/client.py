"""Connections, publishing and expectations in pika's words."""

import contextlib

import pika
import pika.exceptions

from harness import Library, equal, starts, wait_until

PERSISTENT = pika.BasicProperties(delivery_mode=2)
TRANSIENT = pika.BasicProperties(delivery_mode=1)
BLOCKED_TIMEOUT_S = 20


def parameters(host, port, **options):
    options.setdefault("blocked_connection_timeout", BLOCKED_TIMEOUT_S)
    options.setdefault("credentials", pika.PlainCredentials("guest", "guest"))
    return pika.ConnectionParameters(host=host, port=port, **options)


def connect(ctx, at=None, **options):
    """A connection to the node, or through the relay given as `at`; closed at the scenario's end."""
    at = at or ctx.node
    connection = pika.BlockingConnection(parameters(at.host, at.port, **options))
    ctx.on_end(connection.close)
    return connection


def confirming(connection):
    channel = connection.channel()
    channel.confirm_delivery()
    return channel


def server_version(connection):
    """Major and minor version of RabbitMQ that the node gives as its own."""
    return tuple(int(part) for part in connection._impl.server_properties["version"].split(".")[:2])


def is_leveret(connection):
    return "leveret_version" in connection._impl.server_properties


def clean_up(node, names):
    connection = pika.BlockingConnection(parameters(node.host, node.port))
    channel = connection.channel()
    for name in names:
        channel.queue_delete(name)
        channel.exchange_delete(name)
    connection.close()


LIBRARY = Library("pika", clean_up)


def publish(channel, routing_key, *bodies, exchange="", properties=PERSISTENT, mandatory=False):
    for body in bodies:
        channel.basic_publish(exchange, routing_key, body, properties, mandatory)


def ready(channel, queue):
    return channel.queue_declare(queue, passive=True).method.message_count


def wait_ready(channel, queue, count):
    wait_until(lambda: ready(channel, queue) == count, f"{count} ready in {queue}")


def get_all(channel, queue):
    """Everything ready in the queue, with no-ack, as (method, properties, body)."""
    messages = []
    while True:
        method, properties, body = channel.basic_get(queue, auto_ack=True)
        if method is None:
            return messages
        messages.append((method, properties, body))


def bodies(channel, queue):
    return [body for _, _, body in get_all(channel, queue)]


def keys(channel, queue):
    return [method.routing_key for method, _, _ in get_all(channel, queue)]


class Consumer:
    """Keeps what arrives as (method, properties, body) and notices a cancel by the server."""

    def __init__(self, channel, queue, **options):
        self.channel = channel
        self.messages = []
        self.cancelled = []
        channel.add_on_cancel_callback(self.cancelled.append)
        self.tag = channel.basic_consume(queue, self._on_message, **options)

    def _on_message(self, _channel, method, properties, body):
        self.messages.append((method, properties, body))

    def bodies(self):
        return [body for _, _, body in self.messages]

    def pump(self):
        self.channel.connection.process_data_events(0.05)

    def wait(self, count, deadline_s=10):
        wait_until(lambda: len(self.messages) >= count, f"{count} deliveries", deadline_s, self.pump)
        equal(len(self.messages), count, "deliveries")
        return self.messages

    def stop(self):
        self.channel.basic_cancel(self.tag)


@contextlib.contextmanager
def closes_channel(connection, code, text, prefix=False):
    """The body makes the server close a channel with this code and text; the connection survives."""
    try:
        yield
    except pika.exceptions.ChannelClosedByBroker as closed:
        equal(closed.reply_code, code, "reply code")
        (starts if prefix else equal)(closed.reply_text, text, "reply text")
    else:
        raise AssertionError(f"the channel was not closed with {code} {text}")
    connection.channel().close()


def missing_queue(connection, queue):
    with closes_channel(connection, 404, f"NOT_FOUND - no queue '{queue}' in vhost '/'"):
        connection.channel().queue_declare(queue, passive=True)


class AsyncPublisher:
    """Publishes without waiting over pika's SelectConnection and records returns and raw confirms in order."""

    def __init__(self, ctx, deadline_s=20):
        self.events = []
        self.unsettled = set()
        self._deadline_s = deadline_s
        self._failure = None
        self._parameters = parameters(ctx.node.host, ctx.node.port)

    def run(self, messages):
        """Sends all (exchange, key, body, properties, mandatory) at once; returns when each is settled."""
        self._messages = messages
        self._connection = pika.SelectConnection(
            self._parameters,
            on_open_callback=lambda connection: connection.channel(on_open_callback=self._on_channel),
            on_open_error_callback=self._fail,
            on_close_callback=self._fail,
        )
        self._connection.ioloop.call_later(self._deadline_s, lambda: self._fail(None, "deadline"))
        self._connection.ioloop.start()
        if self._failure is not None:
            raise AssertionError(f"publisher failed with {len(self.unsettled)} unsettled: {self._failure}")
        return self.events

    def _fail(self, _connection, reason):
        if self._failure is None and not self._connection.is_closing:
            self._failure = reason
        self._connection.ioloop.stop()

    def _on_channel(self, channel):
        channel.add_on_close_callback(lambda _channel, reason: self._fail(None, reason) if self.unsettled else None)
        channel.add_on_return_callback(lambda *args: self.events.append(("return", *args[1:])))
        channel.confirm_delivery(self._on_settled, callback=lambda _frame: self._send(channel))

    def _send(self, channel):
        self.unsettled = set(range(1, len(self._messages) + 1))
        for exchange, key, body, properties, mandatory in self._messages:
            channel.basic_publish(exchange, key, body, properties, mandatory)

    def _on_settled(self, frame):
        kind = type(frame.method).__name__.lower()
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        settled = {t for t in self.unsettled if t <= tag} if multiple else {tag}
        self.events.append((kind, tag, multiple))
        if not settled or not settled <= self.unsettled:
            self._fail(None, f"{kind} {tag} multiple={multiple} settles nothing outstanding")
        self.unsettled -= settled
        if not self.unsettled:
            self._connection.close()
            self._connection.ioloop.stop()
