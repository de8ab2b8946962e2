"""Where dead letters go and what they carry."""

import datetime

import pika
import pika.compat

from harness import Skip, equal
from pika_suite.client import LIBRARY, bodies, confirming, connect, get_all, publish, ready, server_version, wait_ready
from pika_suite.exchanges import bound_queue, exchange_of, headers
from pika_suite.publishing import declared
from pika_suite.rule_expiry import SOON_MS, lasting, with_dead_letters


def reject_one(connection, queue):
    channel = connection.channel()
    method, _, _ = channel.basic_get(queue)
    channel.basic_reject(method.delivery_tag, requeue=False)
    channel.close()


def leading_to(queue):
    """Arguments of a queue whose dead letters go to this one."""
    return {"x-dead-letter-exchange": "", "x-dead-letter-routing-key": queue}


def one_letter(channel, queue):
    wait_ready(channel, queue, 1)
    ((method, properties, body),) = get_all(channel, queue)
    return method, properties, body


def without_time(death):
    """The entry without its time, which has to be one of now."""
    age = datetime.datetime.now(datetime.timezone.utc) - death["time"]
    assert abs(age) < datetime.timedelta(minutes=5), death
    assert isinstance(death["count"], pika.compat.long), "the count is a 64-bit integer"
    return {key: value for key, value in death.items() if key != "time"}


