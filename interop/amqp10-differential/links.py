"""Exchanges of links: attaches, addresses, credit, deliveries, outcomes, detaches."""

from codec import Typed, array, composite, described, symbol, symbols
from script import (
    ACCEPTED, LOGIN, QUEUE, RELEASED, SASL, SESSION, AMQP, Q, X, begin, case, credit, declare, f, init, legacy,
    login,
    modified, msg, opened, published, receiver, rejected, send, sender, settle, source, table, target,
)

READY = LOGIN + SESSION + [declare()]
STREAM = LOGIN + SESSION + [declare("stream")]
WITH_EXCHANGE = [*READY, legacy("declare_exchange", QUEUE, "topic", {}), legacy("bind", QUEUE, QUEUE, "k.*", {})]


def steps(*given):
    return list(given)


# ---- Attaches
BOTH = {
    "plain": {}, "settled": {"snd_settle_mode": 1}, "mixed": {"snd_settle_mode": 2}, "second": {"rcv_settle_mode": 1},
    "mode-unknown": {"snd_settle_mode": 3}, "rcv-unknown": {"rcv_settle_mode": 2}, "name-empty": {"name": ""},
    "name-none": {"name": None}, "name-long": {"name": "n" * 300}, "handle-255": {"handle": 255},
        "handle-256": {"handle": 256},
    "handle-none": {"handle": None}, "role-none": {"role": None}, "unsettled": {"unsettled": {b"\0": None}},
    "unsettled-empty": {"unsettled": {}}, "incomplete": {"incomplete_unsettled": True},
        "max-0": {"max_message_size": 0},
    "max-100": {"max_message_size": 100}, "properties": {"properties": symbols(a=1)},
    "capabilities": {"desired_capabilities": array("symbol", ["AMQP_FILTEX_SQL_V1_0", "AMQP_FILTEX_PROP_V1_0", "x"])},
    "no-source": {"source": None}, "no-target": {"target": None}, "source-number": {"source": source(Typed("uint",
        1))},
    "target-number": {"target": target(Typed("uint", 1))}, "no-count": {"initial_delivery_count": None},
    "count": {"initial_delivery_count": 2**32 - 1}, "coordinator": {"target": composite("coordinator")},
}
table("sender", BOTH, sender, before=READY)
table("receiver", BOTH, receiver, before=READY)
table("sender", {
    "default-outcome": {"source": source("here", default_outcome=composite("released"), outcomes=array("symbol",
        ["amqp:accepted:list"]))},
    "durable": {"target": target(durable=2, expiry_policy="never", timeout=9, capabilities=array("symbol",
        ["queue"]))},
    "dynamic": {"target": target(None, dynamic=True)},
    "temporary": {"target": target(None, dynamic=True, capabilities=array("symbol", ["temporary-queue"]))},
    "anonymous": {"target": target(None)}, "management": {"to": "/management"}, "cbs": {"to": "$cbs"},
        "dollar": {"to": "$management"},
}, sender, before=READY)
table("receiver", {
    "copy": {"source": source(distribution_mode="copy")}, "mode": {"source": source(distribution_mode="other")},
    "default-outcome": {"source": source(default_outcome=composite("accepted"))},
    "outcomes": {"source": source(outcomes=array("symbol", ["amqp:accepted:list", "amqp:rejected:list", "other"]))},
    "durable": {"source": source(durable=2, expiry_policy="never", timeout=9, capabilities=array("symbol",
        ["queue"]))},
    "dynamic": {"source": source(None, dynamic=True)},
    "temporary": {"source": source(None, dynamic=True, capabilities=array("symbol", ["temporary-queue"]))},
    "temporary-expiry": {"source": source(None, dynamic=True, expiry_policy="link-detach", capabilities=array(
        "symbol", ["temporary-queue"]), dynamic_node_properties=symbols(lifetime_policy=described(0x2B, [])))},
    "dynamic-address": {"source": source(Q, dynamic=True, capabilities=array("symbol", ["temporary-queue"]))},
    "volatile-unsettled": {"source": source(None, dynamic=True, capabilities=array("symbol",
        ["rabbitmq:volatile-queue"]))},
    "volatile": {"snd_settle_mode": 1, "source": source(None, dynamic=True, expiry_policy="link-detach",
        capabilities=array(
        "symbol", ["rabbitmq:volatile-queue"]))},
    "volatile-no-expiry": {"snd_settle_mode": 1, "source": source(None, dynamic=True, capabilities=array(
        "symbol", ["rabbitmq:volatile-queue"]))},
    "filter": {"source": source(filter={symbol("f"): described("f", "x")})},
    "priority": {"properties": symbols(rabbitmq__priority=Typed("int", 5))},
    "priority-wrong": {"properties": symbols(rabbitmq__priority="high")},
    "timeout": {"properties": symbols(rabbitmq__consumer_timeout=Typed("uint", 9000))},
    "timeout-wrong": {"properties": symbols(rabbitmq__consumer_timeout=Typed("string", "9"))},
    "management": {"address": "/management"}, "cbs": {"address": "$cbs"}, "dollar": {"address": "$management"},
}, receiver, before=READY)
case("attach-handle-in-use", sender() + receiver(), before=READY)
case("attach-name-twice", sender(name="n") + sender(name="n", handle=1), before=READY)
case("attach-name-both-ways", sender(name="n") + receiver(name="n", handle=1), before=READY)
case("attach-exclusive", receiver(), before=LOGIN + SESSION + [legacy("declare", QUEUE, {}, exclusive=True)])
case("attach-exclusive-sender", sender(), before=LOGIN + SESSION + [legacy("declare", QUEUE, {}, exclusive=True)])
case("attach-sac", receiver() + credit(), before=LOGIN + SESSION + [declare("quorum", single_active_consumer=True)])
table("detach", {
    "plain": {}, "closed": {"closed": True}, "unknown": {"handle": 3},
    "error": {"error": composite("error", condition="amqp:internal-error", description="x")},
}, lambda **fields: f("detach", **{"handle": 0, **fields}), before=[*READY, sender()])
case("detach-attach", f("detach", handle=0), sender(), before=[*READY, sender()])
case("detach-then-transfer", f("detach", handle=0) + send(), before=[*READY, sender()])
case("detach-then-flow", f("detach", handle=0) + credit(), before=[*READY, receiver()])
for kind in ("classic", "quorum", "stream"):
    case(f"queue-deleted-{kind}", legacy("delete", QUEUE), before=[*LOGIN, *SESSION, declare(kind), receiver()],
        patience_s=1)
    case(f"queue-deleted-{kind}-looked", f("flow", handle=0, next_incoming_id=0, incoming_window=9,
        next_outgoing_id=0,
         outgoing_window=9, delivery_count=0, link_credit=1, echo=True),
         before=[*LOGIN, *SESSION, declare(kind), receiver(), legacy("delete", QUEUE)], patience_s=1)
