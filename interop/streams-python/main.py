"""Runs the scenarios of interop/STREAMS.md with rstream."""

import asyncio
import contextlib
import os
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import harness
import tls
from harness import WAIT_S, equal
from rstream import (
    AMQPMessage,
    Consumer,
    ConsumerOffsetSpecification,
    FilterConfiguration,
    OffsetNotFound,
    OffsetSpecification,
    OffsetType,
    Producer,
    ServerError,
    SlasMechanism,
    SuperStreamConsumer,
    SuperStreamCreationOption,
    SuperStreamProducer,
    amqp_decoder,
)

N_MESSAGES = 1000
# Who is thrown out is told within this time.
TOLD_S = float(os.environ.get("INTEROP_TOLD_MS", "1000")) / 1000


def address(context):
    node = context.node
    return {"host": node.host, "port": node.stream_port, "username": "guest", "password": "guest"}


def text(message):
    return bytes(message.body).decode()


def numbers(begin, end):
    return [str(number) for number in range(begin, end)]


async def publish(producer, stream, texts, first_id=None, name=None):
    """Sends the texts, with publishing ids from `first_id` on, and waits until each is confirmed."""
    confirmed, done = [], asyncio.Event()

    def on_confirm(status):
        confirmed.append(status.is_confirmed)
        if len(confirmed) == len(texts):
            done.set()

    batch = [AMQPMessage(body=body.encode()) for body in texts]
    for at, message in enumerate(batch):
        message.publishing_id = None if first_id is None else first_id + at
    await producer.send_batch(stream, batch, publisher_name=name, on_publish_confirm=on_confirm)
    await asyncio.wait_for(done.wait(), WAIT_S)
    equal(confirmed, [True] * len(texts), "confirms")


class Reader:
    """What a consumer is given."""

    def __init__(self):
        self.texts, self.arrived = [], asyncio.Event()

    async def take(self, message, _context):
        self.texts.append(text(message))
        self.arrived.set()

    async def wait_for(self, count):
        while len(self.texts) < count:
            self.arrived.clear()
            await asyncio.wait_for(self.arrived.wait(), WAIT_S)
        return self.texts[:count]


async def read(context, stream, count, offset=None, **options):
    """The first `count` texts from the offset on: by default, from the first."""
    reader = Reader()
    offset = offset or ConsumerOffsetSpecification(OffsetType.FIRST)
    async with Consumer(**address(context)) as consumer:
        await consumer.subscribe(
            stream, reader.take, decoder=amqp_decoder, offset_specification=offset, **options
        )
        return await reader.wait_for(count)


@contextlib.asynccontextmanager
async def filled(context, count=N_MESSAGES):
    """A new stream with the texts "0", "1", ..., and its publisher."""
    stream = context.name("s")
    async with Producer(**address(context)) as producer:
        await producer.create_stream(stream)
        if count:
            await publish(producer, stream, numbers(0, count))
        yield producer, stream
        await producer.delete_stream(stream)


def scenario(library, scenario_id):
    def register(steps):
        library.scenario(scenario_id)(lambda context: asyncio.run(steps(context)))
        return steps

    return register


RSTREAM = harness.Library("rstream", lambda node, names: None)


@scenario(RSTREAM, "stream-declare-delete")
async def declare_delete(context):
    stream = context.name("s")
    async with Producer(**address(context)) as producer:
        await producer.create_stream(stream)
        assert await producer.stream_exists(stream), "it is not there"
        try:
            await producer.create_stream(stream, {"max-age": "60s"})
            raise AssertionError("declared again with another argument")
        except ServerError:
            pass
        await producer.delete_stream(stream)
        assert not await producer.stream_exists(stream), "it is there still"


@scenario(RSTREAM, "stream-publish-confirm")
async def publish_confirm(context):
    async with filled(context, 10_000) as (_, stream):
        equal(await read(context, stream, 10_000), numbers(0, 10_000), "messages")


@scenario(RSTREAM, "stream-deduplication")
async def deduplication(context):
    async with filled(context, 0) as (_, stream):
        for begin in (0, 50, 50):
            async with Producer(**address(context)) as producer:
                await publish(producer, stream, numbers(begin, begin + 100), begin, "writer")
        async with Producer(**address(context)) as producer:
            await publish(producer, stream, ["marker"])
        expected = [*numbers(0, 150), "marker"]
        equal(await read(context, stream, len(expected)), expected, "messages")


@scenario(RSTREAM, "stream-filter")
async def filters(context):
    async with filled(context, 0) as (_, stream):
        for region in ("north", "south", "north"):

            async def extract(_, region=region):
                return region

            async with Producer(**address(context), filter_value_extractor=extract) as producer:
                await publish(producer, stream, [region] * 200)
        wanted = FilterConfiguration(values_to_filter=["north"], predicate=lambda _: True)
        texts = await read(context, stream, 400, filter_input=wanted)
        equal(texts, ["north"] * 400, "north alone")


