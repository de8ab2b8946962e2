"""Starts, kills and restarts one broker node, or names the external one of INTEROP_URI."""

import contextlib
import os
import random
import re
import shlex
import shutil
import signal
import socket
import subprocess
import tempfile
import time
from urllib.parse import urlsplit

START_DEADLINE_S = float(os.environ.get("INTEROP_START_DEADLINE_S", "30"))
STOP_DEADLINE_S = 30
# The type of durable queues that do not say one; classic if it is empty.
QUEUE_TYPE = os.environ.get("INTEROP_QUEUE_TYPE", "")


def free_port():
    """Below the range of outgoing ports, so that it is still free when the node restarts on it."""
    while True:
        port = random.randrange(15000, 32000)
        with socket.socket() as probe, contextlib.suppress(OSError):
            probe.bind(("127.0.0.1", port))
            return port


def external():
    """Host and port of INTEROP_URI, or None when the suites start their own node."""
    uri = os.environ.get("INTEROP_URI")
    if not uri:
        return None
    parts = urlsplit(uri)
    return parts.hostname or "127.0.0.1", parts.port or 5672


class Node:
    """A broker process on a port and directory that both outlive a restart."""

    host = "127.0.0.1"

    def __init__(self, **settings):
        """`settings` are keys of the configuration, with two underscores for a point."""
        self.settings = [f"{key.replace('__', '.')}={value}" for key, value in settings.items()]
        self.binary = os.environ["LEVERET_BIN"]
        self.port = free_port()
        self.stream_port = free_port()
        self.root = tempfile.mkdtemp(prefix="leveret-interop-")
        self.data_dir = os.path.join(self.root, "data")
        self.log_path = os.path.join(self.root, "node.log")
        self.process = None

    def start(self):
        listeners = [
            *("--set", f"listeners.tcp.1={self.host}:{self.port}"),
            *("--set", f"stream.listeners.tcp.1={self.host}:{self.stream_port}"),
            *("--set", f"stream.advertised_host={self.host}"),
            *(word for setting in self.settings for word in ("--set", setting)),
        ]
        if QUEUE_TYPE:
            listeners += ["--set", f"default_queue_type={QUEUE_TYPE}"]
        log_start = os.path.getsize(self.log_path) if os.path.exists(self.log_path) else 0
        with open(self.log_path, "ab") as log:
            self.process = subprocess.Popen(
                [self.binary, "server", "--data-dir", self.data_dir, *listeners],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=subprocess.STDOUT,
            )
        deadline = time.monotonic() + START_DEADLINE_S
        while not self._is_ready(log_start):
            if self.process.poll() is not None:
                raise RuntimeError(f"node exited with {self.process.returncode}:\n{self.log_tail()}")
            if time.monotonic() > deadline:
                raise RuntimeError(f"node not ready in {START_DEADLINE_S} s:\n{self.log_tail()}")
            time.sleep(0.01)
        return self

    def _is_ready(self, log_start):
        with open(self.log_path, "rb") as log:
            log.seek(log_start)
            if re.search(rb"\bready\b", log.read()):
                return True
        try:
            socket.create_connection((self.host, self.port), timeout=1).close()
            return True
        except OSError:
            return False

    def kill9(self):
        self.process.send_signal(signal.SIGKILL)
        self.process.wait(STOP_DEADLINE_S)

    def stop(self):
        """Clean stop by SIGTERM; returns the exit status."""
        self.process.send_signal(signal.SIGTERM)
        return self.process.wait(STOP_DEADLINE_S)

    def ctl_command(self):
        return [self.binary, "ctl", "--data-dir", self.data_dir]

    def log_tail(self, size_bytes=4000):
        with open(self.log_path, "rb") as log:
            return log.read()[-size_bytes:].decode(errors="replace")

    def destroy(self):
        if self.process is not None and self.process.poll() is None:
            self.kill9()
        shutil.rmtree(self.root, ignore_errors=True)


class External:
    """Stands where a Node stands when the broker is not ours to start or stop."""

    stream_port = int(os.environ.get("INTEROP_STREAM_PORT", "5552"))

    def __init__(self, host, port):
        self.host, self.port = host, port

    def ctl_command(self):
        """The command of INTEROP_CTL, such as rabbitmqctl with its options, or None."""
        return shlex.split(os.environ.get("INTEROP_CTL", "")) or None

    def log_tail(self):
        return ""

    def destroy(self):
        pass


def shared_node():
    address = external()
    return External(*address) if address else Node().start()
