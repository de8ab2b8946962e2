"""Tutorial one: `hello.py send TEXT` and `hello.py receive`."""

import sys

from common import QUORUM, connect, consume_forever, named, say

channel = connect().channel()
channel.queue_declare(named("hello"), durable=True, arguments=QUORUM)
if sys.argv[1] == "send":
    channel.basic_publish("", named("hello"), sys.argv[2])
    channel.connection.close()
else:
    channel.basic_consume(named("hello"), lambda _ch, _method, _props, body: say(body.decode()), auto_ack=True)
    consume_forever(channel)
