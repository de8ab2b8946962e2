"""Scenarios with RabbitMQ's Python client."""

import asyncio
import contextlib
import datetime
import threading
import uuid

from bench import N_MESSAGES, RECOVERY, Bench, address, clean, numbers, uri
from harness import Library, equal
from rabbitmq_amqp_python_client import (
    AddressHelper,
    AMQPMessagingHandler,
    AmqpMessageRejectedException,
    AsyncEnvironment,
    ConsumerOptions,
    ConsumerSettleStrategy,
    Environment,
    ExchangeSpecification,
    ExchangeToExchangeBindingSpecification,
    ExchangeToQueueBindingSpecification,
    ExchangeType,
    Message,
    MessageProperties,
    OffsetSpecification,
    QuorumConsumerOptions,
    QuorumQueueSpecification,
    StreamConsumerOptions,
    StreamFilterOptions,
    ValidationCodeException,
    symbol,
)

LIBRARY = Library("rabbitmq-amqp", clean)
scenario = LIBRARY.scenario


def accept(outcome, event):
    outcome.accept(event)


class Enough(Exception):
    """Ends a running consumer, which nothing else does."""


class Inbox(AMQPMessagingHandler):
    """Does its steps with each of so many messages."""

    def __init__(self, count, steps=accept):
        super().__init__()
        self.count, self.steps, self.messages = count, steps, []

    def on_amqp_message(self, event):
        self.messages.append(event.message)
        self.steps(self.delivery_context, event)
        if len(self.messages) == self.count:
            raise Enough


def consume(bench, queue, count, steps=accept, options=None):
    """The first `count` messages of a consumer."""
    inbox, connection = Inbox(count, steps), bench.connect()
    consumer = connection.consumer(address(queue), message_handler=inbox, consumer_options=options)
    with contextlib.suppress(Enough):
        consumer.run()
    consumer.close()
    connection.close()
    return inbox.messages


def texts(messages):
    return [bytes(message.body).decode() for message in messages]


def publish(bench, queue, bodies, **properties):
    publisher = bench.connection.publisher(address(queue))
    for body in bodies:
        publisher.publish(Message(body.encode(), **properties))
    publisher.close()


def fails(expected, steps, *arguments):
    try:
        steps(*arguments)
    except expected as error:
        return error
    raise AssertionError(f"no {expected.__name__}")


def goes_through(context, kind, options=None):
    bench = Bench(context)
    queue = bench.queue(kind)
    publish(bench, queue, numbers(0, N_MESSAGES))
    steps = (lambda outcome, event: None) if options else accept
    equal(texts(consume(bench, queue, N_MESSAGES, steps, options)), numbers(0, N_MESSAGES), "bodies")
    bench.wait_ready(queue, 0)


@scenario("publish-consume")
def _(context):
    goes_through(context, "classic")


@scenario("publish-consume-quorum")
def _(context):
    goes_through(context, "quorum")


@scenario("settled-consumer")
def _(context):
    goes_through(context, "classic", ConsumerOptions(ConsumerSettleStrategy.PreSettled))


@scenario("bare-message-is-kept")
def _(context):
    bench = Bench(context)
    queue = bench.queue("quorum")
    identity = uuid.uuid4()
    sent = {"id": identity, "subject": "hares", "correlation_id": "c", "group_id": "warren", "priority": 3}
    properties = {"ears": 2, "soft": True, "name": "leveret"}
    publish(bench, queue, ["hello"], application_properties=properties, annotations={"x-mine": "yes"}, **sent)
    [message] = consume(bench, queue, 1)
    for field, value in sent.items():
        equal(getattr(message, field), value, field)
    equal(message.application_properties, properties, "application properties")
    equal((message.durable, message.first_acquirer, message.delivery_count), (True, True, 0), "header")
    annotations = message.annotations
    equal((annotations["x-mine"], annotations["x-routing-key"]), ("yes", queue), "annotations")


@scenario("outcomes")
def _(context):
    bench = Bench(context)
    queue = bench.queue("quorum")
    publish(bench, queue, ["0"])
    steps = iter(
        [
            lambda outcome, event: outcome.requeue(event),
            lambda outcome, event: outcome.requeue_with_annotations(event, {symbol("x-opt-by"): "python"}),
            accept,
        ]
    )
    messages = consume(bench, queue, 3, lambda outcome, event: next(steps)(outcome, event))
    equal([message.first_acquirer for message in messages], [True, False, False], "first acquirer")
    equal([message.delivery_count for message in messages], [0, 0, 0], "failed deliveries")
    equal(messages[2].annotations["x-opt-by"], "python", "annotation")
    bench.wait_ready(queue, 0)


