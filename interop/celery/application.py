"""The Celery application under test: default configuration, results over RPC, confirmed publishing."""

import os

from celery import Celery

app = Celery("application", broker=os.environ["INTEROP_BROKER"], backend="rpc://")
app.conf.broker_transport_options = {"confirm_publish": True}
app.conf.broker_connection_retry_on_startup = True

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
