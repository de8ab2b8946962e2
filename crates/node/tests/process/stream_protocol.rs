//! Clients of the stream protocol over real sockets.

use super::http_api::Api;
use super::support::stopwatch::Stopwatch;
use crate::support::node::Node;
use crate::support::stream_client::{Client, code};
use crate::support::wait_until;
use std::io::Write as _;
use std::time::{Duration, Instant};
use streamproto::command::{
    Close, Command as _, ConsumerUpdateResponse, Create, Credit, DeclarePublisher, Metadata, Open,
    Property, Publish, PublishedMessage, StoreOffset, Subscribe, Tune,
};
use streamproto::list::Trailing;
use streamproto::{Chunk, Entry, FinalOffset, Key, List, OffsetSpec, ResponseCode, ToClient};

/// The time after which who is refused is told so.
const SILENCE: Duration = Duration::from_secs(3);

/// The node reads its clock once in a turn: it may speak so much earlier.
const TURN: Duration = Duration::from_millis(500);

/// Subscribes as a single active consumer of the group `g`.
fn join(client: &mut Client, subscription_id: u8) {
    let property = |key, value| Property { key, value };
    let properties = [property("name", "g"), property("single-active-consumer", "true")];
    let (correlation_id, stream, credit) = (20, "s", 10);
    let (offset, properties) = (OffsetSpec::First, Trailing(List::of(&properties)));
    client.says(&Subscribe { correlation_id, subscription_id, stream, offset, credit, properties });
    assert_eq!(client.hears(), code(Key::Subscribe, 20, ResponseCode::OK));
}

/// Answers the update that it is told next.
fn answer(client: &mut Client, offset: OffsetSpec) {
    let told = client.hears();
    assert!(told.contains("ConsumerUpdate") && told.contains("active: true"), "{told}");
    let number = told.split("correlation_id: ").nth(1).unwrap().split(',').next().unwrap();
    let (correlation_id, code) = (number.parse().unwrap(), ResponseCode::OK);
    client.says(&ConsumerUpdateResponse { correlation_id, code, offset: FinalOffset(offset) });
}

#[test]
fn one_of_a_group_is_given_messages_and_the_next_when_it_dies() {
    let node = Node::start(&[]);
    let mut first = Client::open(node.stream_address(), "/");
    first.says(&Create { correlation_id: 5, stream: "s", arguments: List::default() });
    assert_eq!(first.hears(), code(Key::Create, 5, ResponseCode::OK));
    let (reference, stream) = ("", "s");
    first.says(&DeclarePublisher { correlation_id: 6, publisher_id: 1, reference, stream });
    assert_eq!(first.hears(), code(Key::DeclarePublisher, 6, ResponseCode::OK));
    for publishing_id in [1, 2] {
        let messages = [PublishedMessage { publishing_id, entry: Entry::Message(b"hi") }];
        first.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
        assert!(first.hears().contains("PublishConfirm"));
    }
    join(&mut first, 1);
    let mut second = Client::open(node.stream_address(), "/");
    join(&mut second, 2);
    answer(&mut first, OffsetSpec::None);
    assert!([first.hears(), first.hears()].iter().all(|heard| heard.contains("Deliver")));
    drop(first);
    answer(&mut second, OffsetSpec::Offset(1));
    assert!(second.hears().contains("Deliver"));
    node.stop();
}

#[test]
fn commands_that_come_together_are_a_chunk_together() {
    const N: u64 = 200;
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    client.declare_publisher(1, "s");
    let mut commands = Vec::new();
    for publishing_id in 1..=N {
        let messages = [PublishedMessage { publishing_id, entry: Entry::Message(b"hi") }];
        Publish { publisher_id: 1, messages: List::of(&messages) }.encode_frame(&mut commands);
    }
    client.try_send(&commands).unwrap();
    while !client.hears().contains(&N.to_string()) {}
    client.subscribe(1, "s", OffsetSpec::First, 10);
    let frame = client.try_frame().unwrap();
    let ToClient::Deliver(deliver) = ToClient::decode(&frame).unwrap() else { panic!("{frame:?}") };
    let n_records = Chunk::decode_delivered(deliver.chunk.0).unwrap().header.n_records;
    assert!(n_records > 1, "{n_records}");
    node.stop();
}

