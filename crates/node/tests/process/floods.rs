//! Floods of requests that each cost little, and single ones that name very many things: nobody else waits.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::stream_client::{Client, code};
use super::support::wait_until;
use std::io::Write as _;
use streamproto::command::{
    CommandVersions, ConsumerUpdateResponse, Create, CreateSuperStream, Credit, DeclarePublisher,
    DeletePublisher, DeleteSuperStream, ExchangeCommandVersions, Heartbeat, Metadata, Partitions,
    Property, QueryOffset, QueryPublisherSequence, ResolveOffsetSpec, Route, StoreOffset,
    StreamStats, Subscribe, Unsubscribe,
};
use streamproto::list::Trailing;
use streamproto::{Command, FinalOffset, Key, List, OffsetSpec, ResponseCode};

/// Partitions of the largest super stream that is made where nothing else is configured.
const PARTITIONS: usize = 1_000;

/// Measures what clients of both protocols wait while `attack` is carried out.
fn beside<R>(node: &Node, name: &str, attack: impl FnOnce() -> R) -> R {
    let streams = Bystander::watch_streams(node);
    let queues = Bystander::watch(node);
    let outcome = attack();
    queues.expect_no_wait(name);
    streams.expect_no_wait(&format!("{name}, streams"));
    outcome
}

fn names(n: usize) -> Vec<String> {
    (0..n).map(|nth| format!("sx-{nth}")).collect()
}

/// Asks for a super stream of so many partitions: the answer.
fn create(client: &mut Client, n: usize) -> String {
    let (partitions, keys) = (names(n), (0..n).map(|nth| nth.to_string()).collect::<Vec<_>>());
    let partitions: Vec<&str> = partitions.iter().map(String::as_str).collect();
    let keys: Vec<&str> = keys.iter().map(String::as_str).collect();
    client.says(&CreateSuperStream {
        correlation_id: 5,
        name: "sx",
        partitions: List::of(&partitions),
        binding_keys: List::of(&keys),
        arguments: List::default(),
    });
    client.hears()
}

fn delete(client: &mut Client) {
    client.says(&DeleteSuperStream { correlation_id: 6, name: "sx" });
    assert_eq!(client.hears(), code(Key::DeleteSuperStream, 6, ResponseCode::OK));
}

/// Directories of streams.
fn n_dirs(node: &Node) -> usize {
    std::fs::read_dir(node.data_dir().join("streams")).map_or(0, Iterator::count)
}

/// Streams of the super stream that are there, and directories of streams.
fn n_there(node: &Node) -> (usize, usize) {
    let queues = node.ctl(&["list_queues", "-q", "name", "--no-table-headers"]);
    (queues.lines().filter(|name| name.starts_with("sx-")).count(), n_dirs(node))
}

fn bytes<'a>(command: &impl Command<'a>) -> Vec<u8> {
    let mut out = Vec::new();
    command.encode_frame(&mut out);
    out
}

#[test]
fn super_streams_of_many_partitions_come_and_go_as_a_whole() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    let (created, refused) = (ResponseCode::OK, ResponseCode::PRECONDITION_FAILED);
    let (_, before) = n_there(&node);
    // The bystander has a stream of its own.
    beside(&node, "a super stream of many partitions", || {
        assert_eq!(create(&mut client, PARTITIONS), code(Key::CreateSuperStream, 5, created));
        assert_eq!(n_there(&node), (PARTITIONS, before + PARTITIONS + 1));
        delete(&mut client);
        wait_until("all of it is gone", || n_dirs(&node) == before + 1);
        assert_eq!(n_there(&node), (0, before + 1));
    });
    let before = n_there(&node);
    assert_eq!(create(&mut client, PARTITIONS + 1), code(Key::CreateSuperStream, 5, refused));
    assert_eq!(create(&mut client, 16_384), code(Key::CreateSuperStream, 5, refused));
    let too_many = (PARTITIONS + 1).to_string();
    let told = node.ctl_refused(&["add_super_stream", "sx", "--partitions", &too_many]);
    assert!(told.contains("must not exceed 1000"), "{told}");
    assert_eq!(n_there(&node), before);
    node.ctl(&["add_super_stream", "sx", "--partitions", "600"]);
    assert_eq!(n_there(&node).0, 600);
    node.ctl(&["delete_super_stream", "sx"]);
    wait_until("all of it is gone", || n_dirs(&node) == before.1);
    assert_eq!(n_there(&node), before);
    node.stop();
}

