"""Publishes jobs to a quorum queue, each once whatever happens: once.py URI QUEUE PUBLISHER COUNT"""

import sys
import time

import pika

WINDOW = 200  # unconfirmed jobs: further ones are left where they come from
RECONNECT_S = 0.1
NACK_PAUSE_S = 0.1


class Publisher:
    def __init__(self, uri, queue, name, jobs):
        self.uri, self.queue, self.name = uri, queue, name
        self.jobs = enumerate(jobs, 1)  # with their publishing ids
        self.kept = {}  # jobs without a confirm by publishing id, in rising order
        self.published = 0
        self.done = False

    def run(self):
        while not self.done:
            connection = pika.SelectConnection(
                pika.URLParameters(self.uri),
                on_open_callback=lambda connection: connection.channel(on_open_callback=self.on_channel),
                on_open_error_callback=lambda connection, reason: connection.ioloop.stop(),
                on_close_callback=lambda connection, reason: connection.ioloop.stop(),
            )
            connection.ioloop.start()
            connection.ioloop.close()
            time.sleep(0 if self.done else RECONNECT_S)

    def on_channel(self, channel):
        self.channel = channel
        self.tag, self.unanswered = 0, {}  # publishing ids by delivery tag, which counts from 1 again
        channel.queue_declare(self.queue, durable=True, arguments={"x-queue-type": "quorum"})
        channel.confirm_delivery(self.on_answer)
        for id in list(self.kept):  # the queue drops what it has
            self.publish(id)
        self.fill()

    def fill(self):
        """Publishes new jobs while there is room."""
        while len(self.kept) < WINDOW and (job := next(self.jobs, None)):
            id, self.kept[job[0]] = job
            self.publish(id)
        if not self.kept:
            self.done = True
            self.channel.connection.close()

    def publish(self, id):
        if self.channel.is_open and id in self.kept:
            self.tag += 1
            self.unanswered[self.tag] = id
            self.published += 1
            headers = {"x-publisher-id": self.name, "x-publishing-id": id}
            self.channel.basic_publish("", self.queue, self.kept[id], pika.BasicProperties(headers=headers))

    def on_answer(self, frame):
        answer = frame.method
        tags = [answer.delivery_tag]
        if answer.multiple:
            tags = [tag for tag in self.unanswered if tag <= answer.delivery_tag]
        for tag in tags:
            id = self.unanswered.pop(tag)
            if isinstance(answer, pika.spec.Basic.Ack):
                del self.kept[id]
            else:  # refused, and not in the queue: it may come again
                self.channel.connection.ioloop.call_later(NACK_PAUSE_S, lambda id=id: self.publish(id))
        if self.channel.is_open:
            self.fill()


if __name__ == "__main__":
    uri, queue, name, count = sys.argv[1:]
    publisher = Publisher(uri, queue, name, (f"job-{number}" for number in range(int(count))))
    publisher.run()
    print(f"{count} jobs confirmed, {publisher.published} publishes")
