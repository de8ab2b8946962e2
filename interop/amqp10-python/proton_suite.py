"""Scenarios with qpid-proton; queues are declared by RabbitMQ's client."""

import uuid

from bench import N_MESSAGES, Bench, address, clean, numbers, uri
from harness import WAIT_S, Library, equal
from proton import ConnectionException, Data, Delivery, Described, Message, symbol, ulong
from proton.reactor import AtMostOnce, Filter, ReceiverOption
from proton.utils import BlockingConnection, LinkDetached, SendException
from rabbitmq_amqp_python_client import ExchangeToQueueBindingSpecification

LIBRARY = Library("proton", clean)
scenario = LIBRARY.scenario
OFFSET = "rabbitmq:stream-offset-spec"


def connect(context, **login):
    connection = BlockingConnection(uri(context, **login), timeout=WAIT_S, allowed_mechs="PLAIN")
    context.on_end(connection.close)
    return connection


def begin(context, kind="classic", **settings):
    """A queue, and a connection."""
    bench = Bench(context)
    return bench, bench.queue(kind, **settings), connect(context)


def message(body, **properties):
    return Message(body.encode(), inferred=True, durable=True, **properties)


def publish(connection, target, bodies, **properties):
    sender = connection.create_sender(target)
    for body in bodies:
        sender.send(message(body, **properties))
    sender.close()


def text(received):
    return bytes(received.body).decode()


def take(receiver, count, outcome=Delivery.ACCEPTED):
    """So many messages, with one outcome."""
    messages = []
    for _ in range(count):
        messages.append(receiver.receive())
        if receiver.fetcher.unsettled:
            receiver.settle(outcome)
    return messages


def refusal(steps, *arguments, **options):
    """The condition of a link that is refused or ended."""
    try:
        steps(*arguments, **options)
    except LinkDetached as error:
        return error.condition
    raise AssertionError("no link was detached")


def states(sender, messages):
    """The outcomes of messages."""
    return [sender.send(it, error_states=[]).remote_state for it in messages]


def goes_through(context, kind):
    bench, queue, connection = begin(context, kind)
    publish(connection, address(queue), numbers(0, N_MESSAGES))
    receiver = connection.create_receiver(address(queue), credit=50)
    equal([text(it) for it in take(receiver, N_MESSAGES)], numbers(0, N_MESSAGES), "bodies")
    receiver.close()
    bench.wait_ready(queue, 0)


@scenario("publish-consume")
def _(context):
    goes_through(context, "classic")


@scenario("publish-consume-quorum")
def _(context):
    goes_through(context, "quorum")


@scenario("settled-both-ways")
def _(context):
    _, queue, connection = begin(context)
    sender = connection.create_sender(address(queue), options=AtMostOnce())
    for body in numbers(0, 100):
        sender.send(message(body))
    receiver = connection.create_receiver(address(queue), credit=100, options=AtMostOnce())
    equal([text(it) for it in take(receiver, 100)], numbers(0, 100), "bodies")
    equal(len(receiver.fetcher.unsettled), 0, "unsettled")


@scenario("bare-message-is-kept")
def _(context):
    _, queue, connection = begin(context, "quorum")
    sent = {"id": ulong(7), "correlation_id": uuid.uuid4(), "subject": "hares", "group_id": "warren", "priority": 3}
    properties = {"ears": 2, "soft": True, "name": "leveret"}
    body = [1, "two", {"three": 3}]
    connection.create_sender(address(queue)).send(
        Message(body, durable=True, properties=properties, annotations={symbol("x-mine"): "yes"}, **sent)
    )
    [received] = take(connection.create_receiver(address(queue)), 1)
    for field, value in sent.items():
        equal(getattr(received, field), value, field)
    equal((received.body, received.properties), (body, properties), "body and application properties")
    annotations = received.annotations
    equal((annotations["x-mine"], annotations["x-routing-key"]), ("yes", queue), "annotations")