/// Each is read, and written, by itself then.
#[test]
fn all_chunks_come_without_read_ahead_too() {
    const N: u16 = 20;
    let node = Node::start(&["stream.read_ahead=false"]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    client.declare_publisher(1, "s");
    for publishing_id in 1..=u64::from(N) {
        client.publish(1, publishing_id);
        assert!(client.hears().contains("PublishConfirm"));
    }
    client.subscribe(1, "s", OffsetSpec::First, N);
    for offset in 0..u64::from(N) {
        let frame = client.try_frame().unwrap();
        let ToClient::Deliver(deliver) = ToClient::decode(&frame).unwrap() else {
            panic!("{frame:?}")
        };
        let header = Chunk::decode_delivered(deliver.chunk.0).unwrap().header;
        assert_eq!((header.chunk_id, header.n_records), (offset, 1));
    }
    let columns = ["file_reads", "chunks_read_ahead", "file_read_bytes"];
    let listed = node.ctl(&[&["list_queues", "-q", "-s"], &columns[..]].concat());
    assert!(listed.starts_with(&format!("{}\t0\t", 2 * N)), "{listed}");
    assert!(!listed.ends_with("\t0\n"), "{listed}");
    let status = node.ctl(&["status", "-q", "--formatter", "json"]);
    assert!(status.contains(&format!("\"file_reads\":{}", 2 * N)), "{status}");
    assert!(!status.contains("\"socket_writes\":0"), "{status}");
    node.stop();
}

#[test]
fn a_client_comes_in_is_listed_and_goes() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    let listed = node.ctl(&["-q", "list_connections", "user", "vhost", "protocol", "state"]);
    assert!(listed.contains("guest\t/\tstream\trunning\n"), "{listed}");
    client.says(&Metadata { correlation_id: 5, streams: List::of(&["s"]) });
    assert!(client.hears().contains("{ stream: \"s\", code: ResponseCode(2), leader: 65535"));
    let stream = "amq.s";
    client.says(&Create { correlation_id: 6, stream, arguments: List::default() });
    assert_eq!(client.hears(), code(Key::Create, 6, ResponseCode::PRECONDITION_FAILED));
    client.says(&DeclarePublisher {
        correlation_id: 7,
        publisher_id: 1,
        reference: "",
        stream: "s",
    });
    let missing = ResponseCode::STREAM_DOES_NOT_EXIST;
    assert_eq!(client.hears(), code(Key::DeclarePublisher, 7, missing));
    let entry = Entry::Message(b"hi");
    let messages = [7, 8].map(|publishing_id| PublishedMessage { publishing_id, entry });
    client.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
    let heard = client.hears();
    assert!(heard.contains("PublishError") && heard.contains("publishing_id: 8"), "{heard}");
    client.says(&Close { correlation_id: 9, code: ResponseCode::OK, reason: "done" });
    assert_eq!(client.hears(), code(Key::Close, 9, ResponseCode::OK));
    drop(client);
    node.expect_logged(1, "closing stream connection");
    node.stop();
}

#[test]
fn a_wrong_password_a_missing_vhost_and_a_full_node_are_answered() {
    let node = Node::start(&["stream.max_connections=1"]);
    let begun = Instant::now();
    let (_client, answer) = Client::login(node.stream_address(), "guest", "wrong");
    assert!(begun.elapsed() + TURN >= SILENCE);
    assert_eq!(answer, code(Key::SaslAuthenticate, 3, ResponseCode::AUTHENTICATION_FAILURE));
    let open = |vhost| {
        let (mut client, _answer) = Client::login(node.stream_address(), "guest", "guest");
        client.hears();
        client.says(&Tune::default());
        client.says(&Open { correlation_id: 4, virtual_host: vhost });
        (client.hears(), client)
    };
    let refused = "code: ResponseCode(12), properties: []";
    assert!(open("nowhere").0.contains(refused));
    let first = open("/");
    assert!(first.0.contains("code: ResponseCode(1),"), "{}", first.0);
    assert!(open("/").0.contains(refused));
    node.stop();
}

/// The time within which who is thrown out finds the end; a close took ten seconds to be given up.
const END: Duration = Duration::from_secs(5);

