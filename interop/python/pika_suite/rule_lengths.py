"""Queues that are full."""

import pika
import pika.exceptions

from harness import equal
from pika_suite.client import LIBRARY, bodies, confirming, connect, get_all, publish, ready, wait_ready
from pika_suite.consuming import numbers
from pika_suite.exchanges import bound_queue, exchange_of
from pika_suite.publishing import declared
from pika_suite.rule_expiry import reasons, with_dead_letters


def refused(channel, queue, body, mandatory=False):
    """Whether the node nacks the message; a return instead is a failure."""
    try:
        publish(channel, queue, body, mandatory=mandatory)
    except pika.exceptions.NackError as nack:
        equal([message.method for message in nack.messages], [], "returned")
        return True
    return False


@LIBRARY.scenario("rule-max-length-drop-head")
def drop_head(ctx):
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel, max_length=3)
    publish(channel, queue, *numbers(5))
    wait_ready(channel, dead, 2)
    letters = get_all(channel, dead)
    equal([body for _, _, body in letters], numbers(2))
    equal(reasons(letters), ["maxlen", "maxlen"])
    equal(bodies(channel, queue), numbers(2, 5))


@LIBRARY.scenario("rule-max-length-reject")
def reject(ctx):
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel, max_length=2, overflow="reject-publish")
    equal([refused(channel, queue, body) for body in numbers(4)], [False, False, True, True])
    assert refused(channel, queue, b"mandatory", mandatory=True)
    equal(bodies(channel, queue), numbers(2))
    assert not refused(channel, queue, b"room again")
    equal(ready(channel, dead), 0)


@LIBRARY.scenario("rule-max-length-reject-dlx")
def reject_dlx(ctx):
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel, max_length=2, overflow="reject-publish-dlx")
    equal([refused(channel, queue, body) for body in numbers(3)], [False, False, True])
    wait_ready(channel, dead, 1)
    letters = get_all(channel, dead)
    equal(([body for _, _, body in letters], reasons(letters)), ([b"2"], ["maxlen"]))
    equal(bodies(channel, queue), numbers(2))


@LIBRARY.scenario("rule-max-length-bytes")
def max_length_bytes(ctx):
    channel = confirming(connect(ctx))
    queue, dead = with_dead_letters(ctx, channel, max_length_bytes=10)
    publish(channel, queue, b"aaaa", b"bbbb", b"cccc")
    wait_ready(channel, dead, 1)
    equal(bodies(channel, queue), [b"bbbb", b"cccc"])
    publish(channel, queue, b"longer than all")
    wait_ready(channel, dead, 2)
    equal(bodies(channel, dead), [b"aaaa", b"longer than all"])
    equal(ready(channel, queue), 0)


@LIBRARY.scenario("rule-max-length-counts-ready")
def counts_ready(ctx):
    connection = connect(ctx)
    channel = confirming(connection)
    queue = declared(ctx, channel, arguments={"x-max-length": 2})
    publish(channel, queue, *numbers(2))
    holder = connection.channel()
    for _ in range(2):
        holder.basic_get(queue)
    publish(channel, queue, *numbers(2, 4))
    equal(ready(channel, queue), 2)
    holder.basic_nack(2, multiple=True, requeue=True)
    holder.close()
    wait_ready(channel, queue, 2)
    equal(bodies(channel, queue), numbers(2, 4))


@LIBRARY.scenario("rule-max-length-unconfirmed")
def unconfirmed(ctx):
    """Without confirms a refused message is gone without a word."""
    channel = connect(ctx).channel()
    queue = declared(ctx, channel, arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    publish(channel, queue, *numbers(3), properties=pika.BasicProperties())
    wait_ready(channel, queue, 1)
    equal(bodies(channel, queue), [b"0"])


@LIBRARY.scenario("rule-max-length-fanout")
def fanout(ctx):
    """One queue that is full makes a nack of it; the others have the message."""
    channel = confirming(connect(ctx))
    exchange = exchange_of(ctx, channel, "fanout")
    wide = bound_queue(ctx, channel, exchange, "wide", "")
    narrow = declared(ctx, channel, "narrow", arguments={"x-max-length": 1, "x-overflow": "reject-publish"})
    channel.queue_bind(narrow, exchange, "")
    publish(channel, "", b"0", exchange=exchange)
    try:
        publish(channel, "", b"1", exchange=exchange)
        raise AssertionError("the second message was confirmed")
    except pika.exceptions.NackError:
        equal(bodies(channel, narrow), [b"0"])
    equal(bodies(channel, wide), numbers(2))
