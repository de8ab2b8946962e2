//! Answers to clients and operators, byte for byte: a recorded client and a recorded operator, against
//! the files in `transcript/`. `LEVERET_ACCEPT=1` writes the files again; a change of theirs is a
//! change for users.

use super::support::node::{Node, binary};
use super::support::wait_until;
use amqp091::method::{
    BasicAck, BasicCancel, BasicConsume, BasicGet, BasicNack, BasicPublish, BasicQos, BasicRecover,
    BasicReject, ChannelClose, ChannelFlow, ConfirmSelect, ExchangeBind, ExchangeDeclare,
    ExchangeDelete, ExchangeUnbind, QueueBind, QueueDeclare, QueueDelete, QueuePurge, QueueUnbind,
    TxCommit, TxRollback, TxSelect,
};
use amqp091::{FrameKind, Method, Properties, ShortString, Table, TableRef, Value};
use std::fmt::Write as _;
use std::path::PathBuf;
use std::process::{Command, Output, Stdio};
use testing::client::{Client, Received};

/// Compares a text with the recorded one, or records it.
fn compare(name: &str, text: &str) {
    let file =
        PathBuf::from(env!("CARGO_MANIFEST_DIR")).join("tests/process/transcript").join(name);
    if std::env::var_os("LEVERET_ACCEPT").is_some() {
        std::fs::write(&file, text).unwrap();
    }
    let recorded = std::fs::read_to_string(&file).unwrap();
    let differs = recorded.lines().zip(text.lines()).find(|(was, is)| was != is);
    assert_eq!(differs, None, "the first line of {name} that differs: (recorded, now)");
    assert_eq!(recorded.lines().count(), text.lines().count(), "lines of {name}");
}

/// The recorded operator: lines that begin with `$` are run; with `~` too, but numbers do not count.
#[test]
fn an_operator_is_answered_as_ever() {
    let node = Node::start(&["stream.listeners.tcp=none"]);
    let mut client = Client::guest(node.address());
    let script = include_str!("transcript/ctl.txt");
    let mut text = String::new();
    for line in script.lines() {
        match line.split_at_checked(2) {
            Some(("# ", _)) => writeln!(text, "{line}").unwrap(),
            Some(("$ ", words)) => write!(text, "{line}\n{}", run(&node, words)).unwrap(),
            Some(("~ ", words)) => {
                write!(text, "{line}\n{}", without_numbers(&run(&node, words))).unwrap();
            }
            Some(("@ ", "work")) => {
                writeln!(text, "{line}").unwrap();
                work(&mut client);
            }
            Some(("@ ", "quorum")) => {
                writeln!(text, "{line}").unwrap();
                replicated(&node);
            }
            _ => {}
        }
    }
    compare("ctl.txt", &text);
    drop(client);
    node.stop();
}

/// A client that holds one message of three and consumes, so that there is something to list.
fn work(client: &mut Client) {
    client.declare("orders");
    client.ask(1, BasicQos { prefetch_count: 1, ..BasicQos::default() });
    for body in [&b"one"[..], b"two", b"three"] {
        client.put_publish("orders", false, body);
    }
    let consumer_tag = &b"worker"[..];
    client.say(1, BasicConsume { queue: b"orders", consumer_tag, ..BasicConsume::default() });
    assert_eq!(client.next().show(), "basic.consume-ok");
    client.message().unwrap();
}

/// A message in a quorum queue, and one that came back first.
fn replicated(node: &Node) {
    let mut client = Client::guest(node.address());
    let arguments = table(&[("x-queue-type", Value::from("quorum"))]);
    let arguments = TableRef::trusted(&arguments);
    client.ask(
        1,
        QueueDeclare { queue: b"tasks", durable: true, arguments, ..QueueDeclare::default() },
    );
    let properties = Properties {
        content_type: ShortString::new(b"text/plain").ok(),
        priority: Some(7),
        ..Properties::default()
    };
    client.put_message("", "tasks", &properties, b"one");
    let tag = client.get_to_ack("tasks").unwrap().tag;
    client.say(1, BasicReject { delivery_tag: tag, requeue: true });
    client.put_message("", "tasks", &Properties::default(), &[b'x'; 100]);
    assert_eq!(client.ask(1, ConfirmSelect::default()), "confirm.select-ok");
    client.close();
}

/// The exit code, what is said on stdout, and with `!` what is said on stderr; salted hashes are left out.
fn run(node: &Node, words: &str) -> String {
    let host = std::fs::read_to_string("/proc/sys/kernel/hostname").unwrap();
    let name = format!("rabbit@{}", host.trim().split('.').next().unwrap());
    let mut command = Command::new(binary());
    command
        .arg("ctl")
        .args(split(&words.replace("rabbit@box", &name)))
        .env("LEVERET_DATA_DIR", node.data_dir());
    command.env_remove("RABBITMQ_NODENAME").stdin(Stdio::null());
    let Output { status, stdout, stderr } = command.output().unwrap();
    let mut told = format!("= {}\n", status.code().unwrap());
    for (mark, bytes) in [("", stdout), ("! ", stderr)] {
        let text = String::from_utf8(bytes).unwrap();
        for line in text.lines().filter(|line| !line.contains("password_hash\":")) {
            writeln!(told, "  {mark}{line}").unwrap();
        }
    }
    let port = node.address().port().to_string();
    let dir = node.data_dir();
    let told = without_id(&told, "rabbitmq-cluster-id-");
    told.replace(dir.to_str().unwrap(), "DATA").replace(&port, "PORT").replace(&name, "rabbit@box")
}

