"""Queue arguments, priorities, delays and acknowledgements, with a worker that takes one task at a time."""

import collections
import threading
import time
from datetime import datetime, timedelta, timezone

from kombu import Exchange
from kombu.transport.native_delayed_delivery import (
    MAX_LEVEL,
    bind_queue_to_native_delayed_delivery_exchange,
    calculate_routing_key,
    declare_native_delayed_delivery_exchanges_and_queues,
    level_name,
)

from worker import STEP_DEADLINE_S, lines, wait_until

DELAY_PREFIX = "interop"
HELD = 5
QUEUES = ("ranked", "solo", "timed")


class Careful:
    """The worker of these scenarios and the effects of its tasks."""

    def __init__(self, application):
        self.app = application.app
        self.worker = application.careful
        self.effects = application.effects

    def task(self, name):
        return self.app.tasks[f"application.{name}"]

    def inspect(self):
        return self.app.control.inspect(timeout=STEP_DEADLINE_S, destination=[self.worker.name], limit=1)

    def effects_of(self, kind):
        """What tasks of this kind left, without the kind, in the order they ran."""
        return [line.split(":", 1)[1] for line in lines(self.effects) if line.startswith(f"{kind}:")]

    def wait_for(self, kind, count):
        wait_until(lambda: len(self.effects_of(kind)) >= count, f"{count} effects of {kind}", alive=self.worker.check)
        found = self.effects_of(kind)
        assert len(found) == count, found
        return found

    def ready(self, queue):
        with self.app.connection_for_read() as connection:
            return connection.default_channel.queue_declare(queue, passive=True).message_count


def scenario_start(application):
    """One process, one message ahead, and only one of the queues at first."""
    application.careful.start("-c", "1", "--prefetch-multiplier", "1", "-Q", "solo")


def scenario_priorities(application):
    """A backlog is worked off by priority, and in order within one."""
    careful = Careful(application)
    priorities = [number % 10 for number in range(7, 207, 7)]
    record = careful.task("record_late")
    with application.app.connection_for_write() as connection:
        application.app.amqp.queues["ranked"].bind(connection.default_channel).declare()
    for number, priority in enumerate(priorities):
        record.apply_async((f"ranked:{priority}.{number:02}",), queue="ranked", priority=priority)
    assert careful.ready("ranked") == len(priorities)
    application.app.control.add_consumer("ranked", destination=[careful.worker.name])
    found = careful.wait_for("ranked", len(priorities))
    expected = sorted(enumerate(priorities), key=lambda item: (-item[1], item[0]))
    assert found == [f"{priority}.{number:02}" for number, priority in expected], found
    ((_, queues),) = careful.inspect().active_queues().items()
    assert {queue["name"] for queue in queues} == {"solo", "ranked"}, queues


def scenario_acks_late(application):
    """A task whose process dies is given back, and is run again with the message marked as redelivered."""
    careful = Careful(application)
    careful.task("record_after_death").apply_async(("death",), queue="solo")
    assert careful.wait_for("death", 1) == ["redelivered"]


def scenario_retries(application):
    """Tries until it works, and gives up after the last."""
    careful = Careful(application)
    result = careful.task("succeed_at").apply_async((3,), queue="solo")
    assert result.get(timeout=STEP_DEADLINE_S) == 3
    hopeless = careful.task("succeed_at").apply_async((99,), queue="solo")
    error = hopeless.get(timeout=STEP_DEADLINE_S, propagate=False)
    assert isinstance(error, ValueError), error
    assert hopeless.state == "FAILURE"


