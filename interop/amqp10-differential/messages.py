"""Exchanges of messages: shapes, conversions between the protocols with all types."""

import codec
from codec import Typed, array, described, encode, section, symbol, symbols
from script import LOGIN, QUEUE, SESSION, Q, Raw, case, credit, declare, legacy, msg, receiver, send, sender, table

READY = [*LOGIN, *SESSION, declare(), sender()]
UUID = Typed("uuid", bytes(range(16)))


def value(content):
    return Raw(section("value", content))


# Values of all types, by name.
TYPES = {
    "null": None, "true": True, "false": False, "ubyte": Typed("ubyte", 255), "ushort": Typed("ushort", 65535),
        "uint": Typed("uint", 2**32 - 1),
    "uint-small": Typed("uint", 5), "ulong": Typed("ulong", 2**64 - 1), "ulong-small": Typed("ulong", 5),
        "byte": Typed("byte", -1),
    "short": Typed("short", -2), "int": Typed("int", -3), "long": -4, "float": Typed("float", 1.5), "double": -2.5,
        "char": Typed("char", 0x1F430),
    "timestamp": Typed("timestamp", 1_600_000_000_123), "uuid": UUID, "binary": b"\0\xff", "string": "häse",
        "symbol": symbol("sym"),
    "decimal32": Typed("decimal32", b"\x22\x50\x00\x01"), "decimal64": Typed("decimal64",
        b"\x22\x38" + bytes(5) + b"\x01"),
    "decimal128": Typed("decimal128", b"\x22\x08" + bytes(13) + b"\x01"), "list": [1, "a", None], "map": {"a": 1,
        2: "b"},
    "array": array("int", [1, 2]), "array-symbols": array("symbol", ["a", "b"]), "described": described("mine", "x"),
        "list-empty": [],
    "map-empty": {}, "string-empty": "", "string-long": "x" * 300,
}
SCALARS = {name: content for name, content in TYPES.items() if name.split("-")[0] not in ("list", "map", "array",
    "described")}


def goes(payload):
    """A message of AMQP 1.0 is got over 0-9-1."""
    return [send(payload), legacy("get", QUEUE)]


def both(payload):
    """A message of AMQP 1.0 comes back over AMQP 1.0, and then over 0-9-1."""
    return [send(payload), receiver(handle=1), credit(1, handle=1), send(payload, n=1), legacy("get", QUEUE)]


def from_stream():
    filters = {symbol("rabbitmq:stream-offset-spec"): described("rabbitmq:stream-offset-spec", "first")}
    return [receiver(handle=1, source=codec.composite("source", address=Q, filter=Typed("map", filters))), credit(1,
        handle=1)]


