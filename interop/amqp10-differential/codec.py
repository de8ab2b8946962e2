"""Types, performatives and frames of AMQP 1.0, as much of them as the exchanges need."""

import struct
import uuid
from typing import NamedTuple


class Typed(NamedTuple):
    """A value with the name of its type. A described value is a pair of descriptor and value."""

    kind: str
    value: object


# The types of one width: name, constructor, format.
FIXED = [
    ("ubyte", 0x50, "B"), ("ushort", 0x60, "H"), ("uint", 0x70, "I"), ("ulong", 0x80, "Q"), ("byte", 0x51, "b"),
    ("short", 0x61, "h"), ("int", 0x71, "i"), ("long", 0x81, "q"), ("float", 0x72, "f"), ("double", 0x82, "d"),
    ("decimal32", 0x74, "4s"), ("decimal64", 0x84, "8s"), ("decimal128", 0x94, "16s"), ("char", 0x73, "I"),
    ("timestamp", 0x83, "q"), ("uuid", 0x98, "16s"),
]
BY_NAME = {name: (code, form) for name, code, form in FIXED}
SMALL = {0x52: ("uint", "B"), 0x53: ("ulong", "B"), 0x54: ("int", "b"), 0x55: ("long", "b"), 0x56: ("boolean", "?")}
BY_CODE = {code: (name, form) for name, code, form in FIXED} | SMALL
CONSTANTS = {
    0x40: Typed("null", None), 0x41: Typed("boolean", True), 0x42: Typed("boolean", False),
    0x43: Typed("uint", 0), 0x44: Typed("ulong", 0), 0x45: Typed("list", []),
}
VARIABLE = {"binary": 0xA0, "string": 0xA1, "symbol": 0xA3}
COMPOUND = {"list": 0xC0, "map": 0xC1}
# The types of plain values of Python.
PLAIN = {bool: "boolean", int: "long", float: "double", str: "string", bytes: "binary", list: "list", dict: "map"}


def symbol(text):
    return Typed("symbol", text)


def described(descriptor, value):
    if isinstance(descriptor, str):
        descriptor = symbol(descriptor)
    elif isinstance(descriptor, int):
        descriptor = Typed("ulong", descriptor)
    return Typed("described", (descriptor, value))


def symbols(**fields):
    """A map whose keys are symbols; `_` of a key stands for `-`, `__` for `:`."""
    return Typed("map", {symbol(key.replace("__", ":").replace("_", "-")): value for key, value in fields.items()})


def array(kind, values):
    return Typed("array", (kind, values))


def sized(code, body, n_items=None):
    """A value of variable width, with its count if it has items."""
    count = () if n_items is None else (n_items,)
    if len(body) + len(count) < 256 and (n_items or 0) < 256:
        return struct.pack(f">BB{len(count)}B", code, len(body) + len(count), *count) + body
    return struct.pack(f">BI{len(count)}I", code + 0x10, len(body) + 4 * len(count), *count) + body


def encode(value):
    """The bytes of a typed or plain value."""
    if value is None:
        return b"\x40"
    kind, content = value if isinstance(value, Typed) else (PLAIN[type(value)], value)
    if content is None and kind != "array":
        return b"\x40"
    if kind == "boolean":
        return b"\x41" if content else b"\x42"
    if kind in VARIABLE:
        return sized(VARIABLE[kind], content.encode() if isinstance(content, str) else content)
    if kind in COMPOUND:
        items = [part for pair in content.items() for part in pair] if kind == "map" else content
        return sized(COMPOUND[kind], b"".join(map(encode, items)), len(items))
    if kind == "described":
        return b"\x00" + encode(content[0]) + encode(content[1])
    if kind == "array":
        of, values = content
        if of in VARIABLE:
            code, items = VARIABLE[of] + 0x10, [item.encode() if isinstance(item, str) else item for item in values]
            body = b"".join(struct.pack(">I", len(item)) + item for item in items)
        else:
            code, form = BY_NAME[of]
            body = b"".join(struct.pack(">" + form, item) for item in values)
        return sized(0xE0, bytes([code]) + body, len(values))
    code, form = BY_NAME[kind]
    return struct.pack(">B" + form, code, content)


