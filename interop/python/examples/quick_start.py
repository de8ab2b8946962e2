import os

import pika

url = os.environ.get("AMQP_URL", "amqp://guest:guest@localhost:5672")
with pika.BlockingConnection(pika.URLParameters(url)) as connection:
    channel = connection.channel()
    channel.queue_declare("hello", durable=True)

    # basic_publish returns once the broker has the message on disk.
    channel.confirm_delivery()
    persistent = pika.BasicProperties(delivery_mode=pika.DeliveryMode.Persistent)
    channel.basic_publish("", "hello", b"Hello, hare!", persistent)

    channel.basic_qos(prefetch_count=100)
    for method, properties, body in channel.consume("hello"):
        print(body.decode())
        channel.basic_ack(method.delivery_tag)
        break
