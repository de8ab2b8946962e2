"""Tutorial six: `rpc.py server` computes Fibonacci numbers, `rpc.py client N ...` asks for them."""

import sys
import uuid

import pika

from common import QUORUM, connect, consume_forever, named, say


def fibonacci(n):
    a, b = 0, 1
    for _ in range(n):
        a, b = b, a + b
    return a


def serve(channel):
    def on_request(channel, method, properties, body):
        answer = pika.BasicProperties(correlation_id=properties.correlation_id)
        channel.basic_publish("", properties.reply_to, str(fibonacci(int(body))), answer)
        channel.basic_ack(method.delivery_tag)

    channel.queue_declare(named("rpc"), durable=True, arguments=QUORUM)
    channel.basic_qos(prefetch_count=1)
    channel.basic_consume(named("rpc"), on_request)
    consume_forever(channel)


class Client:
    def __init__(self, connection):
        self.connection, self.channel = connection, connection.channel()
        self.queue = self.channel.queue_declare("", exclusive=True).method.queue
        self.channel.basic_consume(self.queue, self.on_response, auto_ack=True)

    def on_response(self, _channel, _method, properties, body):
        if properties.correlation_id == self.correlation_id:
            self.response = int(body)

    def call(self, n):
        self.response, self.correlation_id = None, str(uuid.uuid4())
        request = pika.BasicProperties(reply_to=self.queue, correlation_id=self.correlation_id)
        self.channel.basic_publish("", named("rpc"), str(n), request)
        while self.response is None:
            self.connection.process_data_events(None)
        return self.response


if sys.argv[1] == "server":
    serve(connect().channel())
else:
    connection = connect()
    client = Client(connection)
    for n in sys.argv[2:]:
        say(client.call(int(n)))
    connection.close()
