"""Tutorial seven: `confirms.py one-by-one COUNT` and `confirms.py asynchronously COUNT`; both end with the ready count."""

import os
import sys

import pika

from common import connect, named, say

PERSISTENT = pika.BasicProperties(delivery_mode=2)


def one_by_one(count):
    connection = connect()
    channel = connection.channel()
    queue = channel.queue_declare("", exclusive=True).method.queue
    channel.confirm_delivery()
    for number in range(count):
        channel.basic_publish("", queue, str(number), PERSISTENT)  # raises when not confirmed
    say(channel.queue_declare(queue, passive=True).method.message_count)
    connection.close()


class Asynchronous:
    """Keeps the outstanding tags and strikes them off as confirms, single or multiple, come in."""

    def __init__(self, count):
        self.count, self.outstanding = count, {}

    def run(self):
        parameters = pika.URLParameters(os.environ["TUTORIAL_URI"])
        self.connection = pika.SelectConnection(
            parameters, on_open_callback=lambda connection: connection.channel(on_open_callback=self.on_channel)
        )
        self.connection.ioloop.start()

    def on_channel(self, channel):
        self.channel = channel
        channel.queue_declare(named("confirms"), exclusive=True, callback=self.on_declared)

    def on_declared(self, _frame):
        self.channel.confirm_delivery(self.on_confirm, callback=self.publish)

    def publish(self, _frame):
        for number in range(1, self.count + 1):
            self.outstanding[number] = str(number)
            self.channel.basic_publish("", named("confirms"), str(number), PERSISTENT)

    def on_confirm(self, frame):
        tag, multiple = frame.method.delivery_tag, frame.method.multiple
        assert isinstance(frame.method, pika.spec.Basic.Ack), frame
        for settled in [number for number in self.outstanding if number == tag or (multiple and number < tag)]:
            del self.outstanding[settled]
        if not self.outstanding:
            self.channel.queue_declare(named("confirms"), passive=True, callback=self.on_count)

    def on_count(self, frame):
        say(frame.method.message_count)
        self.connection.close()
        self.connection.ioloop.stop()


if sys.argv[1] == "one-by-one":
    one_by_one(int(sys.argv[2]))
else:
    Asynchronous(int(sys.argv[2])).run()
