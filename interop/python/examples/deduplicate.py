"""Does each job once, however often it comes: deduplicate.py URI QUEUE DATABASE"""

import sqlite3
import sys
import time

import pika

RECONNECT_S = 0.5


def consume(uri, queue, database):
    connection = pika.BlockingConnection(pika.URLParameters(uri))
    channel = connection.channel()
    channel.queue_declare(queue, durable=True, arguments={"x-confirm-on": "ack"})
    channel.basic_qos(prefetch_count=50)
    for method, properties, body in channel.consume(queue):
        with database:  # one transaction: the job's effect and the note that it is done
            note = database.execute("INSERT OR IGNORE INTO done VALUES (?)", [properties.message_id])
            if note.rowcount == 1:
                database.execute("INSERT INTO effects VALUES (?)", [body.decode()])
        channel.basic_ack(method.delivery_tag)  # after the transaction, never before


if __name__ == "__main__":
    uri, queue, path = sys.argv[1:]
    database = sqlite3.connect(path)
    database.execute("CREATE TABLE IF NOT EXISTS done (id TEXT PRIMARY KEY)")
    database.execute("CREATE TABLE IF NOT EXISTS effects (body TEXT)")
    while True:
        try:
            consume(uri, queue, database)
        except pika.exceptions.AMQPConnectionError:
            time.sleep(RECONNECT_S)