@scenario("outcomes")
def _(context):
    bench, queue, connection = begin(context, "quorum")
    publish(connection, address(queue), ["0"])
    receiver = connection.create_receiver(address(queue))
    [first] = take(receiver, 1, Delivery.RELEASED)
    [second] = take(receiver, 1, Delivery.MODIFIED)
    receiver.receive()
    failing = receiver.fetcher.unsettled[0]
    failing.local.failed = True
    receiver.settle(Delivery.MODIFIED)
    [last] = take(receiver, 1)
    seen = [(it.first_acquirer, it.delivery_count) for it in (first, second, last)]
    equal(seen, [(True, 0), (False, 0), (False, 1)], "first acquirer and failures")
    receiver.close()
    bench.wait_ready(queue, 0)


@scenario("rejected-is-dead-lettered")
def _(context):
    bench = Bench(context)
    dead = bench.queue(suffix="dead")
    queue = bench.queue(dead_letter_exchange="", dead_letter_routing_key=dead)
    connection = connect(context)
    publish(connection, address(queue), ["0"])
    take(connection.create_receiver(address(queue)), 1, Delivery.REJECTED)
    [letter] = take(connection.create_receiver(address(dead)), 1)
    equal((text(letter), letter.annotations["x-first-death-reason"]), ("0", "rejected"), "dead letter")


@scenario("unroutable-is-released")
def _(context):
    sender = connect(context).create_sender("/exchanges/amq.direct/nowhere")
    equal(states(sender, [message("lost")]), [Delivery.RELEASED], "outcome")
    try:
        sender.send(message("lost"))
        raise AssertionError("no error")
    except SendException as error:
        equal(error.state, Delivery.RELEASED, "outcome")


@scenario("full-queue-rejects")
def _(context):
    _, queue, connection = begin(context, max_len=1, overflow_behaviour="reject-publish")
    sender = connection.create_sender(address(queue))
    sender.send(message("0"))
    refused = sender.send(message("1"), error_states=[])
    equal(refused.remote_state, Delivery.REJECTED, "outcome")
    equal(refused.remote.condition.info["queue"], queue, "queue of the refusal")


@scenario("anonymous-terminus")
def _(context):
    _, queue, connection = begin(context)
    sender = connection.create_sender(None)
    to = [address(queue), None, "q", "/exchanges/nowhere/key", address("nowhere"), address(queue)]
    found = states(sender, [message("m", address=it) for it in to])
    rejected = [Delivery.REJECTED] * 3
    equal(found, [Delivery.ACCEPTED, *rejected, Delivery.RELEASED, Delivery.ACCEPTED], "outcomes")
    received = take(connection.create_receiver(address(queue), credit=2), 2)
    equal([it.address for it in received], [address(queue)] * 2, "where they were sent to")


@scenario("topic-exchange")
def _(context):
    bench, queue, connection = begin(context)
    bench.management.bind(ExchangeToQueueBindingSpecification("amq.topic", queue, "a.*"))
    publish(connection, "/exchanges/amq.topic/a.b%2Fc", ["0"])
    [received] = take(connection.create_receiver(address(queue)), 1)
    equal(received.annotations["x-routing-key"], "a.b/c", "key")


@scenario("large-messages")
def _(context):
    _, queue, connection = begin(context)
    body = "x" * 1_000_000
    publish(connection, address(queue), [body] * 5)
    equal([text(it) == body for it in take(connection.create_receiver(address(queue)), 5)], [True] * 5, "bodies")


@scenario("credit-is-kept-to")
def _(context):
    _, queue, connection = begin(context)
    publish(connection, address(queue), numbers(0, 20))
    receiver = connection.create_receiver(address(queue), credit=7)
    waiting = receiver.fetcher.incoming
    connection.wait(lambda: len(waiting) == 7, timeout=WAIT_S)
    receiver.drain(100)
    connection.wait(lambda: len(waiting) == 20 and not receiver.draining(), timeout=WAIT_S)
    equal([text(it) for it in take(receiver, 20)], numbers(0, 20), "bodies")


class Temporary(ReceiverOption):
    """Asks for a queue that goes with its link."""

    def apply(self, receiver):
        receiver.source.dynamic = True
        capabilities = receiver.source.capabilities
        capabilities.put_array(False, Data.SYMBOL)
        capabilities.enter()
        capabilities.put_symbol("temporary-queue")
        capabilities.exit()


