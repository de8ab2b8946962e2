"""One exchange of frames with a broker, and what is written down of the answers."""

import base64
import http.client
import json
import random
import re
import socket
import struct
import time

import amqp091
import codec
from script import QUEUE, USERS, Legacy

# Seconds without an answer after which a step is over where nothing says how many answers there are.
QUIET_S = 1
# Seconds in which the answers of a record must come, and those beyond them.
DEADLINE_S = 8
BEYOND_S = 0.1
# What differs between brokers, nodes and runs, with the words for it.
NAMES = [
    (r":(copyright|information|platform)=\"[^\"]*\"", r":\1"),
    (r"amq\.dyn-[^\"'/ ]*", "amq.dyn-$dyn"),
    (r"amq\.rabbitmq\.reply-to\.[^\"' ]*", "amq.rabbitmq.reply-to.$reply"),
    (r"time=T 1[0-9]{9}\b", "time=T $now"),
    (r":version=\"[0-9.]*\"", ":version"),
    (r"timestamp 1[0-9]{12}\b", "timestamp $now"),
]


class Broker:
    """A broker's ports, and its names, which transcripts do not tell."""

    def __init__(self, port, api_port):
        self.port, self.api_port = port, api_port
        self.names = []
        # Queues of an earlier run on the same broker have other names.
        self.prefix = "".join(random.choices("abcdefghijklmnopqrstuvwxyz", k=2))

    def ask(self, method, path, body=None):
        connection = http.client.HTTPConnection("127.0.0.1", self.api_port, timeout=DEADLINE_S)
        login = base64.b64encode(b"guest:guest").decode()
        headers = {"authorization": "Basic " + login, "content-type": "application/json"}
        connection.request(method, "/api" + path, json.dumps(body) if body else None, headers)
        answer = connection.getresponse()
        text = answer.read()
        if answer.status >= 300:
            raise RuntimeError(f"{method} {path}: {answer.status} {text}")
        return json.loads(text) if text else None

    def prepare(self):
        overview = self.ask("GET", "/overview")
        self.names = [(overview[key], "$node") for key in ("cluster_name", "node")]
        for user, permissions in USERS.items():
            self.ask("PUT", f"/users/{user}", {"password": user, "tags": ""})
            if permissions:
                self.ask("PUT", f"/permissions/%2F/{user}", permissions)


