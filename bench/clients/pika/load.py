"""The load of bench/clients/run by pika: a process that publishes, a process that consumes."""

import argparse
import multiprocessing
import sys
import threading
import time

import pika

WINDOW = 200
QUEUE = "bench-real"


class Publisher:
    """Publishes with at most WINDOW messages that are not confirmed; tells its counts every second."""

    def __init__(self, options, counts):
        self.options, self.counts = options, counts
        self.sent = self.told = self.confirmed = 0
        self.times, self.latency = {}, []
        parameters = pika.URLParameters(options.uri)
        self.connection = pika.SelectConnection(parameters, on_open_callback=self.opened)
        self.connection.ioloop.start()

    def opened(self, connection):
        connection.channel(on_open_callback=self.started)

    def started(self, channel):
        self.channel = channel
        channel.confirm_delivery(self.answered, callback=lambda _: self.publish())
        self.began = time.monotonic()
        self.tell()

    def tell(self):
        self.counts.put((self.sent - self.told, self.latency))
        self.told, self.latency = self.sent, []
        self.connection.ioloop.call_later(1, self.tell)

    def publish(self):
        """Publishes what the window and the rate allow, then waits for confirms or for the next moment."""
        allowed = self.confirmed + WINDOW
        if self.options.rate:
            due = int((time.monotonic() - self.began) * self.options.rate) + 1
            allowed = min(allowed, due)
            self.connection.ioloop.call_later(0.002, self.publish)
        for _ in range(allowed - self.sent):
            self.sent += 1
            now = time.monotonic_ns()
            self.times[self.sent] = now
            self.channel.basic_publish("", QUEUE, now.to_bytes(12, "big"))

    def answered(self, frame):
        """A confirm: of one message, or of all up to it."""
        tag, now = frame.method.delivery_tag, time.monotonic_ns()
        first = self.confirmed + 1 if frame.method.multiple else tag
        for number in range(first, tag + 1):
            sent = self.times.pop(number, None)
            if sent is not None:
                self.confirmed += 1
                self.latency.append(now - sent)
        if not self.options.rate:
            self.publish()


class Consumer:
    """Acknowledges each message by itself."""

    def __init__(self, options, figures, ready):
        self.figures, self.ready = figures, ready
        parameters = pika.URLParameters(options.uri)
        connection = pika.SelectConnection(parameters, on_open_callback=self.opened)
        connection.ioloop.start()

    def opened(self, connection):
        connection.channel(on_open_callback=self.started)

    def started(self, channel):
        channel.queue_declare(QUEUE, auto_delete=True)
        channel.basic_qos(prefetch_count=WINDOW)
        channel.basic_consume(QUEUE, self.received, callback=lambda _: self.ready.set())

    def received(self, channel, method, _properties, body):
        self.figures.latency.append(time.monotonic_ns() - int.from_bytes(body, "big"))
        self.figures.received += 1
        channel.basic_ack(method.delivery_tag)


class Figures:
    """The counts of a second."""

    def __init__(self):
        self.received, self.latency = 0, []


def percentiles(nanoseconds):
    values = sorted(nanoseconds) or [0]
    at = [0, 0.5, 0.75, 0.95, 0.99]
    return "/".join(str(values[int(share * (len(values) - 1))] // 1000) for share in at)


def report(figures, counts, seconds):
    began = last = time.monotonic()
    while time.monotonic() - began < seconds:
        time.sleep(1)
        now = time.monotonic()
        length, last = now - last, now
        received, latency = figures.received, figures.latency
        figures.__init__()
        sent, confirm = 0, []
        while not counts.empty():
            more, latencies = counts.get()
            sent, confirm = sent + more, confirm + latencies
        print(
            f"time {now - began:.3f} s, sent: {sent / length:.0f} msg/s, received: {received / length:.0f} msg/s, "
            f"min/median/75th/95th/99th consumer latency: {percentiles(latency)} µs, "
            f"confirm latency: {percentiles(confirm)} µs",
            flush=True,
        )


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--uri", required=True)
    parser.add_argument("--rate", type=int, default=0)
    parser.add_argument("-z", type=float, default=10)
    options = parser.parse_args()
    sys.stdout.reconfigure(encoding="utf-8")
    figures = Figures()
    ready = threading.Event()

    threading.Thread(target=Consumer, args=(options, figures, ready), daemon=True).start()
    if not ready.wait(30):
        sys.exit("the consumer does not start")
    counts = multiprocessing.Queue()
    multiprocessing.Process(target=Publisher, args=(options, counts), daemon=True).start()
    report(figures, counts, options.z)


if __name__ == "__main__":
    main()
