"""What survives kill -9 and a clean stop of the node; recovery by aio-pika's robust connection."""

import asyncio
import collections

import aio_pika
from aio_pika import Message

from aio_suite.client import (
    bodies,
    confirming,
    connect,
    get_all,
    missing_queue,
    persistent,
    publish,
    scenario,
    wait_until,
)
from aio_suite.publishing import publish_at_once
from harness import equal
from pika_suite.restart import KILL_AFTER, QUEUE_ARGUMENTS, RECOVERY_DEADLINE_S, RECOVERY_MESSAGES


async def fill_and_restart(ctx, restart):
    """Definitions and messages before the restart; all that must be there after it."""
    outer, inner, plain, priorities, fleeting = map(ctx.name, ("outer", "inner", "plain", "arguments", "fleeting"))
    await asyncio.to_thread(ctx.own_node)
    before = await confirming(await connect(ctx))
    source = await before.declare_exchange(outer, "topic", durable=True)
    destination = await before.declare_exchange(inner, "fanout", durable=True)
    await destination.bind(source, "a.#")
    await before.declare_queue(plain, durable=True)
    queue = await before.declare_queue(priorities, durable=True, arguments=QUEUE_ARGUMENTS)
    await queue.bind(destination, "")
    await before.declare_queue(fleeting)
    messages = [(plain, persistent(f"body {i}".encode(), headers={"number": i})) for i in range(1000)]
    for position in range(200):
        messages.insert(position * 6, (plain, Message(b"transient")))
    await publish_at_once(before, messages)

    await asyncio.to_thread(restart)
    connection = await connect(ctx)
    channel = await confirming(connection)
    kept = [m for m in await get_all(channel, await channel.get_queue(plain)) if m.body != b"transient"]
    received = [(message.body, message.headers["number"], message.delivery_mode) for message in kept]
    equal(received, [(f"body {i}".encode(), i, 2) for i in range(1000)], "persistent messages")
    await channel.get_exchange(outer)
    source = await channel.declare_exchange(outer, "topic", durable=True)
    queue = await channel.declare_queue(priorities, durable=True, arguments=QUEUE_ARGUMENTS)
    await publish(source, "a.b", b"routed")
    equal(await bodies(channel, queue), [b"routed"])
    await missing_queue(connection, fleeting)


@scenario("restart-durable-survives")
async def durable_survives(ctx):
    def kill_and_start():
        ctx.node.kill9()
        ctx.node.start()

    await fill_and_restart(ctx, kill_and_start)


@scenario("restart-clean-stop-survives")
async def clean_stop_survives(ctx):
    def stop_and_start():
        equal(ctx.node.stop(), 0, "exit status after SIGTERM")
        ctx.node.start()

    await fill_and_restart(ctx, stop_and_start)


def robust(**options):
    return aio_pika.connect_robust(reconnect_interval=0.1, **options)


async def publish_all(channel, queue, confirmed):
    """A failed publish is repeated under a new body, since its fate is unknown."""
    attempts = 0
    while len(confirmed) < RECOVERY_MESSAGES:
        attempts += 1
        body = f"{len(confirmed)}:{attempts}".encode()
        try:
            await channel.default_exchange.publish(persistent(body), queue.name, mandatory=False, timeout=5)
        except (aio_pika.exceptions.AMQPError, OSError, RuntimeError, asyncio.TimeoutError, asyncio.CancelledError):
            await asyncio.sleep(0.05)  # before the next attempt on the channel being recovered
        else:
            confirmed.append(body)


@scenario("restart-client-recovery")
async def client_recovery(ctx):
    name = ctx.name()
    node = await asyncio.to_thread(ctx.own_node)
    consuming = await (await connect(ctx, connector=robust)).channel()
    await consuming.set_qos(20)
    queue = await consuming.declare_queue(name, durable=True)
    seen = collections.defaultdict(list)

    async def on_message(message):
        seen[message.body].append(message.redelivered)
        try:
            await message.ack()
        except (aio_pika.exceptions.AMQPError, OSError, RuntimeError):
            pass  # the connection was lost meanwhile; the message comes again

    await queue.consume(on_message)
    confirmed = []
    publishing = await (await connect(ctx, connector=robust)).channel()
    publisher = asyncio.create_task(publish_all(publishing, queue, confirmed))
    await wait_until(lambda: len(confirmed) >= KILL_AFTER, "confirms before the kill")
    await asyncio.to_thread(node.kill9)
    await asyncio.to_thread(node.start)
    await wait_until(
        lambda: len(confirmed) == RECOVERY_MESSAGES and seen.keys() >= set(confirmed),
        "every confirmed message consumed",
        RECOVERY_DEADLINE_S,
    )
    await publisher
    for body, flags in seen.items():
        assert all(flags[1:]), f"message {body} came again without redelivered: {flags}"
