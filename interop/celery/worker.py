"""A Celery worker as a process of its own."""

import pathlib
import signal
import subprocess
import sys
import time

HERE = pathlib.Path(__file__).parent
STEP_DEADLINE_S = 90


def lines(path):
    return path.read_text().split() if path.exists() else []


def wait_until(condition, what, deadline_s=STEP_DEADLINE_S, alive=lambda: None):
    deadline = time.monotonic() + deadline_s
    while not condition():
        alive()
        assert time.monotonic() < deadline, f"not within {deadline_s} s: {what}"
        time.sleep(0.02)


class Worker:
    """Answers control commands once `start` has returned; logs to a file in `folder`."""

    def __init__(self, app, folder, name):
        self.app = app
        self.name = f"{name}@interop"
        self.log_path = folder / f"{name}.log"
        self.process = None

    def start(self, *arguments):
        command = [sys.executable, "-m", "celery", "-A", "application", "worker", "-n", self.name, "-E", "-l", "INFO"]
        with open(self.log_path, "wb") as log:
            self.process = subprocess.Popen([*command, *arguments], cwd=HERE, stdout=log, stderr=subprocess.STDOUT)
        answers = lambda: self.app.control.ping(timeout=1, limit=1, destination=[self.name])  # noqa: E731
        wait_until(answers, f"the answer of {self.name} to ping", alive=self.check)

    @property
    def running(self):
        return self.process is not None and self.process.poll() is None

    def check(self):
        assert self.running, f"{self.name} exited with {self.process.returncode}:\n{self.log_tail()}"

    def log_tail(self):
        return self.log_path.read_text(errors="replace")[-3000:] if self.log_path.exists() else ""

    def stop(self):
        """A warm stop: tasks under way are ended first."""
        self.process.send_signal(signal.SIGTERM)
        status = self.process.wait(STEP_DEADLINE_S)
        assert status == 0, f"{self.name} stopped with {status}:\n{self.log_tail()}"

    def close(self):
        if self.running:
            self.process.send_signal(signal.SIGQUIT)  # a cold stop that takes the pool along
            try:
                self.process.wait(10)
            except subprocess.TimeoutExpired:
                self.process.kill()
