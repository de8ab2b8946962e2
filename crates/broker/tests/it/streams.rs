//! Clients of streams as such: the answers they get.

use crate::client::{Client, Kind, block_on, start, start_limited, text};
use broker::{Alarm, Broker, Count, Hold, Limits, StorageOptions};
use bytes::Bytes;
use meta::{Command, NodeLimits};
use session::{
    Append, ChunkSelection, Content, Op, OwnedContent, PublisherId, Request, StreamCredit,
    StreamOffset, StreamOp, StreamSubscription, SubscriptionId, SuperStream,
};
use std::sync::Arc;
use std::time::{Duration, Instant};
use stream::Inspection;
use testing::{Fault, MemoryDisk};

fn permit(broker: &Broker, [configure, write, read]: [&str; 3]) {
    let (configure, write, read) = (configure.to_owned(), write.to_owned(), read.to_owned());
    let (user, vhost) = ("guest".into(), "/".into());
    let command = Command::SetPermissions { user, vhost, configure, write, read };
    block_on(broker.apply_definition(command)).unwrap();
}

fn refused(why: &str) -> String {
    format!("Event(\"Refused {{ origin: MethodTag(7), why: {why} }}\")")
}

fn subscribe(stream: &str) -> StreamOp {
    StreamOp::Subscribe(StreamSubscription {
        subscription: SubscriptionId(1),
        stream: stream.to_owned(),
        offset: StreamOffset::First,
        credit: 1,
        selection: ChunkSelection::default(),
        name: None,
        single_active: false,
        super_stream: None,
        properties: Vec::new(),
    })
}

fn declare_publisher(reference: &str, stream: &str) -> StreamOp {
    let (publisher, reference) = (PublisherId(1), reference.to_owned());
    StreamOp::DeclarePublisher { publisher, reference, stream: stream.to_owned() }
}

fn super_stream(name: &str, partitions: &[&str], n_keys: usize) -> StreamOp {
    StreamOp::CreateSuperStream(SuperStream {
        name: name.to_owned(),
        partitions: partitions.iter().map(|&name| name.to_owned()).collect(),
        binding_keys: (0..n_keys).map(|key| key.to_string()).collect(),
        arguments: Vec::new(),
    })
}

fn create(stream: &str) -> Op {
    Op::Stream(StreamOp::Create { stream: stream.to_owned(), arguments: Vec::new() })
}

/// A client that publishes to `s` as 9, by the name `r`, and reads it as 1.
fn client_of_stream(broker: &Arc<Broker>) -> Client {
    let mut client = Client::connect(broker);
    assert_eq!(client.ask(create("s")), ["done"]);
    let publisher = StreamOp::DeclarePublisher {
        publisher: PublisherId(9),
        reference: "r".to_owned(),
        stream: "s".to_owned(),
    };
    assert_eq!(client.ask(Op::Stream(publisher)), ["done"]);
    assert_eq!(client.ask(Op::Stream(subscribe("s"))).len(), 1);
    client
}

/// Two messages of publisher 9 with the ids 5 and 6, the second of which has a filter value if both have.
fn append(has_filter_values: bool) -> Append {
    let mut body = Vec::new();
    for (id, filter) in [(5_u64, None), (6, Some(b"f"))] {
        body.extend(id.to_be_bytes());
        match filter.filter(|_| has_filter_values) {
            Some(filter) => body.extend([&[0, 1], &filter[..]].concat()),
            None if has_filter_values => body.extend([0xFF, 0xFF]),
            None => {}
        }
        body.extend([0, 0, 0, 2, b'h', b'i']);
    }
    let owned = OwnedContent { head: Bytes::new(), body: body.into() };
    let entries = Content::Owned(Box::new(owned));
    Append { publisher: PublisherId(9), has_filter_values, n_entries: 2, entries }
}

fn answered(id: u64) -> String {
    let answer = "Err(PublisherDoesNotExist)";
    format!("Answered {{ publisher: 9, first: {id}, last: {id}, answer: {answer} }}")
}