/// COMPAT: RabbitMQ closes the socket, which clients' libraries take as a reason to connect again; of a close
/// of the server's some know nothing.
#[test]
fn who_is_thrown_out_finds_the_end_of_the_stream_at_once() {
    type Way<'w> = (&'static str, &'w dyn Fn(&str, &str));
    let api = Api::start();
    let node = &api.0;
    let named = |user: &str, column: &str| {
        let listed = node.ctl(&["-q", "list_connections", "user", column]);
        let value = |line: &str| line.strip_prefix(user).map(|value| value.trim().to_owned());
        listed.lines().find_map(value).unwrap_or_else(|| panic!("{listed}"))
    };
    let ctl = |args: &[&str]| drop(node.ctl(args));
    let ways: [Way<'_>; 9] = [
        ("all", &|_, _| ctl(&["close_all_connections", "--global", "enough"])),
        ("of a vhost", &|_, vhost| ctl(&["close_all_connections", "-p", vhost, "enough"])),
        ("of a user", &|user, _| ctl(&["close_all_user_connections", user, "enough"])),
        ("one", &|user, _| ctl(&["close_connection", &named(user, "pid"), "you"])),
        ("HTTP, one", &|user, _| {
            let name = named(user, "name").replace(' ', "%20").replace('>', "%3E");
            api.expect(204, &format!("DELETE /connections/{name}"), "");
        }),
        ("HTTP, of a user", &|user, _| {
            api.expect(204, &format!("DELETE /connections/username/{user}"), "");
        }),
        ("delete_user", &|user, _| ctl(&["delete_user", user])),
        ("delete_vhost", &|_, vhost| ctl(&["delete_vhost", vhost])),
        ("stop_app", &|_, _| ctl(&["stop_app"])),
    ];
    for (n, (way, throw_out)) in ways.into_iter().enumerate() {
        let (user, vhost) = (&format!("hare{n}"), &format!("burrow{n}"));
        node.ctl(&["add_user", user, "ears"]);
        node.ctl(&["add_vhost", vhost]);
        node.ctl(&["set_permissions", "-p", vhost, user, ".*", ".*", ".*"]);
        let mut client = Client::open_as(node.stream_address(), (user, "ears"), vhost);
        client.create("s");
        client.subscribe(1, "s", OffsetSpec::First, 10);
        let took = Stopwatch::of(&api.0).time(|| {
            throw_out(user, vhost);
            let heard = client.hears();
            // A stream may go before those who use it.
            let heard = if heard.contains("MetadataUpdate") { client.hears() } else { heard };
            assert_eq!(heard, "", "{way}");
        });
        assert!(took < END, "{way}: {took:?}");
    }
    api.0.stop();
}

/// Who does not read is not waited for either.
#[test]
fn the_end_of_a_node_is_the_end_of_its_streams_clients() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    let mut deaf = Client::open(node.stream_address(), "/");
    deaf.create("s");
    deaf.declare_publisher(1, "s");
    let body = vec![0; 1 << 19];
    let messages = [PublishedMessage { publishing_id: 1, entry: Entry::Message(&body) }];
    for _ in 0..64 {
        deaf.says(&Publish { publisher_id: 1, messages: List::of(&messages) });
        assert!(deaf.hears().contains("PublishConfirm"));
    }
    deaf.subscribe(1, "s", OffsetSpec::First, u16::MAX);
    let columns = ["-q", "--formatter", "table", "--no-table-headers", "list_stream_consumers"];
    wait_until("more is on its way to it than it reads", || {
        node.ctl(&[&columns[..], &["messages_consumed"]].concat()) != "0\n"
    });
    let took = Stopwatch::of(&node).time_stop(&node);
    assert!(took < END, "{took:?}");
    assert_eq!(client.hears(), "");
    node.stop();
}

#[test]
fn who_says_nothing_for_too_long_finds_the_end_of_the_stream() {
    let node = Node::start(&["stream.heartbeat=1"]);
    let (mut client, _answer) = Client::login(node.stream_address(), "guest", "guest");
    assert!(client.hears().contains("heartbeat_secs: 1"));
    client.says(&Tune { frame_max: 0, heartbeat_secs: 1 });
    client.says(&Open { correlation_id: 4, virtual_host: "/" });
    assert!(client.hears().contains("OpenResponse"));
    let mut last = client.hears();
    while last.contains("Heartbeat") {
        last = client.hears();
    }
    assert_eq!(last, "");
    node.expect_logged(1, "missed heartbeats from client");
    node.stop();
}

