"""Sends the requests of requests.txt to a node and compares the answers with RabbitMQ's.

main.py [run]       a fresh node against rabbitmq.json, but for what kept.txt allows
main.py record URL  writes rabbitmq.json from what a fresh RabbitMQ (with its AMQP port 30000 lower) answers
main.py diff        as run, and prints every difference, kept ones too
"""

import base64
import http.client
import json
import os
import sys
import tempfile
import time
import urllib.parse

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

from amqp import Connection
from broker import free_port
from compared_node import start
from kept import Kept

HERE = os.path.dirname(os.path.abspath(__file__))
RECORDED = os.path.join(HERE, "rabbitmq.json")
DEADLINE_S = 30
# Headers that belong to the connection or to a proxy.
HEADERS_LEFT_OUT = {"transfer-encoding", "content-length", "server", "date", "connection", "keep-alive"}


def lines(name):
    with open(os.path.join(HERE, name), encoding="utf-8") as file:
        return [line.rstrip("\n") for line in file if line.strip()]


class Request:
    """A line: [=]METHOD PATH [@USER:PASSWORD or @none] [+HEADER:VALUE]... [BODY]

    With `=` the values of the answer are compared, not their types; a path that begins with `//` is not below `/api`.
    """

    def __init__(self, line):
        self.line, self.is_exact = line, line.startswith("=")
        line = line.removeprefix("=")
        self.method, self.path, *rest = line.split(" ", 2)
        rest, self.user, self.headers = "".join(rest), "guest:guest", {}
        while rest[:1] in ("@", "+"):
            word, _, rest = rest.partition(" ")
            if word[0] == "@":
                self.user = word[1:]
            else:
                name, _, value = word[1:].partition(":")
                self.headers[name] = value
        self.body = rest or None


class Broker:
    """The HTTP API of one of the two brokers, and the words in which its answers name itself."""

    def __init__(self, host, port, amqp_port):
        self.address = host, port
        self.words = {"$PORT": str(amqp_port)}
        node = self.ask(Request("GET /overview"))[2]["node"]
        self.words["$NODE"] = node
        self.amqp_port = amqp_port

    def filled(self, text):
        for word, value in self.words.items():
            text = text.replace(word, value)
        return text

    def told(self, value):
        """A value with the placeholders back in it."""
        text = json.dumps(value)
        for word, own in self.words.items():
            if word != "$PORT":
                text = text.replace(own, word)
        return json.loads(text)

    def ask(self, request):
        headers = {"content-type": "application/json", **request.headers}
        if request.user != "none":
            headers["authorization"] = "Basic " + base64.b64encode(request.user.encode()).decode()
        body = self.filled(request.body).encode() if request.body else None
        connection = http.client.HTTPConnection(*self.address, timeout=DEADLINE_S)
        try:
            path = request.path[1:] if request.path.startswith("//") else "/api" + request.path
            connection.request(request.method, self.filled(path), body, headers)
            answer = connection.getresponse()
            text = answer.read()
        except http.client.RemoteDisconnected:
            return 0, {}, "no answer"
        finally:
            connection.close()
        headers = {name.lower(): value for name, value in answer.getheaders()}
        try:
            return answer.status, headers, json.loads(text) if text else None
        except ValueError:
            return answer.status, headers, text.decode(errors="replace")

    def open_client(self):
        """A connection that lasts, once the API shows it."""
        client = Connection(self.amqp_port)
        deadline = time.monotonic() + DEADLINE_S
        for path, word in (("/connections", "$CONNECTION"), ("/channels", "$CHANNEL")):
            while not (rows := self.ask(Request(f"GET {path}?columns=name"))[2]) or "name" not in rows[0]:
                if time.monotonic() > deadline:
                    raise RuntimeError(f"{path} stays empty")
            self.words[word] = urllib.parse.quote(rows[0]["name"], safe="")
        return client


def kind(value):
    return {bool: "flag", int: "number", float: "number", str: "text", type(None): "null"}[type(value)]


def shape(value):
    """Keys with the types of their values; the rows of a list together."""
    if isinstance(value, dict):
        return {key: shape(part) for key, part in sorted(value.items())}
    if isinstance(value, list):
        return joined([shape(part) for part in value])
    return kind(value)


def joined(shapes):
    """The shape of a list: that of its rows, which may differ."""
    objects = [one for one in shapes if isinstance(one, dict)]
    others = [one for one in shapes if not isinstance(one, dict)]
    parts = sorted({json.dumps(one) for one in others})
    keys = sorted({key for one in objects for key in one})
    if keys:
        merged = {key: joined([one[key] for one in objects if key in one]) for key in keys}
        alone = {key: part[0] if len(part) == 1 else part for key, part in merged.items()}
        parts.append(json.dumps(alone))
    return [json.loads(part) for part in parts]


def answer_of(broker, request):
    """What is compared of an answer."""
    status, headers, body = broker.ask(request)
    names = sorted(set(headers) - HEADERS_LEFT_OUT)
    body = broker.told(body)
    told = body if status >= 400 or status == 0 or request.is_exact else shape(body)
    place = headers.get("location")
    return {"status": status, "headers": names, "allow": headers.get("allow"), "body": told, "location": place}