# ---- What a message is
DATA = section("data", b"hare")
table("message", {
    "data": msg(), "data-empty": msg(b""), "value": msg("text"), "value-null": msg(None),
        "sequence": section("sequence", [1, "a"]),
    "data-two": DATA + section("data", b"s"), "sequence-two": section("sequence", [1]) + section("sequence", [2]),
    "data-and-value": DATA + value("x"), "value-two": value("x") + value("y"),
        "no-body": encode(codec.composite("header", durable=True)),
    "header-only-body": encode(codec.composite("header")) + DATA, "order": encode(codec.composite("properties",
        to="x")) + encode(
        codec.composite("header", durable=True)) + DATA, "header-twice": encode(codec.composite("header")) * 2 + DATA,
    "rubbish": b"\xff\xff\xff", "cut": DATA[:-1], "not-described": encode("x"),
        "unknown-section": encode(described(0x79, {})) + DATA,
    "section-name": encode(described("amqp:data:binary", b"hare")), "footer": msg(footer=symbols(x_sum=1)),
        "footer-key": msg(footer={"a": 1}),
    "footer-first": section("footer", {}) + DATA, "annotation-key": msg(annotations=symbols(mine=1)),
        "annotation-string-key": msg(
        annotations={"x-a": 1}), "annotation-number-key": msg(annotations={Typed("ulong", 1): 1}),
        "delivery-annotations": msg(
        delivery_annotations=symbols(x_a=1)), "application-key": msg(application_properties={1: 1}),
        "application-list": msg(
        application_properties={"a": [1]}), "application-odd": b"\x00\x53\x74\xc1\x04\x01\xa1\x01a" + DATA,
    "data-text": section("data", "x"), "sequence-map": section("sequence", {}),
        "cc": msg(annotations=symbols(x_cc=[QUEUE])),
    "cc-text": msg(annotations=symbols(x_cc="a")), "cc-numbers": msg(annotations=symbols(x_cc=[1])),
        "cc-array": msg(annotations=symbols(
        x_cc=array("string", ["a"]))), "deep": msg([[[[1]]]]), "all": msg(b"all", header={"durable": True,
        "priority": 3, "ttl": 60000},
        delivery_annotations=symbols(x_d=1), annotations=symbols(x_a="a"), properties={"subject": "s"},
        application_properties={"p": 1},
        footer=symbols(x_f=1)), "large": msg(b"x" * 20_000), "body-types": msg(list(TYPES.values())),
}, both, before=READY)
table("header", {
    "none": {}, "durable": {"durable": True}, "transient": {"durable": False}, "priority": {"priority": 7},
        "ttl": {"ttl": 60_000},
    "ttl-0": {"ttl": 0}, "first": {"first_acquirer": False}, "count": {"delivery_count": 5},
        "priority-255": {"priority": 255},
    "ttl-most": {"ttl": 2**32 - 1}, "type": {"priority": Typed("string", "x")},
}, lambda **fields: both(msg(header=fields)), before=READY)
table("properties", {
    "id-text": {"message_id": "m"}, "id-ulong": {"message_id": Typed("ulong", 7)}, "id-uuid": {"message_id": UUID},
        "id-binary": {"message_id": b"\0m"},
    "id-long": {"message_id": "m" * 300}, "id-urn": {"message_id": "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"},
        "id-type": {
        "message_id": Typed("int", 1)}, "correlation-text": {"correlation_id": "c"},
            "correlation-ulong": {"correlation_id": Typed("ulong", 7)},
    "correlation-uuid": {"correlation_id": UUID}, "correlation-binary": {"correlation_id": b"c"},
        "correlation-long": {"correlation_id": "c" * 256},
    "user-id": {"user_id": b"guest"}, "to": {"to": "/queues/x"}, "subject": {"subject": "s"},
        "reply-to": {"reply_to": "r"}, "reply-to-queue": {
        "reply_to": "/queues/a%20b"}, "reply-to-v1": {"reply_to": "/queue/a"},
            "reply-to-exchange": {"reply_to": "/exchanges/x/k"},
    "reply-to-long": {"reply_to": "r" * 300}, "content": {"content_type": "text/plain", "content_encoding": "gzip"},
        "content-long": {
        "content_type": "t" * 300}, "expiry": {"absolute_expiry_time": 4_000_000_000_000},
            "creation": {"creation_time": 1_600_000_000_123},
    "group": {"group_id": "g", "group_sequence": 7, "reply_to_group_id": "r"}, "subject-long": {"subject": "s" * 300},
        "group-long": {
        "group_id": "g" * 300}, "creation-negative": {"creation_time": -1},
}, lambda **fields: goes(msg(properties=fields)), before=READY)
table("property", TYPES, lambda content: goes(msg(application_properties={"p": content})), is_whole=True,
    before=READY)
table("property-key", {"x": "x-a", "x-death": "x-death", "CC": "CC", "empty": "", "long": "k" * 300,
    "x-opt": "x-opt-a"}, lambda key: goes(
    msg(application_properties={key: "v"})), before=READY)
table("annotation", TYPES, lambda content: goes(msg(annotations=symbols(x_p=content))), is_whole=True, before=READY)
table("annotation-key", {
    "type": "x-basic-type", "priority": "x-basic-priority", "expiration": "x-basic-expiration",
        "mode": "x-basic-delivery-mode",
    "exchange": "x-exchange", "routing-key": "x-routing-key", "app-id": "x-app-id", "message-id": "x-message-id",
        "opt": "x-opt-a",
    "correlation-id": "x-correlation-id", "deaths": "x-opt-deaths", "stream-filter": "x-stream-filter-value",
        "count": "x-delivery-count",
    "reply-to-topic": "x-reply-to-topic", "amqp-1.0": "x-amqp-1.0-a", "death": "x-death", "delay": "x-delay",
        "acquired": "x-acquired-count",
}, lambda key: both(msg(annotations={symbol(key): "v"})), before=READY)
table("annotation-number", {"priority": "x-basic-priority", "mode": "x-basic-delivery-mode", "delay": "x-delay",
    "count": "x-delivery-count",
      "deaths": "x-opt-deaths"}, lambda key: both(msg(annotations={symbol(key): Typed("ubyte", 1)})),
          before=READY)
table("body", TYPES, lambda content: goes(msg(value(content))), is_whole=True, before=READY)
table("body-sections", {"sequence": section("sequence", [1, "a"]), "data-two": DATA + DATA, "data-typed": msg(b"x",
    properties={
      "content_type": "text/plain"}), "footer": msg(footer=symbols(x_f=1)), "value-typed": msg("x",
          properties={"content_type": "text/plain"})},
      goes, before=READY)
table("stream-body", {"data": msg(), "value": msg("x"), "map": msg({"a": 1}), "sequence": section("sequence", [1]),
    "two": DATA + DATA},
      lambda payload: [send(payload), *from_stream()], before=[*LOGIN, *SESSION, declare("stream"),
      sender()])

