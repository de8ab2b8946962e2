"""The words in which the exchanges are written: frames, links, messages, tables of cases."""

from typing import NamedTuple

from codec import composite, encode, frame, section

# Stands for the exchange's own name, which is as long.
QUEUE = "qqqqqq"
Q = f"/queues/{QUEUE}"
X = f"/exchanges/{QUEUE}"
# Users beside guest, who may do anything, with their permissions.
USERS = {
    "none": None,
    "mouse": {"configure": "^$", "write": "^amq\\.direct$", "read": "^$"},
    "vole": {"configure": ".*", "write": "^(?!amq\\.topic).*$", "read": ".*"},
}


class Case(NamedTuple):
    name: str
    number: int
    # Steps whose answers are not written down.
    before: list
    steps: list
    patience_s: float


class Legacy(NamedTuple):
    """A step over AMQP 0-9-1."""

    method: str
    arguments: tuple
    options: dict


CASES = []


def case(name, *steps, before=None, patience_s=0):
    CASES.append(Case(name, len(CASES), LOGIN + SESSION if before is None else before, list(steps), patience_s))


def table(prefix, rows, make, is_whole=False, **options):
    """A case for each row: what `make` makes of its fields, or of the row as a whole."""
    for name, given in rows.items():
        made = make(**given) if isinstance(given, dict) and not is_whole else make(given)
        case(f"{prefix}-{name}", *(made if isinstance(made, list) else [made]), **options)


def legacy(method, *arguments, **options):
    return Legacy(method, arguments, options)


def f(performative, ch=0, *, payload=b"", **fields):
    return frame(composite(performative, **fields), payload, ch)


def declare(kind="classic", **arguments):
    named = {"x-" + key.replace("_", "-"): value for key, value in arguments.items()}
    return legacy("declare", QUEUE, {"x-queue-type": kind, **named})


SASL, AMQP = b"AMQP\x03\x01\x00\x00", b"AMQP\x00\x01\x00\x00"


def init(user="guest", password=None, mechanism="PLAIN", response=None):
    response = f"\0{user}\0{password or user}".encode() if response is None else response
    return frame(composite("init", mechanism=mechanism, initial_response=response), kind=1)


def opened(**fields):
    return f("open", **{"container_id": "c", **fields})


def begin(ch=0, **fields):
    usual = {"next_outgoing_id": 0, "incoming_window": 1000, "outgoing_window": 1000}
    return f("begin", ch=ch, **{**usual, **fields})


def login(user):
    return [SASL, init(user), AMQP, opened()]


LOGIN, SESSION = login("guest"), [begin()]


def source(address=Q, **fields):
    return composite("source", address=address, **fields)


def target(address=Q, **fields):
    return composite("target", address=address, **fields)


def sender(to=Q, handle=0, ch=0, **fields):
    """A link of ours that sends."""
    usual = {"name": f"l{handle}", "handle": handle, "role": False, "source": source("here"),
        "initial_delivery_count": 0}
    return f("attach", ch=ch, **{**usual, "target": target(to), **fields})


def receiver(address=Q, handle=0, ch=0, **fields):
    """A link of ours that receives."""
    usual = {"name": f"l{handle}", "handle": handle, "role": True, "source": source(address),
        "target": target("here")}
    return f("attach", ch=ch, **{**usual, **fields})


def credit(n=10, handle=0, ch=0, **fields):
    usual = {"next_incoming_id": 0, "incoming_window": 1000, "next_outgoing_id": 0, "outgoing_window": 1000}
    return f("flow", ch=ch, **{**usual, "handle": handle, "delivery_count": 0, "link_credit": n, **fields})


def msg(body=b"hare", **sections):
    """A message: header and properties by their fields, other sections by their maps, in the standard's order."""
    told = b""
    for name in ("header", "delivery_annotations", "annotations", "properties", "application_properties"):
        if name in sections:
            given = sections.pop(name)
            is_list = name in ("header", "properties")
            told += encode(composite(name, **given)) if is_list else section(name, given)
    footer = sections.pop("footer", None)
    assert not sections, sections
    told += body if isinstance(body, Raw) else section("data", body) if isinstance(body, bytes) else section("value",
        body)
    return told + (section("footer", footer) if footer is not None else b"")


class Raw(bytes):
    """Body sections that are encoded already."""


def send(payload=None, n=0, handle=0, ch=0, **fields):
    """A delivery in one transfer."""
    usual = {"handle": handle, "delivery_id": n, "delivery_tag": bytes([n]), "message_format": 0}
    return f("transfer", ch=ch, payload=msg() if payload is None else payload, **{**usual, **fields})


def settle(state, first=0, last=None, ch=0, settled=True, role=True):
    return f("disposition", ch=ch, role=role, first=first, last=last, settled=settled, state=state)


ACCEPTED, RELEASED = composite("accepted"), composite("released")


def rejected(condition="amqp:internal-error", text="no"):
    return composite("rejected", error=composite("error", condition=condition, description=text))


def modified(**fields):
    return composite("modified", **fields)


def published(*messages, kind="classic", **arguments):
    """A queue that has these messages, by link 9 of session 9, settled once it is attached."""
    sends = [send(message, n=n, handle=9, ch=9) for n, message in enumerate(messages or [msg()])]
    return [declare(kind, **arguments), begin(ch=9), sender(handle=9, ch=9), b"".join(sends)]