@scenario(RSTREAM, "stream-offset-number")
async def offset_number(context):
    async with filled(context) as (_, stream):
        offset = ConsumerOffsetSpecification(OffsetType.OFFSET, 777)
        texts = await read(context, stream, N_MESSAGES - 777, offset)
        equal(texts, numbers(777, N_MESSAGES), "messages")


@scenario(RSTREAM, "stream-offset-next")
async def offset_next(context):
    async with filled(context) as (producer, stream):
        reader = Reader()
        async with Consumer(**address(context)) as consumer:
            offset = ConsumerOffsetSpecification(OffsetType.NEXT)
            await consumer.subscribe(
                stream, reader.take, decoder=amqp_decoder, offset_specification=offset
            )
            await publish(producer, stream, numbers(N_MESSAGES, N_MESSAGES + 10))
            expected = numbers(N_MESSAGES, N_MESSAGES + 10)
            equal(await reader.wait_for(10), expected, "messages")


@scenario(RSTREAM, "stream-offset-stored")
async def offset_stored(context):
    async with filled(context) as (_, stream):
        async with Consumer(**address(context)) as consumer:
            await consumer.store_offset(stream, "reader", 499)
        async with Consumer(**address(context)) as consumer:
            equal(await consumer.query_offset(stream, "reader"), 499, "stored offset")
        offset = ConsumerOffsetSpecification(OffsetType.OFFSET, 500)
        texts = await read(context, stream, N_MESSAGES - 500, offset, subscriber_name="reader")
        equal(texts, numbers(500, N_MESSAGES), "messages after the stored offset")


@scenario(RSTREAM, "stream-super-hash")
async def super_hash(context):
    name, reader, partitions = context.name("super"), Reader(), {}
    confirmed, done = [], asyncio.Event()

    async def key(message):
        return text(message)

    def on_confirm(status):
        confirmed.append(status.is_confirmed)
        if len(confirmed) == 300:
            done.set()

    async def take(message, message_context):
        partitions[text(message)] = message_context.stream
        await reader.take(message, message_context)

    options = SuperStreamCreationOption(n_partitions=3)
    async with SuperStreamProducer(
        **address(context), super_stream=name, super_stream_creation_option=options,
        routing_extractor=key,
    ) as producer:
        for number in numbers(0, 300):
            await producer.send(AMQPMessage(body=number.encode()), on_publish_confirm=on_confirm)
        await asyncio.wait_for(done.wait(), WAIT_S)
        equal(confirmed, [True] * 300, "confirms")
        async with SuperStreamConsumer(**address(context), super_stream=name) as consumer:
            offset = ConsumerOffsetSpecification(OffsetType.FIRST)
            await consumer.subscribe(take, decoder=amqp_decoder, offset_specification=offset)
            texts = await reader.wait_for(300)
        equal(sorted(texts, key=int), numbers(0, 300), "messages")
        equal(len(set(partitions.values())), 3, "partitions that have messages")
        # One that has published or read has closed the connection that it would delete with.
        async with SuperStreamConsumer(**address(context), super_stream=name) as remover:
            await remover.delete_super_stream(name)
    async with Producer(**address(context)) as producer:
        for partition in range(3):
            assert not await producer.stream_exists(f"{name}-{partition}"), "a partition is left"


class Member:
    """A consumer of a group; it goes on behind what the group has stored."""

    def __init__(self, context, stream):
        self.reader, self.stream, self.active = Reader(), stream, asyncio.Event()
        self.consumer = Consumer(**address(context))

    async def join(self):
        await self.consumer.start()
        properties = {"single-active-consumer": "true", "name": "group"}
        await self.consumer.subscribe(
            self.stream, self.reader.take, decoder=amqp_decoder, properties=properties,
            consumer_update_listener=self.updated,
        )

    async def updated(self, is_active, _context):
        if not is_active:
            return OffsetSpecification(OffsetType.NEXT, 0)
        self.active.set()
        try:
            stored = await self.consumer.query_offset(self.stream, "group")
        except OffsetNotFound:
            return OffsetSpecification(OffsetType.FIRST, 0)
        return OffsetSpecification(OffsetType.OFFSET, stored + 1)


@scenario(RSTREAM, "stream-single-active")
async def single_active(context):
    async with filled(context, 0) as (producer, stream):
        first, second = Member(context, stream), Member(context, stream)
        await first.join()
        await asyncio.wait_for(first.active.wait(), WAIT_S)
        await second.join()
        await publish(producer, stream, numbers(0, 100))
        equal(await first.reader.wait_for(100), numbers(0, 100), "messages of the first")
        equal(second.reader.texts, [], "messages of the second")
        await first.consumer.store_offset(stream, "group", 99)
        await first.consumer.close()
        await publish(producer, stream, numbers(100, 200))
        equal(await second.reader.wait_for(100), numbers(100, 200), "messages of the second")
        await second.consumer.close()


