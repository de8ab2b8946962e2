"""A connection of AMQP 0-9-1 that stays open: lists of connections, channels and consumers have a row."""

import socket
import struct


def short(text):
    return bytes([len(text)]) + text.encode()


class Connection:
    """Opened by guest, with one channel, an exclusive queue and a consumer."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.input = self.socket.makefile("rb")
        self.socket.sendall(b"AMQP\x00\x00\x09\x01")
        self._expect(10, 10)
        login = b"\x00guest\x00guest"
        response = struct.pack(">I", len(login)) + login
        self._call(0, 10, 11, struct.pack(">I", 0) + short("PLAIN") + response + short("en_US"))
        self._expect(10, 30)
        self._call(0, 10, 31, struct.pack(">HIH", 2047, 131072, 0))
        self._ask(0, 10, 40, short("/") + b"\x00\x00")
        self._ask(1, 20, 10, b"\x00")
        exclusive = b"\x04"
        self._ask(1, 50, 10, b"\x00\x00" + short("excl") + exclusive + struct.pack(">I", 0))
        self._ask(1, 60, 20, b"\x00\x00" + short("excl") + short("ctag") + b"\x00" + struct.pack(">I", 0))

    def _call(self, channel, class_id, method_id, arguments):
        payload = struct.pack(">HH", class_id, method_id) + arguments
        self.socket.sendall(struct.pack(">BHI", 1, channel, len(payload)) + payload + b"\xce")

    def _ask(self, channel, class_id, method_id, arguments):
        self._call(channel, class_id, method_id, arguments)
        self._expect(class_id, method_id + 1)

    def _expect(self, class_id, method_id):
        kind, _, size = struct.unpack(">BHI", self.input.read(7))
        payload = self.input.read(size + 1)
        got = struct.unpack(">HH", payload[:4])
        if kind != 1 or got != (class_id, method_id):
            raise RuntimeError(f"method {(class_id, method_id)} was to come, not {got}: {payload[4:]}")

    def close(self):
        self.socket.close()