#[test]
fn frames_that_are_too_large_or_unknown_end_the_connection_alone() {
    let node = Node::start(&["stream.frame_max=8192", "stream.heartbeat=60"]);
    let address = node.stream_address();
    let mut other = {
        let (mut client, _answer) = Client::login(address, "guest", "guest");
        assert!(client.hears().contains("frame_max: 8192"));
        client.says(&Tune::default());
        client.says(&Open { correlation_id: 4, virtual_host: "/" });
        client.hears();
        client
    };
    for (bytes, code) in [(&8193_u32.to_be_bytes()[..], 14), (b"\0\0\0\x04\0\x63\0\x01", 13)] {
        let (mut client, _answer) = Client::login(address, "guest", "guest");
        client.hears();
        client.says(&Tune::default());
        client.says(&Open { correlation_id: 4, virtual_host: "/" });
        client.hears();
        client.socket.write_all(bytes).unwrap();
        let heard = client.hears();
        assert!(heard.starts_with("Close(") && heard.contains(&format!("ResponseCode({code})")));
    }
    // No word is said to those who have not come in.
    let mut stranger = Client::connect(address);
    stranger.socket.write_all(b"AMQP\0\0\x09\x01").unwrap();
    assert_eq!(stranger.hears(), "");
    other.says(&Metadata { correlation_id: 5, streams: List::default() });
    assert!(other.hears().contains("MetadataResponse"));
    node.stop();
}

#[test]
fn who_logs_in_again_has_no_more_than_its_user_is_allowed() {
    let node = Node::start(&[]);
    let address = node.stream_address();
    node.ctl(&["add_user", "hare", "old"]);
    node.ctl(&["set_permissions", "hare", ".*", ".*", ".*"]);
    let mut client = Client::open_as(address, ("hare", "old"), "/");
    for (id, stream) in [(1, "kept"), (2, "written"), (3, "read"), (4, "both")] {
        client.create(stream);
        if stream != "read" {
            client.declare_publisher(id, stream);
        }
        if stream != "written" {
            client.subscribe(id, stream, OffsetSpec::First, 10);
        }
    }
    node.ctl(&["change_password", "hare", "new"]);
    node.ctl(&["set_permissions", "hare", ".*", "^kept$", "^(kept|both)$"]);
    // It need not log in again for that. Of what it may only read it loses both: it has to begin anew.
    let gone = ["written", "read", "both"].map(|stream| {
        format!("MetadataUpdate(MetadataUpdate {{ code: ResponseCode(6), stream: \"{stream}\" }})")
    });
    let mut heard = [client.hears(), client.hears(), client.hears()];
    heard.sort_by_key(|heard| gone.iter().position(|it| it == heard));
    assert_eq!(heard, gone);
    client.authenticate("hare", "new");
    assert_eq!(client.hears(), code(Key::SaslAuthenticate, 3, ResponseCode::OK));
    for id in [2, 3, 4] {
        client.says(&Credit { subscription_id: id, credit: 1 });
        assert!(client.hears().contains("CreditResponse { code: ResponseCode(4)"));
        client.publish(id, 1);
        let heard = client.hears();
        assert!(heard.contains("PublishError") && heard.contains("ResponseCode(18)"), "{heard}");
    }
    client.publish(1, 1);
    let heard = [client.hears(), client.hears()];
    assert!(heard.iter().any(|it| it.contains("PublishConfirm")), "{heard:?}");
    assert!(heard.iter().any(|it| it.contains("Deliver")), "{heard:?}");
    node.stop();
}

