"""The scenarios of interop/TLS.md with aio-pika."""

import asyncio
import ssl

import aio_pika
import yarl

import tls
from harness import equal

REFUSAL = (aio_pika.exceptions.AMQPConnectionError, ssl.SSLError, ConnectionError)


def steps(ctx, context, external):
    asyncio.run(_steps(ctx, context, external))


async def _steps(ctx, context, external):
    url = yarl.URL(f"amqps://guest:guest@localhost:{tls.port()}/")
    if external:
        url = url.update_query(auth="external")
    connection = await aio_pika.connect(url, ssl_context=context)
    async with connection:
        channel = await connection.channel()
        queue = await channel.declare_queue(ctx.name(), durable=True)
        await channel.default_exchange.publish(aio_pika.Message(tls.BODY), queue.name)
        message = await queue.get(no_ack=True)
        equal(message.body == tls.BODY, True, "the body is the same")
