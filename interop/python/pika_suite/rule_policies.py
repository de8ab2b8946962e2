"""Rules an operator sets while the node runs, through its command-line tool."""

import json

import pika
import pika.exceptions

from harness import equal, starts, wait_until
from pika_suite.client import (
    LIBRARY,
    bodies,
    closes_channel,
    confirming,
    connect,
    get_all,
    publish,
    ready,
    server_version,
    wait_ready,
)
from pika_suite.consuming import numbers
from pika_suite.exchanges import bound_queue, exchange_of
from pika_suite.publishing import declared
from pika_suite.rule_dead_letters import reject_one
from pika_suite.rule_expiry import SOON_MS, reasons, with_dead_letters


def set_policy(ctx, pattern, definition, suffix="policy", priority=0, kind="policy", apply_to="queues"):
    """Sets a policy that is cleared at the scenario's end; returns its name."""
    name = f"{ctx.scenario}.{suffix}.{ctx.token}"
    options = ["--priority", str(priority), "--apply-to", apply_to]
    ctx.ctl(f"set_{kind}", *options, name, f"^{pattern}$", json.dumps(definition))
    ctx.on_end(lambda: ctx.ctl(f"clear_{kind}", name))
    return name


@LIBRARY.scenario("rule-policy-live")
def policy_live(ctx):
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "fanout")
    dead = bound_queue(ctx, channel, exchange, "dead", "")
    queue = declared(ctx, channel)
    publish(channel, queue, *numbers(5))
    set_policy(ctx, queue, {"max-length": 3, "dead-letter-exchange": exchange})
    wait_ready(channel, queue, 3)
    publish(channel, queue, b"5")
    wait_until(lambda: ready(channel, dead) >= 1, "dead letters")
    equal(ready(channel, queue), 3)
    letters = len(get_all(channel, dead)) + channel.queue_purge(queue).method.message_count
    equal(letters, 6, "messages in both queues")
    set_policy(ctx, queue, {"message-ttl": SOON_MS, "dead-letter-exchange": exchange}, "ttl", priority=1)
    publish(channel, queue, b"6")
    wait_ready(channel, dead, 1)
    equal(reasons(get_all(channel, dead)), ["expired"])


@LIBRARY.scenario("rule-policy-cleared")
def policy_cleared(ctx):
    channel = confirming(connect(ctx))
    queue = declared(ctx, channel)
    name = set_policy(ctx, queue, {"max-length": 1})
    publish(channel, queue, *numbers(3))
    wait_ready(channel, queue, 1)
    ctx.ctl("clear_policy", name)
    publish(channel, queue, *numbers(3, 6))
    equal(bodies(channel, queue), numbers(2, 6))


@LIBRARY.scenario("rule-policy-priority")
def policy_priority(ctx):
    channel = confirming(connect(ctx))
    queue = declared(ctx, channel)
    set_policy(ctx, queue, {"max-length": 1}, "low", priority=1)
    set_policy(ctx, queue, {"max-length": 3}, "high", priority=10)
    publish(channel, queue, *numbers(5))
    equal(bodies(channel, queue), numbers(2, 5))


@LIBRARY.scenario("rule-policy-and-argument")
def policy_and_argument(ctx):
    channel = confirming(connect(ctx))
    by_policy = declared(ctx, channel, "policy", arguments={"x-max-length": 4})
    by_argument = declared(ctx, channel, "argument", arguments={"x-max-length": 1})
    set_policy(ctx, f"interop.*rule-policy-and-argument.*{ctx.token}", {"max-length": 2})
    for queue, expected in ((by_policy, numbers(3, 5)), (by_argument, numbers(4, 5))):
        publish(channel, queue, *numbers(5))
        equal(bodies(channel, queue), expected)


