"""Peers that mean no good, over raw sockets, beside a bystander over AMQP 0-9-1.

hostile.py [NAMES]               the attacks whose names match, one after the other on a fresh node; what they cost
hostile.py against PORT PID NAMES     the same on a node that runs already

main.py runs the cheap ones, some at a time.
"""

import contextlib
import fnmatch
import multiprocessing
import os
import resource
import select
import socket
import sys
import tempfile
import time
from typing import NamedTuple

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "python"))

import amqp091
from broker import free_port
from codec import Typed, array, described, frame, symbol
from compared_node import start
from management import PAIRED
from script import (
    ACCEPTED, AMQP, LOGIN, SASL, begin, credit, f, init, msg, opened, receiver, send, sender, settle, source,
)

ATTACK_S = 5
# Attacks at a time in a test.
AT_ONCE = 7
# What the bystander may wait beyond what it waits without an attack, on a machine that attackers load, too.
WAIT_MAX_MS = 2_000
# What a node may take more for all of an attack.
GROWN_MIB_MAX = 400
# A queue of messages for attacks that consume.
STOCK = "/queues/stock"


class Peer:
    """A client that writes what it likes, and reads what it must."""

    def __init__(self, port, *output):
        self.socket = socket.create_connection(("127.0.0.1", port))
        self.socket.settimeout(1)
        self.n_read = self.n_responses = 0
        self.say(*(output or [b"".join(LOGIN), begin()]))

    def say(self, *output):
        """Whether the node still listens; one that does not read makes no error."""
        try:
            self.socket.sendall(b"".join(output))
            return True
        except TimeoutError:
            return True
        except OSError:
            return False

    def hear(self, wait_s=0.0):
        """Takes what has come, at most for so long."""
        deadline = time.monotonic() + wait_s
        while select.select([self.socket], [], [], max(0, deadline - time.monotonic()))[0]:
            if not self.hear_once():
                return False
        return True

    def hear_once(self, wait_s=0.0):
        """Whether something came."""
        if not select.select([self.socket], [], [], wait_s)[0]:
            return False
        try:
            data = self.socket.recv(1 << 18)
        except OSError:
            return False
        self.n_read += len(data)
        self.n_responses += data.count(b"http:response")
        return bool(data)


# How long this process attacks.
attack_s = ATTACK_S


def until(seconds=None):
    deadline = time.monotonic() + (attack_s if seconds is None else seconds)
    while time.monotonic() < deadline:
        yield


PAIR = [sender(**PAIRED), receiver(handle=1, **PAIRED), credit(2**31, handle=1, incoming_window=2**31 - 1)]


def request(method, to, body=None, n=0, **fields):
    properties = {"message_id": Typed("ulong", n), "to": to, "subject": method, "reply_to": "$me"}
    return send(msg(body, properties=properties), n=n % 256, delivery_id=n, settled=True, **fields)


def requests(port, *asked, reads=True):
    """Requests without an end, eight at a time as the credit says; who reads no response waits a little for it."""
    peers, n, n_answered = [], 0, 0
    for _ in until():
        if not peers or not n % 4_000:
            peers = [Peer(port, b"".join(LOGIN), begin(incoming_window=2**31 - 1), *PAIR) for _ in range(4)]
        for peer in peers:
            peer.say(*(request(*asked[k % len(asked)], n=n + k) for k in range(8)))
            n_awaited = peer.n_responses + 8
            while reads and peer.n_responses < n_awaited and peer.hear_once(0.5):
                pass
            n_answered += 8 - (n_awaited - peer.n_responses)
        if not reads:
            time.sleep(0.01)
        n += 8
    if reads:
        print(f"    {n_answered} of {4 * n} requests were answered")


def nested(levels):
    value = ["x"]
    for _ in range(levels):
        value = [value]
    return value


def repeated(port, output, n_peers=4, before=(), reads=True):
    """The same frames again and again."""
    peers = [Peer(port, b"".join(LOGIN), begin(), *before) for _ in range(n_peers)]
    for _ in until():
        for peer in peers:
            if not peer.say(output) or (reads and not peer.hear()):
                peer.socket.close()
                peers[peers.index(peer)] = Peer(port, b"".join(LOGIN), begin(), *before)


def unfinished(port):
    """Parts of deliveries on all links of all sessions of some connections."""
    kept = []
    for _ in range(4):
        peer = Peer(port, b"".join(LOGIN), *(begin(ch) for ch in range(64)))
        kept.append(peer)
        for ch in range(64):
            links = [sender(STOCK, handle=handle, ch=ch) for handle in range(250)]
            peer.say(*links)
            peer.hear(0.05)
            if not peer.say(*(send(msg(b"x" * 4000), n=0, handle=h, ch=ch, delivery_id=h,
                more=True) for h in range(250))):
                break
            peer.hear()


