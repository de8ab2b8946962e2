"""Registers scenarios, runs them one by one with a deadline, and prints a line for each."""

import subprocess
import sys
import threading
import time
import traceback
import uuid

import broker
from relay import Relay

WAIT_S = 10
SCENARIO_DEADLINE_S = 25
RESTART_DEADLINE_S = 60


class Skip(Exception):
    """The scenario cannot be expressed here; the text says why."""


def wait_until(condition, what, deadline_s=WAIT_S, step=None):
    """Calls `step` (default: a short pause) until `condition` holds; returns its value."""
    deadline = time.monotonic() + deadline_s
    while True:
        value = condition()
        if value:
            return value
        assert time.monotonic() < deadline, f"not within {deadline_s} s: {what}"
        if step is None:
            time.sleep(0.01)
        else:
            step()


def equal(actual, expected, what="value"):
    assert actual == expected, f"{what}: got {actual!r}, expected {expected!r}"


def starts(actual, prefix, what="text"):
    assert str(actual).startswith(prefix), f"{what}: got {actual!r}, expected to start with {prefix!r}"


class Context:
    """One run of one scenario: where the broker is, the names it uses, what to clean up."""

    def __init__(self, library, scenario, node):
        self.library, self.scenario, self.node = library, scenario, node
        self.token = uuid.uuid4().hex[:8]
        self.names = []
        self.deadline_s = RESTART_DEADLINE_S if "restart" in scenario else SCENARIO_DEADLINE_S
        self._closers = []

    def name(self, suffix="q"):
        name = f"interop.{self.library}.{self.scenario}.{suffix}.{self.token}"
        self.names.append(name)
        return name

    def on_end(self, closer):
        self._closers.append(closer)

    def relay(self):
        relay = Relay(self.node.host, self.node.port)
        self.on_end(relay.close)
        return relay

    def ctl(self, *arguments):
        """Runs a verb of the node's command-line tool; fails with what it says."""
        command = self.node.ctl_command()
        if command is None:
            raise Skip("the command-line tool needs a node of our own, or INTEROP_CTL")
        done = subprocess.run([*command, "-q", *arguments], capture_output=True, text=True, timeout=WAIT_S * 2)
        assert done.returncode == 0, f"{arguments}: exit {done.returncode}: {done.stderr or done.stdout}"
        return done.stdout

    def own_node(self):
        """A node of this scenario alone, to be restarted."""
        if broker.external():
            raise Skip("restarts need a node of our own")
        self.node = broker.Node().start()
        self.on_end(self.node.destroy)
        return self.node

    def close(self):
        for closer in reversed(self._closers):
            try:
                closer()
            except Exception:  # the scenario's own outcome counts, not its clean-up
                pass


class Library:
    """The scenarios of one client library, in the order they were registered."""

    def __init__(self, name, cleaner):
        self.name = name
        self.cleaner = cleaner
        self.scenarios = {}

    def scenario(self, scenario_id):
        def register(function):
            assert scenario_id not in self.scenarios, f"{scenario_id} registered twice"
            self.scenarios[scenario_id] = function
            return function

        return register


class Tally:
    def __init__(self):
        self.passed = self.failed = self.skipped = 0

    def closing_line(self):
        return f"{self.passed} passed, {self.failed} failed, {self.skipped} skipped"

    def record(self, library, scenario_id, error, seconds):
        label = f"{library} {scenario_id}"
        if error is None:
            self.passed += 1
            print(f"PASS {label} ({seconds:.2f} s)", flush=True)
        elif isinstance(error, Skip):
            self.skipped += 1
            print(f"SKIP {label}: {error}", flush=True)
        else:
            self.failed += 1
            reason = f"{type(error).__name__}: {error}".replace("\n", " ")
            print(f"FAIL {label}: {reason}", flush=True)
            traceback.print_exception(type(error), error, error.__traceback__)
            sys.stderr.flush()


def run_one(library, scenario_id, node, tally):
    context = Context(library.name, scenario_id, node)
    outcome = []

    def body():
        try:
            library.scenarios[scenario_id](context)
            outcome.append(None)
        except BaseException as error:  # every way to fail is a FAIL line
            outcome.append(error)

    started = time.monotonic()
    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(context.deadline_s)
    if not outcome:
        stack = traceback.format_stack(sys._current_frames()[thread.ident])
        outcome.append(TimeoutError(f"hangs after {context.deadline_s} s\n{''.join(stack)}"))
    seconds = time.monotonic() - started
    context.close()
    if context.node is node:
        try:
            library.cleaner(node, context.names)
        except Exception as error:
            outcome[0] = outcome[0] or RuntimeError(f"clean-up failed: {error!r}")
    tally.record(library.name, scenario_id, outcome[0], seconds)


def run(libraries, only):
    node = broker.shared_node()
    tally = Tally()
    try:
        for library in libraries:
            for scenario_id in library.scenarios:
                if not only or scenario_id in only:
                    run_one(library, scenario_id, node, tally)
        if tally.failed:
            print(node.log_tail(), file=sys.stderr)
    finally:
        node.destroy()
    print(tally.closing_line(), flush=True)
    return 1 if tally.failed else 0
