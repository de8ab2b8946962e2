"""The programs of docs/confirm-after-consume.md and docs/exactly-once.md: publishers that send again, to quorum queues
so that nothing is there twice, and a consumer that does each job once."""

import collections
import os
import pathlib
import sqlite3
import subprocess
import sys
import threading

import pika
import pika.exceptions

from harness import equal, wait_until
from pika_suite.client import LIBRARY, bodies, connect, parameters, ready
from pika_suite.restart import Reconnecting

EXAMPLES = pathlib.Path(__file__).parent.parent / "examples"
JOBS = 2000
KILLED_AT = (500, 1200)
HELD = "job-1901"  # is published once the node has been killed for the last time
DEADLINE_S = 45
DEDUPLICATED_JOBS = 200
ONCE_JOBS = 10_000
ONCE_KILLED_AT = (2_000, 5_000)


class Worker(Reconnecting):
    """Acknowledges jobs; refuses one in ten the first time, and holds one until it is sent again."""

    def __init__(self, ctx, queue, done):
        super().__init__(ctx, done)
        self.queue = queue
        self.seen = collections.Counter()
        self.acknowledged = set()

    def work(self, connection):
        channel = connection.channel()
        channel.queue_declare(self.queue, durable=True, arguments={"x-confirm-on": "ack"})
        channel.basic_qos(prefetch_count=50)
        channel.basic_consume(self.queue, self.on_message)
        while not self.done.is_set():
            connection.process_data_events(0.05)

    def on_message(self, channel, method, properties, _body):
        job = properties.message_id
        self.seen[job] += 1
        is_first = self.seen[job] == 1
        if is_first and job.endswith("0"):
            channel.basic_reject(method.delivery_tag, requeue=False)
        elif job != HELD or not is_first:
            # Before: the node may be killed once it has the acknowledgement, while this is still sending it.
            self.acknowledged.add(job)
            channel.basic_ack(method.delivery_tag)


def start(ctx, program, *arguments):
    uri = f"amqp://guest:guest@{ctx.node.host}:{ctx.node.port}"
    process = subprocess.Popen(
        [sys.executable, EXAMPLES / program, uri, *map(str, arguments)],
        env={**os.environ, "RESEND_TIMEOUT_S": "1"},
    )
    ctx.on_end(process.kill)
    return process


def ended(process):
    equal(process.wait(DEADLINE_S), 0, "exit status")


@LIBRARY.scenario("restart-send-again")
def send_again(ctx):
    queue = ctx.name()
    node = ctx.own_node()
    done = threading.Event()
    ctx.on_end(done.set)
    worker = Worker(ctx, queue, done)
    worker.start()
    publisher = start(ctx, "resend.py", queue, JOBS)
    for count in KILLED_AT:
        wait_until(lambda count=count: len(worker.seen) >= count, f"{count} jobs", DEADLINE_S)
        node.kill9()
        node.start()
    ended(publisher)
    assert worker.error is None, worker.error
    equal(worker.acknowledged, {f"job-{number}" for number in range(JOBS)}, "jobs")
    assert worker.seen[HELD] > 1, "published again without an answer"
    deduplicate(ctx)


def deduplicate(ctx):
    """Copies of jobs are made by hand too: two publishers have the same."""
    queue, path = ctx.name("deduplicated"), os.path.join(ctx.node.root, "jobs.sqlite")
    start(ctx, "deduplicate.py", queue, path)
    for publisher in [start(ctx, "resend.py", queue, DEDUPLICATED_JOBS) for _ in range(2)]:
        ended(publisher)
    with sqlite3.connect(path) as database:
        for table in ("done", "effects"):
            equal(database.execute(f"SELECT count(*) FROM {table}").fetchone(), (DEDUPLICATED_JOBS,), table)


@LIBRARY.scenario("restart-exactly-once")
def exactly_once(ctx):
    queue = ctx.name()
    node = ctx.own_node()
    publisher = start(ctx, "once.py", queue, "publisher", ONCE_JOBS)
    for count in ONCE_KILLED_AT:
        wait_until(lambda count=count: count_in(ctx, queue) >= count, f"{count} jobs", DEADLINE_S)
        node.kill9()
        node.start()
    ended(publisher)
    equal(bodies(connect(ctx).channel(), queue), [f"job-{number}".encode() for number in range(ONCE_JOBS)])


def count_in(ctx, queue):
    connection = pika.BlockingConnection(parameters(ctx.node.host, ctx.node.port))
    try:
        return ready(connection.channel(), queue)
    except pika.exceptions.ChannelClosedByBroker:  # the publisher is yet to declare it
        return 0
    finally:
        connection.close()