#[test]
fn who_may_not_come_in_any_more_hears_it_in_a_while_and_others_do_not_wait() {
    let node = Node::start(&[]);
    let address = node.stream_address();
    node.ctl(&["add_user", "hare", "old"]);
    node.ctl(&["set_permissions", "hare", ".*", ".*", ".*"]);
    let open = || Client::open_as(address, ("hare", "old"), "/");
    let (mut wrong, mut shut_out, mut gone) = (open(), open(), open());
    shut_out.create("s");
    shut_out.declare_publisher(1, "s");
    let begun = Instant::now();
    let took = Stopwatch::of(&node).time(|| {
        wrong.authenticate("hare", "wrong");
        node.ctl(&["clear_permissions", "hare"]);
        assert!(shut_out.hears().contains("MetadataUpdate"));
        shut_out.authenticate("hare", "old");
        let mut bystander = Client::open(address, "/");
        bystander.says(&Metadata { correlation_id: 5, streams: List::default() });
        assert!(bystander.hears().contains("MetadataResponse"));
    });
    assert!(took < SILENCE, "others wait");
    for (client, why) in [
        (&mut wrong, ResponseCode::AUTHENTICATION_FAILURE),
        (&mut shut_out, ResponseCode::VIRTUAL_HOST_ACCESS_FAILURE),
    ] {
        assert_eq!(client.hears(), code(Key::SaslAuthenticate, 3, why));
        assert!(begun.elapsed() + TURN >= SILENCE);
        assert_eq!(client.hears(), "");
    }
    node.ctl(&["delete_user", "hare"]);
    assert_eq!(gone.hears(), "");
    node.stop();
}

#[test]
fn limits_of_vhosts_and_users_count_clients_of_streams() {
    let node = Node::start(&[]);
    let open = || {
        let (mut client, _answer) = Client::login(node.stream_address(), "guest", "guest");
        client.hears();
        client.says(&Tune::default());
        client.says(&Open { correlation_id: 4, virtual_host: "/" });
        (client.hears(), client)
    };
    let first = open();
    assert!(first.0.contains("code: ResponseCode(1),"), "{}", first.0);
    for [verb, clear, name] in [
        ["set_vhost_limits", "clear_vhost_limits", "-p"],
        ["set_user_limits", "clear_user_limits", "guest"],
    ] {
        let limit = "{\"max-connections\": 1}";
        let whose = if name == "-p" { vec!["-p", "/"] } else { vec![name] };
        node.ctl(&[&[verb], &*whose, &[limit]].concat());
        assert!(open().0.contains("code: ResponseCode(12), properties: []"));
        let all = if name == "-p" { vec![] } else { vec!["all"] };
        node.ctl(&[&[clear], &*whose, &*all].concat());
        assert!(open().0.contains("code: ResponseCode(1),"));
    }
    node.stop();
}

#[test]
fn nobody_is_sent_to_a_node_in_maintenance_and_who_is_there_stays() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    let leader = |client: &mut Client| {
        client.says(&Metadata { correlation_id: 5, streams: List::of(&["s"]) });
        let heard = client.hears();
        assert!(heard.contains("stream: \"s\", code: ResponseCode(1)"), "{heard}");
        heard.split("leader: ").nth(1).unwrap().split(',').next().unwrap().to_owned()
    };
    assert_eq!(leader(&mut client), "0");
    node.ctl(&["drain"]);
    assert_eq!(leader(&mut client), "65535");
    node.ctl(&["revive"]);
    assert_eq!(leader(&mut client), "0");
    node.stop();
}

#[test]
fn the_disk_alarm_alone_stops_publishers_and_nobody_else() {
    let node = Node::start(&[]);
    let (mut publisher, mut consumer) =
        (Client::open(node.stream_address(), "/"), Client::open(node.stream_address(), "/"));
    publisher.create("s");
    publisher.declare_publisher(1, "s");
    consumer.subscribe(1, "s", OffsetSpec::First, 10);
    node.ctl(&["set_vm_memory_high_watermark", "absolute", "1KB"]);
    publisher.publish(1, 1);
    assert!(publisher.hears().contains("PublishConfirm"));
    node.ctl(&["set_disk_free_limit", "1000TB"]);
    publisher.publish(1, 2);
    // It is the connection that waits, with all it asks for.
    publisher.says(&Metadata { correlation_id: 5, streams: List::default() });
    let reason = || node.ctl(&["-q", "list_connections", "state"]);
    wait_until("the publisher is blocked", || reason().contains("block"));
    assert!(consumer.hears().contains("Deliver"));
    consumer.says(&DeclarePublisher {
        correlation_id: 6,
        publisher_id: 1,
        reference: "",
        stream: "s",
    });
    let refused = ResponseCode::PRECONDITION_FAILED;
    assert_eq!(consumer.hears(), code(Key::DeclarePublisher, 6, refused));
    node.ctl(&["set_disk_free_limit", "1MB"]);
    let heard = [publisher.hears(), publisher.hears()];
    assert!(heard.iter().any(|it| it.contains("PublishConfirm")), "{heard:?}");
    assert!(consumer.hears().contains("Deliver"));
    node.stop();
}