case("queue-deleted-sender", legacy("delete", QUEUE), send(), before=[*READY, sender()])
case("queue-deleted-sender-settled", legacy("delete", QUEUE), send(settled=True), before=[*READY, sender()])

# ---- Addresses
SOURCES = {
    "queue": Q, "none": "/queues/none", "empty": "", "bare": "none", "slash": "/", "queues": "/queues",
        "queues-slash": "/queues/",
    "two": f"{Q}/x", "percent": "/queues/%71qqqqq", "percent-bad": "/queues/%7", "percent-bad-hex": "/queues/%zz",
    "percent-slash": "/queues/a%2Fb", "percent-utf8": "/queues/%ff", "utf8": "/queues/hase-ö",
        "long": "/queues/" + "q" * 256,
    "exchange": X, "v1-queue": f"/queue/{QUEUE}", "v1-amq": f"/amq/queue/{QUEUE}",
        "v1-exchange": "/exchange/amq.topic/k",
    "v1-topic": "/topic/k", "management-x": "/management/x", "case": f"/Queues/{QUEUE}", "null": None,
        "plus": "/queues/a+b",
    "query": f"{Q}?x=1", "space": "/queues/a b",
}
table("source", SOURCES, receiver, before=READY)
table("target", {
    **SOURCES, "exchange-key": f"{X}/k.a", "exchange-slash": f"{X}/", "exchange-empty": "/exchanges/",
    "exchange-none": "/exchanges/none",
    "exchange-none-key": "/exchanges/none/k", "exchange-default": "/exchanges/amq.default/k",
        "exchange-three": f"{X}/a/b",
    "exchange-percent": f"{X}/%6b.a", "exchange-bad-percent": f"{X}/%6", "exchange-empty-key": "/exchanges//k",
    "exchange-long": "/exchanges/" + "x" * 256, "key-long": f"{X}/" + "k" * 256,
        "internal": "/exchanges/amq.rabbitmq.trace",
}, sender, before=WITH_EXCHANGE)
table("to", {
    "queue": Q, "none": "/queues/none", "exchange-key": f"{X}/k.a", "exchange": X,
        "exchange-none": "/exchanges/none/k", "null": None,
    "bare": QUEUE, "empty": "", "queues-slash": "/queues/", "default": "/exchanges/amq.default/k",
        "percent": "/queues/%71qqqqq",
    "percent-bad": "/queues/%7", "v1": f"/queue/{QUEUE}", "unroutable": f"{X}/none", "management": "/management",
    "number": Typed("uint", 1), "long": "/queues/" + "q" * 256,
}, lambda to: send(msg(properties={"to": to})), before=[*WITH_EXCHANGE, sender(None)])
table("to-settled", {
    "queue": Q, "none": "/queues/none", "exchange-none": "/exchanges/none/k", "null": None, "bare": QUEUE,
        "unroutable": f"{X}/none",
}, lambda to: send(msg(properties={"to": to}), settled=True), before=[*WITH_EXCHANGE, sender(None)])

