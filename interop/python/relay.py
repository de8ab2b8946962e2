"""A TCP forwarder between client and node that counts heartbeat frames, mutes the client, or cuts both sides."""

import socket
import threading
import time

HEADER_BYTES = 8
FRAME_OVERHEAD_BYTES = 8
FRAME_HEARTBEAT = 8


class HeartbeatCounter:
    """Walks the frames of one direction and counts the heartbeats."""

    def __init__(self, skip_bytes):
        self.count = 0
        self._skip_bytes = skip_bytes
        self._buffer = bytearray()

    def feed(self, data):
        self._buffer += data
        if self._skip_bytes:
            if len(self._buffer) < self._skip_bytes:
                return
            del self._buffer[: self._skip_bytes]
            self._skip_bytes = 0
        while len(self._buffer) >= FRAME_OVERHEAD_BYTES:
            size = int.from_bytes(self._buffer[3:7], "big") + FRAME_OVERHEAD_BYTES
            if len(self._buffer) < size:
                return
            if self._buffer[0] == FRAME_HEARTBEAT:
                self.count += 1
            del self._buffer[:size]


class Relay:
    """Forwards one client connection to the node; listens on `port`."""

    host = "127.0.0.1"

    def __init__(self, host, port):
        self._target = (host, port)
        self._listener = socket.create_server((self.host, 0))
        self.port = self._listener.getsockname()[1]
        self.from_client = HeartbeatCounter(HEADER_BYTES)
        self.from_server = HeartbeatCounter(0)
        self.server_closed = threading.Event()
        self.server_closed_at = None
        self.last_from_server = b""
        self._muted = False
        self._sockets = []
        threading.Thread(target=self._accept, daemon=True).start()

    def _accept(self):
        try:
            client, _ = self._listener.accept()
            server = socket.create_connection(self._target)
        except OSError:
            return
        self._sockets = [client, server]
        threading.Thread(target=self._client_to_server, args=(client, server), daemon=True).start()
        threading.Thread(target=self._server_to_client, args=(server, client), daemon=True).start()

    def _client_to_server(self, client, server):
        try:
            while data := client.recv(65536):
                if not self._muted:
                    self.from_client.feed(data)
                    server.sendall(data)
        except OSError:
            pass
        if not self._muted:
            _shut(server)

    def _server_to_client(self, server, client):
        try:
            while data := server.recv(65536):
                self.from_server.feed(data)
                self.last_from_server = data
                client.sendall(data)
        except OSError:
            pass
        self.server_closed_at = time.monotonic()
        self.server_closed.set()
        _shut(client)

    def mute_client(self):
        """From now on nothing the client sends reaches the node; returns the moment it began."""
        self._muted = True
        return time.monotonic()

    def cut(self):
        """Drops both sides, as a broken network would."""
        for sock in self._sockets:
            _shut(sock)

    def close(self):
        self._listener.close()
        self.cut()
        for sock in self._sockets:
            sock.close()


def _shut(sock):
    try:
        sock.shutdown(socket.SHUT_RDWR)
    except OSError:
        pass