@LIBRARY.scenario("rule-operator-policy")
def operator_policy(ctx):
    channel = confirming(connect(ctx))
    queue = declared(ctx, channel)
    set_policy(ctx, queue, {"max-length": 4, "overflow": "reject-publish"})
    name = set_policy(ctx, queue, {"max-length": 2}, "operator", kind="operator_policy")
    publish(channel, queue, *numbers(2))
    try:
        publish(channel, queue, b"too much")
        raise AssertionError("a third message was accepted")
    except pika.exceptions.NackError:
        ctx.ctl("clear_operator_policy", name)
    publish(channel, queue, *numbers(2, 4))
    equal(bodies(channel, queue), numbers(4))


@LIBRARY.scenario("rule-policy-exchange")
def policy_exchange(ctx):
    channel = confirming(connect(ctx))
    alternate, exchange = exchange_of(ctx, channel, "fanout", "alternate"), exchange_of(ctx, channel, "direct")
    queue = bound_queue(ctx, channel, alternate, "q", "")
    publish(channel, "key", b"lost", exchange=exchange)
    set_policy(ctx, exchange, {"alternate-exchange": alternate}, apply_to="exchanges")
    publish(channel, "key", b"found", exchange=exchange, mandatory=True)
    equal(bodies(channel, queue), [b"found"])


def vhost_of(ctx, suffix="vhost"):
    vhost = f"interop-{suffix}-{ctx.token}"
    ctx.ctl("add_vhost", vhost)
    ctx.on_end(lambda: ctx.ctl("delete_vhost", vhost))
    ctx.ctl("set_permissions", "--vhost", vhost, "guest", ".*", ".*", ".*")
    return vhost


@LIBRARY.scenario("rule-vhost-limits")
def vhost_limits(ctx):
    vhost = vhost_of(ctx)
    ctx.ctl("set_vhost_limits", "--vhost", vhost, json.dumps({"max-connections": 1, "max-queues": 1}))
    connection = connect(ctx, virtual_host=vhost)
    connection.channel().queue_declare("first")
    text = f"PRECONDITION_FAILED - cannot declare queue 'second': queue limit in vhost '{vhost}' (1) is reached"
    with closes_channel(connection, 406, text):
        connection.channel().queue_declare("second")
    connection.channel().queue_declare("first")
    text = f"NOT_ALLOWED - access to vhost '{vhost}' refused for user 'guest': connection limit (1) is reached"
    refuses_connection(ctx, 530, text, virtual_host=vhost)
    ctx.ctl("clear_vhost_limits", "--vhost", vhost)
    connect(ctx, virtual_host=vhost).channel().queue_declare("second")


def refuses_connection(ctx, code, text, **options):
    try:
        connect(ctx, **options)
    except pika.exceptions.ProbableAccessDeniedError as refused:
        assert f"({code})" in str(refused) and text in str(refused), str(refused)
    else:
        raise AssertionError("the connection was accepted")


@LIBRARY.scenario("rule-user-limits")
def user_limits(ctx):
    user, password = f"interop-{ctx.token}", "secret"
    ctx.ctl("add_user", user, password)
    ctx.on_end(lambda: ctx.ctl("delete_user", user))
    ctx.ctl("set_permissions", user, ".*", ".*", ".*")
    ctx.ctl("set_user_limits", user, json.dumps({"max-connections": 1, "max-channels": 1}))
    credentials = pika.PlainCredentials(user, password)
    connection = connect(ctx, credentials=credentials)
    text = f"NOT_ALLOWED - connection refused for user '{user}': user connection limit (1) is reached"
    refuses_connection(ctx, 530, text, credentials=credentials)
    connection.channel()
    try:
        connection.channel()
        raise AssertionError("a second channel was opened")
    except pika.exceptions.ConnectionClosedByBroker as closed:
        equal(closed.reply_code, 530)
        text = f"NOT_ALLOWED - number of channels opened for user '{user}' has reached the maximum allowed user limit of"
        starts(closed.reply_text, text)


