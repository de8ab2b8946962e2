"""Runs the scenarios of interop/AMQP10.md with RabbitMQ's client and with qpid-proton."""

import argparse
import logging
import pathlib
import sys

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent / "python"))

import harness
import proton_suite
import rabbitmq_suite

LIBRARIES = [rabbitmq_suite.LIBRARY, proton_suite.LIBRARY]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--library", choices=[library.name for library in LIBRARIES])
    parser.add_argument("scenario", nargs="*")
    options = parser.parse_args()
    # What is refused on purpose would be logged.
    logging.disable(logging.CRITICAL)
    chosen = [library for library in LIBRARIES if options.library in (None, library.name)]
    return harness.run(chosen, options.scenario)


if __name__ == "__main__":
    sys.exit(main())
