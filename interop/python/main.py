"""Runs the scenario list with pika and aio-pika and checks that no scenario is missing."""

import argparse
import pathlib
import re
import sys

import aio_suite
import broker
import harness
import pika_suite
import tls
from aio_suite import tls as aio_tls
from pika_suite import tls as pika_tls

LIBRARIES = [pika_suite.LIBRARY, aio_suite.LIBRARY]
IN_PLACE_OF_CLASSIC = "## In place of durable classic queues"


def ids(text):
    return re.findall(r"^\| `([a-z0-9-]+)` \|", text, re.MULTILINE)


def read(name):
    return (pathlib.Path(__file__).parent.parent / name).read_text()


def listed_scenarios(library):
    lists = ["SCENARIOS.md"]
    if library is pika_suite.LIBRARY:
        lists += ["EXCHANGE_TYPES.md", "QUEUE_RULES.md", "CONFIRM_ON.md", "QUORUM_QUEUES.md"]
    return ids("".join(map(read, lists)))


def is_the_same(scenario):
    """Whether it holds as it is for durable queues of the type that they have in this run."""
    _, differing = read("QUORUM_QUEUES.md").split(IN_PLACE_OF_CLASSIC)
    is_about_others = scenario.startswith("quorum-") or "-quorum-" in scenario
    is_about_others |= scenario in ids(read("EXCHANGE_TYPES.md"))
    return not broker.QUEUE_TYPE or not (is_about_others or scenario in ids(differing))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=[library.name for library in LIBRARIES])
    parser.add_argument("scenario", nargs="*")
    options = parser.parse_args()
    if tls.DIRECTORY:
        tls.register(pika_suite.LIBRARY, pika_tls.steps, pika_tls.REFUSAL)
        tls.register(aio_suite.LIBRARY, aio_tls.steps, aio_tls.REFUSAL)
        return harness.run(LIBRARIES, options.scenario)
    for library in LIBRARIES:
        listed = listed_scenarios(library)
        differing = set(listed) ^ set(library.scenarios)
        if differing:
            sys.exit(f"{library.name}: differs from the lists in {sorted(differing)}")
        library.scenarios = {scenario: library.scenarios[scenario] for scenario in filter(is_the_same, listed)}
    chosen = [library for library in LIBRARIES if options.library in (None, library.name)]
    return harness.run(chosen, options.scenario)


if __name__ == "__main__":
    sys.exit(main())
