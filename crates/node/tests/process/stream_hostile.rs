//! Clients of the stream protocol that mean no good, and a bystander beside them.

use crate::support::bystander::Bystander;
use crate::support::faults::Fault;
use crate::support::node::Node;
use crate::support::stream_client::{Client, code};
use crate::support::wait_until;
use std::io::{ErrorKind, Write as _};
use std::time::Duration;
use streamproto::command::{
    Create, Credit, DeclarePublisher, DeletePublisher, Publish, PublishedMessage,
};
use streamproto::{Command, Entry, Key, List, OffsetSpec, ResponseCode};

/// `LEVERET_CROWD` asks for so many times as much.
fn crowd(n: usize) -> usize {
    n * std::env::var("LEVERET_CROWD").map_or(1, |times| times.parse().unwrap())
}

/// A node's memory grows by no more than this for one client, in bytes.
const MEMORY_MAX: u64 = 64 * 1024 * 1024;

fn bytes<'a>(command: &impl Command<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode_frame(&mut out);
    out
}

/// Sends it over and over, until nothing more is taken.
fn flood(client: &mut Client, bytes: &[u8], at_most: usize) -> usize {
    client.socket.set_write_timeout(Some(Duration::from_secs(1))).unwrap();
    let many = bytes.repeat(64 * 1024 / bytes.len());
    let mut n = 0;
    while n < at_most {
        match client.socket.write(&many) {
            // What followed would be no frames any more.
            Ok(written) if written < many.len() => return n + written,
            Ok(written) => n += written,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return n,
            Err(error) => panic!("after {n} bytes: {error}"),
        }
    }
    n
}

#[test]
fn who_never_reads_is_given_no_more_than_fits_and_read_no_further() {
    let node = Node::start(&[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    owner.declare_publisher(1, "s");
    let body = vec![b'x'; 60_000];
    for publishing_id in 0..600 {
        let messages = [PublishedMessage { publishing_id, entry: Entry::Message(&body) }];
        owner.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
        assert!(owner.hears().contains("PublishConfirm"));
    }
    let before = node.rss();
    let bystander = Bystander::watch(&node);
    // Deliveries, with all the credit there can be.
    let mut deaf: Vec<Client> = Vec::new();
    for _ in 0..crowd(20) {
        let mut client = Client::open(node.stream_address(), "/");
        client.declare_publisher(9, "s");
        for id in 0..4 {
            client.says(&subscribe(id));
        }
        client.says(&Credit { subscription_id: 1, credit: u16::MAX });
        deaf.push(client);
    }
    // Answers: to credit for nothing, by turns for two, since what comes for one is summed up; to publishes,
    // and to publishes for nobody.
    let credit =
        [77, 78].map(|subscription_id| bytes(&Credit { subscription_id, credit: 1 })).concat();
    let messages = [1, 2, 3]
        .map(|publishing_id| PublishedMessage { publishing_id, entry: Entry::Message(b"hi") });
    let nobody = bytes(&Publish { publisher_id: 3, messages: List::of(&messages) });
    let confirmed = bytes(&Publish { publisher_id: 9, messages: List::of(&messages) });
    for (client, flooding) in deaf.iter_mut().zip([&credit, &nobody, &confirmed]) {
        let taken = flood(client, flooding, 64 << 20);
        assert!(taken < 64 << 20, "somebody keeps the answers to {taken} bytes");
    }
    bystander.expect_no_wait("clients of streams that never read");
    let grown = node.rss().saturating_sub(before);
    eprintln!("{} MiB for {} that do not read", grown >> 20, deaf.len());
    assert!(grown < MEMORY_MAX * 2, "{grown} bytes");
    drop(deaf);
    node.stop();
}

fn subscribe(subscription_id: u8) -> streamproto::command::Subscribe<'static> {
    streamproto::command::Subscribe {
        correlation_id: 7,
        subscription_id,
        stream: "s",
        offset: OffsetSpec::First,
        credit: u16::MAX,
        properties: streamproto::list::Trailing(List::default()),
    }
}

#[test]
fn credit_may_be_taken_back_and_never_wraps() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    client.declare_publisher(1, "s");
    client.subscribe(1, "s", OffsetSpec::First, 0);
    // COMPAT: it is a signed number.
    for _ in 0..100_000 {
        client.says(&Credit { subscription_id: 1, credit: 0x8000 });
    }
    client.publish(1, 1);
    assert!(client.hears().contains("PublishConfirm"));
    for _ in 0..100_001 {
        client.says(&Credit { subscription_id: 1, credit: 0x7FFF });
    }
    client.says(&Credit { subscription_id: 2, credit: 1 });
    assert!(client.hears().contains("CreditResponse { code: ResponseCode(4), subscription_id: 2"));
    // One for each that was taken back, and some: -100,000 * 32,768 + 100,006 * 32,767.
    for _ in 0..5 {
        client.says(&Credit { subscription_id: 1, credit: 0x7FFF });
    }
    assert!(client.hears().contains("Deliver"));
    node.stop();
}

