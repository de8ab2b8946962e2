"""Handshake, heartbeats, channels and losing the connection."""

import pika
import pika.exceptions

from harness import equal, wait_until
from pika_suite.client import LIBRARY, Consumer, connect, get_all
from pika_suite.consuming import filled, numbers, with_redelivered
from pika_suite.publishing import declared

HEARTBEAT_S = 1
CAPABILITIES = [
    "publisher_confirms",
    "exchange_exchange_bindings",
    "basic.nack",
    "consumer_cancel_notify",
    "connection.blocked",
    "consumer_priorities",
    "authentication_failure_close",
    "per_consumer_qos",
    "direct_reply_to",
]


@LIBRARY.scenario("capabilities")
def capabilities(ctx):
    connection = connect(ctx)
    properties = connection._impl.server_properties
    for name in CAPABILITIES:
        equal(properties["capabilities"].get(name), True, name)
    assert properties["product"] and properties["version"]


@LIBRARY.scenario("channels-2000")
def channels_2000(ctx):
    connection = connect(ctx)
    channels = [connection.channel() for _ in range(2000)]
    queue = declared(ctx, channels[0])
    for channel in channels:
        equal(channel.basic_get(queue), (None, None, None))
    equal(channels[-1].channel_number, 2000)
    connection.close()


@LIBRARY.scenario("auth-wrong-password-403")
def wrong_password(ctx):
    try:
        connect(ctx, credentials=pika.PlainCredentials("guest", "wrong"))
    except pika.exceptions.ProbableAuthenticationError as refused:
        text = (
            "ACCESS_REFUSED - Login was refused using authentication mechanism PLAIN. "
            "For details see the broker logfile."
        )
        assert "(403)" in str(refused) and text in str(refused), str(refused)
    else:
        raise AssertionError("logged in with a wrong password")


@LIBRARY.scenario("vhost-unknown-530")
def unknown_vhost(ctx):
    try:
        connect(ctx, virtual_host="interop-missing")
    except pika.exceptions.ProbableAccessDeniedError as refused:
        text = "NOT_ALLOWED - vhost interop-missing not found"
        assert "(530)" in str(refused) and text in str(refused), str(refused)
    else:
        raise AssertionError("opened an unknown vhost")


@LIBRARY.scenario("update-secret")
def update_secret(ctx):
    connection = connect(ctx)
    connection.update_secret("guest", "interop")
    declared(ctx, connection.channel())


@LIBRARY.scenario("heartbeat-idle-survives")
def heartbeat_idle(ctx):
    relay = ctx.relay()
    connection = connect(ctx, at=relay, heartbeat=HEARTBEAT_S)
    equal(connection._impl.params.heartbeat, HEARTBEAT_S, "negotiated heartbeat")

    def seen():
        return relay.from_server.count >= 4 and relay.from_client.count >= 4

    wait_until(seen, "4 heartbeats from each side", 20, lambda: connection.process_data_events(0.1))
    declared(ctx, connection.channel())


@LIBRARY.scenario("heartbeat-silent-peer-closed")
def heartbeat_silent(ctx):
    relay = ctx.relay()
    connection = connect(ctx, at=relay, heartbeat=HEARTBEAT_S)
    connection.channel().close()
    muted_at = relay.mute_client()
    deadline_s = 5 * HEARTBEAT_S + 2
    assert relay.server_closed.wait(deadline_s), f"not closed within {deadline_s} s of silence"
    silent_s = relay.server_closed_at - muted_at
    assert silent_s >= HEARTBEAT_S, f"closed after {silent_s:.2f} s, before one interval"


@LIBRARY.scenario("redelivered-after-connection-loss")
def redelivered_after_loss(ctx):
    _, watcher, queue = filled(ctx, 5)
    relay = ctx.relay()
    channel = connect(ctx, at=relay).channel()
    channel.basic_qos(prefetch_count=3)
    Consumer(channel, queue).wait(3)
    relay.cut()
    consumer = Consumer(watcher, queue, auto_ack=True)
    wait_until(lambda: len(consumer.messages) >= 5, "5 deliveries", step=consumer.pump)
    received = sorted(with_redelivered(consumer.messages))
    equal(received, list(zip(numbers(5), [True] * 3 + [False] * 2)))
    equal(get_all(watcher, queue), [])
