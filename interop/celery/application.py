"""The Celery application under test: default configuration, results over RPC, confirmed publishing."""

import os
import signal
import time

from celery import Celery
from kombu import Exchange, Queue

app = Celery("application", broker=os.environ["INTEROP_BROKER"], backend="rpc://")
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.broker_connection_retry_on_startup = True
app.conf.task_queues = [
    Queue("celery", Exchange("celery"), routing_key="celery"),
    Queue("solo", Exchange("solo"), routing_key="solo"),
    Queue("ranked", Exchange("ranked"), routing_key="ranked", queue_arguments={"x-max-priority": 10}),
    Queue("timed", Exchange("timed", type="topic"), routing_key="timed"),
]
app.conf.task_default_queue = "celery"

RETRY_COUNTDOWN_S = 0.5
EFFECTS = os.environ["INTEROP_EFFECTS"]


def leave_effect(name):
    """One line per run; a write this small to a file opened for appending is not torn."""
    with open(EFFECTS, "a") as effects:
        effects.write(f"{name}\n")


@app.task
def record(name):
    leave_effect(name)
    return name


@app.task(bind=True)
def record_at_second_try(self, name):
    if self.request.retries == 0:
        raise self.retry(countdown=RETRY_COUNTDOWN_S)
    leave_effect(name)
    return name


@app.task
def add(left, right):
    return left + right


@app.task(acks_late=True)
def record_late(name):
    leave_effect(name)


@app.task
def record_time(name):
    leave_effect(f"{name}@{time.time()}")


@app.task(bind=True, acks_late=True, reject_on_worker_lost=True)
def record_after_death(self, name):
    """Takes its process along the first time."""
    if not self.request.delivery_info["redelivered"]:
        os.kill(os.getpid(), signal.SIGKILL)
    leave_effect(f"{name}:redelivered")


@app.task(bind=True, autoretry_for=(ValueError,), max_retries=3, default_retry_delay=0)
def succeed_at(self, retries):
    if self.request.retries < retries:
        raise ValueError(f"try {self.request.retries}")
    return self.request.retries


@app.task
def fail():
    raise ValueError("as it should")
