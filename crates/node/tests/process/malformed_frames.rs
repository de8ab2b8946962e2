//! Random clients: bytes that are nothing, frames with one thing wrong, and methods that are well
//! formed but senseless, many connections at a time. Nobody else may notice.

use super::support::node::Node;
use super::support::wait_until;
use amqp091::content::encode_content;
use amqp091::frame::frame_header;
use amqp091::method::{
    BasicPublish, BasicQos, BasicRecover, BasicRecoverAsync, ChannelClose, ChannelOpen,
    ConnectionOpen, FieldKind, QueueDeclare,
};
use amqp091::{FrameKind, MethodId, Properties, PropertiesRef, ShortString, Table, Value, spec};
use std::time::{Duration, Instant};
use testing::Random;
use testing::client::Client;

const N_THREADS: usize = 8;
/// Channels that are spoken on; 0 among them.
const N_CHANNELS: usize = 3;

/// `LEVERET_NONSENSE_SECONDS` asks for another time.
fn duration() -> Duration {
    let seconds = std::env::var("LEVERET_NONSENSE_SECONDS");
    Duration::from_secs(seconds.map_or(3, |seconds| seconds.parse().unwrap()))
}

/// Names that are queues, exchanges, consumers, routing keys and exchange types all at once.
const NAMES: [&str; 20] = [
    "",
    "a",
    "b",
    "a.b",
    "#",
    "*.a",
    "direct",
    "fanout",
    "topic",
    "headers",
    "amq.direct",
    "amq.topic",
    "amq.headers",
    "amq.rabbitmq.reply-to",
    "amq.rabbitmq.trace",
    "amq.gen-x",
    "guest",
    "0",
    "1000",
    "\u{fc}\r\n",
];

const ARGUMENTS: [&str; 16] = [
    "x-message-ttl",
    "x-expires",
    "x-max-length",
    "x-max-length-bytes",
    "x-overflow",
    "x-dead-letter-exchange",
    "x-dead-letter-routing-key",
    "x-max-priority",
    "x-single-active-consumer",
    "x-queue-type",
    "x-queue-mode",
    "x-match",
    "x-priority",
    "alternate-exchange",
    "CC",
    "BCC",
];

fn name(random: &mut Random) -> ShortString {
    match random.below(400) {
        0 => ShortString::new(random.bytes(255)).unwrap(),
        _ => ShortString::from_static(NAMES[random.below(NAMES.len())]),
    }
}

fn value(random: &mut Random) -> Value {
    match random.below(8) {
        0 => Value::Bool(random.below(2) == 0),
        1 => Value::I32(-1),
        2 => Value::I64(i64::MAX),
        3..6 => Value::I32(i32::try_from(random.below(3)).unwrap()),
        _ => Value::from(NAMES[random.below(NAMES.len())]),
    }
}

fn table(random: &mut Random) -> Table {
    let n = random.below(6).saturating_sub(3);
    (0..n)
        .map(|_| {
            let name = ARGUMENTS[random.below(ARGUMENTS.len())];
            (ShortString::from_static(name), value(random))
        })
        .collect()
}

fn number(random: &mut Random) -> u64 {
    match random.below(4) {
        0 => 0,
        1 => u64::MAX,
        _ => random.below(10) as u64,
    }
}

/// The payload of a method: fields of the right types with random values.
fn method(id: MethodId, random: &mut Random) -> Vec<u8> {
    let mut out = [id.class.to_be_bytes(), id.method.to_be_bytes()].concat();
    let mut n_bits = 0;
    for (_, kind) in id.fields().unwrap() {
        if *kind == FieldKind::Bit {
            if n_bits == 0 {
                // As a rule flags are not set: most are refused, or end the conversation.
                out.push(if random.below(3) == 0 { random.bytes(1)[0] } else { 0 });
            }
            n_bits = (n_bits + 1) % 8;
            continue;
        }
        n_bits = 0;
        let number = number(random).to_be_bytes();
        match kind {
            FieldKind::Bit => {}
            FieldKind::Octet => out.extend_from_slice(&number[7..]),
            FieldKind::Short => out.extend_from_slice(&number[6..]),
            FieldKind::Long => out.extend_from_slice(&number[4..]),
            FieldKind::LongLong => out.extend_from_slice(&number),
            FieldKind::ShortStr | FieldKind::ShortBytes => {
                let name = name(random);
                out.push(u8::try_from(name.as_bytes().len()).unwrap());
                out.extend_from_slice(name.as_bytes());
            }
            FieldKind::LongStr => out.extend_from_slice(&[0, 0, 0, 1, b'x']),
            FieldKind::Table => table(random).encode(&mut out),
        }
    }
    out
}

fn frame(kind: FrameKind, channel: u16, payload: &[u8], out: &mut Vec<u8>) {
    let size = u32::try_from(payload.len()).unwrap();
    out.extend(frame_header(kind, channel, size));
    out.extend_from_slice(payload);
    out.push(spec::FRAME_END);
}

