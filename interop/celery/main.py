"""Runs worker and clients, kills the node in the middle, and counts what was done."""

import argparse
import collections
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile
import threading
import time

sys.path.insert(0, str(pathlib.Path(__file__).parent.parent / "python"))

import broker  # noqa: E402
import queue_features  # noqa: E402
from worker import HERE, STEP_DEADLINE_S, Worker, lines, wait_until  # noqa: E402

STALL_DEADLINE_S = 60
RESULTS = 200
DEFAULT_TASKS = 10_000


class Application:
    """The worker process and the client processes over one node."""

    def __init__(self, node, tasks):
        self.node, self.tasks = node, tasks
        self.folder = pathlib.Path(tempfile.mkdtemp(prefix="leveret-celery-"))
        self.effects = self.folder / "effects"
        self.submitted = self.folder / "submitted"
        os.environ["INTEROP_BROKER"] = f"amqp://guest:guest@{node.host}:{node.port}//"
        os.environ["INTEROP_EFFECTS"] = str(self.effects)
        sys.path.insert(0, str(HERE))
        from application import app  # reads the environment set above

        self.app = app
        self.worker = Worker(app, self.folder, "worker")
        self.careful = Worker(app, self.folder, "careful")

    def start_worker(self):
        self.app.control.purge()
        self.worker.start("-c", "2", "-Q", "celery")

    def log_tail(self):
        return f"{self.worker.log_tail()}\n{self.careful.log_tail()}"

    def client(self, *arguments):
        return subprocess.Popen([sys.executable, "client.py", *map(str, arguments)], cwd=HERE)

    def get_results(self):
        client = self.client("results", RESULTS)
        assert client.wait(STEP_DEADLINE_S) == 0, "the client did not get its results"

    def close(self):
        self.worker.close()
        self.careful.close()
        if broker.external():
            with self.app.connection_for_write() as connection:
                connection.default_channel.queue_delete("celery")
            queue_features.delete_queues(self)
        shutil.rmtree(self.folder, ignore_errors=True)

    def wait_for_effects(self):
        """Until every submitted task left its effect; gives up only when nothing happens any more."""
        wanted = set(lines(self.submitted))
        done, changed_at = -1, time.monotonic()
        while missing := wanted - set(lines(self.effects)):
            self.worker.check()
            if len(missing) != done:
                done, changed_at = len(missing), time.monotonic()
            quiet_s = time.monotonic() - changed_at
            assert quiet_s < STALL_DEADLINE_S, f"{len(missing)} lost of {len(wanted)}: {sorted(missing)[:10]}"
            time.sleep(0.1)
        return wanted


def scenario_control(application):
    """Ping, statistics and registered tasks over the workers' own mailbox exchanges and reply queues."""
    with application.app.connection_for_write() as connection:  # the pooled one may be from before the kill
        inspect = application.app.control.inspect(timeout=10, limit=1, connection=connection)
        ((_, stats),) = inspect.stats().items()
        assert stats["broker"]["transport"] == "amqp", stats["broker"]
        ((_, registered),) = inspect.registered().items()
        assert "application.record" in registered, registered


def scenario_results(application):
    application.get_results()


def scenario_events(application):
    """A monitor sees one task-succeeded event for each task."""
    succeeded, ready = set(), threading.Event()

    def capture():
        with application.app.connection_for_read() as connection:
            handlers = {"task-succeeded": lambda event: succeeded.add(event["uuid"])}
            receiver = application.app.events.Receiver(connection, handlers=handlers)
            with receiver.consumer_context() as (connection, _, _):
                ready.set()
                while len(succeeded) < 50:
                    connection.drain_events(timeout=STEP_DEADLINE_S)

    monitor = threading.Thread(target=capture, daemon=True)
    monitor.start()
    assert ready.wait(STEP_DEADLINE_S), "the event receiver does not start"
    task = application.app.tasks["application.add"]
    sent = {task.apply_async((1, 1), ignore_result=True).id for _ in range(50)}
    monitor.join(STEP_DEADLINE_S)
    assert sent == succeeded, f"{len(sent - succeeded)} events missing"


def scenario_none_lost(application):
    """All tasks submitted, with the node killed and restarted in the middle when it is ours."""
    client = application.client("submit", application.tasks, application.submitted)
    if not broker.external():
        half = application.tasks // 2
        wait_until(lambda: len(lines(application.submitted)) >= half, "half of the tasks submitted")
        assert client.poll() is None, "the client had already ended at the kill"
        application.node.kill9()
        application.node.start()
    assert client.wait(STEP_DEADLINE_S * 2) == 0, "the client failed"
    wanted = application.wait_for_effects()
    assert len(wanted) == application.tasks, f"{len(wanted)} submitted"
    counts = collections.Counter(lines(application.effects))
    repeated = sum(1 for count in counts.values() if count > 1)
    kinds = dict(collections.Counter(name.split("-")[0] for name in wanted))
    print(f"{kinds}, run more than once: {repeated}")


def scenario_after(application):
    """After the restart control, results and events still work with the same worker."""
    scenario_control(application)
    application.get_results()
    scenario_events(application)


def scenario_stop(application):
    application.worker.stop()


def scenario_start(application):
    application.start_worker()


SCENARIOS = [
    ("worker-starts", scenario_start),
    ("control", scenario_control),
    ("results-over-rpc", scenario_results),
    ("events", scenario_events),
    *queue_features.SCENARIOS,
    ("none-lost", scenario_none_lost),
    ("usable-after-restart", scenario_after),
    ("worker-stops-warm", scenario_stop),
]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--tasks", type=int, default=int(os.environ.get("INTEROP_CELERY_TASKS", DEFAULT_TASKS)))
    options = parser.parse_args()
    node = broker.shared_node()
    application = Application(node, options.tasks)
    passed = failed = skipped = 0
    try:
        for name, scenario in SCENARIOS:
            started = time.monotonic()
            try:
                scenario(application)
            except Exception as error:
                failed += 1
                print(f"FAIL celery {name}: {type(error).__name__}: {error}", flush=True)
                if not application.worker.running:
                    break
                continue
            passed += 1
            print(f"PASS celery {name} ({time.monotonic() - started:.2f} s)", flush=True)
        if broker.external():
            skipped += 1
            print("SKIP celery none-lost over kill -9: restarts need a node of our own")
        if failed:
            print(application.log_tail(), node.log_tail(), sep="\n", file=sys.stderr)
    finally:
        application.close()
        node.destroy()
    print(f"{passed} passed, {failed} failed, {skipped} skipped")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
