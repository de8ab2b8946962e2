"""Handshake, heartbeats, channels and losing the connection."""

import asyncio

import aiormq.exceptions

from aio_suite.client import (
    Consumer,
    connect,
    declared,
    filled,
    get_all,
    numbers,
    plain,
    scenario,
    wait_until,
    with_redelivered,
)
from harness import equal
from pika_suite.connections import CAPABILITIES, HEARTBEAT_S


@scenario("capabilities")
async def capabilities(ctx):
    connection = await connect(ctx)
    properties = connection.transport.connection.server_properties
    for name in CAPABILITIES:
        equal(properties["capabilities"].get(name), True, name)
    assert properties["product"] and properties["version"]


@scenario("channels-2000")
async def channels_2000(ctx):
    connection = await connect(ctx)
    channels = [await plain(connection) for _ in range(2000)]
    queue = await declared(ctx, channels[0])
    for channel in channels:
        equal(await (await channel.get_queue(queue.name, ensure=False)).get(fail=False), None)
    equal(len({channel.number for channel in channels}), 2000, "channel numbers")
    await connection.close()


@scenario("auth-wrong-password-403")
async def wrong_password(ctx):
    try:
        await connect(ctx, password="wrong")
    except aiormq.exceptions.ProbableAuthenticationError as refused:  # made from a 403 only
        text = (
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
            "For details see the broker logfile."
        )
        equal(refused.args[0], text)
    else:
        raise AssertionError("logged in with a wrong password")


@scenario("vhost-unknown-530")
async def unknown_vhost(ctx):
    """The library only says that it met a connection.close; the relay sees which."""
    relay = ctx.relay()
    try:
        await connect(ctx, at=relay, virtualhost="interop-missing")
    except aiormq.exceptions.InvalidFrameError as refused:
        assert "Connection.Close" in str(refused), refused
    else:
        raise AssertionError("opened an unknown vhost")
    text = b"NOT_ALLOWED - vhost interop-missing not found"
    close = (530).to_bytes(2, "big") + bytes([len(text)]) + text
    assert close in relay.last_from_server, relay.last_from_server


@scenario("update-secret")
async def update_secret(ctx):
    connection = await connect(ctx)
    await connection.update_secret("guest", reason="interop")
    await declared(ctx, await plain(connection))


@scenario("heartbeat-idle-survives")
async def heartbeat_idle(ctx):
    relay = ctx.relay()
    connection = await connect(ctx, at=relay, heartbeat=HEARTBEAT_S)
    equal(connection.transport.connection.connection_tune.heartbeat, HEARTBEAT_S, "negotiated heartbeat")

    def seen():
        return relay.from_server.count >= 4 and relay.from_client.count >= 4

    await wait_until(seen, "4 heartbeats from each side", 20)
    await declared(ctx, await plain(connection))


@scenario("heartbeat-silent-peer-closed")
async def heartbeat_silent(ctx):
    relay = ctx.relay()
    connection = await connect(ctx, at=relay, heartbeat=HEARTBEAT_S)
    await (await plain(connection)).close()
    muted_at = relay.mute_client()
    deadline_s = 5 * HEARTBEAT_S + 2
    closed = await asyncio.to_thread(relay.server_closed.wait, deadline_s)
    assert closed, f"not closed within {deadline_s} s of silence"
    silent_s = relay.server_closed_at - muted_at
    assert silent_s >= HEARTBEAT_S, f"closed after {silent_s:.2f} s, before one interval"


@scenario("redelivered-after-connection-loss")
async def redelivered_after_loss(ctx):
    _, watcher, queue = await filled(ctx, 5)
    relay = ctx.relay()
    channel = await plain(await connect(ctx, at=relay))
    await channel.set_qos(3)
    await (await Consumer.start(channel, queue)).wait(3)
    relay.cut()
    consumer = await Consumer.start(watcher, queue, no_ack=True)
    received = sorted(with_redelivered(await consumer.wait(5)))
    equal(received, list(zip(numbers(5), [True] * 3 + [False] * 2)))
    equal(await get_all(watcher, queue), [])