#[test]
fn operators_see_who_publishes_and_who_consumes() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    client.declare_publisher(1, "s");
    client.subscribe(2, "s", OffsetSpec::First, 10);
    client.publish(1, 1);
    let heard = [client.hears(), client.hears()];
    assert!(heard.iter().any(|it| it.contains("Deliver")), "{heard:?}");
    let listed = |words: &str| {
        let options = ["-q", "--formatter", "table", "--no-table-headers"];
        node.ctl(&options.into_iter().chain(words.split(' ')).collect::<Vec<_>>())
    };
    let properties = listed("list_stream_connections subscriptions client_properties");
    assert_eq!(properties, "1\t[{\"connection_name\",\"hare\"}]\n");
    let publisher =
        "list_stream_publishers publisher_id stream messages_published messages_errored";
    assert_eq!(listed(publisher), "1\ts\t1\t0\n");
    wait_until("it is confirmed", || listed("list_stream_publishers messages_confirmed") == "1\n");
    let consumer = "list_stream_consumers subscription_id stream messages_consumed offset offset_lag \
                    credits active activity_status";
    assert_eq!(listed(consumer), "2\ts\t1\t0\t0\t9\ttrue\tup\n");
    let scrubbed = listed("scrub_stream s");
    assert!(scrubbed.contains(" 1 chunks of ") && scrubbed.contains(" 0 damaged"), "{scrubbed}");
    assert_eq!(listed("list_queues name readers committed_offset"), "s\t1\t0\n");
    client.says(&StoreOffset { reference: "app", stream: "s", offset: 5 });
    wait_until("the offset is stored", || {
        listed("list_stream_tracking s --offset") == "offset\tapp\t5\n"
    });
    assert_eq!(listed("reset_offset --stream s --reference app"), "");
    assert_eq!(listed("stream_status s --tracking"), "offset\tapp\t0\n");
    join(&mut client, 3);
    let group = listed("list_stream_consumer_groups");
    assert!(group.starts_with("s\t") && group.ends_with("\t-1\t1\n"), "{group}");
    node.stop();
}

#[test]
fn a_publisher_without_a_name_has_an_empty_reference() {
    let api = Api::start();
    let mut client = Client::open(api.0.stream_address(), "/");
    client.create("s");
    client.declare_publisher(1, "s");
    let (publisher_id, reference, stream) = (2, "writer", "s");
    client.says(&DeclarePublisher { correlation_id: 7, publisher_id, reference, stream });
    assert_eq!(client.hears(), code(Key::DeclarePublisher, 7, ResponseCode::OK));
    let connections = api.expect(200, "GET /stream/connections?columns=name", "");
    let name = connections[0]["name"].as_str().unwrap().replace(' ', "%20").replace('>', "%3E");
    let of_connection = format!("/stream/connections/%2F/{name}/publishers");
    for path in ["/stream/publishers", "/stream/publishers/%2F/s", &of_connection] {
        let rows = api.expect(200, &format!("GET {path}"), "");
        let of = |id: u8| {
            let found = rows.as_array().unwrap().iter().find(|row| row["publisher_id"] == id);
            found.unwrap()["reference"].as_str().unwrap()
        };
        assert_eq!([of(1), of(2)], ["", "writer"], "{path}: {rows}");
    }
    api.0.stop();
}

/// The lines that `stream tail` prints.
fn tail(node: &Node, words: &str) -> Vec<String> {
    let words: Vec<&str> = words.split_ascii_whitespace().collect();
    let printed = node.ctl(&[&["stream", "tail"], &*words].concat());
    printed.lines().map(str::to_owned).collect()
}