#[test]
fn very_many_names_of_publishers_take_little_memory() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    let before = node.rss();
    let bystander = Bystander::watch(&node);
    let n = crowd(50_000);
    let mut out = Vec::new();
    for index in 0..n {
        let (name, publisher_id) = (format!("{index:0>200}"), 1);
        DeclarePublisher { correlation_id: 6, publisher_id, reference: &name, stream: "s" }
            .encode_frame(&mut out);
        let messages = [PublishedMessage { publishing_id: 5, entry: Entry::Message(b"hi") }];
        Publish { publisher_id, messages: List::of(&messages) }.encode_frame(&mut out);
        DeletePublisher { correlation_id: 8, publisher_id }.encode_frame(&mut out);
        if index % 100 == 99 {
            client.socket.write_all(&out).unwrap();
            out.clear();
            for _ in 0..200 {
                while client.hears().contains("PublishConfirm") {}
            }
        }
    }
    bystander.expect_no_wait("very many names of publishers");
    let grown = node.rss().saturating_sub(before);
    eprintln!("{} MiB for {n} names", grown >> 20);
    assert!(grown < MEMORY_MAX, "{grown} bytes");
    node.stop();
}

#[test]
fn a_crowd_of_connections_costs_others_no_time() {
    let node = Node::start(&[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    let bystander = Bystander::watch(&node);
    let n = crowd(1_000);
    let before = node.rss();
    let mut all: Vec<Client> = (0..n).map(|_| Client::open(node.stream_address(), "/")).collect();
    all.iter_mut().for_each(|client| client.subscribe(1, "s", OffsetSpec::Next, 10));
    let each = node.rss().saturating_sub(before) / u64::try_from(n).unwrap();
    owner.declare_publisher(1, "s");
    owner.publish(1, 1);
    assert!(all.iter_mut().all(|client| client.hears().contains("Deliver")));
    bystander.expect_no_wait("a crowd of connections for streams");
    eprintln!("{each} bytes for each of {n} connections");
    assert!(each < 32 * 1024, "{each} bytes for each");
    drop(all);
    wait_until("they are gone", || node.n_connections() == 1);
    node.stop();
}

#[test]
fn streams_need_no_more_descriptors_than_there_are() {
    const N_STREAMS: usize = 150;
    let node = Node::start_with_ulimit("-n 200", &[]);
    let bystander = Bystander::watch(&node);
    let mut client = Client::open(node.stream_address(), "/");
    for index in 0..N_STREAMS {
        client.create(&format!("s{index}"));
    }
    for round in 0..2 {
        for index in 0..N_STREAMS {
            let stream = format!("s{index}");
            client.declare_publisher(1, &stream);
            client.publish(1, round);
            assert!(client.hears().contains("PublishConfirm"));
            client.says(&DeletePublisher { correlation_id: 8, publisher_id: 1 });
            assert_eq!(client.hears(), code(Key::DeletePublisher, 8, ResponseCode::OK));
        }
    }
    bystander.expect_no_wait("150 streams under a limit of 200 descriptors");
    assert!(node.n_descriptors() < 200, "{}", node.n_descriptors());
    node.stop();
}

/// The next thing that a client hears; none once it has heard nothing for a while and the condition holds.
fn hear_unless(client: &mut Client, holds: impl Fn() -> bool) -> Option<String> {
    let mut heard = None;
    wait_until("an answer", || {
        heard = client.try_hear();
        heard.is_some() || holds()
    });
    heard
}

#[test]
fn a_full_disk_stops_publishers_of_streams_and_loses_nothing() {
    const VOLUME_BYTES: u64 = 160 << 20;
    let setting = format!("disk_free_limit.absolute={}", VOLUME_BYTES / 2);
    let (mut node, _volume) = match Node::start_on_volume(VOLUME_BYTES, &[&setting]) {
        Ok(started) => started,
        Err(reason) => {
            let told = format!("no disk has a limit of its own here: {}\n", reason.trim());
            return std::io::stderr().write_all(told.as_bytes()).unwrap();
        }
    };
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    client.declare_publisher(1, "s");
    let body = vec![b'x'; 50_000];
    client.socket.set_read_timeout(Some(Duration::from_millis(500))).unwrap();
    let mut n_confirmed = 0_u64;
    let is_alarm_set = || node.log().contains("disk resource limit alarm set");
    while !is_alarm_set() {
        let entry = Entry::Message(&body);
        let messages = [PublishedMessage { publishing_id: n_confirmed, entry }];
        client.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
        let Some(heard) = hear_unless(&mut client, is_alarm_set) else { break };
        assert!(heard.contains("PublishConfirm"), "{heard}");
        n_confirmed += 1;
    }
    assert!(n_confirmed > 500, "{n_confirmed}");
    let mut other = Client::open(node.stream_address(), "/");
    let (correlation_id, publisher_id, reference, stream) = (6, 1, "", "s");
    wait_until("the alarm is on", is_alarm_set);
    other.says(&DeclarePublisher { correlation_id, publisher_id, reference, stream });
    let refused = ResponseCode::PRECONDITION_FAILED;
    assert_eq!(other.hears(), code(Key::DeclarePublisher, 6, refused));
    other.subscribe(1, "s", OffsetSpec::First, 1);
    assert!(other.hears().contains("Deliver"));
    node.kill_and_start();
    let listed = node.ctl(&["-q", "list_queues", "name", "messages"]);
    let n: u64 = listed.lines().find_map(|line| line.strip_prefix("s\t")).unwrap().parse().unwrap();
    assert!(n >= n_confirmed, "{n} of {n_confirmed}");
    node.stop();
}

/// A chunk whose header is damaged under a reader: the reader hears that the stream is not available, and
/// nobody else hears anything.
#[test]
fn a_damaged_chunk_is_its_readers_loss_alone() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    client.declare_publisher(1, "s");
    for id in 0..10 {
        client.publish(1, id);
        assert!(client.hears().contains("PublishConfirm"));
    }
    let dir = std::fs::read_dir(node.data_dir().join("streams")).unwrap().next().unwrap().unwrap();
    let segment = std::fs::read_dir(dir.path()).unwrap().map(|it| it.unwrap().path());
    let segment = segment.into_iter().find(|it| it.extension().is_some_and(|it| it == "segment"));
    let mut content = std::fs::read(segment.as_ref().unwrap()).unwrap();
    let middle = content.len() / 2;
    content[middle..middle + 60].fill(0xFF);
    std::fs::write(segment.unwrap(), content).unwrap();
    client.subscribe(1, "s", OffsetSpec::First, 100);
    // The damage touches two chunks at most; those behind it come.
    for _ in 0..8 {
        let heard = client.hears();
        assert!(heard.contains("Deliver"), "{heard}");
    }
    client.says(&Create { correlation_id: 5, stream: "t", arguments: List::default() });
    let mut heard = client.hears();
    while heard.contains("Deliver") {
        heard = client.hears();
    }
    assert_eq!(heard, code(Key::Create, 5, ResponseCode::OK));
    wait_until("the damage is told", || node.log().contains("damage"));
    drop(node);
}

/// Where they begin is looked up on the disk, which takes some tenths of a second here.
#[test]
fn a_crowd_that_begins_on_a_slow_disk_keeps_nobody_waiting() {
    let node = Node::start_on_faulty_disk(&[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    owner.declare_publisher(1, "s");
    for id in 0..3 {
        owner.publish(1, id);
        assert!(owner.hears().contains("PublishConfirm"));
    }
    let mut all: Vec<Client> =
        (0..crowd(300)).map(|_| Client::open(node.stream_address(), "/")).collect();
    node.let_disk_fail(Fault::SlowRead, "streams");
    let bystander = Bystander::watch(&node);
    let first = streamproto::command::Subscribe {
        offset: OffsetSpec::Offset(1),
        credit: 1,
        ..subscribe(1)
    };
    all.iter_mut().for_each(|client| client.says(&first));
    for client in &mut all {
        assert_eq!(client.hears(), code(Key::Subscribe, 7, ResponseCode::OK));
        assert!(client.hears().contains("Deliver"));
    }
    bystander.expect_no_wait("a crowd that begins to consume from a slow disk");
    node.mend_disk(Fault::SlowRead);
    node.stop();
}