class Reader:
    """A cursor over encoded values."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, form):
        size = struct.calcsize(">" + form)
        self.at += size
        return struct.unpack(">" + form, self.data[self.at - size : self.at])

    def value(self, code=None):
        if code is None:
            (code,) = self.take("B")
        if code == 0:
            return Typed("described", (self.value(), self.value()))
        if code in CONSTANTS:
            return CONSTANTS[code]
        if code in BY_CODE:
            kind, form = BY_CODE[code]
            return Typed(kind, self.take(form)[0])
        width = "I" if code & 0x10 else "B"
        (size,) = self.take(width)
        kind = {0xA0: "binary", 0xA1: "string", 0xA3: "symbol", 0xC0: "list", 0xC1: "map",
            0xE0: "array"}[code & ~0x10]
        if kind in VARIABLE:
            (data,) = self.take(f"{size}s")
            return Typed(kind, data if kind == "binary" else data.decode())
        (count,) = self.take(width)
        if kind == "array":
            (of,) = self.take("B")
            return Typed(kind, ("", [self.value(of) for _ in range(count)]))
        items = [self.value() for _ in range(count)]
        return Typed(kind, items if kind == "list" else list(zip(items[::2], items[1::2])))

    def rest(self):
        while self.at < len(self.data):
            yield self.value()


# Composite types: code, fields with their types. `*` is anything.
COMPOSITES = {
    "open": (0x10, "container_id:string hostname:string max_frame_size:uint channel_max:ushort idle_time_out:uint"
             " outgoing_locales:* incoming_locales:* offered_capabilities:* desired_capabilities:* properties:map"),
    "begin": (0x11, "remote_channel:ushort next_outgoing_id:uint incoming_window:uint outgoing_window:uint"
              " handle_max:uint offered_capabilities:* desired_capabilities:* properties:map"),
    "attach": (0x12, "name:string handle:uint role:boolean snd_settle_mode:ubyte rcv_settle_mode:ubyte source:*"
               " target:* unsettled:map incomplete_unsettled:boolean initial_delivery_count:uint"
               " max_message_size:ulong offered_capabilities:* desired_capabilities:* properties:map"),
    "flow": (0x13, "next_incoming_id:uint incoming_window:uint next_outgoing_id:uint outgoing_window:uint handle:uint"
             " delivery_count:uint link_credit:uint available:uint drain:boolean echo:boolean properties:map"),
    "transfer": (0x14, "handle:uint delivery_id:uint delivery_tag:binary message_format:uint settled:boolean"
                 " more:boolean rcv_settle_mode:ubyte state:* resume:boolean aborted:boolean batchable:boolean"),
    "disposition": (0x15, "role:boolean first:uint last:uint settled:boolean state:* batchable:boolean"),
    "detach": (0x16, "handle:uint closed:boolean error:*"),
    "end": (0x17, "error:*"),
    "close": (0x18, "error:*"),
    "error": (0x1D, "condition:symbol description:string info:map"),
    "received": (0x23, "section_number:uint section_offset:ulong"),
    "accepted": (0x24, ""),
    "rejected": (0x25, "error:*"),
    "released": (0x26, ""),
    "modified": (0x27, "delivery_failed:boolean undeliverable_here:boolean message_annotations:map"),
    "source": (0x28, "address:string durable:uint expiry_policy:symbol timeout:uint dynamic:boolean"
               " dynamic_node_properties:map distribution_mode:symbol filter:map default_outcome:* outcomes:*"
               " capabilities:*"),
    "target": (0x29, "address:string durable:uint expiry_policy:symbol timeout:uint dynamic:boolean"
               " dynamic_node_properties:map capabilities:*"),
    "coordinator": (0x30, "capabilities:*"),
    "mechanisms": (0x40, "mechanisms:*"),
    "init": (0x41, "mechanism:symbol initial_response:binary hostname:string"),
    "challenge": (0x42, "challenge:binary"),
    "response": (0x43, "response:binary"),
    "outcome": (0x44, "code:ubyte additional_data:binary"),
    "header": (0x70, "durable:boolean priority:ubyte ttl:uint first_acquirer:boolean delivery_count:uint"),
    "properties": (0x73, "message_id:* user_id:binary to:string subject:string reply_to:string correlation_id:*"
                   " content_type:symbol content_encoding:symbol absolute_expiry_time:timestamp"
                   " creation_time:timestamp group_id:string group_sequence:uint reply_to_group_id:string"),
}
FIELDS = {name: [field.split(":") for field in fields.split()] for name, (_, fields) in COMPOSITES.items()}
NAMES = {code: name for name, (code, _) in COMPOSITES.items()}
# Fields that are left out where they are as they would be if they were not there.
DEFAULTS = {
    "rcv_settle_mode": Typed("ubyte", 0), "snd_settle_mode": Typed("ubyte", 2), "durable": Typed("boolean", False),
    "first_acquirer": Typed("boolean", False), "delivery_count": Typed("uint", 0), "priority": Typed("ubyte", 4),
    "echo": Typed("boolean", False), "drain": Typed("boolean", False), "settled": Typed("boolean", False),
    "more": Typed("boolean", False), "outgoing_window": Typed("uint", 2**32 - 1), "batchable": Typed("boolean",
        False),
    "message_format": Typed("uint", 0), "dynamic": Typed("boolean", False), "max_message_size": Typed("ulong", 0),
}
SECTIONS = {
    0x71: "delivery_annotations", 0x72: "annotations", 0x74: "application_properties", 0x75: "data",
    0x76: "sequence", 0x77: "value", 0x78: "footer",
}


def composite(name, /, **given):
    """A composite value; the fields behind the last one given are left out."""
    fields = [(field, kind) for field, kind in FIELDS[name]]
    unknown = given.keys() - {field for field, _ in fields}
    assert not unknown, unknown
    values = []
    for field, kind in fields:
        value = given.get(field)
        is_plain = not isinstance(value, Typed) and kind != "*" and value is not None
        values.append(Typed(kind, value) if is_plain else value)
    while values and values[-1] is None:
        values.pop()
    return described(COMPOSITES[name][0], values)


def section(name, value):
    codes = {section_name: code for code, section_name in SECTIONS.items()}
    return encode(described(codes[name], value))


def frame(performative, payload=b"", channel=0, kind=0):
    body = (encode(performative) if performative is not None else b"") + payload
    return struct.pack(">IBBH", len(body) + 8, 2, kind, channel) + body


def shown_bytes(data):
    try:
        text = data.decode()
        return f"b'{text}'" if text.isprintable() else "0x" + data.hex()
    except UnicodeDecodeError:
        return "0x" + data.hex()


def shown(value):
    """A decoded value in one line, with its type."""
    kind, content = value
    match kind:
        case "null":
            return "null"
        case "boolean":
            return "true" if content else "false"
        case "string":
            return f'"{content}"'
        case "symbol":
            return ":" + content
        case "binary":
            return shown_bytes(content)
        case "uuid":
            return f"uuid {uuid.UUID(bytes=content)}"
        case "list":
            return "[" + ", ".join(map(shown, content)) + "]"
        case "array":
            return "@[" + ", ".join(map(shown, content[1])) + "]"
        case "map":
            return "{" + ", ".join(sorted(f"{shown(key)}={shown(part)}" for key, part in content)) + "}"
        case "described":
            return shown_described(*content)
    return f"{kind} {content.hex() if isinstance(content, bytes) else content}"


def shown_described(descriptor, value):
    name = NAMES.get(descriptor.value)
    if name is None or value.kind != "list":
        return f"<{SECTIONS.get(descriptor.value) or shown(descriptor)}> {shown(value)}"
    fields = shown_fields(name, value.value)
    return f"{name}({' '.join(f'{field}={text}' for field, text in fields.items())})"


def shown_fields(name, values):
    """The fields of a composite that are there and not as they are by default, one level after the other."""
    fields = {}
    for (field, kind), value in zip(FIELDS[name], values):
        if value.kind != "null" and DEFAULTS.get(field) != value:
            is_number = value.kind == kind and kind in BY_NAME
            fields |= {field: str(value.value)} if is_number else flat(field, value)
    return fields


def flat(field, value):
    """The fields of a composite with their paths; any other value as it is, with its type."""
    name = NAMES.get(value.value[0].value) if value.kind == "described" else None
    if name is None or value.value[1].kind != "list":
        return {field: shown(value)}
    below = shown_fields(name, value.value[1].value)
    return ({field: name} if name != field else {}) | {f"{field}.{key}": text for key, text in below.items()}


def shown_section(name, value):
    """A section, by the fields of a body that has such."""
    if name == "value" and value.kind == "map" and value.value and all(key.kind == "string" for key,
        _ in value.value):
        return {f"value.{key.value}": shown(part) for key, part in value.value}
    return {name: shown(value)}


def shown_message(payload):
    """The sections of a message, and the fields of its head."""
    fields = {}
    try:
        for part in Reader(payload).rest():
            name = NAMES.get(part.value[0].value)
            told = flat(name, part) if name else shown_section(SECTIONS.get(part.value[0].value) or shown(part.value[
                0]), part.value[1])
            for key, text in told.items():
                fields[key] = f"{fields[key]} {text}" if key in fields else text
    except (struct.error, KeyError, UnicodeDecodeError):
        fields["part"] = shown_bytes(payload)
    return fields