@scenario("temporary-queue")
def _(context):
    connection = connect(context)
    receiver = connection.create_receiver(None, options=Temporary())
    queue = receiver.link.remote_source.address
    sender = connect(context).create_sender(queue)
    sender.send(message("0"))
    equal([text(it) for it in take(receiver, 1)], ["0"], "bodies")
    receiver.close()
    equal(refusal(connection.create_sender, queue), "amqp:not-found", "condition")


class Filters(Filter):
    """Filters by name and descriptor."""

    def __init__(self, *filters):
        super().__init__({symbol(name): Described(symbol(of), value) for name, of, value in filters})


def filtered(connection, stream, *filters):
    options, name = Filters((OFFSET, OFFSET, "first"), *filters), str(uuid.uuid4())
    return connection.create_receiver(address(stream), credit=200, name=name, options=options)


@scenario("stream-offsets")
def _(context):
    _, stream, connection = begin(context, "stream")
    publish(connection, address(stream), numbers(0, 20))
    equal([text(it) for it in take(filtered(connection, stream), 20)], numbers(0, 20), "from the first on")
    options = Filters((OFFSET, OFFSET, ulong(15)))
    receiver = connection.create_receiver(address(stream), credit=20, name="second", options=options)
    received = take(receiver, 5)
    equal((text(received[0]), received[0].annotations["x-stream-offset"]), ("15", 15), "from an offset on")


@scenario("property-filters")
def _(context):
    _, stream, connection = begin(context, "stream")
    sender = connection.create_sender(address(stream))
    for number in range(100):
        subject = f"order.{'eu' if number % 2 else 'us'}"
        sender.send(message(str(number), subject=subject, properties={"n": number}))
    by_subject = ("p", "amqp:properties-filter", {symbol("subject"): "&s:.us"})
    by_number = ("a", "amqp:application-properties-filter", {"n": 42})
    received = take(filtered(connection, stream, by_subject, by_number), 1)
    equal([text(it) for it in received], ["42"], "by properties")
    sql = ("sql-filter", "amqp:sql-filter", "p.subject LIKE '%.eu' AND n > 90")
    received = take(filtered(connection, stream, sql), 5)
    equal([text(it) for it in received], ["91", "93", "95", "97", "99"], "by SQL")


@scenario("lost-client-gives-back")
def _(context):
    bench, queue, connection = begin(context)
    publish(connection, address(queue), numbers(0, 10))
    other = connect(context)
    receiver = other.create_receiver(address(queue), credit=10)
    other.wait(lambda: len(receiver.fetcher.incoming) == 10, timeout=WAIT_S)
    other.close()
    bench.wait_ready(queue, 10)
    again = take(connection.create_receiver(address(queue), credit=10), 10)
    equal([text(it) for it in again], numbers(0, 10), "bodies")
    equal(any(it.first_acquirer for it in again), False, "nobody acquires them first")


@scenario("queue-is-deleted")
def _(context):
    bench, queue, connection = begin(context)
    receiver = connection.create_receiver(address(queue))
    bench.management.delete_queue(queue)
    equal(refusal(receiver.receive), "amqp:resource-deleted", "condition")


@scenario("bad-addresses")
def _(context):
    connection = connect(context)
    equal(refusal(connection.create_receiver, address("nowhere")), "amqp:not-found", "no queue")
    equal(refusal(connection.create_sender, "/exchanges/nowhere/k"), "amqp:not-found", "no exchange")
    equal(refusal(connection.create_sender, "/queue/q"), "amqp:invalid-field", "version 1")


@scenario("refused-logins")
def _(context):
    try:
        connect(context, password="wrong")
    except ConnectionException as error:
        assert "amqp:unauthorized-access" in str(error), f"condition: {error}"
        return
    raise AssertionError("it is let in")


@scenario("restart-kill-9")
def _(context):
    context.own_node()
    bench, queue, connection = begin(context, "quorum")
    publish(connection, address(queue), numbers(0, N_MESSAGES))
    # Connections that are gone are not closed quickly.
    bench.environment.close()
    connection.close()
    context.node.kill9()
    context.node.start()
    receiver = connect(context).create_receiver(address(queue), credit=N_MESSAGES)
    equal([text(it) for it in take(receiver, N_MESSAGES)], numbers(0, N_MESSAGES), "bodies")