#[test]
fn requests_without_a_stream_are_refused_in_rabbitmqs_order() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    client.declare("classic", true);
    let long = "x".repeat(256);
    let named = |name: &str| {
        let StreamOp::Subscribe(subscription) = subscribe("s") else { unreachable!() };
        StreamOp::Subscribe(StreamSubscription { name: Some(name.to_owned()), ..subscription })
    };
    let text = str::to_owned;
    for (op, why) in [
        (subscribe("s"), "StreamDoesNotExist"),
        (subscribe("classic"), "StreamDoesNotExist"),
        (named(&long), "PreconditionFailed"),
        (declare_publisher("", "s"), "StreamDoesNotExist"),
        (declare_publisher(&long, "s"), "PreconditionFailed"),
        (StreamOp::DeletePublisher(PublisherId(1)), "PublisherDoesNotExist"),
        (StreamOp::Unsubscribe(SubscriptionId(1)), "SubscriptionIdDoesNotExist"),
        (StreamOp::QueryOffset { reference: text("r"), stream: text("s") }, "StreamDoesNotExist"),
        (StreamOp::Stats { stream: text("classic") }, "StreamDoesNotExist"),
        (StreamOp::Delete { stream: text("classic") }, "StreamDoesNotExist"),
        (StreamOp::Create { stream: text("amq.s"), arguments: Vec::new() }, "PreconditionFailed"),
        (StreamOp::Create { stream: text("\r\n"), arguments: Vec::new() }, "PreconditionFailed"),
        (StreamOp::Create { stream: long.clone(), arguments: Vec::new() }, "PreconditionFailed"),
        (StreamOp::Partitions { super_stream: text("s") }, "StreamDoesNotExist"),
        (StreamOp::DeleteSuperStream { super_stream: text("s") }, "StreamDoesNotExist"),
    ] {
        assert_eq!(client.ask(Op::Stream(op)), [refused(why)]);
    }
    let number = vec![("max-length-bytes".to_owned(), "much".to_owned())];
    let create = StreamOp::Create { stream: text("s"), arguments: number };
    assert_eq!(client.ask(Op::Stream(create)), [refused("PreconditionFailed")]);
    broker.alarms.set(Alarm::Disk, true);
    let publisher = declare_publisher("", "s");
    assert_eq!(client.ask(Op::Stream(publisher)), [refused("PreconditionFailed")]);
    // Nothing answers to these.
    let (reference, stream) = (text("r"), text("s"));
    let store = StreamOp::StoreOffset { reference, stream, offset: 1 };
    assert_eq!(client.ask(Op::Stream(store)), [""; 0]);
    let updated = StreamOp::ConsumerUpdated { update: 1, offset: None };
    assert_eq!(client.ask(Op::Stream(updated)), [""; 0]);
}

#[test]
fn permissions_are_asked_for_before_anything_is_said_of_a_stream() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    permit(&broker, ["", "", ""]);
    let text = str::to_owned;
    let long = "x".repeat(256);
    for op in [
        subscribe("s"),
        declare_publisher(&long, "s"),
        StreamOp::QueryOffset { reference: text("r"), stream: text("s") },
        StreamOp::QueryPublisherSequence { reference: text("r"), stream: text("s") },
        StreamOp::Stats { stream: text("s") },
        StreamOp::Create { stream: text("s"), arguments: Vec::new() },
        StreamOp::Delete { stream: text("s") },
        StreamOp::Route { routing_key: text("k"), super_stream: text("s") },
        StreamOp::Partitions { super_stream: text("s") },
        super_stream("s", &["s-0"], 1),
        StreamOp::DeleteSuperStream { super_stream: text("s") },
    ] {
        assert_eq!(client.ask(Op::Stream(op)), [refused("AccessRefused")]);
    }
    permit(&broker, [".*", "^written$", "^read$"]);
    let metadata =
        StreamOp::Metadata { streams: ["written", "read", "other"].into_iter().collect() };
    let told = "Event(\"Metadata { origin: MethodTag(7), streams: \
                [(\\\"written\\\", Err(StreamDoesNotExist)), (\\\"read\\\", Err(StreamDoesNotExist)), \
                (\\\"other\\\", Err(AccessRefused))], is_served: true }\")";
    assert_eq!(client.ask(Op::Stream(metadata)), [told]);
    // Reading from the exchange and writing to each partition are part of making one.
    assert_eq!(client.ask(Op::Stream(super_stream("read", &["p"], 1))), [refused("AccessRefused")]);
}

#[test]
fn streams_of_a_deleted_vhost_do_not_exist() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    client.ask(Op::Stream(StreamOp::Create { stream: "s".to_owned(), arguments: Vec::new() }));
    block_on(broker.apply_definition(Command::DeleteVhost { vhost: "/".into() })).unwrap();
    let metadata = StreamOp::Metadata { streams: ["s"].into_iter().collect() };
    let told = "Event(\"Metadata { origin: MethodTag(7), streams: \
                [(\\\"s\\\", Err(StreamDoesNotExist))], is_served: true }\")";
    let answer = client.ask(Op::Stream(metadata));
    assert!(answer.iter().any(|it| it == told), "{answer:?}");
}

