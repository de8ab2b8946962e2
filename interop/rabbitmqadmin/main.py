"""Every kind of command of rabbitmqadmin, one after the other: main.py PATH_OF_RABBITMQADMIN"""

import json
import os
import socket
import subprocess
import sys
import tempfile

COMMANDS = [
    "show overview",
    "declare vhost name=shop",
    "declare vhost_limit vhost=shop name=max-queues value=5",
    "list vhosts",
    "declare user name=ann password=secret tags=monitoring",
    "declare permission vhost=/ user=ann configure=.* write=.* read=.*",
    "list users",
    "list permissions",
    "declare queue name=orders durable=true",
    "declare queue name=audit durable=true arguments={\"x-queue-type\":\"quorum\"}",
    "declare exchange name=events type=topic",
    "declare binding source=events destination=orders routing_key=order.#",
    "list bindings",
    "list exchanges",
    "declare policy name=short pattern=^o definition={\"max-length\":5} apply-to=queues",
    "list policies",
    "publish exchange=events routing_key=order.new payload=hello",
    "list queues name messages policy",
    "get queue=orders ackmode=ack_requeue_true",
    "get queue=orders ackmode=ack_requeue_false",
    "purge queue name=orders",
    "list connections",
    "list channels",
    "list consumers",
    "list nodes",
    "list parameters",
    "export definitions.json",
    "import definitions.json",
    "delete binding source=events destination_type=queue destination=orders properties_key=order.%23",
    "delete policy name=short",
    "delete exchange name=events",
    "delete queue name=orders",
    "delete queue name=audit",
    "delete user name=ann",
    "delete vhost name=shop",
]


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def run(tool, port, command, work_dir):
    words = [sys.executable, tool, "-P", str(port), *command.split(" ")]
    return subprocess.run(words, cwd=work_dir, capture_output=True, text=True, timeout=60)


def check(command, done):
    """What is wrong with an answer, or None."""
    if done.returncode != 0:
        return f"{done.returncode}: {done.stdout}{done.stderr}"
    if command.startswith("publish") and "Message published" not in done.stdout:
        return done.stdout
    if command.startswith("get ") and "hello" not in done.stdout:
        return done.stdout
    if command == "list queues name messages policy" and "| orders | 1        | short" not in done.stdout:
        return done.stdout
    return None


def main(tool):
    port = free_port()
    with tempfile.TemporaryDirectory(prefix="leveret-interop-") as home:
        settings = ["listeners.tcp.1=127.0.0.1:0", "stream.listeners.tcp=none", "prometheus.enabled=false"]
        settings += ["management.tcp.ip=127.0.0.1", f"management.tcp.port={port}", "log.console=false"]
        words = [os.environ["LEVERET_BIN"], "server", "--data-dir", os.path.join(home, "data")]
        words += [word for setting in settings for word in ("--set", setting)]
        node = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
        assert " ready on " in node.stdout.readline(), "the node does not start"
        n_failed = 0
        for command in COMMANDS:
            problem = check(command, run(os.path.abspath(tool), port, command, home))
            n_failed += problem is not None
            print(f"{'ok' if problem is None else 'FAILED'} {command}", problem or "", flush=True)
        with open(os.path.join(home, "definitions.json"), encoding="utf-8") as exported:
            queues = {queue["name"] for queue in json.load(exported)["queues"]}
        if queues != {"orders", "audit"}:
            n_failed += 1
            print("FAILED the exported queues are", queues)
        node.terminate()
        n_failed += node.wait(30) != 0
    print(f"{len(COMMANDS) + 1 - n_failed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


if __name__ == "__main__":
    sys.exit(main(os.path.abspath(sys.argv[1])))
