"""Tutorial two: `work_queue.py new TEXT ...` and `work_queue.py worker [hang]`; a hanging worker never finishes its first task."""

import sys

import pika

from common import QUORUM, connect, consume_forever, named, say


def do_task(channel, method, _properties, body):
    say(f"{body.decode()}{' again' if method.redelivered else ''}")
    if sys.argv[2:] != ["hang"]:
        channel.basic_ack(method.delivery_tag)


channel = connect().channel()
channel.queue_declare(named("tasks"), durable=True, arguments=QUORUM)
if sys.argv[1] == "new":
    for task in sys.argv[2:]:
        channel.basic_publish("", named("tasks"), task, pika.BasicProperties(delivery_mode=2))
    channel.connection.close()
else:
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(named("tasks"), do_task)
    consume_forever(channel)