#[test]
fn super_streams_are_checked_before_anything_is_made() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    client.declare("taken", true);
    for (op, why) in [
        (super_stream("s", &["a", "b"], 1), "PreconditionFailed"),
        (super_stream("s", &["a", "a"], 2), "PreconditionFailed"),
        (super_stream("s", &["a", ""], 2), "PreconditionFailed"),
        (super_stream("s", &["a", "amq.b"], 2), "PreconditionFailed"),
        (super_stream("amq.s", &["a"], 1), "PreconditionFailed"),
        (super_stream("amq.direct\n", &["a"], 1), "PreconditionFailed"),
        (super_stream("s", &["a", "taken"], 2), "StreamAlreadyExists"),
    ] {
        assert_eq!(client.ask(Op::Stream(op)), [refused(why)]);
    }
    let view = broker.view();
    let vhost = view.meta.vhost("/").unwrap();
    assert_eq!(vhost.queues().count(), 1);
    assert!(view.meta.exchange("/", "s").is_none());
}

#[test]
fn what_is_no_stream_is_no_part_of_a_super_stream() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    client.declare("classic", true);
    client.declare_exchange("s", "direct", &[]);
    client.bind("s", "classic", "k");
    let route = |exchange: &str| {
        let (routing_key, super_stream) = ("k".to_owned(), exchange.to_owned());
        Op::Stream(StreamOp::Route { routing_key, super_stream })
    };
    let none = "Event(\"Streams { origin: MethodTag(7), streams: [] }\")";
    assert_eq!(client.ask(route("s")), [none]);
    assert_eq!(client.ask(route("other")), [refused("StreamDoesNotExist")]);
    let partitions = StreamOp::Partitions { super_stream: "s".to_owned() };
    assert_eq!(client.ask(Op::Stream(partitions)), [none]);
    client.declare_exchange("taken", "fanout", &[]);
    let taken = super_stream("taken", &["p"], 1);
    assert_eq!(client.ask(Op::Stream(taken)), [refused("StreamAlreadyExists")]);
}

#[test]
fn what_an_unknown_publisher_appends_is_answered_message_by_message() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    for filtered in [false, true] {
        let heard = client.submit(&[], vec![Request::Append(append(filtered))]);
        assert_eq!(heard, [answered(5), answered(6)]);
    }
    let credit = StreamCredit { subscription: SubscriptionId(3), n_chunks: 1 };
    let told = "Event(\"CreditRefused { subscription: SubscriptionId(3), \
                why: SubscriptionIdDoesNotExist }\")";
    assert_eq!(client.submit(&[], vec![Request::Credit(credit)]), [told]);
}

#[test]
fn the_disk_alarm_alone_holds_publishers_of_streams() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    broker.alarms.set(Alarm::Memory, true);
    let heard = client.submit(&[], vec![Request::Append(append(false))]);
    assert_eq!(heard, [answered(5), answered(6)]);
    broker.alarms.set(Alarm::Disk, true);
    let heard = client.submit(&[], vec![Request::Append(append(false))]);
    assert_eq!(heard, ["blocked low on memory & disk"]);
    assert_ne!(client.session().hold(), Hold::None);
    // Memory is still short, which is nothing to wait for.
    broker.alarms.set(Alarm::Disk, false);
    block_on(client.session().released());
    block_on(client.session().release_hold()).unwrap();
    assert_eq!(client.heard(), ["unblocked".to_owned(), answered(5), answered(6)]);
    assert_eq!(client.session().hold(), Hold::None);
}