def scenario_events(application):
    """A monitor sees each step in the life of a task."""
    careful = Careful(application)
    seen, ready = collections.defaultdict(list), threading.Event()
    wanted, ids = {"fine": 3, "tried": 6, "failed": 3}, {}

    def capture():
        with application.app.connection_for_read() as connection:
            keep = lambda event: seen[event["uuid"]].append(event["type"])  # noqa: E731
            kinds = ("task-received", "task-started", "task-retried", "task-succeeded", "task-failed")
            receiver = application.app.events.Receiver(connection, handlers=dict.fromkeys(kinds, keep))
            with receiver.consumer_context() as (connection, _, _):
                ready.set()
                # Tasks of other scenarios may still send events.
                while not ids or any(len(seen[ids[kind]]) < count for kind, count in wanted.items()):
                    connection.drain_events(timeout=STEP_DEADLINE_S)

    monitor = threading.Thread(target=capture, daemon=True)
    monitor.start()
    assert ready.wait(STEP_DEADLINE_S), "the event receiver does not start"
    begun_ids = {
        "fine": careful.task("add").apply_async((1, 1), queue="solo", ignore_result=True).id,
        "tried": careful.task("succeed_at").apply_async((1,), queue="solo", ignore_result=True).id,
        "failed": careful.task("fail").apply_async((), queue="solo", ignore_result=True).id,
    }
    ids.update(begun_ids)
    monitor.join(STEP_DEADLINE_S)
    lives = {kind: sorted(set(seen[id])) for kind, id in ids.items()}
    begun = ["task-received", "task-started"]
    assert lives["fine"] == [*begun, "task-succeeded"], lives
    assert lives["tried"] == [begun[0], "task-retried", begun[1], "task-succeeded"], lives
    assert lives["failed"] == ["task-failed", *begun], lives


def scenario_countdown(application):
    """Tasks of the worker's own timer run in the order of their times, none too early; the other worker holds them."""
    careful = Careful(application)
    started = time.time()
    for countdown in (1.0, 0.2, 0.6):
        careful.task("record_time").apply_async((f"countdown:{countdown}",), queue="celery", countdown=countdown)
    found = [effect.split("@") for effect in careful.wait_for("countdown", 3)]
    assert [countdown for countdown, _ in found] == ["0.2", "0.6", "1.0"], found
    assert all(float(at) - started >= float(countdown) for countdown, at in found), found


def scenario_native_delay(application):
    """Celery's delays by queues: time to live and dead letters through 28 levels, here with classic queues."""
    careful = Careful(application)
    app = application.app
    with app.connection_for_write() as connection:
        declare_native_delayed_delivery_exchanges_and_queues(connection, "classic", DELAY_PREFIX)
        queue = app.amqp.queues["timed"]
        queue.bind(connection.default_channel).declare()
        bind_queue_to_native_delayed_delivery_exchange(connection, queue, DELAY_PREFIX)
    app.control.add_consumer("timed", destination=[careful.worker.name])
    first_level = Exchange(level_name(MAX_LEVEL, DELAY_PREFIX), type="topic")
    started = time.time()
    for delay_s in (3, 1):
        key = calculate_routing_key(delay_s, "timed")
        careful.task("record_time").apply_async((f"delay:{delay_s}",), exchange=first_level, routing_key=key)
    found = [effect.split("@") for effect in careful.wait_for("delay", 2)]
    assert [delay_s for delay_s, _ in found] == ["1", "3"], found
    assert all(float(at) - started >= int(delay_s) for delay_s, at in found), found


def scenario_eta_held(application):
    """Tasks the worker holds for later are in the queue again, with the others, when it stops."""
    careful = Careful(application)
    later = datetime.now(timezone.utc) + timedelta(hours=1)
    held = {careful.task("record").apply_async(("never",), queue="solo", eta=later).id for _ in range(HELD)}

    def scheduled():
        ((_, entries),) = careful.inspect().scheduled().items()
        return {entry["request"]["id"] for entry in entries}

    wait_until(scheduled, "a task held by the worker", alive=careful.worker.check)
    assert scheduled() <= held
    assert careful.ready("solo") < HELD
    careful.worker.stop()
    wait_until(lambda: careful.ready("solo") == HELD, "the held tasks in the queue again")


def delete_queues(application):
    """What these scenarios declared."""
    with application.app.connection_for_write() as connection:
        channel = connection.channel()
        for queue in (*QUEUES, *(level_name(level, DELAY_PREFIX) for level in range(MAX_LEVEL + 1))):
            channel.queue_delete(queue)
        levels = (level_name(level, DELAY_PREFIX) for level in range(MAX_LEVEL + 1))
        for exchange in ("solo", "ranked", "timed", f"{DELAY_PREFIX}_celery_delayed_delivery", *levels):
            channel.exchange_delete(exchange)


SCENARIOS = [
    ("careful-worker-starts", scenario_start),
    ("priorities", scenario_priorities),
    ("acks-late", scenario_acks_late),
    ("retries", scenario_retries),
    ("events-of-a-life", scenario_events),
    ("countdown", scenario_countdown),
    ("native-delay", scenario_native_delay),
    ("eta-held", scenario_eta_held),
]