# ---- Permissions
table("denied", {
    "read": [receiver()], "write": [sender(X)], "write-queue": [sender(Q)],
    "to": [sender(None), send(msg(properties={"to": f"{X}/k"}))],
    "temporary": [receiver(None, source=source(None, dynamic=True, capabilities=array("symbol",
        ["temporary-queue"])))],
}, lambda steps: steps, before=[*login("mouse"), *SESSION, declare(), legacy("declare_exchange", QUEUE, "topic",
{})])
case("denied-user-id", send(msg(properties={"user_id": b"other"})), before=[*READY, sender()])
case("user-id", send(msg(properties={"user_id": b"guest"})), before=[*READY, sender()])

# ---- Publishing
table("send", {
    "accepted": {}, "settled": {"settled": True}, "no-tag": {"delivery_tag": None},
        "tag-empty": {"delivery_tag": b""},
    "tag-33": {"delivery_tag": b"t" * 33}, "no-id": {"delivery_id": None}, "id-other": {"n": 7, "delivery_id": 7},
    "format": {"message_format": 1}, "no-format": {"message_format": None}, "rcv-second": {"rcv_settle_mode": 1},
    "state": {"state": composite("accepted")}, "resume": {"resume": True}, "aborted": {"aborted": True},
        "batchable": {"batchable": True},
    "handle-unknown": {"handle": 3}, "handle-none": {"handle": None}, "empty": {"payload": b""},
}, send, before=[*READY, sender()])
table("send-by-settled", {"plain": {}, "settled": {"settled": True}, "not": {"settled": False}}, send, before=[*READY,
    sender(
    snd_settle_mode=1)])
table("send-by-unsettled", {"plain": {}, "settled": {"settled": True}}, send, before=[*READY,
    sender(snd_settle_mode=0)])