#[test]
fn what_a_publisher_appends_is_confirmed_and_given_for_credit_until_the_stream_goes() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = Client::connect(&broker);
    assert_eq!(client.ask(create("s")), ["done"]);
    assert_eq!(client.ask(create("s")), [refused("StreamAlreadyExists")]);
    let publisher = StreamOp::DeclarePublisher {
        publisher: PublisherId(9),
        reference: "r".to_owned(),
        stream: "s".to_owned(),
    };
    assert_eq!(client.ask(Op::Stream(publisher)), ["done"]);
    assert_eq!(
        client.ask(Op::Stream(declare_publisher("r", "s"))),
        [refused("PreconditionFailed")]
    );
    let heard = client.submit(&[], vec![Request::Append(append(false))]);
    let heard = client.wait_for(heard, 1);
    assert_eq!(heard, ["Answered { publisher: 9, first: 5, last: 6, answer: Ok(()) }"]);
    let sequence =
        StreamOp::QueryPublisherSequence { reference: "r".to_owned(), stream: "s".to_owned() };
    let told = "Event(\"PublisherSequence { origin: MethodTag(7), sequence: 6 }\")";
    assert_eq!(client.ask(Op::Stream(sequence)), [told]);
    let heard = client.ask(Op::Stream(subscribe("s")));
    assert!(heard[0].starts_with("Event(\"Subscribed {") && heard[1].starts_with("Chunk {"));
    assert_eq!(heard.len(), 2);
    assert!(heard[1].contains("committed_chunk_id: 0"), "{heard:?}");
    let again = refused("SubscriptionIdAlreadyExists");
    assert_eq!(client.ask(Op::Stream(subscribe("s"))), [again]);
    let heard = client.submit(&[], vec![Request::Append(append(false))]);
    assert_eq!(heard, ["Answered { publisher: 9, first: 5, last: 6, answer: Ok(()) }"]);
    let heard = client.ask(Op::Stream(StreamOp::Delete { stream: "s".to_owned() }));
    assert!(heard.iter().any(|line| line.contains("StreamGone")), "{heard:?}");
    let heard = client.submit(&[], vec![Request::Append(append(false))]);
    assert_eq!(heard, [answered(5), answered(6)]);
    let unsubscribe = StreamOp::Unsubscribe(SubscriptionId(1));
    assert_eq!(client.ask(Op::Stream(unsubscribe)), [refused("SubscriptionIdDoesNotExist")]);
}

/// A stream with three chunks, the middle one large; `read` of a client that comes when nothing is in
/// memory.
fn on_a_cold_disk(read: impl FnOnce(&mut Client) -> Vec<String>) -> Vec<String> {
    let disk = Arc::new(MemoryDisk::default());
    let broker = start(&disk);
    let mut client = Client::connect(&broker);
    let declared = client.declare_with("s", true, &[("x-queue-type", text("stream"))]);
    assert_eq!(declared, ["declared 0 0"]);
    assert_eq!(client.ask(Op::EnableConfirms), ["done"]);
    for body in ["a", &"b".repeat(200_000), "c"] {
        let heard = client.publish("s", &[body], Kind::Transient);
        assert_eq!(client.wait_for(heard, 1).len(), 1);
    }
    disk.chill();
    let heard = read(&mut client);
    let deadline = Instant::now() + Duration::from_secs(20);
    let mut all = heard;
    while all.len() < 4 {
        assert!(Instant::now() < deadline, "heard only {} lines", all.len());
        all.extend(client.resume());
        std::thread::yield_now();
    }
    all
}

#[test]
fn chunks_that_are_not_in_memory_come_from_another_thread_and_large_ones_whole() {
    let heard = on_a_cold_disk(|client| {
        let StreamOp::Subscribe(subscription) = subscribe("s") else { unreachable!() };
        client
            .ask(Op::Stream(StreamOp::Subscribe(StreamSubscription { credit: 9, ..subscription })))
    });
    assert!(heard[0].starts_with("Event(\"Subscribed {"), "{}", heard[0]);
    let lengths: Vec<usize> = heard.iter().map(String::len).collect();
    assert!(lengths[2] > 200_000 && lengths[1] < 2_000 && lengths[3] < 2_000, "{lengths:?}");
    let many = "98, ".repeat(199_000);
    assert!(heard[2].contains(&many), "every byte is there");
}

#[test]
fn messages_that_are_not_in_memory_come_from_another_thread() {
    let heard = on_a_cold_disk(|client| {
        assert_eq!(client.ask(Op::SetPrefetch { prefetch_count: 9, global: false }), ["done"]);
        client.consume_with("s", "c", false, &[("x-stream-offset", text("first"))])
    });
    let b = format!("deliver {}", "b".repeat(200_000));
    assert_eq!(heard, ["consuming", "deliver a", &b, "deliver c"]);
}