def differences(theirs, ours, path=""):
    """What one shape has and the other has not, or of another type."""
    if isinstance(theirs, dict) and isinstance(ours, dict):
        for key in sorted({*theirs, *ours}):
            place = f"{path}.{key}"
            if key not in ours:
                yield f"-{place}"
            elif key not in theirs:
                yield f"+{place}"
            else:
                yield from differences(theirs[key], ours[key], place)
    elif isinstance(theirs, list) and isinstance(ours, list):
        # An empty list says nothing of its rows.
        if theirs and ours:
            yield from differences(rows(theirs), rows(ours), path + ".*")
    elif theirs != ours:
        yield f"~{path} {json.dumps(theirs)} / {json.dumps(ours)}"


def rows(shapes):
    """What stands in a list: of one type, or each type by name."""
    if len(shapes) == 1:
        return shapes[0]
    return {json.dumps(one) if isinstance(one, str) else "{}": one for one in shapes}


def compared(theirs, ours, is_exact=False):
    """All differences of two answers, one text each."""
    if theirs["status"] != ours["status"]:
        bodies = f"{json.dumps(theirs['body'])} / {json.dumps(ours['body'])}"
        yield f"status {theirs['status']} / {ours['status']} {bodies}"
        return
    for name in theirs["headers"]:
        if name not in ours["headers"]:
            yield f"header -{name}"
    for name in ours["headers"]:
        if name not in theirs["headers"]:
            yield f"header +{name}"
    if theirs["allow"] != ours["allow"]:
        yield f"allow {theirs['allow']} / {ours['allow']}"
    # Places are recorded of later requests only.
    if theirs.get("location") not in (None, ours["location"]):
        yield f"location {theirs['location']} / {ours['location']}"
    if not is_exact:
        yield from differences(theirs["body"], ours["body"], "body")
    elif theirs["body"] != ours["body"]:
        yield f"body {json.dumps(theirs['body'])} / {json.dumps(ours['body'])}"


def asked(broker, wait_s=0):
    """Each request with its answer, in order."""
    client = None
    for line in lines("requests.txt"):
        if line.startswith("#"):
            continue
        if line == "CONNECT":
            client = broker.open_client()
            # Only RabbitMQ's figures come late, and only once, when they are recorded.
            time.sleep(wait_s)
            continue
        request = Request(line)
        yield request, answer_of(broker, request)
    if client:
        client.close()


def record(url):
    parts = urllib.parse.urlsplit(url)
    broker = Broker(parts.hostname, parts.port, parts.port - 30000)
    shapes, answers = [], []
    for request, answer in asked(broker, wait_s=12):
        for part in ("headers", "body"):
            if answer[part] not in shapes:
                shapes.append(answer[part])
            answer[part] = shapes.index(answer[part])
        parts = ("status", "allow", "headers", "body", "location")
        answers.append([request.line, *(answer[part] for part in parts)])
    with open(RECORDED, "w", encoding="utf-8") as file:
        short = {"separators": (",", ":")}
        shapes, answers = (",\n".join(json.dumps(row, **short) for row in part) for part in (shapes, answers))
        file.write(f'{{"shapes":[\n{shapes}\n],"answers":[\n{answers}\n]}}\n')
    print(f"recorded from {url}")
    return 0


def recorded():
    with open(RECORDED, encoding="utf-8") as file:
        document = json.load(file)
    shapes = document["shapes"]
    fields = ("status", "allow", "headers", "body", "location")
    answers = {}
    for line, *answer in document["answers"]:
        answer = dict(zip(fields, answer))
        answer.update({part: shapes[answer[part]] for part in ("headers", "body")})
        answers.setdefault(line, []).append(answer)
    return answers


def compare(tells_all):
    kept, answers, n_passed, n_failed = Kept(lines("kept.txt")), recorded(), 0, 0
    with tempfile.TemporaryDirectory(prefix="leveret-interop-") as home:
        port, amqp_port = free_port(), free_port()
        node = start(home, amqp_port, port)
        try:
            for request, answer in asked(Broker("127.0.0.1", port, amqp_port)):
                found = list(compared(answers[request.line].pop(0), answer, request.is_exact))
                new = [one for one in found if not kept.takes(request.line, one)]
                n_failed += bool(new)
                n_passed += not new
                for one in found if tells_all else new:
                    print(f"{'FAIL' if one in new else 'KEPT'} http {request.line[:100]}: {one}", flush=True)
        finally:
            node.terminate()
            n_failed += node.wait(DEADLINE_S) != 0
    for pattern in kept.unused():
        print(f"FAIL http kept.txt: nothing differs so any longer: {pattern}")
        n_failed += 1
    print(f"{len(kept.patterns)} kinds of differences are kept, for the reasons in kept.txt")
    print(f"{n_passed} passed, {n_failed} failed, 0 skipped")
    return 1 if n_failed else 0


def main(words):
    match words:
        case ["record", url]:
            return record(url)
        case ["diff"]:
            return compare(tells_all=True)
        case [] | ["run"]:
            return compare(tells_all=False)
    print(__doc__)
    return 2


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