@LIBRARY.scenario("rule-vhost-deleted")
def vhost_deleted(ctx):
    vhost = vhost_of(ctx)
    connection = connect(ctx, virtual_host=vhost)
    newer = server_version(connection) >= (4, 0)
    connection.channel().queue_declare("q")
    ctx.ctl("delete_vhost", vhost)
    try:
        pump = lambda: connection.process_data_events(0.05)  # noqa: E731
        wait_until(lambda: connection.is_closed, "the connection closed", step=pump)
        raise AssertionError("closed without a word")
    except pika.exceptions.ConnectionClosedByBroker as closed:
        whys = ["deleted"] if newer else ["deleted", "down"]
        texts = [f"CONNECTION_FORCED - vhost '{vhost}' is {why}" for why in whys]
        assert closed.reply_code == 320 and closed.reply_text in texts, closed
    refuses_connection(ctx, 530, f"NOT_ALLOWED - vhost {vhost} not found", virtual_host=vhost)


@LIBRARY.scenario("rule-firehose")
def firehose(ctx):
    """What is published and delivered, told to the trace exchange while an operator wants it."""
    connection = connect(ctx)
    channel = confirming(connection)
    exchange = exchange_of(ctx, channel, "direct")
    queue = bound_queue(ctx, channel, exchange, "q", "key")
    told = declared(ctx, channel, "told")
    for key in (f"publish.{exchange}", f"deliver.{queue}"):
        channel.queue_bind(told, "amq.rabbitmq.trace", key)
    publish(channel, "key", b"before", exchange=exchange)
    ctx.ctl("trace_on")
    ctx.on_end(lambda: ctx.ctl("trace_off"))
    properties = pika.BasicProperties(message_id="m", delivery_mode=2)
    publish(channel, "key", b"traced", exchange=exchange, properties=properties)
    channel.queue_purge(queue)
    publish(channel, "key", b"taken", exchange=exchange)
    equal(bodies(channel, queue), [b"taken"])
    wait_ready(channel, told, 3)
    messages = get_all(channel, told)
    equal([(method.routing_key.split(".", 1)[0], body) for method, _, body in messages],
          [("publish", b"traced"), ("publish", b"taken"), ("deliver", b"taken")])
    headers = messages[0][1].headers
    equal((headers["exchange_name"], headers["routing_keys"], headers["routed_queues"]), (exchange, ["key"], [queue]))
    equal((headers["properties"]["message_id"], headers["vhost"], headers["user"]), ("m", "/", "guest"))
    equal(messages[2][1].headers["redelivered"], 0)
    ctx.ctl("trace_off")
    publish(channel, "key", b"after", exchange=exchange)
    equal(bodies(channel, queue), [b"after"])
    equal(ready(channel, told), 0)


@LIBRARY.scenario("rule-restart-survives")
def restart(ctx):
    """Rules, and what they have done to messages, are the same after a crash."""
    node = ctx.own_node()
    connection = connect(ctx)
    channel = confirming(connection)
    expiring, dead = with_dead_letters(ctx, channel, "expiring", message_ttl=1_500)
    rejected, kept = with_dead_letters(ctx, channel, "rejected")
    ranked = declared(ctx, channel, "ranked", arguments={"x-max-priority": 5})
    limited = declared(ctx, channel, "limited")
    set_policy(ctx, limited, {"max-length": 2})
    publish(channel, expiring, b"waits")
    publish(channel, rejected, b"letter")
    reject_one(connection, rejected)
    wait_ready(channel, kept, 1)
    for priority in (1, 3, 2):
        publish(channel, ranked, str(priority), properties=pika.BasicProperties(delivery_mode=2, priority=priority))
    node.kill9()
    node.start()
    channel = confirming(connect(ctx))
    equal(bodies(channel, ranked), [b"3", b"2", b"1"])
    equal(reasons(get_all(channel, kept)), ["rejected"])
    publish(channel, limited, *numbers(4))
    equal(bodies(channel, limited), numbers(2, 4))
    wait_ready(channel, dead, 1)
    equal(reasons(get_all(channel, dead)), ["expired"])