def byte_by_byte(port):
    """A message in transfers of one byte."""
    peer = Peer(port)
    peer.say(sender(STOCK), send(b"\x00\x53\x75\xb0\x00\xff\xff\x00", more=True))
    peer.hear(0.2)
    part = send(b"x", delivery_id=None, delivery_tag=None, more=True) * 200
    for _ in until():
        peer.say(part)
        peer.hear()


def small_frames(port):
    """Large messages both ways in frames of 512 bytes."""
    small = [SASL, init(), AMQP, opened(max_frame_size=512), begin(incoming_window=2**31)]
    peer = Peer(port, *small, sender(STOCK), receiver(STOCK, handle=1))
    for n in until():
        peer.say(credit(2**31, handle=1, incoming_window=2**31))
        for _ in range(20):
            peer.say(send(b"\x00\x53\x75\xa0\xff" + b"x" * 255, settled=True, n=0))
            peer.hear()


def handshakes(port):
    """Clients that stop in the middle of a handshake."""
    stages = [b"", b"AMQP", SASL, SASL + init()[:20], SASL + init(), SASL + init() + AMQP,
        SASL + init() + AMQP + opened()[:10]]
    sockets = []
    for _ in until():
        for stage in stages:
            one = socket.create_connection(("127.0.0.1", port))
            sockets.append(one)
            with contextlib.suppress(OSError):
                one.sendall(stage)
        if len(sockets) > 8_000:
            break
    time.sleep(1)


def idle_clients(port, n_clients=10_000):
    """Clients that bear a second of silence, each with a session and two links."""
    hello = b"".join([SASL, init(), AMQP, opened(idle_time_out=1000), begin(), sender(STOCK), receiver(STOCK,
        handle=1)])
    sockets = []
    for _ in range(n_clients):
        one = socket.create_connection(("127.0.0.1", port))
        one.sendall(hello)
        sockets.append(one)
    poll, heard = select.epoll(), 0
    for one in sockets:
        poll.register(one.fileno(), select.EPOLLIN)
    by_number = {one.fileno(): one for one in sockets}
    for _ in until(15):
        for number, _ in poll.poll(0.5):
            data = by_number[number].recv(1 << 14)
            heard += 1
            if not data:
                poll.unregister(number)
                by_number.pop(number).close()
    print(f"    {len(by_number)} of {n_clients} clients are there, and were written to {heard} times")


def takes_all(port, reads=True):
    """Consumers with all the credit that there is, which settle nothing."""
    peers = [Peer(port, b"".join(LOGIN), begin(incoming_window=2**32 - 1), receiver(STOCK), credit(
        2**32 - 1, delivery_count=2**32 - 1, incoming_window=2**32 - 1)) for _ in range(4)]
    for _ in until():
        for peer in peers if reads else []:
            peer.hear(0.05)
        time.sleep(0.01)
    if reads:
        print(f"    {sum(peer.n_read for peer in peers) >> 20} MiB were taken")