class Exchange:
    """A case on a connection of its own."""

    def __init__(self, broker, case, expected):
        self.broker, self.case, self.expected = broker, case, expected
        self.own_name = f"{broker.prefix}{case.number:04}"
        self.socket = self.legacy = None
        self.input, self.is_over = b"", False
        # Further transfers of a delivery that is not complete yet, by channel and handle.
        self.parts = {}
        # What is told of the connection, for later steps.
        self.seen = {}

    def run(self):
        """The lines of each step's answers."""
        try:
            self.socket = socket.create_connection(("127.0.0.1", self.broker.port))
            for step in self.case.before:
                self.take(step, until=step)
            steps = []
            for n, step in enumerate(self.case.steps):
                expected = None if self.expected is None else self.expected[n]
                is_last = n + 1 == len(self.case.steps)
                steps.append(self.in_order(self.take(step, expected=expected, is_last=is_last)))
            return steps
        except Exception as error:
            error.add_note(f"in the exchange {self.case.name}")
            raise
        finally:
            for connection in (self.socket, self.legacy):
                if connection:
                    connection.close()

    def own(self, value):
        """A value with the exchange's own name in it."""
        if isinstance(value, str):
            return value.replace(QUEUE, self.own_name)
        if isinstance(value, dict):
            return {key: self.own(part) for key, part in value.items()}
        return value

    def take(self, step, expected=None, until=None, is_last=False):
        if isinstance(step, Legacy):
            return self.ask_legacy(step)
        parts = [part(self.seen) if callable(part) else part for part in (step if isinstance(step, list) else [step])]
        output = b"".join(parts).replace(QUEUE.encode(), self.own_name.encode())
        try:
            self.socket.sendall(output)
        except OSError:
            pass
        if until is not None:
            return self.answers(n_awaited=awaited(output))
        if expected is None:
            return self.answers(quiet_s=max(QUIET_S, self.case.patience_s))
        got = self.answers(n_awaited=len(expected))
        return got + self.answers(quiet_s=BEYOND_S) if is_last else got

    def ask_legacy(self, step):
        if self.legacy is None:
            self.legacy = amqp091.Connection(self.broker.port)
        arguments = [self.own(argument) for argument in step.arguments]
        deadline = time.monotonic() + 2
        try:
            if step.method != "get":
                getattr(self.legacy, step.method)(*arguments, **step.options)
                return []
            while (told := self.legacy.get(*arguments)) is None and time.monotonic() < deadline:
                time.sleep(0.05)
        except amqp091.Refused as refused:
            told = str(refused)
        return [self.without_names("get  " + (told or "empty"))]

    def answers(self, n_awaited=None, quiet_s=None):
        """The lines of what comes: so many, or until nothing has come for so long."""
        told, deadline = [], time.monotonic() + DEADLINE_S
        while not self.is_over and (n_awaited is None or len(told) < n_awaited):
            wait_s = quiet_s if quiet_s is not None else deadline - time.monotonic()
            if wait_s <= 0:
                break
            self.socket.settimeout(wait_s)
            try:
                data = self.socket.recv(1 << 16)
            except TimeoutError:
                break
            except OSError:
                data = b""
            self.is_over = not data
            self.input += data
            told += self.lines()
        return told

    def lines(self):
        """The lines of all whole frames of the input."""
        told = []
        while len(self.input) >= 8:
            if self.input.startswith(b"AMQP"):
                told.append("header  " + "=".join(["is", self.input[4:8].hex(" ")]))
                self.input = self.input[8:]
                continue
            size, offset, kind, channel = struct.unpack(">IBBH", self.input[:8])
            if len(self.input) < size:
                break
            body, self.input = self.input[offset * 4 : size], self.input[size:]
            if body:
                told += self.frame(channel, body)
        if self.is_over:
            told.append("end-of-stream")
        return told

    def frame(self, channel, body):
        reader = codec.Reader(body)
        descriptor, value = reader.value().value
        name, payload = codec.NAMES[descriptor.value], body[reader.at :]
        fields = codec.shown_fields(name, value.value)
        self.note(name, fields)
        if name == "disposition":
            return self.dispositions(channel, fields)
        if name == "transfer":
            return self.transfer(channel, fields, payload)
        return [self.line(name, channel, fields)]

    def line(self, name, channel, fields):
        fields = {**({"channel": channel} if channel else {}), **fields}
        told = "  ".join([name, *(f"{field}={in_short(text)}" for field, text in fields.items())])
        return self.without_names(told)

    def dispositions(self, channel, fields):
        """A line for each delivery: brokers may say several in one, or not."""
        first = int(fields.pop("first"))
        last = int(fields.pop("last", first))
        return [self.line("disposition", channel, {"id": n, **fields}) for n in range(first, min(last,
            first + 20) + 1)]

    def transfer(self, channel, fields, payload):
        """One line for a delivery, with its sections, however many transfers it has."""
        key = channel, fields["handle"]
        begun, collected = self.parts.pop(key, (fields, b""))
        collected += payload
        if fields.get("more") == "true":
            self.parts[key] = begun, collected
            return []
        begun.pop("more", None)
        # Tags are a broker's own.
        begun.pop("delivery_tag", None)
        return [self.line("transfer", channel, {**begun, **codec.shown_message(collected)})]

    def note(self, name, fields):
        if name == "attach" and (found := fields.get("source.address")):
            self.seen["source"] = found.strip('"')

    def without_names(self, line):
        for name, word in [(self.own_name, "$q"), *self.broker.names]:
            line = line.replace(name, word)
        for pattern, word in NAMES:
            line = re.sub(pattern, word, line)
        return line

    def in_order(self, told):
        """The lines of a step; dispositions, which may come before or behind other frames, at its end."""
        return sorted(told, key=lambda line: line.startswith("disposition"))


def in_short(text):
    """A field in one line; of a term or a stack of Erlang the beginning."""
    text = " ".join(str(text).split())
    found = re.search(r"function_clause|case_clause|badmatch|badarg|\[\{|\{'v1_0|,\{(ulong|utf8|uint|symbol|boolean)",
        text)
    return text[: found.start()] + "(Erlang)" if found else text


def awaited(output):
    """The number of answers to frames that are sent before those which matter."""
    n_awaited, at = 0, 0
    while at < len(output):
        if output[at : at + 4] == b"AMQP":
            # The protocol header, and behind that of SASL the mechanisms.
            n_awaited += 2 if output[at + 4] == 3 else 1
            at += 8
            continue
        (size,) = struct.unpack(">I", output[at : at + 4])
        reader = codec.Reader(output[at + 8 : at + size])
        descriptor, value = reader.value().value
        name = codec.NAMES[descriptor.value]
        fields = codec.shown_fields(name, value.value)
        is_one = name in ("init", "open", "begin",
            "attach") or (name == "transfer" and fields.get("settled") != "true")
        n_awaited += is_one + (name == "attach" and fields.get("role") == "false")
        at += size
    return n_awaited
