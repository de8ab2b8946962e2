"""Exchanges with the management node: requests and their responses."""

from codec import Typed, symbols
from script import (
    ACCEPTED, LOGIN, QUEUE, SESSION, Q, Raw, case, credit, f, legacy, login, msg, receiver, send, sender, settle,
    source,
    table, target,
)

PAIRED = {"properties": symbols(paired=True), "name": "m", "snd_settle_mode": 1, "source": source("/management"),
          "target": target("/management")}
NODE = [sender(**PAIRED), receiver(handle=1, **PAIRED), credit(100, handle=1)]
PAIR = LOGIN + SESSION + NODE


def ask(method, to, body=None, n=0, **properties):
    """A request as RabbitMQ's clients make it."""
    usual = {"message_id": Typed("ulong", n), "to": to, "subject": method, "reply_to": "$me"}
    return send(msg(body, properties={**usual, **properties}), n=n, settled=True)


def asks(*requests):
    """Requests one after the other."""
    return [ask(*request[:3], n=n) for n, request in enumerate(requests)]


def arguments(**given):
    return {"x-" + key.replace("_", "-"): value for key, value in given.items()}


def queue(*more, **fields):
    """A queue is put with these fields; then further requests."""
    return asks(("PUT", Q, fields), *more)


OTHER = f"/exchanges/{QUEUE}"
table("queue", {
    "plain": queue(), "again": queue(("PUT", Q, {})), "get": queue(("GET", Q)), "delete": queue(("DELETE", Q),
        ("DELETE", Q)),
    "null-body": asks(("PUT", Q, None)), "durable": queue(durable=True), "transient": queue(durable=False),
    "durable-differs": queue(("PUT", Q, {"durable": False}), durable=True), "exclusive": queue(("GET", Q),
        exclusive=True),
    "exclusive-differs": queue(("PUT", Q, {"exclusive": False}), exclusive=True), "auto-delete": queue(("GET", Q),
        auto_delete=True),
    "quorum": queue(("GET", Q), ("PUT", Q, {}), arguments=arguments(queue_type="quorum")), "stream": queue(
        ("GET", Q), arguments=arguments(queue_type="stream")),
    "max-length": queue(("GET", Q), arguments=arguments(max_length=Typed("ulong", 7))),
    "max-length-text": queue(arguments=arguments(max_length="7")),
        "max-length-negative": queue(arguments=arguments(max_length=-1)),
    "arguments-differ": queue(("PUT", Q, {"arguments": arguments(max_length=8)}),
        arguments=arguments(max_length=Typed("uint", 7))),
    "type-unknown": queue(arguments=arguments(queue_type="none")), "unknown-argument": queue(("GET", Q),
        arguments=arguments(none="a")),
    "argument-types": queue(("GET", Q), arguments={"x-a": True, "x-b": Typed("ubyte", 1), "x-c": 1.5, "x-d": "s",
        "x-e": [1, "a"], "x-f": {"k": 1},
                                                   "x-g": b"b", "x-h": Typed("symbol", "s"), "x-i": Typed("timestamp",
                                                       1000)}),
    "argument-key": queue(arguments={"none": 1}), "key-unknown": queue(**{"none": 1}),
        "durable-text": queue(durable="yes"),
    "arguments-list": queue(arguments=[1]), "body-list": asks(("PUT", Q, [1])), "body-text": asks(("PUT", Q, "x")),
    "body-keys": asks(("PUT", Q, {1: True})), "reserved": asks(("PUT", "/queues/amq.hare", {})),
        "get-none": asks(("GET", Q)),
    "delete-none": asks(("DELETE", Q)), "purge": asks(("PUT", Q, {}), ("DELETE", f"{Q}/messages")),
        "purge-none": asks(("DELETE", f"{Q}/messages")),
    "purge-full": [legacy("declare", QUEUE, {}), legacy("publish", "", QUEUE, b"x", {}), ask("DELETE",
        f"{Q}/messages")],
    "delete-full": [legacy("declare", QUEUE, {}), legacy("publish", "", QUEUE, b"x", {}), ask("DELETE", Q)],
    "percent": asks(("PUT", Q + "%2Fa", {}), ("GET", Q + "%2Fa")), "percent-bad": asks(("PUT", Q + "%2", {})),
    "empty-name": asks(("PUT", "/queues/", {})), "long-name": asks(("PUT", "/queues/" + "q" * 256, {})),
        "slash": asks(("PUT", Q + "/x", {})),
    "newline": asks(("PUT", Q + "%0A", {})), "exclusive-elsewhere": [legacy("declare", QUEUE, {}, exclusive=True),
        *asks(
        ("GET", Q), ("PUT", Q, {}), ("DELETE", Q), ("DELETE", f"{Q}/messages"))],
    "dead-letters": queue(arguments=arguments(dead_letter_routing_key="a")), "post": asks(("POST", Q, {})),
        "head": asks(("HEAD", Q)),
    "get-query": queue(("GET", Q + "?x=1")),
}, lambda steps: steps, before=PAIR)
table("exchange", {
    "plain": asks(("PUT", OTHER, {})), "again": asks(("PUT", OTHER, {}), ("PUT", OTHER, {})), "type": asks(("PUT",
        OTHER, {"type": "topic"})),
    "differs": asks(("PUT", OTHER, {"type": "topic"}), ("PUT", OTHER, {"type": "fanout"})),
        "type-unknown": asks(("PUT", OTHER, {"type": "none"})),
    "type-number": asks(("PUT", OTHER, {"type": 1})), "durable-differs": asks(("PUT", OTHER, {}), ("PUT", OTHER,
        {"durable": False})),
    "alternate": asks(("PUT", OTHER, {"arguments": {"alternate-exchange": "amq.fanout"}})), "internal": asks(("PUT",
        OTHER, {"internal": True})),
    "reserved": asks(("PUT", "/exchanges/amq.hare", {})), "default": asks(("PUT", "/exchanges/amq.default", {})),
        "get": asks(("GET", OTHER)),
    "delete": asks(("PUT", OTHER, {}), ("DELETE", OTHER), ("DELETE", OTHER)), "delete-default": asks(("DELETE",
        "/exchanges/amq.default")),
    "delete-reserved": asks(("DELETE", "/exchanges/amq.topic")), "empty": asks(("PUT", "/exchanges/", {})),
        "null": asks(("PUT", OTHER, None)),
    "amq": asks(("PUT", "/exchanges/amq.topic", {"type": "topic"})), "key-unknown": asks(("PUT", OTHER, {"none": 1})),
    "argument-wrong": asks(("PUT", OTHER, {"arguments": {"alternate-exchange": 1}})), "auto-delete": asks(("PUT",
        OTHER, {"auto_delete": True})),
}, lambda steps: steps, before=PAIR)
BIND = {"source": "amq.topic", "destination_queue": QUEUE, "binding_key": "a.b", "arguments": {}}
TO_EXCHANGE = {"source": "amq.topic", "destination_exchange": "amq.fanout", "binding_key": QUEUE, "arguments": {}}
LIST = f"/bindings?src=amq.topic&dstq={QUEUE}&key="
table("binding", {
    "plain": asks(("POST", "/bindings", BIND), ("POST", "/bindings", BIND), ("GET", LIST + "a.b")), "exchange": asks(
        ("POST", "/bindings", TO_EXCHANGE), ("GET", f"/bindings?src=amq.topic&dste=amq.fanout&key={QUEUE}")),
    "arguments": asks(("POST", "/bindings", {**BIND, "arguments": {"x": 1, "y": "z", "w": True}}), ("GET",
        LIST + "a.b")),
    "delete": asks(("POST", "/bindings", BIND), ("DELETE", f"/bindings/src=amq.topic;dstq={QUEUE};key=a.b;args=")),
    "delete-none": asks(("DELETE", f"/bindings/src=amq.topic;dstq={QUEUE};key=none;args=")),
        "delete-bad": asks(("DELETE", "/bindings/none")),
    "delete-arguments": asks(("DELETE", f"/bindings/src=amq.topic;dstq={QUEUE};key=a;args=123")),
        "get-none": asks(("GET", LIST + "none")),
    "get-bad": asks(("GET", "/bindings")), "get-no-source": asks(("GET", f"/bindings?dstq={QUEUE}&key=a")),
        "no-source": asks(
        ("POST", "/bindings", {**BIND, "source": "none"})), "no-queue": asks(("POST", "/bindings", {**BIND,
        "destination_queue": "none"})),
    "no-destination": asks(("POST", "/bindings", {"source": "amq.topic", "binding_key": "a", "arguments": {}})),
    "no-key": asks(("POST", "/bindings", {"source": "amq.topic", "destination_queue": QUEUE, "arguments": {}})),
    "no-arguments": asks(("POST", "/bindings", {"source": "amq.topic", "destination_queue": QUEUE,
        "binding_key": "a"})),
    "default": asks(("POST", "/bindings", {**BIND, "source": ""})), "default-name": asks(("POST", "/bindings",
        {**BIND, "source": "amq.default"})),
    "key-number": asks(("POST", "/bindings", {**BIND, "binding_key": 1})), "headers": asks(
        ("POST", "/bindings", {**BIND, "source": "amq.headers", "arguments": {"x-match": "none"}})),
    "empty-key": asks(("POST", "/bindings", {**BIND, "binding_key": ""}), ("GET", LIST)), "key-space": asks(
        ("POST", "/bindings", {**BIND, "binding_key": "a b;c=/d"}), ("GET", LIST + "a%20b%3Bc%3D%2Fd")),
}, lambda steps: steps, before=[*PAIR, legacy("declare", QUEUE, {})])
table("request", {
    "unknown": ask("GET", "/none"), "unknown-method": ask("PATCH", Q), "no-slash": ask("GET", "queues/x"),
        "root": ask("GET", "/"),
    "no-to": ask("GET", None), "no-method": ask(None, Q), "no-id": ask("GET", Q, message_id=None),
        "id-text": ask("GET", Q, message_id="m"),
    "id-uuid": ask("GET", Q, message_id=Typed("uuid", bytes(range(16)))), "id-binary": ask("GET", Q, message_id=b"m"),
    "no-reply-to": ask("GET", Q, reply_to=None), "reply-to": ask("GET", Q, reply_to="other"),
        "correlation": ask("GET", Q, correlation_id="c"),
    "lower-case": ask("get", Q), "get-body": ask("GET", Q, {"x": 1}), "method-queues": ask("GET", "/queues"),
        "bindings-slash": ask("GET", "/bindings/"),
    "tokens": ask("PUT", "/auth/tokens", b"token"), "tokens-get": ask("GET", "/auth/tokens"),
        "tokens-text": ask("PUT", "/auth/tokens", "token"),
    "unsettled": send(msg(None, properties={"message_id": Typed("ulong", 1), "to": Q, "subject": "GET",
        "reply_to": "$me"})),
    "data": ask("PUT", Q, b"data"), "no-body": send(msg(Raw(), properties={"to": Q, "subject": "GET"}), settled=True),
    "no-properties": send(msg(None), settled=True), "rubbish": send(b"\xff\xff", settled=True), "empty": send(b"",
        settled=True),
    "application": send(msg(None, properties={"message_id": Typed("ulong", 1), "to": Q, "subject": "GET",
        "reply_to": "$me"},
                            application_properties={"a": 1}), settled=True),
    "header": send(msg(None, header={"durable": True}, properties={"message_id": Typed("ulong", 1), "to": Q,
        "subject": "GET", "reply_to": "$me"}),
                   settled=True),
}, lambda steps: steps, before=PAIR)
case("request-parts", send(msg(None, properties={"message_id": Typed("ulong", 1), "to": Q, "subject": "GET",
    "reply_to": "$me"})[:20],
     more=True, settled=True) + send(msg(None, properties={"message_id": Typed("ulong", 1), "to": Q, "subject": "GET",
     "reply_to": "$me"})[20:],
     settled=True), before=PAIR)