PART = b"\x00\x53\x75\xa0\x04ha"
MORE = {"delivery_id": None, "delivery_tag": None, "message_format": None}
table("parts", {
    "two": [send(PART, more=True) + send(b"re", **MORE)], "same-id": [send(PART, more=True) + send(b"re")],
    "other-id": [send(PART, more=True) + send(b"re", n=1)], "other-tag": [send(PART, more=True) + send(b"re",
        delivery_tag=b"other")],
    "settled-later": [send(PART, more=True) + send(b"re", settled=True, **MORE)],
    "settled-first": [send(PART, more=True, settled=True) + send(b"re", settled=False, **MORE)],
    "settled-both": [send(PART, more=True, settled=True) + send(b"re", **MORE) + send(n=1)],
    "aborted": [send(PART, more=True) + send(b"", aborted=True, **MORE) + send(n=1)],
    "aborted-more": [send(PART, more=True) + send(b"", aborted=True, more=True, **MORE) + send(n=1)],
    "interleaved": [sender(handle=1), send(PART, more=True) + send(PART, n=1, handle=1, more=True) + send(b"re",
        **MORE)
                    + send(b"re", handle=1, **MORE)],
    "empty-last": [send(more=True) + send(b"", **MORE)], "no-id": [send(PART, more=True, delivery_id=None)],
    "detach-between": [send(PART, more=True) + f("detach", handle=0)], "end-between": [send(PART,
        more=True) + f("end")],
    "flow-between": [send(PART, more=True) + credit(None, handle=None, delivery_count=None, echo=True) + send(b"re",
        **MORE)],
}, lambda steps: steps, before=[*READY, sender()])
case("send-unroutable", send(), before=[*WITH_EXCHANGE, sender(f"{X}/none")])
case("send-unroutable-settled", send(settled=True), before=[*WITH_EXCHANGE, sender(f"{X}/none")])
case("send-routed", send(), before=[*WITH_EXCHANGE, sender(f"{X}/k.a")])
case("send-internal", send(), before=[*LOGIN, *SESSION, legacy("declare_exchange", QUEUE, "topic", {}, flags=10),
    sender(X)])
case("send-ranges", send() + send(n=1) + send(n=2) + send(n=3), before=[*READY, sender()])
case("send-170", b"".join(send(settled=True, n=n, delivery_tag=b"t") for n in range(100)), before=[*READY, sender()])
case("send-beyond-credit", b"".join(send(settled=True, n=n % 256, delivery_id=n) for n in range(400)), before=[
    *READY, sender()], patience_s=1)
case("send-too-large", send(msg(b"x" * 100_000)) , before=[*READY, sender(max_message_size=100)])
for kind in ("classic", "quorum"):
    case(f"send-full-{kind}", send(), before=[*LOGIN, *SESSION, declare(kind, max_length=0,
        overflow="reject-publish"), sender()])
case("send-ids-wrap", send(n=1, delivery_id=2**32 - 1), send(n=0), before=[*LOGIN, begin(next_outgoing_id=2**32 - 1),
    declare(),
     sender()])
case("send-count-wraps", send(), send(n=1), before=[*READY, sender(initial_delivery_count=2**32 - 1)])
table("sender-flow", {
    "echo": {"echo": True}, "echo-count": {"echo": True, "delivery_count": 5}, "drain": {"drain": True, "echo": True},
    "available": {"available": 10, "echo": True}, "no-count": {"delivery_count": None, "echo": True}, "plain": {},
}, lambda **fields: credit(**{"n": 0, **fields}), before=[*READY, sender()])

