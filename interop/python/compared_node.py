"""A node of Leveret whose answers are compared with those that RabbitMQ once gave."""

import os
import subprocess

from broker import free_port


def start(home, port, api_port):
    settings = [f"listeners.tcp.1=127.0.0.1:{port}", f"stream.listeners.tcp.1=127.0.0.1:{free_port()}"]
    settings += ["prometheus.enabled=false", "log.console=false"]
    settings += ["management.tcp.ip=127.0.0.1", f"management.tcp.port={api_port}"]
    words = [os.environ["LEVERET_BIN"], "server", "--data-dir", os.path.join(home, "data")]
    words += [word for setting in settings for word in ("--set", setting)]
    node = subprocess.Popen(words, stdout=subprocess.PIPE, text=True)
    if " ready on " not in node.stdout.readline():
        raise RuntimeError("the node does not start")
    return node