@scenario("rejected-is-dead-lettered")
def _(context):
    bench = Bench(context)
    dead = bench.queue("quorum", "dead")
    queue = bench.queue("quorum", dead_letter_exchange="", dead_letter_routing_key=dead)
    publish(bench, queue, ["0", "1"])
    steps = iter(
        [
            lambda outcome, event: outcome.discard(event),
            lambda outcome, event: outcome.discard_with_annotations(event, {symbol("x-opt-why"): "enough"}),
        ]
    )
    consume(bench, queue, 2, lambda outcome, event: next(steps)(outcome, event))
    first, second = consume(bench, dead, 2)
    annotations = first.annotations
    found = (annotations["x-first-death-reason"], annotations["x-first-death-queue"])
    equal(found, ("rejected", queue), "annotations")
    equal(second.annotations["x-opt-why"], "enough", "annotation of the consumer")


@scenario("unroutable-is-released")
def _(context):
    publisher = Bench(context).connection.publisher(AddressHelper.exchange_address("amq.direct", context.name("k")))
    context.names.clear()
    error = fails(Exception, publisher.publish, Message(b"lost"))
    equal(type(error).__name__, "SendException", "error")


@scenario("full-queue-rejects")
def _(context):
    bench = Bench(context)
    queue = bench.queue(max_len=1, overflow_behaviour="reject-publish")
    publish(bench, queue, ["0"])
    error = fails(AmqpMessageRejectedException, publish, bench, queue, ["1"])
    assert queue in str(error), f"the refusal names its queue: {error}"


@scenario("anonymous-terminus")
def _(context):
    bench = Bench(context)
    queue = bench.queue()
    publisher = bench.connection.publisher()
    publisher.publish(AddressHelper.message_to_address_helper(Message(b"0"), address(queue)))
    [message] = consume(bench, queue, 1)
    equal((texts([message]), message.address), (["0"], address(queue)), "body, and where it was sent to")


@scenario("replies")
def _(context):
    bench = Bench(context)
    queue = bench.queue()
    inbox = Inbox(1, lambda outcome, event: None)
    options = ConsumerOptions(ConsumerSettleStrategy.DirectReplyTo)
    requester = bench.connect().consumer(message_handler=inbox, consumer_options=options)
    publish(bench, queue, ["ask"], reply_to=requester.address, id="c")
    [request] = consume(bench, queue, 1)
    is_heard = threading.Event()
    responder = threading.Thread(target=respond, args=(bench.connect(), request, is_heard))
    responder.start()
    with contextlib.suppress(Enough):
        requester.run()
    is_heard.set()
    responder.join()
    [reply] = inbox.messages
    equal((texts([reply]), reply.correlation_id), (["answer"], "c"), "reply")


def respond(connection, request, is_heard):
    """Replies until it is heard: a requester has no credit before it runs."""
    publisher = connection.publisher(request.reply_to)
    while not is_heard.wait(0.05):
        publisher.publish(Message(b"answer", correlation_id=request.id))


def first(**filters):
    options = StreamFilterOptions(**filters) if filters else None
    return StreamConsumerOptions(OffsetSpecification.first, options)


@scenario("stream-offsets")
def _(context):
    bench = Bench(context)
    stream = bench.queue("stream")
    publish(bench, stream, numbers(0, 20))
    hour_ago = datetime.datetime.now() - datetime.timedelta(hours=1)
    for options, begin in [(first(), 0), (StreamConsumerOptions(15), 15), (StreamConsumerOptions(hour_ago), 0)]:
        messages = consume(bench, stream, 20 - begin, options=options)
        equal(texts(messages), numbers(begin, 20), "bodies")
        equal(messages[0].annotations["x-stream-offset"], begin, "offset")


@scenario("stream-bloom-filters")
def _(context):
    bench = Bench(context)
    stream = bench.queue("stream")
    for value in ["red", "blue", "", "last"]:
        publish(bench, stream, [value], annotations={"x-stream-filter-value": value} if value else None)
    equal(texts(consume(bench, stream, 2, options=first(values=["red", "last"]))), ["red", "last"], "values")
    options = first(values=["blue", "last"], match_unfiltered=True)
    equal(texts(consume(bench, stream, 3, options=options)), ["blue", "", "last"], "without a value too")


def orders(bench):
    """A stream with a hundred messages, half of them of each continent."""
    stream = bench.queue("stream")
    for number in range(100):
        subject = f"order.{'eu' if number % 2 else 'us'}"
        properties = {"n": number, "colour": "red" if number % 10 else "blue"}
        publish(bench, stream, [str(number)], subject=subject, application_properties=properties)
    return stream