@scenario(RSTREAM, "stream-tutorials")
async def tutorials(context):
    """What the two programs of each of RabbitMQ's tutorials about streams do together."""
    hello, tracked = context.name("hello"), context.name("tracked")
    async with Producer(**address(context)) as producer:
        await producer.create_stream(hello, {"max-length-bytes": 5_000_000_000})
        await publish(producer, hello, ["Hello"])
        equal(await read(context, hello, 1), ["Hello"], "the first tutorial")
        await producer.create_stream(tracked, {"max-length-bytes": 2_000_000_000})
        for begin in (0, 100):
            await publish(producer, tracked, numbers(begin, begin + 100))
            texts = await read_tracked(context, tracked, 100)
            equal(texts, numbers(begin, begin + 100), "the second tutorial")
        await producer.delete_stream(hello)
        await producer.delete_stream(tracked)


async def read_tracked(context, stream, count):
    """Goes on behind the offset that is stored; stores one for every tenth message and the last."""
    reader = Reader()
    async with Consumer(**address(context)) as consumer:
        try:
            begin = await consumer.query_offset(stream, "tutorial") + 1
        except OffsetNotFound:
            begin = 0

        async def take(message, message_context):
            await reader.take(message, message_context)
            if len(reader.texts) % 10 == 0:
                await consumer.store_offset(stream, "tutorial", message_context.offset)

        offset = ConsumerOffsetSpecification(OffsetType.OFFSET, begin)
        await consumer.subscribe(stream, take, decoder=amqp_decoder, offset_specification=offset)
        return await reader.wait_for(count)


@scenario(RSTREAM, "stream-thrown-out")
async def thrown_out(context):
    """Publisher and consumer are told when an operator ends their connections, whatever it is that ends them."""
    ways = [
        lambda user, vhost: context.ctl("close_all_connections", "-p", vhost, "enough"),
        lambda user, vhost: context.ctl("delete_user", user),
        lambda user, vhost: context.ctl("delete_vhost", vhost),
    ]
    context.ctl("await_startup")
    for n, throw_out in enumerate(ways):
        user, vhost = context.name(f"hare{n}"), context.name(f"burrow{n}")
        context.ctl("add_user", user, "ears")
        context.ctl("add_vhost", vhost)
        context.ctl("set_permissions", "-p", vhost, user, ".*", ".*", ".*")
        told, both = [], asyncio.Event()

        async def on_end(information, told=told, both=both):
            told.append(information.reason)
            if len(told) == 2:
                both.set()

        where = {**address(context), "username": user, "password": "ears", "vhost": vhost}
        producer = Producer(**where, on_close_handler=on_end)
        await producer.start()
        await producer.create_stream("s")
        await publish(producer, "s", ["0"])
        consumer = Consumer(**where, on_close_handler=on_end)
        await consumer.start()
        await consumer.subscribe("s", Reader().take, decoder=amqp_decoder)
        await asyncio.to_thread(throw_out, user, vhost)
        await asyncio.wait_for(both.wait(), TOLD_S)
        for verb, name in (("delete_user", user), ("delete_vhost", vhost)):
            with contextlib.suppress(AssertionError):  # one of them is gone already
                context.ctl(verb, name)


@scenario(RSTREAM, "restart-stream-kill-9")
async def restart_kill_9(context):
    """Everything confirmed before the node is killed is there afterwards."""
    context.own_node()
    stream = context.name("s")
    producer = Producer(**address(context))
    await producer.start()
    await producer.create_stream(stream)
    await publish(producer, stream, numbers(0, N_MESSAGES))
    context.node.kill9()
    with contextlib.suppress(Exception):
        await asyncio.wait_for(producer.close(), WAIT_S)
    context.node.start()
    async with Producer(**address(context)) as producer:
        await publish(producer, stream, ["marker"])
    expected = [*numbers(0, N_MESSAGES), "marker"]
    equal(await read(context, stream, len(expected)), expected, "messages")


def over_tls(context, ssl_context, external):
    mechanism = SlasMechanism.MechanismExternal if external else SlasMechanism.MechanismPlain
    where = {
        **address(context),
        **{"host": "localhost", "port": tls.port("INTEROP_TLS_STREAM_PORT"), "ssl_context": ssl_context},
        "sasl_configuration_mechanism": mechanism,
    }
    # It does not notice that the connection has gone.
    deadline_s = 1 if context.is_refused else WAIT_S
    asyncio.run(asyncio.wait_for(there_and_back(context, where), deadline_s))


async def there_and_back(context, where):
    stream, reader = context.name("s"), Reader()
    async with Producer(**where) as producer:
        await producer.create_stream(stream)
        await publish(producer, stream, [tls.BODY.decode()])
        async with Consumer(**where) as consumer:
            first = ConsumerOffsetSpecification(OffsetType.FIRST)
            await consumer.subscribe(stream, reader.take, decoder=amqp_decoder, offset_specification=first)
            equal(await reader.wait_for(1) == [tls.BODY.decode()], True, "the body is the same")
        await producer.delete_stream(stream)


if tls.DIRECTORY:
    tls.register(RSTREAM, over_tls, (OSError, TimeoutError, asyncio.TimeoutError))
sys.exit(harness.run([RSTREAM], sys.argv[1:]))