/// Words as a shell takes them, with simple quotes only.
fn split(words: &str) -> Vec<String> {
    let mut found = vec![];
    for (at, part) in words.split('\'').enumerate() {
        if at % 2 == 1 {
            found.push(part.to_owned());
        } else {
            found.extend(part.split_whitespace().map(str::to_owned));
        }
    }
    found
}

/// The id behind a word is another of each node.
fn without_id(text: &str, word: &str) -> String {
    let mut parts = text.split(word);
    let first = parts.next().unwrap_or_default().to_owned();
    let is_digit = |c: char| c.is_ascii_hexdigit();
    parts.fold(first, |text, part| format!("{text}{word}ID{}", part.trim_start_matches(is_digit)))
}

/// Runs of digits are `#`, and units of bytes `b`: what differs from machine to machine.
fn without_numbers(text: &str) -> String {
    let text = [" kb", " mb", " gb", " tb"]
        .iter()
        .fold(text.to_owned(), |text, unit| text.replace(unit, " b"));
    let mut shown = String::new();
    for character in text.chars() {
        if !character.is_ascii_digit() {
            shown.push(character);
        } else if !shown.ends_with('#') {
            shown.push('#');
        }
    }
    shown
}

/// The recorded client.
struct Recorder {
    client: Client,
    text: String,
}

impl Recorder {
    /// Says something, and records it with so many frames that come then.
    fn say<'a>(&mut self, channel: u16, method: impl Into<Method<'a>>, n_frames: usize) {
        let method = method.into();
        writeln!(self.text, "> {channel} {}", method.name()).unwrap();
        self.client.say(channel, method);
        self.hear(n_frames);
    }

    fn publish(&mut self, publish: BasicPublish<'_>, properties: &Properties, n_frames: usize) {
        writeln!(self.text, "> 1 basic.publish").unwrap();
        self.client.put_whole(publish, properties, b"body");
        self.client.flush();
        self.hear(n_frames);
    }

    /// Waits, unrecorded, for messages that the broker itself moves to a queue.
    fn await_ready(&mut self, queue: &[u8], n_messages: u32) {
        wait_until("messages are moved", || {
            self.client.say(1, QueueDeclare { queue, passive: true, ..QueueDeclare::default() });
            let answer = self.client.next();
            let Method::QueueDeclareOk(it) = answer.method() else { panic!("{}", answer.show()) };
            it.message_count == n_messages
        });
    }

    fn hear(&mut self, n_frames: usize) {
        for _ in 0..n_frames {
            let frame = self.client.next();
            writeln!(self.text, "< {}", show(&frame)).unwrap();
        }
    }
}

/// A frame's kind and bytes; times are zero.
fn show(frame: &Received) -> String {
    const TIME: &[u8] = b"\x04timeT";
    let mut bytes = frame.payload.clone();
    for at in 0..bytes.len().saturating_sub(TIME.len() + 8) {
        if bytes[at..].starts_with(TIME) {
            bytes[at + TIME.len()..at + TIME.len() + 8].fill(0);
        }
    }
    let name = match frame.kind {
        FrameKind::Method => Method::decode(&frame.payload).unwrap().name(),
        FrameKind::Header => "header",
        _ => "body",
    };
    let printable: String = bytes.escape_ascii().to_string();
    format!("{name} {printable}")
}

