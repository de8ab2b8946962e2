"""A connection of AMQP 0-9-1 at the other end of conversions: declares, publishes, gets."""

import socket
import struct

from codec import Typed, shown_bytes

# The properties of a message: name and type.
PROPERTIES = [
    ("content_type", "s"), ("content_encoding", "s"), ("headers", "F"), ("delivery_mode", "B"), ("priority", "B"),
    ("correlation_id", "s"), ("reply_to", "s"), ("expiration", "s"), ("message_id", "s"), ("timestamp", "T"),
    ("type", "s"), ("user_id", "s"), ("app_id", "s"), ("cluster_id", "s"),
]
NUMBERS = {"b": "b", "B": "B", "s": "h", "u": "H", "I": "i", "i": "I", "l": "q", "f": "f", "d": "d", "T": "Q"}
PLAIN = {bool: "t", int: "l", float: "d", str: "S", bytes: "x", list: "A", dict: "F", type(None): "V"}


def short(text):
    return bytes([len(text.encode())]) + text.encode()


def long(data):
    return struct.pack(">I", len(data)) + data


def field(value):
    """A value of a table, with the letter of its type."""
    kind, content = value if isinstance(value, Typed) else (PLAIN[type(value)], value)
    return kind.encode() + content_of(kind, content)


def content_of(kind, content):
    match kind:
        case "V":
            return b""
        case "t":
            return bytes([content])
        case "S":
            return long(content.encode())
        case "x":
            return long(content)
        case "D":
            return struct.pack(">BI", *content)
        case "A":
            return long(b"".join(map(field, content)))
        case "F":
            return long(b"".join(short(key) + field(part) for key, part in content.items()))
    return struct.pack(">" + NUMBERS[kind], content)


class Input:
    """A cursor over the arguments of a method or the properties of a message."""

    def __init__(self, data):
        self.data, self.at = data, 0

    def take(self, size):
        self.at += size
        return self.data[self.at - size : self.at]

    def number(self, form):
        return struct.unpack(">" + form, self.take(struct.calcsize(">" + form)))[0]

    def short(self):
        return self.take(self.number("B")).decode(errors="replace")

    def field(self):
        return self.content(chr(self.number("B")))

    def content(self, kind):
        """A value in words, with its type."""
        match kind:
            case "V":
                return "void"
            case "t":
                return str(self.number("?")).lower()
            case "S" | "x":
                text = shown_bytes(self.take(self.number("I")))
                return text if kind == "S" else "x " + text
            case "D":
                return f"D {self.number('B')} {self.number('I')}"
            case "A" | "F":
                end = self.number("I") + self.at
                parts = []
                while self.at < end:
                    parts.append(f"{self.short()}={self.field()}" if kind == "F" else self.field())
                return "{" + ", ".join(sorted(parts)) + "}" if kind == "F" else "[" + ", ".join(parts) + "]"
        return f"{kind} {self.number(NUMBERS[kind])}"

    def properties(self):
        flags, told = self.number("H"), []
        for n, (name, kind) in enumerate(PROPERTIES):
            if flags & 0x8000 >> n:
                told.append(f"{name}={self.short() if kind == 's' else self.content(kind)}")
        return told


class Refused(Exception):
    """Another answer came than was to come."""


class Connection:
    """Opened by guest, with one channel."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=30)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.input = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self.expect((10, 10))
        login = short("PLAIN") + long(b"\x00guest\x00guest") + short("en_US")
        self.call(10, 11, struct.pack(">I", 0) + login, channel=0)
        self.expect((10, 30))
        self.call(10, 31, struct.pack(">HIH", 2047, 131072, 0), channel=0)
        self.call(10, 40, short("/") + b"\x00\x00", channel=0)
        self.expect((10, 41))
        self.ask(20, 10, b"\x00")

    def send(self, kind, payload, channel=1):
        self.socket.sendall(struct.pack(">BHI", kind, channel, len(payload)) + payload + b"\xce")

    def call(self, class_id, method_id, arguments, channel=1):
        self.send(1, struct.pack(">HH", class_id, method_id) + arguments, channel)

    def ask(self, class_id, method_id, arguments):
        self.call(class_id, method_id, arguments)
        return self.expect((class_id, method_id + 1))

    def receive(self):
        kind, _, size = struct.unpack(">BHI", self.input.read(7))
        return kind, self.input.read(size + 1)[:-1]

    def expect(self, *methods):
        kind, payload = self.receive()
        got = struct.unpack(">HH", payload[:4])
        if kind != 1 or got not in methods:
            raise Refused(f"method {got} came, with {shown_bytes(payload[4:])}")
        return got, Input(payload[4:])

    def declare(self, queue, arguments, durable=True, exclusive=False):
        flags = bytes([durable * 2 + exclusive * 4])
        self.ask(50, 10, b"\x00\x00" + short(queue) + flags + content_of("F", arguments))

    def delete(self, queue):
        self.ask(50, 40, b"\x00\x00" + short(queue) + b"\x00")

    def declare_exchange(self, exchange, kind, arguments, flags=2):
        self.ask(40, 10, b"\x00\x00" + short(exchange) + short(kind) + bytes([flags]) + content_of("F", arguments))

    def bind(self, queue, exchange, key, arguments):
        names = short(queue) + short(exchange) + short(key)
        self.ask(50, 20, b"\x00\x00" + names + b"\x00" + content_of("F", arguments))

    def publish(self, exchange, key, body, properties):
        flags, values = 0, b""
        for n, (name, kind) in enumerate(PROPERTIES):
            if name in properties:
                flags |= 0x8000 >> n
                value = properties[name]
                values += short(value) if kind == "s" else content_of(kind, value)
        self.call(60, 40, b"\x00\x00" + short(exchange) + short(key) + b"\x00")
        self.send(2, struct.pack(">HHQH", 60, 0, len(body), flags) + values)
        if body:
            self.send(3, body)
        # A declaration that is answered tells that the publish was taken.
        self.ask(40, 10, b"\x00\x00" + short("amq.direct") + short("direct") + b"\x03" + content_of("F", {}))

    def get(self, queue):
        """The next message of a queue in words, acknowledged; none if the queue is empty."""
        self.call(60, 70, b"\x00\x00" + short(queue) + b"\x01")
        got, arguments = self.expect((60, 71), (60, 72))
        if got[1] == 72:
            return None
        arguments.take(8)
        redelivered, exchange, key = arguments.number("?"), arguments.short(), arguments.short()
        _, head = self.receive()
        size = struct.unpack(">Q", head[4:12])[0]
        body = b""
        while len(body) < size:
            body += self.receive()[1]
        words = [f'exchange="{exchange}"', f'key="{key}"', *(["redelivered=true"] if redelivered else [])]
        return "  ".join([*words, *Input(head[12:]).properties(), "body=" + shown_bytes(body)])

    def close(self):
        self.socket.close()
