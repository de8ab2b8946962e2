"""Exchanges of connections and sessions: handshakes, logins, opens, frames, begins, their ends."""

from codec import Typed, array, composite, described, frame, symbol, symbols
from script import AMQP, LOGIN, SASL, begin, case, credit, f, init, opened, sender, table

table("hello", {
    "none": [AMQP], "tls": [b"AMQP\x02\x01\x00\x00"], "rubbish": [b"GET / HTTP/1.1\r\n\r\n"],
        "version": [b"AMQP\x03\x01\x01\x00"],
    "sasl": [SASL], "twice": [SASL, SASL], "amqp-after-sasl-header": [SASL, AMQP], "frame-first": [opened()],
    "sasl-1-0-0-twice": [SASL, init(), SASL], "wrong-after-login": [SASL, init(), b"AMQP\x00\x01\x01\x00"],
    "rubbish-after-login": [SASL, init(), b"rubbish!"],
}, lambda steps: steps, before=[], patience_s=1)
table("sasl", {
    "plain": init(), "refused": init("guest", "wrong"), "no-user": init("nobody"), "empty": init(response=b""),
    "authzid": init(response=b"guest\0guest\0guest"), "malformed": init(response=b"guest"),
        "unknown": init(mechanism="NONE"),
    "amqplain": init(mechanism="AMQPLAIN", response=b"\x05LOGINS\0\0\0\x05guest\x08PASSWORDS\0\0\0\x05guest"),
    "anonymous": init(mechanism="ANONYMOUS", response=b""), "external": init(mechanism="EXTERNAL", response=b""),
    "response-first": frame(composite("response", response=b"x"), kind=1),
    "amqp-frame": opened(), "empty-frame": frame(None, kind=1), "hostname": frame(composite(
        "init", mechanism="PLAIN", initial_response=b"\0guest\0guest", hostname="vhost:none"), kind=1),
    "two-inits": init() + init(), "rubbish": b"\xff" * 16, "too-large": frame(composite(
        "init", mechanism="PLAIN", initial_response=b"x" * 9000), kind=1),
}, lambda step: step, before=[SASL], patience_s=4)

# ---- Opens
table("open", {
    "plain": {}, "vhost": {"hostname": "vhost:/"}, "vhost-none": {"hostname": "vhost:none"},
        "hostname": {"hostname": "localhost"},
    "vhost-empty": {"hostname": "vhost:"}, "frame-512": {"max_frame_size": 512}, "frame-511": {"max_frame_size": 511},
    "frame-0": {"max_frame_size": 0}, "frame-most": {"max_frame_size": 2**32 - 1}, "channel-0": {"channel_max": 0},
    "idle-0": {"idle_time_out": 0}, "idle-999": {"idle_time_out": 999},
    "container-empty": {"container_id": ""}, "container-none": {"container_id": None},
    "container-number": {"container_id": Typed("uint", 1)},
    "capabilities": {"desired_capabilities": array("symbol", ["LINK_PAIR_V1_0", "ANONYMOUS-RELAY",
        "sole-connection-for-container"])},
    "properties": {"properties": symbols(product="hare", version="1", n=7, nested=symbols(a=True))},
    "properties-strings": {"properties": {"product": "hare"}},
    "locales": {"outgoing_locales": symbol("en_US"), "incoming_locales": array("symbol", ["de_DE"])},
}, opened, before=[SASL, init(), AMQP], patience_s=4)
HELLO = [SASL, init(), AMQP]
table("early", {
    "begin": begin(), "close": f("close"), "empty-frame": frame(None), "rubbish": b"\xff" * 8, "sasl-frame": init(),
    "large": opened(properties=symbols(a="x" * 9000)), "large-frame": (9000).to_bytes(4, "big") + b"\x02\0\0\0",
}, lambda step: step, before=HELLO, patience_s=4)
case("open-no-access", opened(), before=[SASL, init("none"), AMQP], patience_s=4)
case("open-no-access-close", opened(), f("close"), before=[SASL, init("none"), AMQP], patience_s=4)
case("open-begin-in-one", opened() + begin(), before=HELLO)

# ---- Frames
table("frame", {
    "empty": frame(None), "empty-channel": frame(None, b"", 70), "small": b"\0\0\0\x07\x02\0\0\0",
    "offset-1": b"\0\0\0\x08\x01\0\0\0", "offset-3": b"\0\0\0\x0c\x03\0\0\0\xff\xff\xff\xff" + b"",
    "offset-beyond": b"\0\0\0\x0c\x09\0\0\0\0\0\0\0", "type": frame(composite("close"), kind=7), "sasl": init(),
    "large": (200_000).to_bytes(4, "big") + b"\x02\0\0\0", "undescribed": frame(Typed("list", [])),
    "unknown": frame(described(0x19, [])), "unknown-name": frame(described("amqp:none:list", [])),
    "name": frame(described("amqp:begin:list", [None, Typed("uint", 0), Typed("uint", 5), Typed("uint", 5)]),
        channel=1),
    "rubbish": b"\0\0\0\x0c\x02\0\0\0\xff\xff\xff\xff", "cut": b"\0\0\0\x0c\x02\0\0\0\x00\x53\x11\xc0",
    "not-a-list": frame(described(0x11, "x")), "field-type": f("begin", 1, next_outgoing_id=Typed("string", "x")),
    "too-many-fields": frame(described(0x18, [None, None, None])), "channel": begin(64), "channel-most": begin(65535),
    "close": f("close"), "close-error": f("close", error=composite("error", condition="amqp:internal-error",
        description="x")),
    "behind-close": f("close") + begin(1), "open-again": opened(), "end-unknown": f("end", 5),
        "attach-unknown": sender(ch=5),
    "header-again": AMQP,
}, lambda step: step, patience_s=1)

# ---- Sessions
table("begin", {
    "plain": {}, "window-0": {"incoming_window": 0}, "outgoing-0": {"outgoing_window": 0},
        "ids": {"next_outgoing_id": 2**32 - 1},
    "handle-max-0": {"handle_max": 0}, "handle-max": {"handle_max": 2**32 - 1}, "remote": {"remote_channel": 1},
    "capabilities": {"desired_capabilities": array("symbol", ["x"]), "properties": symbols(a=1)},
    "no-id": {"next_outgoing_id": None}, "no-window": {"incoming_window": None},
        "id-most": {"next_outgoing_id": 2**31},
}, lambda **fields: begin(1, **fields), before=LOGIN)
case("begin-again", begin())
case("begin-end", f("end"))
case("begin-end-begin", f("end"), begin())
case("begin-end-error", f("end", error=composite("error", condition="amqp:internal-error", description="x")))
case("begin-end-flow", f("end") + credit(1))
case("begin-three", begin(1) + begin(2) + begin(63))
case("begin-end-close", f("end") + f("close"))
table("session-flow", {
    "echo": {"echo": True}, "plain": {}, "leads": {"next_incoming_id": 1},
        "leads-far": {"next_incoming_id": 2**31 - 1},
    "behind": {"next_incoming_id": 2**32 - 1}, "no-id": {"next_incoming_id": None, "echo": True},
        "ids": {"next_outgoing_id": 7, "echo": True},
    "no-window": {"incoming_window": None}, "unknown-handle": {"handle": 3, "link_credit": 1, "delivery_count": 0},
    "handle-beyond": {"handle": 256, "link_credit": 1}, "drain-no-handle": {"drain": True, "echo": True},
}, lambda **fields: f("flow", **{"next_incoming_id": 0, "incoming_window": 10, "next_outgoing_id": 0,
"outgoing_window": 10, **fields}))