@scenario("property-filters")
def _(context):
    bench = Bench(context)
    stream = orders(bench)
    options = first(message_properties=MessageProperties(subject="&s:.us"), application_properties={"colour": "blue"})
    found = texts(consume(bench, stream, 10, options=options))
    equal(found, [str(number) for number in range(0, 100, 10)], "bodies")


@scenario("sql-filters")
def _(context):
    bench = Bench(context)
    stream = orders(bench)
    options = first(sql="p.subject LIKE '%.eu' AND n > 90")
    equal(texts(consume(bench, stream, 5, options=options)), ["91", "93", "95", "97", "99"], "bodies")


@scenario("active-consumer-is-told")
def _(context):
    bench = Bench(context)
    queue = bench.queue("quorum", single_active_consumer=True)
    told = []
    inbox = Inbox(1)
    options = QuorumConsumerOptions(sac_state_handler=told.append)
    consumer = bench.connect().consumer(address(queue), message_handler=inbox, consumer_options=options)
    publish(bench, queue, ["0"])
    with contextlib.suppress(Enough):
        consumer.run()
    equal(told[:1], [True], "told")


@scenario("management-queues")
def _(context):
    bench = Bench(context)
    management = bench.management
    queue = bench.queue("quorum", "q /%é", max_len=1000)
    publish(bench, queue, numbers(0, 20))
    info = management.queue_info(queue)
    equal((info.name, info.queue_type.value, info.is_durable, info.message_count), (queue, "quorum", True, 20), "queue")
    equal(info.arguments["x-max-length"], 1000, "argument")
    equal(management.purge_queue(queue), 20, "purged")
    management.delete_queue(queue)
    fails(ValidationCodeException, management.queue_info, queue)


@scenario("management-bindings")
def _(context):
    bench = Bench(context)
    management, queue, exchange = bench.management, bench.queue(), context.name("x")
    context.names.remove(exchange)
    management.declare_exchange(ExchangeSpecification(exchange, exchange_type=ExchangeType.topic))
    management.bind(ExchangeToExchangeBindingSpecification("amq.topic", exchange, "a.*"))
    binding = management.bind(ExchangeToQueueBindingSpecification(exchange, queue, "a.#"))
    publisher = bench.connection.publisher(AddressHelper.exchange_address("amq.topic", "a.b"))
    publisher.publish(Message(b"0"))
    management.unbind(binding)
    equal(type(fails(Exception, publisher.publish, Message(b"1"))).__name__, "SendException", "once it is unbound")
    management.delete_exchange(exchange)
    bench.wait_ready(queue, 1)


@scenario("management-refusals")
def _(context):
    bench = Bench(context)
    queue = bench.queue()
    fails(ValidationCodeException, bench.management.bind, ExchangeToQueueBindingSpecification("nowhere", queue, "k"))
    fails(ValidationCodeException, bench.management.declare_queue, QuorumQueueSpecification(queue))
    equal(bench.management.queue_info(queue).queue_type.value, "classic", "type")


@scenario("bad-addresses")
def _(context):
    bench = Bench(context)
    for steps in [bench.connection.publisher, bench.connection.consumer]:
        error = fails(Exception, steps, address("nowhere"))
        assert "amqp:not-found" in str(error), f"condition: {error}"
    bench.queue()


@scenario("refused-logins")
def _(context):
    environment = Environment(uri(context, password="wrong"), recovery_configuration=RECOVERY)
    fails(Exception, environment.connection().dial)


@scenario("async-publish-consume")
def _(context):
    queue = Bench(context).queue()
    inbox = Inbox(10)

    async def steps():
        async with AsyncEnvironment(uri=uri(context)) as environment:
            async with await environment.connection() as connection:
                async with await connection.publisher(address(queue)) as publisher:
                    for body in numbers(0, 10):
                        await publisher.publish(Message(body.encode()))
                consumer = await connection.consumer(address(queue), message_handler=inbox)
                with contextlib.suppress(Enough):
                    await consumer.run()

    asyncio.run(steps())
    equal(texts(inbox.messages), numbers(0, 10), "bodies")


@scenario("restart-kill-9")
def _(context):
    context.own_node()
    bench = Bench(context)
    queue = bench.queue("quorum")
    publish(bench, queue, numbers(0, N_MESSAGES))
    # The client cannot close a connection that is gone.
    bench.environment.close()
    context.node.kill9()
    context.node.start()
    equal(texts(consume(Bench(context), queue, N_MESSAGES)), numbers(0, N_MESSAGES), "bodies")