# ---- Consuming
TAKES = [*published(msg(b"0"), msg(b"1"), msg(b"2")), receiver()]
table("credit", {
    "one": {"n": 1}, "all": {"n": 9}, "echo": {"n": 1, "echo": True}, "drain": {"n": 9, "drain": True},
        "drain-some": {"n": 2, "drain": True},
    "zero": {"n": 0}, "zero-echo": {"n": 0, "echo": True}, "zero-drain": {"n": 0, "drain": True},
        "most": {"n": 2**32 - 1},
    "none": {"n": None}, "none-echo": {"n": None, "echo": True}, "count-none": {"n": 2, "delivery_count": None},
    "count-behind": {"n": 2, "delivery_count": 2**32 - 1}, "count-ahead": {"n": 2, "delivery_count": 3},
    "window-1": {"n": 3, "incoming_window": 1}, "window-0": {"n": 3, "incoming_window": 0, "echo": True},
    "properties": {"n": 1, "properties": symbols(a=1)}, "available": {"n": 1, "available": 7},
}, credit, before=LOGIN + SESSION + TAKES)
case("credit-again", credit(1), credit(1, delivery_count=1, next_incoming_id=1), before=LOGIN + SESSION + TAKES)
case("credit-shrinks", credit(1), credit(0, delivery_count=1, next_incoming_id=1, echo=True),
    before=LOGIN + SESSION + TAKES)
case("window-opens", credit(3, incoming_window=1), credit(3, next_incoming_id=1, delivery_count=0, incoming_window=5),
     before=LOGIN + SESSION + TAKES)
case("drain-twice", credit(9, drain=True), credit(9, drain=True, delivery_count=9, next_incoming_id=3),
    before=LOGIN + SESSION + TAKES)
for kind in ("classic", "quorum", "stream"):
    before = [*LOGIN, *SESSION, *published(kind=kind)]
    offset = {"filter": {symbol("rabbitmq:stream-offset-spec"): described("rabbitmq:stream-offset-spec", "first")}}
    attach = receiver(source=source(**(offset if kind == "stream" else {})))
    case(f"{kind}-takes", attach, credit(), settle(ACCEPTED), before=before)
    case(f"{kind}-drain", attach, credit(drain=True), before=before)
    case(f"{kind}-echo", attach, credit(0, echo=True), before=before)
    case(f"{kind}-settled", receiver(snd_settle_mode=1, source=source(**(offset if kind == "stream" else {}))),
        credit(), before=before)
    case(f"{kind}-detach", attach, credit(), f("detach", handle=0, closed=True), receiver(handle=1, source=source(
        **(offset if kind == "stream" else {}))), credit(next_incoming_id=1, handle=1), before=before)
    case(f"{kind}-max-size", receiver(max_message_size=10, source=source(**(offset if kind == "stream" else {}))),
        credit(), before=before)

    table(f"{kind}-settles", {
        "accepted": {"state": ACCEPTED}, "rejected": {"state": rejected()},
            "rejected-plain": {"state": composite("rejected")},
        "released": {"state": RELEASED}, "modified": {"state": modified()},
            "modified-failed": {"state": modified(delivery_failed=True)},
        "modified-undeliverable": {"state": modified(undeliverable_here=True)},
        "modified-annotations": {"state": modified(message_annotations=symbols(x_mine="a", x_n=Typed("ubyte", 1)))},
        "modified-key": {"state": modified(message_annotations=symbols(mine="a"))},
        "unsettled": {"state": ACCEPTED, "settled": False}, "none": {"state": None}, "received": {"state": composite(
            "received", section_number=0, section_offset=0), "settled": False},
        "unknown-state": {"state": described(0x99, [])}, "declared": {"state": described(0x33, [b"x"])},
        "beyond": {"state": ACCEPTED, "last": 1000}, "backwards": {"state": ACCEPTED, "first": 5, "last": 0},
        "other-id": {"state": ACCEPTED, "first": 9}, "all-numbers": {"state": ACCEPTED, "first": 1, "last": 0},
        "sender-role": {"state": ACCEPTED, "role": False}, "no-first": {"state": ACCEPTED, "first": None},
    } if kind != "stream" else {"released": {"state": RELEASED},
    "modified": {"state": modified(delivery_failed=True)}},
        lambda **fields: [credit(1), settle(**fields), credit(9, delivery_count=1, next_incoming_id=1, drain=True)],
        before=[*before, attach])
