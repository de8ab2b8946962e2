"""Tutorials three to five: `logs.py KIND emit KEY TEXT` and `logs.py KIND receive KEY ...` for fanout, direct and topic."""

import sys

from common import connect, consume_forever, named, say

kind, role, *rest = sys.argv[1:]
exchange = named(f"{kind}-logs")
channel = connect().channel()
channel.exchange_declare(exchange, kind)
if role == "emit":
    channel.basic_publish(exchange, rest[0], rest[1])
    channel.connection.close()
else:
    queue = channel.queue_declare("", exclusive=True).method.queue
    for key in rest:
        channel.queue_bind(queue, exchange, key)
    channel.basic_consume(
        queue, lambda _ch, method, _props, body: say(f"{method.routing_key}:{body.decode()}"), auto_ack=True
    )
    consume_forever(channel)