fn table(entries: &[(&'static str, Value)]) -> Vec<u8> {
    let entries = entries.iter();
    let table: Table =
        entries.map(|(name, value)| (ShortString::from_static(name), value.clone())).collect();
    table.to_bytes()
}

#[test]
fn a_client_is_answered_as_ever() {
    let node = Node::start(&["stream.listeners.tcp=none"]);
    let client = Client::guest(node.address());
    let mut recorder = Recorder { client, text: String::new() };
    definitions(&mut recorder);
    messages(&mut recorder);
    transactions(&mut recorder);
    refusals(&mut recorder);
    compare("wire.txt", &recorder.text);
    drop(recorder);
    node.stop();
}

fn definitions(it: &mut Recorder) {
    for (kind, name) in [
        ("direct", "d"),
        ("fanout", "f"),
        ("topic", "t"),
        ("headers", "h"),
        ("x-consistent-hash", "c"),
        ("x-random", "r"),
    ] {
        let (exchange, kind) = (name.as_bytes(), kind.as_bytes());
        it.say(1, ExchangeDeclare { exchange, kind, ..ExchangeDeclare::default() }, 1);
    }
    let arguments = table(&[
        ("x-dead-letter-exchange", Value::from("")),
        ("x-dead-letter-routing-key", Value::from("dead")),
        ("x-max-priority", Value::I32(5)),
    ]);
    let arguments = TableRef::parse(&arguments).unwrap();
    it.say(1, QueueDeclare { queue: b"dead", ..QueueDeclare::default() }, 1);
    it.say(1, QueueDeclare { queue: b"q", arguments, ..QueueDeclare::default() }, 1);
    it.say(1, QueueDeclare { queue: b"q", passive: true, ..QueueDeclare::default() }, 1);
    let bind = QueueBind { queue: b"q", exchange: b"t", ..QueueBind::default() };
    it.say(1, QueueBind { routing_key: b"a.#", ..bind }, 1);
    let (destination, source) = (&b"t"[..], &b"d"[..]);
    it.say(1, ExchangeBind { destination, source, routing_key: b"a.b", ..<_>::default() }, 1);
}

fn messages(it: &mut Recorder) {
    let plain = Properties::default();
    let rich = Properties {
        content_type: Some(ShortString::from_static("text/plain")),
        message_id: Some(ShortString::from_static("m-1")),
        priority: Some(3),
        headers: Some(
            [(ShortString::from_static("CC"), Value::Array(vec![Value::from("dead")]))]
                .into_iter()
                .collect(),
        ),
        ..Properties::default()
    };
    it.say(1, ConfirmSelect::default(), 1);
    let publish = BasicPublish { exchange: b"d", routing_key: b"a.b", ..BasicPublish::default() };
    it.publish(publish, &plain, 1);
    it.publish(BasicPublish { mandatory: true, routing_key: b"nowhere", ..publish }, &plain, 4);
    it.publish(BasicPublish { exchange: b"", routing_key: b"q", ..publish }, &rich, 1);
    let get = BasicGet { queue: b"q", ..BasicGet::default() };
    it.say(1, get, 3);
    it.say(1, BasicNack { delivery_tag: 1, multiple: false, requeue: true }, 0);
    it.say(1, get, 3);
    it.say(1, BasicReject { delivery_tag: 2, requeue: false }, 0);
    it.say(1, BasicQos { prefetch_count: 10, ..BasicQos::default() }, 1);
    let consume = BasicConsume { queue: b"q", consumer_tag: b"tag", ..BasicConsume::default() };
    it.say(1, consume, 4);
    it.say(1, BasicRecover { requeue: true }, 4);
    it.say(1, BasicAck { delivery_tag: 4, multiple: true }, 0);
    it.say(1, BasicCancel { consumer_tag: b"tag", no_wait: false }, 1);
    it.say(1, get, 1);
    it.say(1, ChannelFlow { active: true }, 1);
    it.await_ready(b"dead", 2);
    it.say(1, BasicGet { queue: b"dead", no_ack: true, ..get }, 3);
    it.say(1, BasicGet { queue: b"dead", no_ack: true, ..get }, 3);
}

fn transactions(it: &mut Recorder) {
    it.client.open_channel(2);
    it.say(2, TxSelect {}, 1);
    it.say(2, TxCommit {}, 1);
    it.say(2, TxRollback {}, 1);
    it.say(2, ConfirmSelect::default(), 1);
}

/// Each closes its channel; a new one is opened for the next.
fn refusals(it: &mut Recorder) {
    let refused: &[Method<'_>] = &[
        QueueDeclare { queue: b"missing", passive: true, ..<_>::default() }.into(),
        QueueDeclare { queue: b"q", durable: true, ..<_>::default() }.into(),
        QueueDeclare { queue: b"amq.mine", ..<_>::default() }.into(),
        QueueBind { queue: b"q", exchange: b"missing", ..<_>::default() }.into(),
        QueueDelete { queue: b"q", if_unused: false, if_empty: true, ..<_>::default() }.into(),
        ExchangeDeclare { exchange: b"d", kind: b"fanout", ..<_>::default() }.into(),
        ExchangeDeclare { exchange: b"x", kind: b"unknown", ..<_>::default() }.into(),
        ExchangeDelete { exchange: b"amq.direct", ..<_>::default() }.into(),
        BasicConsume { queue: b"missing", ..<_>::default() }.into(),
        BasicAck { delivery_tag: 77, multiple: false }.into(),
        BasicGet { queue: b"missing", ..<_>::default() }.into(),
    ];
    for (at, method) in refused.iter().enumerate() {
        let channel = 10 + u16::try_from(at).unwrap();
        it.client.open_channel(channel);
        // A delete of an empty queue is carried out.
        it.say(channel, *method, 1);
    }
    it.say(1, QueueUnbind { queue: b"q", exchange: b"t", ..<_>::default() }, 1);
    it.say(1, ExchangeUnbind { destination: b"t", source: b"d", ..<_>::default() }, 1);
    it.say(1, QueuePurge { queue: b"dead", no_wait: false, ..<_>::default() }, 1);
    it.say(1, QueueDelete { queue: b"dead", ..<_>::default() }, 1);
    it.say(1, ExchangeDelete { exchange: b"d", ..<_>::default() }, 1);
    it.say(1, ChannelClose::default(), 1);
}