/// RabbitMQ answers first, and then says to who has deleted it what it says to all others.
#[test]
fn who_deletes_a_stream_is_answered_before_it_hears_that_it_is_gone() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = client_of_stream(&broker);
    let mut other = Client::connect(&broker);
    assert_eq!(other.ask(Op::Stream(subscribe("s"))).len(), 1);
    let heard = client.ask(Op::Stream(StreamOp::Delete { stream: "s".to_owned() }));
    assert_eq!(heard.len(), 2, "{heard:?}");
    assert!(heard[0] == "done" && heard[1].contains("StreamGone"), "{heard:?}");
    assert!(matches!(&*other.heard(), [one] if one.contains("StreamGone")));
    assert_eq!(client.ask(create("s")), ["done"]);
    assert_eq!(client.ask(Op::Stream(StreamOp::Delete { stream: "s".to_owned() })), ["done"]);
    let wanted = super_stream("all", &["p0", "p1"], 2);
    assert_eq!(client.ask(Op::Stream(wanted)), ["done"]);
    assert_eq!(client.ask(Op::Stream(subscribe("p1"))).len(), 1);
    let delete = StreamOp::DeleteSuperStream { super_stream: "all".to_owned() };
    let heard = client.ask(Op::Stream(delete));
    assert!(matches!(&*heard, [done, gone] if done == "done" && gone.contains("p1")), "{heard:?}");
}

/// The rest of a command is refused with a sub-batch in it; the entries before it are taken.
#[test]
fn a_sub_batch_that_is_refused_takes_the_rest_of_its_command_with_it() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = client_of_stream(&broker);
    let mut body = Vec::new();
    for id in 5_u64..9 {
        body.extend(id.to_be_bytes());
        match id {
            // No message is in it, it says.
            6 => body.extend([0x80, 0, 0, 0, 0, 0, 4, 0, 0, 0, 4, 0, 0, 0, 0]),
            _ => body.extend([0, 0, 0, 2, b'h', b'i']),
        }
    }
    let entries = Content::Owned(Box::new(OwnedContent { head: Bytes::new(), body: body.into() }));
    let publisher = PublisherId(9);
    let append = Append { publisher, has_filter_values: false, n_entries: 4, entries };
    let heard = client.submit(&[], vec![Request::Append(append)]);
    let mut heard = client.wait_for(heard, 3);
    heard.sort();
    assert!(heard.pop().is_some_and(|it| it.starts_with("Chunk")), "it consumes what it publishes");
    let why = "Err(PreconditionFailed)";
    let told = |first: u64, last: u64, answer: &str| {
        format!("Answered {{ publisher: 9, first: {first}, last: {last}, answer: {answer} }}")
    };
    assert_eq!(heard, [told(5, 5, "Ok(())"), told(6, 8, why)]);
}

/// Each delivery tells the last chunk there is, as RabbitMQ's do, not the last message.
#[test]
fn deliveries_tell_the_last_committed_chunk() {
    let broker = start(&Arc::new(MemoryDisk::default()));
    let mut client = client_of_stream(&broker);
    for (id, committed) in [(1, 0), (2, 2)] {
        let mut append = append(false);
        if let Content::Owned(owned) = &mut append.entries {
            let ids = [10 * id, 10 * id + 1_u64].map(u64::to_be_bytes);
            let bodies = ids.map(|id| [&id[..], &[0, 0, 0, 2, b'h', b'i']].concat());
            owned.body = bodies.concat().into();
        }
        let heard = client.submit(&[], vec![Request::Append(append)]);
        let mut heard = client.wait_for(heard, 1);
        let subscription = SubscriptionId(1);
        let credit = StreamCredit { subscription, n_chunks: 1 };
        if id > 1 {
            heard = client.submit(&[], vec![Request::Credit(credit)]);
        }
        let told = format!("committed_chunk_id: {committed}");
        assert!(heard.iter().any(|it| it.contains(&told)), "{heard:?}");
    }
}

/// A disk that fails while the files of a new stream are made: the stream is refused, nothing of it is
/// left, and nobody else notices.
#[test]
fn a_stream_whose_files_cannot_be_made_is_refused() {
    for operation in 0..4 {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start(&disk);
        let mut client = client_of_stream(&broker);
        let files = disk.files();
        disk.inject(disk.operations() + operation, Fault::Io);
        assert_eq!(client.ask(create("t")), [refused("InternalError")], "{operation}");
        assert_eq!(disk.files(), files, "{operation}");
        assert_eq!(client.ask(Op::Stream(subscribe("t"))).len(), 1);
        let heard = client.submit(&[], vec![Request::Append(append(false))]);
        assert!(client.wait_for(heard, 1)[0].contains("Ok(())"));
        assert_eq!(client.ask(create("t")), ["done"]);
        client.disconnect();
        drop(broker);
        let broker = start(&disk);
        let mut client = Client::connect(&broker);
        assert_eq!(client.ask(create("t")), [refused("StreamAlreadyExists")]);
    }
}

