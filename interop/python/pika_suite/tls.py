"""The scenarios of interop/TLS.md with pika."""

import ssl

import pika
import pika.exceptions

import tls
from harness import equal
from pika_suite.client import confirming

REFUSAL = (pika.exceptions.AMQPConnectionError, ssl.SSLError, ConnectionError)


def steps(ctx, context, external):
    credentials = pika.credentials.ExternalCredentials() if external else pika.PlainCredentials("guest", "guest")
    options = pika.SSLOptions(context, "localhost")
    parameters = pika.ConnectionParameters("localhost", tls.port(), ssl_options=options, credentials=credentials)
    connection = pika.BlockingConnection(parameters)
    ctx.on_end(connection.close)
    channel = confirming(connection)
    queue = ctx.name()
    channel.queue_declare(queue, durable=True)
    channel.basic_publish("", queue, tls.BODY)
    equal(channel.basic_get(queue, auto_ack=True)[2] == tls.BODY, True, "the body is the same")