for kind in ("classic", "quorum"):
    before = [*LOGIN, *SESSION, legacy("declare", QUEUE + "d", {}), *published(
        kind=kind, dead_letter_exchange="", dead_letter_routing_key=QUEUE + "d"), receiver()]
    table(f"{kind}-dead-letters", {
        "rejected": rejected(), "undeliverable": modified(undeliverable_here=True),
        "annotated": modified(undeliverable_here=True, message_annotations=symbols(x_why="w")),
    }, lambda state: [credit(1), settle(state), receiver(Q + "d", handle=1), credit(1, handle=1, next_incoming_id=1)],
    before=before)
case("settle-twice", credit(1), settle(ACCEPTED), settle(ACCEPTED), before=[*LOGIN, *SESSION, *TAKES])
case("settle-range", credit(3), settle(ACCEPTED, 0, 2, settled=False), before=[*LOGIN, *SESSION, *TAKES])
case("settle-then-end", credit(2), f("end"), begin(), receiver() + credit(), before=[*LOGIN, *SESSION, *TAKES])
case("second-takes", receiver(rcv_settle_mode=1), credit(1), settle(ACCEPTED, settled=False), before=[*LOGIN,
    *SESSION, *published()])
case("frames-512", receiver(), credit(1), before=[SASL, init(), AMQP, opened(max_frame_size=512), begin(),
    *published(msg(b"x" * 3000))])
case("replies", receiver(None, snd_settle_mode=1, source=source(None, dynamic=True, expiry_policy="link-detach",
    capabilities=array(
     "symbol", ["rabbitmq:volatile-queue"]))), credit(1), begin(1), lambda seen: sender(seen["source"], ch=1),
         send(ch=1), send(n=1, ch=1))
case("temporary", receiver(None, source=source(None, dynamic=True, capabilities=array("symbol",
    ["temporary-queue"]))), credit(1),
     lambda seen: sender(seen["source"], handle=1), send(handle=1), f("detach", handle=0, closed=True), send(n=1,
     handle=1))

# ---- Filters
OFFSET, BLOOM, UNFILTERED = "rabbitmq:stream-offset-spec", "rabbitmq:stream-filter", "rabbitmq:stream-match-unfiltered"
PROPERTIES, APPLICATION, SQL = "amqp:properties-filter", "amqp:application-properties-filter", "amqp:sql-filter"
FIRST = {OFFSET: (OFFSET, "first")}


def filtered(filters):
    """A receiver with filters by their names, each a pair of descriptor and value."""
    told = {symbol(name): described(*filter) for name, filter in filters.items()}
    return [receiver(source=source(filter=Typed("map", told)))]


