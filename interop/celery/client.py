"""The submitting side, as processes of their own: `client.py results COUNT` or `client.py submit COUNT SUBMITTED_FILE`."""

import sys
from datetime import datetime, timedelta, timezone

from application import add, record, record_at_second_try

RESULT_DEADLINE_S = 60
ETA_S = 3
EVERY_RETRIED = 50
EVERY_ETA = 200
PUBLISH_RETRY = {"max_retries": 200, "interval_start": 0.05, "interval_step": 0.1, "interval_max": 0.5}


def results(count):
    """Every result comes back, and is the right one."""
    pending = [(number, add.delay(number, number)) for number in range(count)]
    for number, result in pending:
        answer = result.get(timeout=RESULT_DEADLINE_S)
        assert answer == 2 * number, f"{number} + {number} = {answer}"


def submit(count, submitted_path):
    """Writes a task's name to the file only after the broker confirmed its message."""
    with open(submitted_path, "a", buffering=1) as submitted:
        for number in range(count):
            kind, task, options = kind_of(number)
            name = f"{kind}-{number}"
            task.apply_async((name,), retry=True, retry_policy=PUBLISH_RETRY, **options)
            submitted.write(f"{name}\n")


def kind_of(number):
    if number % EVERY_RETRIED == 7:
        return "retried", record_at_second_try, {}
    if number % EVERY_ETA == 9:
        return "eta", record, {"eta": datetime.now(timezone.utc) + timedelta(seconds=ETA_S)}
    if number % EVERY_ETA == 11:
        return "countdown", record, {"countdown": ETA_S}
    return "plain", record, {}


if __name__ == "__main__":
    if sys.argv[1] == "results":
        results(int(sys.argv[2]))
    else:
        submit(int(sys.argv[2]), sys.argv[3])
