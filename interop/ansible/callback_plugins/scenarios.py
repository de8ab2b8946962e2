"""Prints a line for each task, and how many passed."""

from ansible.plugins.callback import CallbackBase

DOCUMENTATION = """
name: scenarios
type: stdout
short_description: a line for each task
description: PASS or FAIL and the name of the task, which is the id of the scenario.
"""


class CallbackModule(CallbackBase):
    CALLBACK_VERSION = 2.0
    CALLBACK_TYPE = "stdout"
    CALLBACK_NAME = "scenarios"

    def __init__(self):
        super().__init__()
        self.passed = self.failed = 0

    def v2_runner_on_ok(self, result):
        self.passed += 1
        print(f"PASS ansible {result.task_name}", flush=True)

    def v2_runner_on_failed(self, result, ignore_errors=False):
        self.failed += 1
        told = {key: value for key, value in result.result.items() if key in ("msg", "changed", "stdout", "stderr")}
        print(f"FAIL ansible {result.task_name}: {told}", flush=True)

    def v2_runner_on_unreachable(self, result):
        self.v2_runner_on_failed(result)

    def v2_playbook_on_stats(self, stats):
        print(f"{self.passed} passed, {self.failed} failed, 0 skipped", flush=True)