def dynamic(port, capability, n_links=10_000, **fields):
    """Queues of links' own by the thousand, and links that come and go."""
    peers = []
    made = source(None, dynamic=True, expiry_policy="link-detach", capabilities=array("symbol", [capability]))
    for n in range(n_links // 2_000):
        peer = Peer(port, b"".join(LOGIN), *(begin(ch) for ch in range(8)))
        for ch in range(8):
            peer.say(*(receiver(None, handle=handle, ch=ch, source=made, name=f"l{n}-{ch}-{handle}",
                **fields) for handle in range(250)))
            peer.hear(0.02)
        peers.append(peer)
    for _ in until(2):
        for peer in peers:
            peer.hear(0.02)


def filters(port, text, n_links=200):
    """Filters over the stream, for which nothing is small enough to pass."""
    told = {symbol("rabbitmq:stream-offset-spec"): described("rabbitmq:stream-offset-spec", "first"),
            symbol("sql-filter"): described("amqp:sql-filter", text)}
    peers = []
    for _ in range(n_links // 50):
        peer = Peer(port)
        for handle in range(50):
            peer.say(receiver("/queues/log", handle=handle, source=source("/queues/log", filter=told)), credit(1000,
                handle=handle))
        peers.append(peer)
    for _ in until(8):
        for peer in peers:
            peer.hear(0.05)


LIKE = " OR ".join(f"p.subject LIKE '{'%a' * 90}%b{n}'" for n in range(16))
SUMS = " + ".join(["h.priority"] * 90) + " > 1000000"
NUMBERS = [0, 1, 2**31 - 1, 2**31, 2**32 - 1]
FLOWS = b"".join(credit(n, delivery_count=count, drain=drain,
    echo=True) for n in NUMBERS for count in NUMBERS for drain in (True, False))
DISPOSITIONS = b"".join(settle(ACCEPTED, first, last) for first in NUMBERS for last in NUMBERS if first != last)
ATTACHES = b"".join(sender(STOCK, handle=h) + f("detach", handle=h, closed=True) for h in range(200))
HOSTILE_MAP = {"arguments": {f"x-{n}": n for n in range(6_000)}}


class Attack(NamedTuple):
    act: object
    arguments: tuple = ()
    options: dict = {}
    is_cheap: bool = True


ATTACKS = {
    "requests-unread": Attack(requests, [("GET", STOCK), ("PUT", "/queues/a", {}), ("GET", "/none")],
        {"reads": False}),
    "requests-read": Attack(requests, [("GET", STOCK), ("DELETE", "/queues/none"), ("GET",
        "/bindings?src=&dstq=a&key=")]),
    "requests-large": Attack(requests, [("PUT", "/queues/large", {"a": "x" * 130_000})]),
    "requests-too-large": Attack(repeated, (request("PUT", "/queues/x", "x" * 100_000, more=True) * 3,),
        {"before": PAIR}),
    "requests-maps": Attack(requests, [("PUT", "/queues/maps", HOSTILE_MAP), ("PUT", "/queues/deep",
        {"arguments": {"x": nested(30)}})]),
    "requests-deep": Attack(requests, [("PUT", "/queues/deep", {"arguments": {"x": nested(200)}})]),
    "requests-paths": Attack(requests, [("GET", "/queues/" + "%41" * 40_000), ("DELETE",
        "/bindings/" + "src=a;" * 20_000),
                                        ("GET", "/bindings?" + "src=a&" * 20_000)]),
    "requests-unfinished": Attack(repeated, (b"".join(sender(handle=h, **PAIRED | {"name": f"m{h}"}) + send(
        b"x" * 100_000, handle=h, delivery_id=h, more=True, settled=True) for h in range(200)),)),
    "queues-put": Attack(requests, [("PUT", "/queues/a", {}), ("DELETE", "/queues/a")]),
    "flows": Attack(repeated, (FLOWS,), {"before": [receiver(STOCK)]}),
    "flows-unread": Attack(repeated, (FLOWS,), {"before": [receiver(STOCK)], "reads": False}),
    "dispositions": Attack(repeated, (DISPOSITIONS,), {"before": [receiver(STOCK), credit(100)]}),
    "attaches": Attack(repeated, (ATTACHES,)),
    "attaches-unread": Attack(repeated, (ATTACHES,), {"reads": False}),
    "begins": Attack(repeated, (b"".join(begin(ch) + f("end", ch) for ch in range(1, 60)),)),
    "cbs": Attack(repeated, (b"".join(sender("$cbs", handle=h) + receiver("$cbs", handle=h + 1) + f("detach",
        handle=h) + f(
        "detach", handle=h + 1) for h in range(0, 100, 2)),)),
    "empty-frames": Attack(repeated, (frame(None) * 8_000,)),
    "credit": Attack(takes_all, is_cheap=False),
    "credit-unread": Attack(takes_all, (), {"reads": False}),
    "bytes": Attack(byte_by_byte),
    "unfinished": Attack(unfinished, is_cheap=False),
    "frames-512": Attack(small_frames),
    "handshakes": Attack(handshakes, is_cheap=False),
    "idle-clients": Attack(idle_clients, is_cheap=False),
    "temporary": Attack(dynamic, ("temporary-queue",), is_cheap=False),
    "replies": Attack(dynamic, ("rabbitmq:volatile-queue",), {"snd_settle_mode": 1}, is_cheap=False),
    "filters-like": Attack(filters, (LIKE,), is_cheap=False),
    "filters-sums": Attack(filters, (SUMS,), is_cheap=False),
}


def bystander(port, seconds, told):
    """Publishes and gets a message again and again; tells its worst wait in milliseconds."""
    connection, worst_ms, n_taken = amqp091.Connection(port), 0, 0
    connection.declare("bystander", {})
    for _ in until(seconds):
        begun = time.monotonic()
        connection.publish("", "bystander", b"x", {})
        connection.get("bystander")
        worst_ms = max(worst_ms, (time.monotonic() - begun) * 1000)
        n_taken += 1
        time.sleep(0.01)
    told.put((worst_ms, n_taken))


def resident_mib(pid):
    with open(f"/proc/{pid}/status", encoding="utf-8") as file:
        return int(next(line.split()[1] for line in file if line.startswith("VmRSS"))) // 1024


def watched(port, pid, attacks=(), seconds=ATTACK_S):
    """The bystander's worst wait during attacks, how often it was served, and what the node grew to, in MiB."""
    told = multiprocessing.Queue()
    arguments = [({"attack": attack, "port": port, "seconds": seconds}) for attack in attacks]
    attackers = [multiprocessing.Process(target=attacked, kwargs=each) for each in arguments]
    for attacker in attackers:
        attacker.start()
    peak_mib, deadline, waits = 0, time.monotonic() + 120, []
    while time.monotonic() < deadline:
        watcher = multiprocessing.Process(target=bystander, args=(port, seconds / 2, told))
        watcher.start()
        waits.append(told.get(timeout=60))
        watcher.join()
        peak_mib = max(peak_mib, resident_mib(pid))
        if not any(attacker.is_alive() for attacker in attackers):
            break
    for attacker in attackers:
        attacker.kill()
        attacker.join()
    return max(wait for wait, _ in waits), sum(n for _, n in waits), peak_mib


def attacked(attack, port, seconds):
    """An attack, in a process of its own."""
    global attack_s
    attack_s = seconds
    attack.act(port, *attack.arguments, **attack.options)


def stock(port, n_messages, queue, arguments):
    """A queue of small messages."""
    connection = amqp091.Connection(port)
    connection.declare(queue, arguments)
    head = b"\x00\x00" + amqp091.short("") + amqp091.short(queue) + b"\x00"
    publish = b"\x01\x00\x01" + (len(head) + 4).to_bytes(4, "big") + b"\x00\x3c\x00\x28" + head + b"\xce"
    properties = b"\x00\x3c\x00\x00" + (4).to_bytes(8, "big") + b"\x00\x80" + amqp091.short("x")
    publish += b"\x02\x00\x01" + len(properties).to_bytes(4, "big") + properties + b"\xce"
    publish += b"\x03\x00\x01\x00\x00\x00\x04aaaa\xce"
    for _ in range(n_messages // 1000):
        connection.socket.sendall(publish * 1000)
    connection.declare(queue, arguments)
    connection.close()


def outcomes(port, pid):
    """The cheap attacks, some at a time; how many groups stay within bounds, and how many do not."""
    stock(port, 20_000, "stock", {})
    names, n_failed = [name for name, attack in ATTACKS.items() if attack.is_cheap], 0
    for at in range(0, len(names), AT_ONCE):
        some = names[at : at + AT_ONCE]
        n_failed += not is_within(port, pid, some, (0, 0), 2)
    n_groups = -(-len(names) // AT_ONCE)
    return n_groups - n_failed, n_failed


def is_within(port, pid, names, usual, seconds=ATTACK_S):
    """Whether attacks stay within bounds, and what they cost beside what is usual."""
    usual_ms, usual_mib = usual
    worst_ms, n_served, peak_mib = watched(port, pid, [ATTACKS[name] for name in names], seconds)
    kept = worst_ms <= usual_ms + WAIT_MAX_MS and peak_mib <= usual_mib + GROWN_MIB_MAX and n_served > 0
    told = f"{worst_ms:.0f} ms at worst of {n_served}, {peak_mib} MiB"
    print(f"{'ok  ' if kept else 'FAIL'} amqp10 under attack by {', '.join(names)}: {told}", flush=True)
    return kept


def run(port, pid, pattern):
    """Attacks one by one, on a node that has a million messages in a queue and a stream."""
    for queue, kind in (("stock", "classic"), ("log", "stream")):
        stock(port, 1_000_000, queue, {"x-queue-type": kind})
    usual_ms, _, usual_mib = watched(port, pid)
    print(f"without an attack: {usual_ms:.0f} ms at worst, {usual_mib} MiB")
    names = [name for name in ATTACKS if fnmatch.fnmatchcase(name, pattern)]
    n_passed = sum(is_within(port, pid, [name], (usual_ms, usual_mib)) for name in names)
    print(f"{n_passed} passed, {len(names) - n_passed} failed, 0 skipped")
    return n_passed < len(names)


def main(words):
    resource.setrlimit(resource.RLIMIT_NOFILE, (resource.getrlimit(resource.RLIMIT_NOFILE)[1],) * 2)
    if words[:1] == ["against"]:
        return run(int(words[1]), int(words[2]), words[3])
    with tempfile.TemporaryDirectory(prefix="leveret-interop-") as home:
        port = free_port()
        node = start(home, port, free_port())
        try:
            return run(port, node.pid, words[0] if words else "*")
        finally:
            node.terminate()
            node.wait(30)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