/// A disk that fails anywhere amid the files of a new super stream: nothing of it is left, and the next one
/// is made.
#[test]
fn a_super_stream_is_made_whole_or_not_at_all() {
    let wanted = || Op::Stream(super_stream("all", &["p0", "p1", "p2"], 3));
    for operation in 0..12 {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start(&disk);
        let mut client = client_of_stream(&broker);
        let files = disk.files();
        disk.inject(disk.operations() + operation, Fault::Io);
        assert_eq!(client.ask(wanted()), [refused("InternalError")], "{operation}");
        assert_eq!(disk.files(), files, "{operation}");
        assert!(broker.view().meta.exchange("/", "all").is_none());
        assert_eq!(broker.view().streams().count(), 1, "{operation}");
        assert_eq!(client.ask(wanted()), ["done"]);
        client.disconnect();
        drop(broker);
        let broker = start(&disk);
        assert_eq!(broker.view().streams().count(), 4, "{operation}");
    }
}

/// A command that the definitions refuse amid a super stream takes those before it back.
#[test]
fn a_super_stream_over_a_limit_of_the_node_leaves_nothing() {
    let disk = Arc::new(MemoryDisk::new());
    let definitions = NodeLimits { queues: Some(3), ..NodeLimits::default() };
    let limits = Limits { definitions, ..Limits::default() };
    let broker = start_limited(disk.clone(), &StorageOptions::default(), limits);
    let mut client = client_of_stream(&broker);
    let files = disk.files();
    let too_many = super_stream("all", &["p0", "p1", "p2"], 3);
    assert_eq!(client.ask(Op::Stream(too_many)), [refused("PreconditionFailed")]);
    assert_eq!(disk.files(), files);
    assert!(broker.view().meta.exchange("/", "all").is_none());
    assert_eq!(client.ask(Op::Stream(super_stream("all", &["p0", "p1"], 2))), ["done"]);
}

/// Whoever uses the stream as one is told that it is gone, and comes again; consumers of messages stay.
#[test]
fn a_stream_that_is_restarted_begins_another_epoch() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = client_of_stream(&broker);
    let mut consumer = Client::connect(&broker);
    assert_eq!(consumer.ask(Op::SetPrefetch { prefetch_count: 9, global: false }), ["done"]);
    assert_eq!(consumer.consume("s", false), ["consuming"]);
    let stream = broker.view().stream("/", "s").unwrap();
    assert_eq!(Inspection::of(&stream).figures().epoch, 1);
    assert_eq!(Inspection::of(&stream).publishers().len(), 1);
    Inspection::of(&stream).restart();
    let gone = client.heard();
    assert!(matches!(&*gone, [one] if one.contains("StreamGone")), "{gone:?}");
    assert_eq!(Inspection::of(&stream).figures().epoch, 2);
    assert!(Inspection::of(&stream).publishers().is_empty());
    assert!(Inspection::of(&stream).subscriptions().is_empty());
    let heard = client.submit(&[], vec![Request::Append(append(false))]);
    assert_eq!(heard, [answered(5), answered(6)]);
    let StreamOp::DeclarePublisher { reference, stream, .. } = declare_publisher("r", "s") else {
        unreachable!()
    };
    let publisher = PublisherId(9);
    let again = StreamOp::DeclarePublisher { publisher, reference, stream };
    assert_eq!(client.ask(Op::Stream(again)), ["done"]);
    assert_eq!(client.ask(Op::Stream(subscribe("s"))).len(), 1);
    let heard = client.submit(&[], vec![Request::Append(append(false))]);
    let heard = client.wait_for(heard, 1);
    assert!(heard[0].contains("Ok(())"), "{heard:?}");
    let publishers = Inspection::of(&broker.view().stream("/", "s").unwrap()).publishers();
    let [one] = publishers.as_slice() else { panic!("{publishers:?}") };
    assert_eq!((one.n_published, one.n_confirmed, one.n_refused), (2, 2, 0));
    assert_eq!(consumer.resume(), ["deliver hi", "deliver hi"]);
    // What subscriptions are given counts as what consumers are.
    let counts = broker.view().stream("/", "s").unwrap().stat().counts;
    assert_eq!(counts.of(Count::Delivered), 4);
}