table("filter", {
    "first": FIRST, "last": {OFFSET: (OFFSET, "last")}, "next": {OFFSET: (OFFSET, "next")}, "word": {OFFSET: (OFFSET,
        "soon")},
    "offset": {OFFSET: (OFFSET, Typed("ulong", 1))}, "offset-long": {OFFSET: (OFFSET, 1)},
        "offset-uint": {OFFSET: (OFFSET, Typed("uint", 1))},
    "offset-negative": {OFFSET: (OFFSET, -1)}, "timestamp": {OFFSET: (OFFSET, Typed("timestamp", 0))},
        "interval": {OFFSET: (OFFSET, "5m")},
    "interval-wrong": {OFFSET: (OFFSET, "5x")}, "bloom": {BLOOM: (BLOOM, "a")}, "bloom-list": {BLOOM: (BLOOM, ["a",
        "b"])},
    "bloom-number": {BLOOM: (BLOOM, 1)}, "bloom-mixed": {BLOOM: (BLOOM, ["a", 1])},
        "unfiltered": {UNFILTERED: (UNFILTERED, True)},
    "unfiltered-text": {UNFILTERED: (UNFILTERED, "true")}, "unknown": {"mine": ("mine", 1)},
        "name-other": {"mine": (OFFSET, "first")},
    "properties": {"p": (PROPERTIES, symbols(subject="a", to="&p:b"))}, "properties-code": {"p": (0x173,
        symbols(subject="a"))},
    "properties-two": {"p": (PROPERTIES, symbols(subject="a")), "q": (0x173, symbols(to="a"))},
    "properties-unknown": {"p": (PROPERTIES, symbols(none="a"))}, "properties-number": {"p": (PROPERTIES,
        symbols(group_sequence=Typed("uint", 1)))},
    "properties-type": {"p": (PROPERTIES, symbols(subject=1))}, "properties-16": {"a": (APPLICATION,
        {f"k{n}": n for n in range(16)})},
    "properties-17": {"a": (APPLICATION, {f"k{n}": n for n in range(17)})}, "properties-empty": {"p": (PROPERTIES,
        symbols())},
    "application": {"a": (APPLICATION, {"a": "&s:x", "b": Typed("ubyte", 1), "c": True, "d": "&&a"})},
    "application-code": {"a": (0x174, {"a": 1})}, "application-modifier": {"a": (APPLICATION, {"a": "&x:a"})},
    "application-key": {"a": (APPLICATION, {1: "a"})}, "application-list": {"a": (APPLICATION, {"a": [1]})},
    "sql": {"sql-filter": (SQL, "a = 1")}, "sql-code": {"sql-filter": (0x120, "a = 1")}, "sql-name": {"sql": (SQL,
        "a = 1")},
    "sql-wrong": {"sql-filter": (SQL, "a =")}, "sql-number": {"sql-filter": (SQL, 1)},
        "sql-empty": {"sql-filter": (SQL, "")},
    "sql-and-properties": {"sql-filter": (SQL, "a = 1"), "p": (PROPERTIES, symbols(subject="a"))},
    "sql-long": {"sql-filter": (SQL, "a = '" + "x" * 4096 + "'")},
    "sql-tokens": {"sql-filter": (SQL, " OR ".join(["a = 1"] * 50) + " OR a")}, "all": {
        **FIRST, BLOOM: (BLOOM, "a"), UNFILTERED: (UNFILTERED, True), "p": (PROPERTIES, symbols(subject="a")),
        "a": (APPLICATION, {"a": 1})},
    "not-described": {}, "null": {"p": (PROPERTIES, None)},
}, filtered, is_whole=True, before=STREAM)
case("filter-bare-value", receiver(source=source(filter={symbol(OFFSET): "first"})), before=STREAM)
case("filter-string-key", receiver(source=source(filter={OFFSET: described(OFFSET, "first")})), before=STREAM)
case("filter-quorum", *filtered(FIRST), before=LOGIN + SESSION + [declare("quorum")])

HARES = [
    msg(b"0", header={"priority": 2}, properties={"subject": "order.new", "message_id": Typed("ulong", 7),
    "group_sequence": 3},
        application_properties={"weight": 3000, "color": "brown", "soft": True, "unit price": 1.5}),
    msg(b"1", properties={"subject": "order.old", "message_id": "m", "user_id": b"guest", "creation_time": 1000},
        application_properties={"weight": 10, "color": None, "bin": b"\xab"}),
    msg(b"2", properties={"subject": "50%_off", "to": "there"}, application_properties={"weight": "heavy",
    "ears": Typed("ubyte", 2)}),
    msg(b"3"),
]


def passes(**filters):
    """What of the messages passes a filter: all that a drain lets come."""
    return [*filtered({**FIRST, **filters}), credit(20, drain=True)]