case("request-no-credit", ask("GET", Q), credit(1, handle=1), before=LOGIN + SESSION + NODE[:2])
case("request-three", b"".join(ask("GET", Q, n=n) for n in range(3)), before=PAIR)
case("request-settles", ask("GET", Q), settle(ACCEPTED), before=PAIR)
case("pair", sender(**PAIRED), receiver(handle=1, **PAIRED), credit(1, handle=1))
case("pair-alone", sender(**PAIRED))
case("pair-alone-asks", sender(**PAIRED), ask("GET", Q))
case("pair-receiver-alone", receiver(**PAIRED))
case("pair-addresses", sender(**PAIRED | {"source": source("me")}), receiver(handle=1,
    **PAIRED | {"target": target("me")}))
table("pair", {
    "no-property": {"properties": None}, "false": {"properties": symbols(paired=False)},
        "text": {"properties": symbols(paired="true")},
    "unsettled": {"snd_settle_mode": 0}, "second": {"rcv_settle_mode": 1}, "max-size": {"max_message_size": 1000},
}, lambda **fields: [sender(**PAIRED | fields), receiver(handle=1, **PAIRED | fields)])
case("pair-names", sender(**PAIRED), receiver(handle=1, **PAIRED | {"name": "n"}))
case("pair-detach", f("detach", handle=0, closed=True), f("detach", handle=1, closed=True), before=PAIR)
case("pair-three", sender(handle=2, **PAIRED), before=PAIR)
DENIED = [*login("mouse"), *SESSION, *NODE]
table("denied-request", {
    "put-queue": ask("PUT", Q, {}), "get-queue": ask("GET", Q), "delete-queue": ask("DELETE", Q),
        "purge": ask("DELETE", f"{Q}/messages"),
    "put-exchange": ask("PUT", OTHER, {}), "bind": ask("POST", "/bindings", BIND), "get-bindings": ask("GET",
        LIST + "a"),
    "delete-exchange": ask("DELETE", "/exchanges/amq.topic"),
}, lambda step: step, before=[*DENIED, legacy("declare", QUEUE, {})])
