"""Publishes jobs and keeps each until it is confirmed: resend.py URI QUEUE COUNT"""

import os
import sys
import time

import pika

WINDOW = 200  # unconfirmed jobs: further ones are left where they come from
TIMEOUT_S = float(os.environ.get("RESEND_TIMEOUT_S", "30"))  # without an answer
NACK_PAUSE_S = 0.1
TICK_S = 0.1
RECONNECT_S_MIN, RECONNECT_S_MAX = 0.1, 5


class Job:
    """A job that is not confirmed."""

    def __init__(self, job_id, body):
        self.id, self.body = job_id, body
        self.forget_connection()

    def forget_connection(self):
        self.tag, self.tries, self.due_at = 0, 0, 0


class Publisher:
    def __init__(self, uri, queue, jobs):
        self.uri, self.queue, self.jobs = uri, queue, jobs
        self.kept = {}  # jobs by id
        self.published = 0
        self.done = False

    def run(self):
        pause_s = RECONNECT_S_MIN
        while True:
            connection = pika.SelectConnection(
                pika.URLParameters(self.uri),
                on_open_callback=lambda connection: connection.channel(on_open_callback=self.on_channel),
                on_open_error_callback=lambda connection, reason: connection.ioloop.stop(),
                on_close_callback=lambda connection, reason: connection.ioloop.stop(),
            )
            self.channel = None
            connection.ioloop.start()
            connection.ioloop.close()
            if self.done:
                return
            pause_s = RECONNECT_S_MIN if self.channel else min(2 * pause_s, RECONNECT_S_MAX)
            time.sleep(pause_s)

    def on_channel(self, channel):
        self.channel = channel
        self.tag, self.unanswered = 0, {}  # jobs by delivery tag, which counts from 1 again
        for job in self.kept.values():
            job.forget_connection()
        channel.add_on_close_callback(self.on_channel_closed)
        channel.queue_declare(self.queue, durable=True, arguments={"x-confirm-on": "ack"})
        channel.confirm_delivery(self.on_answer)
        self.tick()

    def on_channel_closed(self, channel, reason):
        if channel.connection.is_open:
            channel.connection.close()

    def tick(self):
        """Publishes again what is overdue."""
        if self.channel.is_open:
            now = time.monotonic()
            for job in [job for job in self.kept.values() if job.due_at <= now]:
                self.publish(job)
            self.fill()
            self.channel.connection.ioloop.call_later(TICK_S, self.tick)

    def fill(self):
        """Publishes new jobs while there is room."""
        while len(self.kept) < WINDOW and (job := next(self.jobs, None)):
            self.kept[job.id] = job
            self.publish(job)
        if not self.kept:
            self.done = True
            self.channel.connection.close()

    def publish(self, job):
        self.tag += 1
        self.unanswered[self.tag] = job
        job.tag = self.tag
        job.due_at = time.monotonic() + TIMEOUT_S * 2 ** min(job.tries, 10)
        job.tries += 1
        self.published += 1
        self.channel.basic_publish("", self.queue, job.body, pika.BasicProperties(message_id=job.id))

    def on_answer(self, frame):
        answer = frame.method
        tags = [answer.delivery_tag]
        if answer.multiple:
            tags = [tag for tag in self.unanswered if tag <= answer.delivery_tag]
        for tag in tags:
            job = self.unanswered.pop(tag)
            if isinstance(answer, pika.spec.Basic.Ack):
                self.kept.pop(job.id, None)  # whichever publish of the job it answers
            elif job.tag == tag:
                job.due_at = time.monotonic() + NACK_PAUSE_S
        if self.channel.is_open:
            self.fill()


if __name__ == "__main__":
    uri, queue, count = sys.argv[1:]
    jobs = (Job(f"job-{number}", b"work") for number in range(int(count)))
    publisher = Publisher(uri, queue, jobs)
    publisher.run()
    print(f"{count} jobs confirmed, {publisher.published} publishes")