# ---- From 0-9-1
HEADERS = {
    "true": True, "b": Typed("b", -1), "B": Typed("B", 255), "s": Typed("s", -2), "u": Typed("u", 65535),
        "I": Typed("I", -3), "i": Typed("i", 2**32 - 1),
    "l": -4, "f": Typed("f", 1.5), "d": -2.5, "D": Typed("D", (2, 314)), "S": "häse", "x": b"\0\xff", "T": Typed("T",
        1_600_000_000), "V": None,
    "A": [1, "a", None, [2]], "F": {"a": 1, "b": {"c": "d"}}, "empty": "", "S-binary": Typed("S", "\x00"),
        "A-empty": [], "F-empty": {},
}
FROM = {f"header-{name}": {"headers": {"h": content}} for name, content in HEADERS.items()}
FROM |= {f"header-x-{name}": {"headers": {"x-h": content}} for name, content in HEADERS.items()}
FROM |= {
    "plain": {}, "mode-1": {"delivery_mode": 1}, "mode-2": {"delivery_mode": 2}, "priority": {"priority": 7},
        "content": {
        "content_type": "text/plain", "content_encoding": "gzip"}, "correlation": {"correlation_id": "c"},
            "correlation-urn": {
        "correlation_id": "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"},
            "correlation-bad-urn": {"correlation_id": "urn:uuid:zz"},
    "id": {"message_id": "m"}, "id-urn": {"message_id": "urn:uuid:00010203-0405-0607-0809-0a0b0c0d0e0f"},
        "reply-to": {"reply_to": "a b/ü"},
    "reply-to-slash": {"reply_to": "/queues/a"}, "reply-to-empty": {"reply_to": ""},
        "expiration": {"expiration": "60000"},
    "timestamp": {"timestamp": 1_600_000_000}, "type": {"type": "t"}, "user-id": {"user_id": "guest"},
        "app-id": {"app_id": "a"},
    "cluster-id": {"cluster_id": "c"}, "x-message-id": {"headers": {"x-message-id": "m"}},
        "CC": {"headers": {"CC": [QUEUE + "x"]}},
    "BCC": {"headers": {"BCC": [QUEUE + "x"]}}, "x-death": {"headers": {"x-death": [{"queue": "q",
        "reason": "rejected", "count": 1,
        "exchange": "", "routing-keys": ["q"], "time": Typed("T", 1_600_000_000)}]}},
            "x-exchange": {"headers": {"x-exchange": "mine"}},
    "x-routing-key": {"headers": {"x-routing-key": "mine"}}, "x-opt": {"headers": {"x-opt-a": 1}},
        "x-basic-type": {"headers": {"x-basic-type": "t"}},
    "amqp-type": {"type": "amqp-1.0"}, "key-long": {"headers": {"k" * 255: 1}}, "x-cc": {"headers": {"x-cc": ["a"]}},
        "group": {"headers": {
        "group-id": "g"}}, "x-amqp": {"headers": {"x-amqp-1.0-a": "b"}}, "two": {"headers": {"a": 1, "x-b": 2,
            "c": "d"}},
}
table("from", FROM, lambda **properties: [legacy("publish", "", QUEUE, b"hare", properties), receiver(), credit(1)],
      before=[*LOGIN, *SESSION, declare()])
case("from-empty-body", legacy("publish", "", QUEUE, b"", {}), receiver(), credit(1), before=[*LOGIN, *SESSION,
    declare()])
case("from-amqp-type-sections", legacy("publish", "", QUEUE, bytes(value("x")), {"type": "amqp-1.0"}), receiver(),
    credit(1),
     before=[*LOGIN, *SESSION, declare()])
table("from-stream", {name: FROM[name] for name in ("plain", "header-T", "header-D", "header-F", "reply-to", "id-urn",
    "type", "CC", "timestamp")},
      lambda **properties: [legacy("publish", "", QUEUE, b"hare", properties), *from_stream()], before=[*LOGIN,
      *SESSION, declare("stream")])
for kind in ("classic", "quorum"):
    dead = [*LOGIN, *SESSION, legacy("declare", QUEUE + "d", {}), declare(kind, dead_letter_exchange="",
        dead_letter_routing_key=QUEUE + "d",
            message_ttl=1)]
    case(f"{kind}-expires", sender(), send(), legacy("get", QUEUE + "d"), before=dead)
    case(f"{kind}-expires-10", sender(), send(msg(properties={"message_id": UUID}, annotations=symbols(x_a=1))),
        receiver(Q + "d", handle=1),
         credit(1, handle=1), before=dead, patience_s=1)
    case(f"{kind}-expires-091", legacy("publish", "", QUEUE, b"x", {"expiration": "5", "headers": {"a": 1}}),
        receiver(Q + "d"), credit(1), before=dead,
         patience_s=1)