#[test]
fn what_names_very_many_streams_is_worked_off_in_slices() {
    const CLIENTS: usize = 8;
    const FRAMES: usize = 6;
    let node = Node::start(&[]);
    let frame = |n| bytes(&Metadata { correlation_id: 5, streams: List::of(&vec!["x"; n]) });
    let (metadata, beyond) = (frame(16_384), frame(300_000));
    beside(&node, "frames of metadata with very many names", || {
        let clients = [(); CLIENTS].map(|()| Client::open(node.stream_address(), "/"));
        std::thread::scope(|scope| {
            for mut client in clients {
                let metadata = &metadata;
                scope.spawn(move || {
                    let mut writer = client.socket.try_clone().unwrap();
                    let frames = metadata.repeat(FRAMES);
                    let writing = std::thread::spawn(move || writer.write_all(&frames));
                    for _ in 0..FRAMES {
                        let answer = client.try_frame().expect("an answer");
                        // Key, version, correlation id; no broker, since there is no stream.
                        assert_eq!(answer[8..16], [0, 0, 0, 0, 0, 0, 0x40, 0]);
                    }
                    writing.join().unwrap().unwrap();
                });
            }
        });
        // More than are taken.
        for _ in 0..CLIENTS * FRAMES {
            let mut client = Client::open(node.stream_address(), "/");
            client.socket.write_all(&beyond).unwrap();
            let told = client.hears();
            assert!(told.contains("Close") && told.contains("ResponseCode(14)"), "{told}");
            assert!(told.contains("a list of 300000, at most 16384 are allowed"), "{told}");
        }
    });
    node.stop();
}

/// Sends a command again and again, and reads what is answered until all are.
fn flood(node: &Node, command: &[u8], n: usize) {
    let mut client = Client::open(node.stream_address(), "/");
    let mut writer = client.socket.try_clone().unwrap();
    let last = bytes(&QueryOffset { correlation_id: 0xFFFF, reference: "r", stream: "none" });
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let together = (32 * 1024 / command.len()).clamp(1, n);
            let many = command.repeat(together);
            (0..n.div_ceil(together)).for_each(|_| writer.write_all(&many).unwrap());
            writer.write_all(&last).unwrap();
        });
        let last = [0x80, 0x0B, 0, 1, 0, 0, 0xFF, 0xFF];
        while !client.try_frame().expect("an answer").starts_with(&last) {}
    });
}

#[test]
fn floods_of_every_request_of_the_stream_protocol_are_worked_off_in_slices() {
    let node = Node::start(&[]);
    let mut owner = Client::open(node.stream_address(), "/");
    owner.create("s");
    assert_eq!(create(&mut owner, 200), code(Key::CreateSuperStream, 5, ResponseCode::OK));
    let (correlation_id, stream, reference) = (7, "s", "r");
    let properties = vec![Property { key: "filter.a", value: "v" }; 1_000];
    let too_many = vec![Property { key: "filter.a", value: "v" }; 16_000];
    let versions = vec![CommandVersions { key: 1, min_version: 1, max_version: 1 }; 100_000];
    let offset = OffsetSpec::First;
    let publisher = DeclarePublisher { correlation_id, publisher_id: 1, reference, stream };
    let subscribe = |properties| Subscribe {
        correlation_id,
        subscription_id: 1,
        stream,
        offset: OffsetSpec::Next,
        credit: 1,
        properties: Trailing(properties),
    };
    let subscribed = [
        bytes(&subscribe(List::of(&properties))),
        bytes(&Unsubscribe { correlation_id, subscription_id: 1 }),
    ];
    let published =
        [bytes(&publisher), bytes(&DeletePublisher { correlation_id, publisher_id: 1 })];
    let sequence = QueryPublisherSequence { correlation_id, reference, stream };
    let resolve = |properties| ResolveOffsetSpec { correlation_id, stream, offset, properties };
    let (routing_key, super_stream) = ("7", "sx");
    let update = ConsumerUpdateResponse {
        correlation_id,
        code: ResponseCode::OK,
        offset: FinalOffset(OffsetSpec::None),
    };
    let versions = ExchangeCommandVersions { correlation_id, commands: List::of(&versions) };
    let floods: [(&str, Vec<u8>, usize); 17] = [
        ("partitions", bytes(&Partitions { correlation_id, super_stream }), 300),
        ("route", bytes(&Route { correlation_id, routing_key, super_stream }), 10_000),
        ("store offset", bytes(&StoreOffset { reference, stream, offset: 1 }), 10_000),
        ("query offset", bytes(&QueryOffset { correlation_id, reference, stream }), 20_000),
        ("query publisher sequence", bytes(&sequence), 20_000),
        ("declare and delete publisher", published.concat(), 5_000),
        ("subscribe with many properties, unsubscribe", subscribed.concat(), 100),
        ("subscribe with too many properties", bytes(&subscribe(List::of(&too_many))), 10),
        ("resolve offset", bytes(&resolve(Trailing::default())), 2_000),
        ("resolve offset by filters", bytes(&resolve(Trailing(List::of(&too_many)))), 10),
        ("stream stats", bytes(&StreamStats { correlation_id, stream }), 100),
        ("exchange command versions", bytes(&versions), 20),
        ("credit", bytes(&Credit { subscription_id: 9, credit: 1 }), 40_000),
        ("heartbeat", bytes(&Heartbeat {}), 100_000),
        ("consumer update", bytes(&update), 10_000),
        (
            "create again",
            bytes(&Create { correlation_id, stream, arguments: List::default() }),
            2_000,
        ),
        ("metadata", bytes(&Metadata { correlation_id, streams: List::of(&["s"; 1_000]) }), 100),
    ];
    let streams = Bystander::watch_streams(&node);
    for (what, command, n) in &floods {
        let queues = Bystander::watch(&node);
        flood(&node, command, *n);
        queues.expect_no_wait(what);
    }
    streams.expect_no_wait("floods of all requests, streams");
    node.stop();
}