@LIBRARY.scenario("rule-dead-letter-headers")
def dead_letter_headers(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    source = exchange_of(ctx, channel, "direct")
    second, last = with_dead_letters(ctx, channel, "second")
    first = declared(ctx, channel, "first", arguments=leading_to(second))
    channel.queue_bind(first, source, "key")
    publish(channel, "key", b"body", exchange=source, properties=lasting(SOON_MS, headers={"own": 1}, message_id="m"))
    wait_ready(channel, second, 1)
    reject_one(connection, second)
    method, properties, body = one_letter(channel, last)
    expired = {"count": 1, "reason": "expired", "queue": first, "exchange": source, "routing-keys": ["key"]}
    expired["original-expiration"] = str(SOON_MS)
    rejected = {"count": 1, "reason": "rejected", "queue": second, "exchange": "", "routing-keys": [second]}
    found = properties.headers
    equal([without_time(death) for death in found["x-death"]], [rejected, expired], "x-death")
    equal({key: value for key, value in found.items() if key.startswith("x-first-death-")},
          {"x-first-death-exchange": source, "x-first-death-queue": first, "x-first-death-reason": "expired"})
    if server_version(connection) >= (4, 0):
        equal({key: value for key, value in found.items() if key.startswith("x-last-death-")},
              {"x-last-death-exchange": "", "x-last-death-queue": second, "x-last-death-reason": "rejected"})
    equal((found["own"], properties.message_id, body), (1, "m", b"body"))
    equal((properties.expiration, method.redelivered, method.routing_key), (None, False, second))


@LIBRARY.scenario("rule-dead-letter-counts")
def dead_letter_counts(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    work = ctx.name("work")
    wait = declared(ctx, channel, "wait", arguments={"x-message-ttl": SOON_MS, **leading_to(work)})
    channel.queue_declare(work, durable=True, arguments=leading_to(wait))
    publish(channel, work, b"again")
    for _ in range(3):
        wait_ready(channel, work, 1)
        reject_one(connection, work)
    _, properties, _ = one_letter(channel, work)
    counts = [(death["queue"], death["reason"], death["count"]) for death in properties.headers["x-death"]]
    equal(counts, [(wait, "expired", 3), (work, "rejected", 3)])
    equal(properties.headers["x-first-death-reason"], "rejected")


@LIBRARY.scenario("rule-dead-letter-keys")
def dead_letter_keys(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    source, dead = exchange_of(ctx, channel, "direct"), exchange_of(ctx, channel, "direct", "dead")
    kept = bound_queue(ctx, channel, dead, "kept", "original")
    copied = bound_queue(ctx, channel, dead, "copied", "copy")
    renamed = bound_queue(ctx, channel, dead, "renamed", "other")
    for suffix, arguments in (("plain", {}), ("keyed", {"x-dead-letter-routing-key": "other"})):
        queue = declared(ctx, channel, suffix, arguments={"x-dead-letter-exchange": dead, **arguments})
        channel.queue_bind(queue, source, "original")
    publish(channel, "original", b"body", exchange=source, properties=headers(CC=["copy"]))
    reject_one(connection, ctx.names[-2])
    for queue in (kept, copied):
        method, properties, _ = one_letter(channel, queue)
        equal(method.routing_key, "original")
        equal(properties.headers["x-death"][0]["routing-keys"], ["original", "copy"])
    reject_one(connection, ctx.names[-1])
    method, _, _ = one_letter(channel, renamed)
    equal(method.routing_key, "other")
    equal([ready(channel, queue) for queue in (kept, copied)], [0, 0])


@LIBRARY.scenario("rule-dead-letter-missing-exchange")
def missing_exchange(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel, arguments={"x-dead-letter-exchange": ctx.name("nowhere")})
    publish(channel, queue, b"1", b"2")
    reject_one(connection, queue)
    equal(bodies(channel, queue), [b"2"])


@LIBRARY.scenario("rule-dead-letter-cycle")
def cycle(ctx):
    """Two queues that expire into each other, each with a witness of what dies in it."""
    channel = confirming(connect(ctx))
    exchanges = [exchange_of(ctx, channel, "fanout", name) for name in ("x1", "x2")]
    witnesses = [bound_queue(ctx, channel, exchange, f"{number}", "") for number, exchange in enumerate(exchanges, 1)]
    queues = [
        declared(ctx, channel, f"q{number}", arguments={"x-message-ttl": SOON_MS, "x-dead-letter-exchange": exchange})
        for number, exchange in enumerate(exchanges, 1)
    ]
    for queue, exchange in zip(reversed(queues), exchanges):
        channel.queue_bind(queue, exchange, "")
    publish(channel, queues[0], b"once around")
    wait_ready(channel, witnesses[1], 1)
    publish(channel, queues[0], b"the next")
    wait_ready(channel, witnesses[1], 2)
    for witness in witnesses:
        equal(bodies(channel, witness), [b"once around", b"the next"])
    equal([ready(channel, queue) for queue in queues], [0, 0])


@LIBRARY.scenario("rule-dead-letter-forged")
def forged(ctx):
    connection = connect(ctx)
    if server_version(connection) < (4, 0):
        raise Skip("a client's x-death counts there")
    channel = confirming(connection)
    queue, dead = with_dead_letters(ctx, channel)
    claimed = {"count": 7, "reason": "rejected", "queue": queue, "exchange": "", "routing-keys": [queue]}
    publish(channel, queue, b"body", properties=headers(**{"x-death": [claimed]}))
    reject_one(connection, queue)
    _, properties, _ = one_letter(channel, dead)
    equal([(death["queue"], death["count"]) for death in properties.headers["x-death"]], [(queue, 1)])


@LIBRARY.scenario("rule-dead-letter-mandatory")
def mandatory(ctx):
    """What is returned is a message that no queue took, not a dead letter that none takes."""
    channel = confirming(connect(ctx))
    source, dead = exchange_of(ctx, channel, "fanout"), exchange_of(ctx, channel, "direct", "dead")
    queue = declared(ctx, channel, arguments={"x-message-ttl": 0, "x-dead-letter-exchange": dead})
    channel.queue_bind(queue, source, "")
    witness = bound_queue(ctx, channel, dead, "witness", "taken")
    publish(channel, "taken by none", b"1", exchange=source, mandatory=True)
    channel.exchange_declare(dead, passive=True)
    equal(ready(channel, queue), 0)
    publish(channel, "taken", b"2", exchange=source, mandatory=True)
    equal(one_letter(channel, witness)[2], b"2")


@LIBRARY.scenario("rule-dead-letter-reasons")
def reasons_of_one_queue(ctx):
    """A message that dies twice in one queue, of different reasons, has an entry for each."""
    connection = connect(ctx)
    channel = confirming(connection)
    work, wait = ctx.name("work"), ctx.name("wait")
    for queue, other in ((work, wait), (wait, work)):
        channel.queue_declare(queue, durable=True, arguments=leading_to(other))
    publish(channel, work, b"body", properties=lasting(SOON_MS))
    wait_ready(channel, wait, 1)  # expired; without its expiration it stays
    reject_one(connection, wait)
    wait_ready(channel, work, 1)
    reject_one(connection, work)
    _, properties, _ = one_letter(channel, wait)
    counts = [(death["queue"], death["reason"], death["count"]) for death in properties.headers["x-death"]]
    expected = [(work, "rejected", 1), (wait, "rejected", 1), (work, "expired", 1)]
    if server_version(connection) < (4, 0):  # the entries of one queue stood together
        counts, expected = sorted(counts), sorted(expected)
    equal(counts, expected)


@LIBRARY.scenario("rule-dead-letter-not")
def no_dead_letter(ctx):
    """What is acknowledged, purged or deleted with its queue is no dead letter."""
    connection = connect(ctx)
    channel = confirming(connection)
    queue, dead = with_dead_letters(ctx, channel)
    publish(channel, queue, b"acked", b"purged")
    holder = connection.channel()
    holder.basic_ack(holder.basic_get(queue)[0].delivery_tag)
    equal(channel.queue_purge(queue).method.message_count, 1)
    publish(channel, queue, b"rejected", b"deleted")
    reject_one(connection, queue)
    equal(channel.queue_delete(queue).method.message_count, 1)
    equal(one_letter(channel, dead)[2], b"rejected")


@LIBRARY.scenario("rule-dead-letter-alternate")
def alternate(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    other = exchange_of(ctx, channel, "fanout", "other")
    found = bound_queue(ctx, channel, other, "found", "")
    dead = exchange_of(ctx, channel, "direct", "dead", arguments={"alternate-exchange": other})
    queue = declared(ctx, channel, arguments={"x-dead-letter-exchange": dead})
    publish(channel, queue, b"body")
    reject_one(connection, queue)
    method, properties, _ = one_letter(channel, found)
    equal((method.exchange, method.routing_key), (dead, queue))
    equal(properties.headers["x-death"][0]["queue"], queue)


@LIBRARY.scenario("rule-dead-letter-full")
def full(ctx):
    """A queue that refuses publishes refuses dead letters, too; nobody is told.

    Letters of one queue travel in order: once the marker has come, the one before it has been refused.
    """
    connection = connect(ctx)
    channel = confirming(connection)
    source = exchange_of(ctx, channel, "fanout", "source")
    dead = exchange_of(ctx, channel, "direct", "dead")
    narrow = declared(ctx, channel, "narrow", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    for key in ("1", "2", "3"):
        channel.queue_bind(narrow, dead, key)
    witness = bound_queue(ctx, channel, dead, "witness", "marker")
    queue = declared(ctx, channel, arguments={"x-dead-letter-exchange": dead})
    channel.queue_bind(queue, source, "")
    for key in ("1", "2", "marker", "3"):
        publish(channel, key, key, exchange=source)
    reject_one(connection, queue)
    wait_ready(channel, narrow, 1)
    reject_one(connection, queue)
    reject_one(connection, queue)
    wait_ready(channel, witness, 1)
    equal(one_letter(channel, narrow)[2], b"1")
    reject_one(connection, queue)
    equal(one_letter(channel, narrow)[2], b"3")


@LIBRARY.scenario("rule-dead-letter-priority")
def keeps_priority(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    ranked = declared(ctx, channel, "ranked", arguments={"x-max-priority": 3})
    queue = declared(ctx, channel, arguments=leading_to(ranked))
    for priority in (1, 3, 2):
        publish(channel, queue, str(priority), properties=pika.BasicProperties(delivery_mode=2, priority=priority))
        reject_one(connection, queue)
    wait_ready(channel, ranked, 3)
    equal(bodies(channel, ranked), [b"3", b"2", b"1"])