fn content(channel: u16, random: &mut Random, out: &mut Vec<u8>) {
    let text = |random: &mut Random| (random.below(6) == 0).then(|| name(random));
    let properties = Properties {
        headers: (random.below(4) == 0).then(|| table(random)),
        delivery_mode: (random.below(2) == 0).then_some(2),
        priority: (random.below(8) == 0).then_some(200),
        reply_to: text(random),
        expiration: text(random),
        user_id: text(random),
        ..Properties::default()
    };
    let properties = properties.to_bytes();
    let size = random.below(30_000) >> random.below(15);
    let body = vec![b'x'; size];
    encode_content(channel, PropertiesRef::parse(&properties).unwrap(), &body, 8192, out);
}

/// Methods that do not end the connection as a rule.
fn harmless() -> Vec<MethodId> {
    let is_harmless = |id: &&MethodId| {
        let name = id.name().unwrap();
        let from_server = ["basic.deliver", "basic.return", "basic.get-empty"].contains(&name);
        let ends_it = ["channel.flow", "channel.open", "channel.close"].contains(&name);
        !from_server && !ends_it && !name.ends_with("-ok") && id.class != ConnectionOpen::ID.class
    };
    MethodId::ALL.iter().filter(is_harmless).copied().collect()
}

/// Well formed methods in any order.
fn senseless(random: &mut Random) -> Vec<u8> {
    let (harmless, mut out) = (harmless(), Vec::new());
    for _ in 0..=random.below(60) {
        let channel = u16::try_from(1 + random.below(N_CHANNELS - 1)).unwrap();
        if random.below(6) == 0 {
            // The server may have closed it.
            ChannelClose::default().encode_frame(channel, &mut out);
            ChannelOpen::default().encode_frame(channel, &mut out);
            let queue = NAMES[random.below(NAMES.len())].as_bytes();
            QueueDeclare { queue, ..QueueDeclare::default() }.encode_frame(channel, &mut out);
        }
        let ids = if random.below(300) == 0 { MethodId::ALL } else { &harmless };
        let id = ids[random.below(ids.len())];
        let mut payload = method(id, random);
        match id {
            BasicRecover::ID | BasicRecoverAsync::ID => payload[4] = 1,
            BasicQos::ID => payload[4..8].fill(0),
            _ => {}
        }
        frame(FrameKind::Method, channel, &payload, &mut out);
        if id == BasicPublish::ID {
            content(channel, random, &mut out);
        }
    }
    out
}

/// Frames with random fields, perhaps with a bit turned over, or no frames at all.
fn malformed(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=random.below(8) {
        let id = MethodId::ALL[random.below(MethodId::ALL.len())];
        let mut payload = method(id, random);
        if random.below(2) == 0 {
            payload.truncate(4);
            let n = random.below(40);
            payload.extend(random.bytes(n));
        }
        let kind = match random.below(8) {
            0 => FrameKind::Header,
            1 => FrameKind::Body,
            _ => FrameKind::Method,
        };
        let channel = u16::try_from(random.below(N_CHANNELS)).unwrap();
        frame(kind, channel, &payload, &mut out);
    }
    match random.below(4) {
        0 => {
            let n = random.below(600);
            out = random.bytes(n);
        }
        1 => {
            let at = random.below(out.len());
            out[at] ^= 1 << random.below(8);
        }
        _ => {}
    }
    out
}

/// Talks until the time is up. The number of connections.
fn script(address: std::net::SocketAddr, until: Instant, mut random: Random) -> usize {
    let mut n = 0;
    while Instant::now() < until {
        n += 1;
        let mut client = Client::guest(address);
        client.open_channel(2);
        let sensible = random.below(2) == 0;
        for _ in 0..random.below(20) {
            let bytes = if sensible { senseless(&mut random) } else { malformed(&mut random) };
            client.out.extend(bytes);
            // The node may have closed the connection by now.
            if random.below(3) == 0 && client.try_flush().is_err() {
                break;
            }
        }
        drop(client.try_flush());
        client.shut_up();
        if random.below(4) > 0 {
            while client.try_next().is_ok() {}
        }
    }
    n
}

#[test]
fn nonsense_after_the_handshake_harms_nobody_else() {
    let mut node = Node::start(&[]);
    let mut bystander = Client::guest(node.address());
    let until = Instant::now() + duration();
    let mut random = Random::by_chance();
    let n_connections: usize = std::thread::scope(|scope| {
        let address = node.address();
        let talkers = (0..N_THREADS).map(|_| {
            let random = random.fork();
            scope.spawn(move || script(address, until, random))
        });
        let talkers: Vec<_> = talkers.collect();
        while Instant::now() < until {
            bystander.round_trip();
        }
        talkers.into_iter().map(|talker| talker.join().unwrap()).sum()
    });
    assert!(n_connections > N_THREADS, "{n_connections} connections are no test");
    wait_until("all of them are gone", || node.n_connections() == 1);
    bystander.round_trip();
    // Nor does it harm what starts next.
    node.kill_and_start();
    Client::guest(node.address()).round_trip();
    node.stop();
}
