"""Plays the tutorials with their programs as processes and compares what they print."""

import os
import pathlib
import queue
import subprocess
import sys
import threading
import time
import uuid

HERE = pathlib.Path(__file__).parent
sys.path.insert(0, str(HERE.parent / "python"))

import broker  # noqa: E402

DEADLINE_S = 20


class Program:
    """A tutorial program and the lines it prints."""

    running = []

    def __init__(self, *command):
        self.command = command
        self.process = subprocess.Popen(
            [sys.executable, *map(str, command)], cwd=HERE, stdout=subprocess.PIPE, text=True
        )
        self.printed = queue.Queue()
        threading.Thread(target=self._read, daemon=True).start()
        Program.running.append(self)

    def _read(self):
        for line in self.process.stdout:
            self.printed.put(line.rstrip("\n"))
        self.printed.put(None)

    def line(self):
        try:
            line = self.printed.get(timeout=DEADLINE_S)
        except queue.Empty:
            raise AssertionError(f"{self.command} printed nothing for {DEADLINE_S} s") from None
        assert line is not None, f"{self.command} ended with {self.process.wait()}"
        return line

    def lines(self, count):
        return [self.line() for _ in range(count)]

    def kill(self):
        self.process.kill()
        self.process.wait()


def listening(*command):
    program = Program(*command)
    equal(program.line(), "ready")
    return program


def finished(*command):
    """Runs a program to its end; returns what it printed."""
    program = Program(*command)
    equal(program.process.wait(DEADLINE_S), 0, f"exit status of {command}")
    printed = []
    while (line := program.printed.get(timeout=DEADLINE_S)) is not None:
        printed.append(line)
    return printed


def equal(actual, expected, what="printed"):
    assert actual == expected, f"{what}: got {actual!r}, expected {expected!r}"


def one_hello_world():
    finished("hello.py", "send", "Hello World!")  # waits in the queue
    receiver = listening("hello.py", "receive")
    finished("hello.py", "send", "Hello again!")
    equal(receiver.lines(2), ["Hello World!", "Hello again!"])


def two_work_queues():
    """Fair dispatch past a worker that hangs, and its task going to another when it dies."""
    hanging = listening("work_queue.py", "worker", "hang")
    finished("work_queue.py", "new", "first")
    equal(hanging.line(), "first")
    worker = listening("work_queue.py", "worker")
    finished("work_queue.py", "new", "second", "third", "fourth")
    equal(worker.lines(3), ["second", "third", "fourth"])
    hanging.kill()
    equal(worker.line(), "first again")


def three_publish_subscribe():
    finished("logs.py", "fanout", "emit", "", "nobody listens")
    receivers = [listening("logs.py", "fanout", "receive", "") for _ in range(2)]
    finished("logs.py", "fanout", "emit", "", "to everybody")
    for receiver in receivers:
        equal(receiver.line(), ":to everybody")


def four_routing():
    errors = listening("logs.py", "direct", "receive", "error")
    everything = listening("logs.py", "direct", "receive", "info", "warning", "error")
    for severity in ("info", "error", "warning", "error"):
        finished("logs.py", "direct", "emit", severity, "m")
    equal(everything.lines(4), ["info:m", "error:m", "warning:m", "error:m"])
    equal(errors.lines(2), ["error:m", "error:m"])


def five_topics():
    kernel = listening("logs.py", "topic", "receive", "kern.*")
    critical = listening("logs.py", "topic", "receive", "*.critical", "kern.critical")
    everything = listening("logs.py", "topic", "receive", "#")
    keys = ["kern.critical", "kern.info", "cron.critical", "cron.critical.late", "done"]
    for key in keys:
        finished("logs.py", "topic", "emit", key, "m")
    equal(everything.lines(5), [f"{key}:m" for key in keys])
    equal(kernel.lines(2), ["kern.critical:m", "kern.info:m"])
    equal(critical.lines(2), ["kern.critical:m", "cron.critical:m"])


def six_rpc():
    for _ in range(2):
        listening("rpc.py", "server")
    clients = [Program("rpc.py", "client", 30, 10, 0), Program("rpc.py", "client", 90)]
    equal(clients[0].lines(3), ["832040", "55", "0"])
    equal(clients[1].line(), "2880067194370816120")


def seven_publisher_confirms():
    equal(finished("confirms.py", "one-by-one", 500), ["500"])
    equal(finished("confirms.py", "asynchronously", 5000), ["5000"])


TUTORIALS = [
    one_hello_world,
    two_work_queues,
    three_publish_subscribe,
    four_routing,
    five_topics,
    six_rpc,
    seven_publisher_confirms,
]


def clean_up():
    import pika

    for program in Program.running:
        program.kill()
    channel = pika.BlockingConnection(pika.URLParameters(os.environ["TUTORIAL_URI"])).channel()
    token = os.environ["TUTORIAL_TOKEN"]
    for name in ("hello", "tasks", "rpc"):
        channel.queue_delete(f"tutorial.{name}.{token}")
    for kind in ("fanout", "direct", "topic"):
        channel.exchange_delete(f"tutorial.{kind}-logs.{token}")
    channel.connection.close()


def main():
    node = broker.shared_node()
    os.environ["TUTORIAL_URI"] = f"amqp://guest:guest@{node.host}:{node.port}/%2F"
    os.environ["TUTORIAL_TOKEN"] = uuid.uuid4().hex[:8]
    passed = failed = 0
    try:
        for tutorial in TUTORIALS:
            name = tutorial.__name__.replace("_", "-")
            started = time.monotonic()
            try:
                tutorial()
            except Exception as error:
                failed += 1
                print(f"FAIL tutorials-python {name}: {type(error).__name__}: {error}", flush=True)
            else:
                passed += 1
                print(f"PASS tutorials-python {name} ({time.monotonic() - started:.2f} s)", flush=True)
        if failed:
            print(node.log_tail(), file=sys.stderr)
        clean_up()
    finally:
        for program in Program.running:
            program.kill()
        node.destroy()
    print(f"{passed} passed, {failed} failed, 0 skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
