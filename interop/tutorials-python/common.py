"""What every tutorial program shares: the connection, and names of this run."""

import os

import pika

TOKEN = os.environ.get("TUTORIAL_TOKEN", "manual")

# What the tutorials declare their queues of work as.
QUORUM = {"x-queue-type": "quorum"}


def connect():
    return pika.BlockingConnection(pika.URLParameters(os.environ["TUTORIAL_URI"]))


def named(name):
    return f"tutorial.{name}.{TOKEN}"


def say(text):
    print(text, flush=True)


def consume_forever(channel):
    """Says that consuming has begun, then prints what the callbacks print until killed."""
    say("ready")
    channel.start_consuming()