#[test]
fn operators_read_the_messages_of_a_stream_as_lines() {
    let node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    client.create("s");
    assert_eq!(tail(&node, "s"), [""; 0]);
    client.declare_publisher(1, "s");
    for id in 0..30 {
        client.publish(1, id);
        assert!(client.hears().contains("PublishConfirm"));
    }
    let offsets = |lines: &[String]| {
        let offset = |line: &String| {
            assert!(line.contains("\"payload\":\"hi\""), "{line}");
            let offset = line.split("\"offset\":").nth(1).unwrap().split(',').next();
            offset.unwrap().parse().unwrap()
        };
        lines.iter().map(offset).collect::<Vec<u64>>()
    };
    assert_eq!(offsets(&tail(&node, "s")), (20..30).collect::<Vec<u64>>());
    for (words, expected) in [
        ("s --offset first", 0..30),
        ("s -o first -c 3", 0..3),
        ("s -o 27", 27..30),
        ("s --offset -2 --vhost /", 28..30),
        ("s -o 1h", 0..30),
        ("s -o @0 --count 1", 0..1),
        ("s -o next", 0..0),
        ("s -o last", 29..30),
        ("s -o first --count 0", 0..0),
    ] {
        assert_eq!(offsets(&tail(&node, words)), expected.collect::<Vec<u64>>(), "{words}");
    }
    // Who follows hears of more.
    let lines = std::thread::scope(|scope| {
        let follows = scope.spawn(|| tail(&node, "s -o 29 --follow --count 3"));
        for id in 30..32 {
            client.publish(1, id);
        }
        follows.join().unwrap()
    });
    assert_eq!(offsets(&lines), [29, 30, 31]);
    for (words, refused) in
        [(["none", "-c", "1"], "not found"), (["s", "-o", "soon"], "invalid_stream_offset_arg")]
    {
        let told = node.ctl_refused(&[&["stream", "tail"], &words[..]].concat());
        assert!(told.contains(refused), "{told}");
    }
    node.stop();
}

/// RabbitMQ 4.4's argument: of `Create`, of AMQP 0-9-1, and of a super stream.
#[test]
fn a_stream_begins_at_the_offset_that_it_is_made_with() {
    const AT: u64 = 1_000_000;
    let mut node = Node::start(&[]);
    let mut client = Client::open(node.stream_address(), "/");
    let create = |client: &mut Client, value: &str| {
        let arguments = [Property { key: "stream-initial-offset", value }];
        let (correlation_id, stream) = (5, "s");
        client.says(&Create { correlation_id, stream, arguments: List::of(&arguments) });
        client.hears()
    };
    let told = |code_of| code(Key::Create, 5, code_of);
    for bad in ["-1", "x", "4611686018427387904"] {
        assert_eq!(create(&mut client, bad), told(ResponseCode::PRECONDITION_FAILED), "{bad}");
    }
    assert_eq!(create(&mut client, "1000000"), told(ResponseCode::OK));
    assert_eq!(create(&mut client, "1000000"), told(ResponseCode::STREAM_ALREADY_EXISTS));
    assert_eq!(create(&mut client, "1000001"), told(ResponseCode::PRECONDITION_FAILED));
    let delivered = |client: &mut Client| loop {
        let frame = client.try_frame().unwrap();
        if let ToClient::Deliver(deliver) = ToClient::decode(&frame).unwrap() {
            let chunk = Chunk::decode_delivered(deliver.chunk.0).unwrap();
            break (deliver.subscription_id, chunk.header.chunk_id);
        }
    };
    // Each way of saying where to begin finds the first message, since there is none yet.
    let ways = [OffsetSpec::First, OffsetSpec::Next, OffsetSpec::Last, OffsetSpec::Offset(7)];
    for (id, from) in (1..).zip(ways) {
        client.subscribe(id, "s", from, 10);
    }
    client.declare_publisher(1, "s");
    client.publish(1, 1);
    let mut heard = ways.map(|_| delivered(&mut client));
    heard.sort_unstable();
    assert_eq!(heard, [(1, AT), (2, AT), (3, AT), (4, AT)]);
    drop(client);
    node.kill_and_start();
    let mut client = Client::open(node.stream_address(), "/");
    client.declare_publisher(1, "s");
    client.subscribe(1, "s", OffsetSpec::Offset(AT + 1), 10);
    client.publish(1, 2);
    assert_eq!(delivered(&mut client), (1, AT + 1));
    let columns = ["list_queues", "-q", "-s", "name", "messages", "committed_offset"];
    assert_eq!(node.ctl(&columns), "s\t2\t1000001\n");
    let made = ["add_super_stream", "all", "--partitions", "1", "--stream-initial-offset", "5"];
    node.ctl(&made);
    let listed = node.ctl(&["list_queues", "-q", "-s", "name", "arguments"]);
    assert!(listed.contains("{\"x-stream-initial-offset\",5}"), "{listed}");
    node.stop();
}