SQLS = {
    "equal": "weight = 3000", "unequal": "weight <> 10", "unequal-c": "weight != 10", "less": "weight < 100",
        "most": "weight <= 10",
    "arithmetic": "weight * 2 - 10 > 5000 + 1", "divide": "weight / 3 = 1000", "divide-zero": "weight / 0 = 1",
        "modulo": "weight % 7 = 3",
    "minus": "-weight < -100", "and": "weight > 1 AND color = 'brown'", "or": "weight > 1 OR p.subject LIKE '50%'",
        "not": "NOT weight > 100",
    "in": "color IN ('brown', 'white')", "not-in": "color NOT IN ('white')",
        "in-properties": "p.subject IN ('order.new', 'x')",
    "null": "color IS NULL", "not-null": "color IS NOT NULL", "like": "p.subject LIKE 'order.%'",
        "like-one": "p.subject LIKE 'order._ew'",
    "like-escape": "p.subject LIKE '50!%!_%' ESCAPE '!'", "not-like": "p.subject NOT LIKE 'order%'",
        "priority": "header.priority > 3",
    "priority-default": "h.priority = 4", "priority-2": "header.priority = 2", "durable": "h.durable = TRUE",
        "id": "p.message_id = 7",
    "id-dash": "properties.message-id = 7",
    "id-text": "p.message_id = 'm'", "user-id": "p.user_id = 0x6775657374", "creation": "p.creation_time < UTC()",
    "sequence": "p.group_sequence = 3", "boolean": "soft", "boolean-true": "soft = TRUE", "boolean-constant": "TRUE",
        "false": "FALSE",
    "brackets": "[unit price] > 1", "brackets-a": "a.[unit price] = 1.5", "binary": "bin = 0xAB", "ears": "ears = 2",
        "text-number": "weight = 'heavy'",
    "float": "weight = 3000.0", "exponent": "weight = 3E3", "application": "application_properties.color = 'brown'",
    "a-name": "a.color = 'brown'", "case": "Weight = 3000", "keyword-case": "weight = 3000 and soft",
        "quote": "color <> 'it''s'",
    "between": "weight BETWEEN 1 AND 5", "exists": "EXISTS(weight)", "upper": "UPPER(color) = 'BROWN'",
        "concat": "color + 'x' = 'brownx'",
    "unknown-section": "x.color = 'brown'", "unknown-property": "p.none = 1", "parentheses": "((weight = 3000))",
        "compare-booleans": "soft > FALSE",
    "comment": "weight = 3000 -- hare", "to": "p.to = 'there'", "long-suffix": "weight = 3000L",
        "double-quotes": 'weight = "heavy"',
    "null-literal": "color = NULL", "like-number": "weight LIKE '3%'", "like-percent": "p.subject LIKE '%'",
        "unicode": "color <> 'häse'",
    "precedence": "weight = 10 OR weight = 3000 AND soft = FALSE",
        "not-precedence": "NOT soft = FALSE AND weight > 1",
}
table("sql", SQLS, lambda text: passes(**{"sql-filter": (SQL, text)}), before=[*LOGIN, *SESSION, *published(*HARES,
    kind="stream")])
table("passes", {
    "subject": (PROPERTIES, symbols(subject="order.new")), "prefix": (PROPERTIES, symbols(subject="&p:order")),
    "suffix": (PROPERTIES, symbols(subject="&s:off")), "id": (PROPERTIES, symbols(message_id=Typed("ulong", 7))),
    "null": (PROPERTIES, symbols(to=None)), "weight": (APPLICATION, {"weight": 10}), "weight-type": (APPLICATION,
        {"weight": Typed("ubyte", 10)}),
    "color-null": (APPLICATION, {"color": None}), "soft": (APPLICATION, {"soft": True}), "missing": (APPLICATION,
        {"none": 1}),
    "two": (APPLICATION, {"weight": 3000, "color": "&p:br"}), "symbol": (APPLICATION, {"color": symbol("brown")}),
    "float": (APPLICATION, {"weight": 10.0}), "user": (PROPERTIES, symbols(user_id=b"guest")),
}, lambda given: passes(f=given), before=[*LOGIN, *SESSION, *published(*HARES, kind="stream")])
