//! Streams some of which is missing or damaged: the node starts, that stream is closed and says why, and
//! opens without what is lost once that is accepted.

use super::missing::{files, without};
use super::support::copy_dir;
use super::support::node::{Node, run_repair};
use super::support::stream_client::{self, code};
use super::support::wait_until;
use amqp091::method::{BasicConsume, BasicQos, QueueDeclare, QueueDelete};
use amqp091::{Method, ShortString, Table, TableRef, Value};
use std::path::{Path, PathBuf};
use streamproto::command::{DeclarePublisher, Metadata};
use streamproto::{Chunk, Key, List, OffsetSpec, ResponseCode, ToClient};
use tempfile::TempDir;
use testing::client::Client;

const N: u32 = 400;
const STREAMS: [&str; 2] = ["st", "other"];

fn text(text: &str) -> ShortString {
    ShortString::new(text).unwrap()
}

fn declare(client: &mut Client, stream: &str) -> u32 {
    let arguments = [
        (text("x-queue-type"), Value::from("stream")),
        (text("x-stream-max-segment-size-bytes"), Value::I64(10_000)),
    ];
    let arguments = Table::from_iter(arguments).to_bytes();
    let (queue, arguments) = (stream.as_bytes(), TableRef::trusted(&arguments));
    client.say(1, QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() });
    let answer = client.next();
    let Method::QueueDeclareOk(declared) = answer.method() else { panic!("{}", answer.show()) };
    declared.message_count
}

fn publish(client: &mut Client, stream: &str, n: u32) {
    for number in 0..n {
        client.put_content("", stream, 2, &[&number.to_le_bytes()[..], &[7; 96]].concat());
        client.wait_for_confirms();
    }
}

/// Two streams of several segments.
fn data(end: fn(&mut Node), settings: &[&str]) -> TempDir {
    let mut node = Node::start(settings);
    let mut client = Client::guest(node.address());
    client.select_confirms();
    for stream in STREAMS {
        declare(&mut client, stream);
        publish(&mut client, stream, N);
    }
    end(&mut node);
    node.leave()
}

/// The directories of both streams, relative to the data.
fn dirs(data: &Path) -> [PathBuf; 2] {
    let mut dirs: Vec<u64> = std::fs::read_dir(data.join("streams"))
        .unwrap()
        .map(|dir| dir.unwrap().file_name().to_str().unwrap().parse().unwrap())
        .collect();
    dirs.sort_unstable();
    [0, 1].map(|n| Path::new("streams").join(dirs[n].to_string()))
}

fn segments(data: &Path, dir: &Path) -> Vec<PathBuf> {
    let found = files(&data.join(dir)).into_keys();
    let found = found.filter(|path| path.extension().is_some_and(|it| it == "segment"));
    let found: Vec<_> = found.map(|path| path.strip_prefix(data).unwrap().to_owned()).collect();
    assert!(found.len() >= 4, "{found:?}");
    found
}

fn copy(whole: &Path) -> TempDir {
    let home = tempfile::tempdir().unwrap();
    copy_dir(whole, &home.path().join("data"));
    home
}

fn states(node: &Node) -> Vec<(String, String)> {
    let listed = node.ctl(&["list_queues", "name", "state", "-q", "--no-table-headers"]);
    let row = |line: &str| {
        let (name, state) = line.split_once('\t').unwrap();
        (name.to_owned(), state.to_owned())
    };
    listed.lines().map(row).filter(|(name, _)| STREAMS.contains(&&**name)).collect()
}

/// How many messages a consumer from the first on is given, up to one that is published for it.
fn read_all(node: &Node, stream: &str) -> usize {
    let mut client = Client::guest(node.address());
    client.select_confirms();
    client.put_content("", stream, 2, b"the end");
    client.wait_for_confirms();
    let qos = BasicQos { prefetch_count: 2_000, ..BasicQos::default() };
    assert_eq!(client.ask(1, qos), "basic.qos-ok");
    let arguments = Table::from_iter([(text("x-stream-offset"), Value::from("first"))]).to_bytes();
    let (queue, arguments) = (stream.as_bytes(), TableRef::trusted(&arguments));
    let consume = BasicConsume { queue, arguments, ..BasicConsume::default() };
    assert_eq!(client.ask(1, consume), "basic.consume-ok");
    let mut n = 0;
    loop {
        let message = client.message().unwrap();
        if message.body == b"the end" {
            return n;
        }
        n += usize::from(message.body.len() == 100);
    }
}

/// The stream is closed and its clients are told; the other is whole.
fn expect_closed(node: &Node, told: &str) {
    let expected = [("other", "running"), ("st", "damaged")];
    let mut states = states(node);
    states.sort();
    assert_eq!(states, expected.map(|(name, state)| (name.to_owned(), state.to_owned())), "{told}");
    node.expect_logged(1, "'st' in vhost '/' is closed: ");
    assert!(node.log().contains(told), "{told}: {}", node.log());
    let status = node.ctl(&["status"]);
    assert!(status.contains("Closed streams (missing or damaged files): 1"), "{status}");
    assert!(node.ctl_refused(&["scrub_stream", "st"]).contains("the stream is closed"));
    let mut client = Client::guest(node.address());
    assert_eq!(declare(&mut client, "st"), 0, "what is defined may be declared");
    client.select_confirms();
    client.put_content("", "st", 2, b"x");
    client.flush();
    assert_eq!(client.next().show(), "basic.nack");
    let qos = BasicQos { prefetch_count: 9, ..BasicQos::default() };
    assert_eq!(client.ask(1, qos), "basic.qos-ok");
    let refused = client.ask(1, BasicConsume { queue: b"st", ..BasicConsume::default() });
    assert!(
        refused.starts_with("channel.close 406 ") && refused.contains("is closed: "),
        "{refused}"
    );
    let mut client = stream_client::Client::open(node.stream_address(), "/");
    let (reference, publisher_id, correlation_id) = ("", 1, 8);
    client.says(&DeclarePublisher { correlation_id, publisher_id, reference, stream: "st" });
    let unavailable = ResponseCode::STREAM_NOT_AVAILABLE;
    assert_eq!(client.hears(), code(Key::DeclarePublisher, 8, unavailable));
    client.says(&Metadata { correlation_id: 9, streams: List::of(&["st", "other"]) });
    let metadata = client.hears();
    assert!(
        metadata.contains("ResponseCode(6)") && metadata.contains("ResponseCode(1)"),
        "{metadata}"
    );
    assert_eq!(read_all(node, "other"), N as usize);
}

/// The node has said what was expected of it.
fn clear_log(node: &Node) {
    std::fs::write(node.data_dir().join("node.log"), "").unwrap();
}

/// Damage to a directory; the words by which it is told.
type Harm = fn(&Path) -> String;

fn removed(data: &Path, name: &Path) -> String {
    let path = data.join(name);
    if path.is_dir() { std::fs::remove_dir_all(path) } else { std::fs::remove_file(path) }.unwrap();
    format!("{} is missing", name.display())
}

fn cut(data: &Path, name: &Path, left: impl Fn(u64) -> u64) -> String {
    let file = std::fs::File::options().write(true).open(data.join(name)).unwrap();
    file.set_len(left(file.metadata().unwrap().len())).unwrap();
    name.display().to_string()
}

fn segment(data: &Path, n: impl Fn(usize) -> usize) -> PathBuf {
    let [st, _] = dirs(data);
    let segments = segments(data, &st);
    segments[n(segments.len())].clone()
}

fn swapped(data: &Path) -> String {
    let [st, other] = dirs(data);
    let (a, b, aside) = (data.join(&st), data.join(other), data.join("streams/aside"));
    let name = segment(data, |_| 0).file_name().unwrap().to_owned();
    std::fs::rename(a.join(&name), &aside).unwrap();
    std::fs::copy(b.join(&name), a.join(&name)).unwrap();
    std::fs::remove_file(aside).unwrap();
    format!("{} belongs to another stream", st.join(name).display())
}

const HARMS: [Harm; 7] = [
    |data| removed(data, &dirs(data)[0]),
    |data| removed(data, &segment(data, |_| 0)),
    |data| removed(data, &segment(data, |n| n / 2)),
    |data| removed(data, &segment(data, |n| n - 1)),
    |data| cut(data, &segment(data, |n| n / 2), |len| len / 2),
    |data| cut(data, &segment(data, |n| n - 1), |_| 40),
    swapped,
];

#[test]
fn each_form_of_damage_closes_the_stream_and_an_operator_accepts_it() {
    let home = data(Node::end_well, &[]);
    let whole = home.path().join("data");
    for harm in HARMS {
        let home = copy(&whole);
        let dir = home.path().join("data");
        let told = harm(&dir);
        let dry = run_repair(&dir, &["--dry-run"]).unwrap();
        assert!(dry.contains("with 1 streams closed") && dry.contains(&told), "{told}: {dry}");
        assert!(dry.contains("lost: queue 'st' in vhost '/': up to "), "{dry}");
        let mut node = Node::start_in(home);
        expect_closed(&node, &told);
        clear_log(&node);
        node.stop_and_start();
        expect_closed_again(&node);
        let accepted = node.ctl(&["accept_stream_loss", "st"]);
        assert!(accepted.contains("is open again"), "{accepted}");
        let n_left = read_all(&node, "st");
        assert!(n_left < N as usize, "{told}: {n_left}");
        let lost = format!("Lost messages: {}\n", N as usize - n_left);
        assert!(node.ctl(&["status"]).contains(&lost), "{lost}: {}", node.ctl(&["status"]));
        assert!(node.ctl_refused(&["accept_stream_loss", "st"]).contains("has no data loss"));
        clear_log(&node);
        node.kill_and_start();
        assert_eq!(read_all(&node, "st"), n_left, "{told}");
        assert!(!node.ctl(&["status"]).contains("Losses"));
        eprintln!("{told}: {n_left} of {N} are left");
    }
}

fn expect_closed_again(node: &Node) {
    assert!(states(node).contains(&("st".to_owned(), "damaged".to_owned())));
}

#[test]
fn all_streams_that_are_missing_are_closed_and_a_repair_or_a_deletion_opens_the_way() {
    for end in [Node::kill as fn(&mut Node), Node::end_well] {
        let home = data(end, &["stream.durability=fsync"]);
        let home = without(&home.path().join("data"), Path::new("streams"));
        let dir = home.path().join("data");
        let mut node = Node::start_in(home);
        assert!(states(&node).iter().all(|(_, state)| state == "damaged"));
        let mut client = Client::guest(node.address());
        let delete = QueueDelete { queue: b"other", ..QueueDelete::default() };
        assert_eq!(client.ask(1, delete), "queue.delete-ok");
        assert_eq!(declare(&mut client, "other"), 0);
        client.select_confirms();
        publish(&mut client, "other", 3);
        clear_log(&node);
        node.end_well();
        let before = files(&dir);
        let dry = run_repair(&dir, &["--dry-run"]).unwrap();
        assert!(dry.contains("with 1 streams closed") && files(&dir) == before, "{dry}");
        let told = run_repair(&dir, &[]).unwrap();
        assert!(told.contains("repaired; the original files are in "), "{told}");
        assert!(run_repair(&dir, &[]).unwrap().contains("no damage"));
        let node = Node::start_in(node.leave());
        assert!(states(&node).iter().all(|(_, state)| state == "running"));
        let lost = format!("Lost messages: {N}\n");
        assert!(node.ctl(&["status"]).contains(&lost), "{}", node.ctl(&["status"]));
        assert_eq!((read_all(&node, "st"), read_all(&node, "other")), (0, 3));
    }
}

/// The files of both streams change places, or come from an earlier copy.
#[test]
fn streams_that_are_swapped_or_older_are_closed() {
    let home = data(Node::end_well, &[]);
    let whole = home.path().join("data");
    let [st, other] = dirs(&whole);
    let swapped = copy(&whole);
    let dir = swapped.path().join("data");
    std::fs::rename(dir.join(&st), dir.join("streams/aside")).unwrap();
    std::fs::rename(dir.join(&other), dir.join(&st)).unwrap();
    std::fs::rename(dir.join("streams/aside"), dir.join(&other)).unwrap();
    let node = Node::start_in(swapped);
    assert!(states(&node).iter().all(|(_, state)| state == "damaged"), "{}", node.log());
    drop(node);
    let newer = copy(&whole);
    let dir = newer.path().join("data");
    let mut node = Node::start_in(newer);
    let mut client = Client::guest(node.address());
    client.select_confirms();
    publish(&mut client, "st", 50);
    node.end_well();
    std::fs::remove_dir_all(dir.join(&st)).unwrap();
    copy_dir(&whole.join(&st), &dir.join(&st));
    let node = Node::start_in(node.leave());
    expect_closed_again(&node);
    node.expect_logged(1, "up to 50 messages are lost");
}

/// A chunk at the end is flipped, after a kill, with either durability.
#[test]
fn a_flipped_last_chunk_after_a_kill_is_counted() {
    for durability in ["fsync", "write"] {
        let home = data(Node::kill, &[&format!("stream.durability={durability}")]);
        let dir = home.path().join("data");
        let last = dir.join(segment(&dir, |n| n - 1));
        let mut bytes = std::fs::read(&last).unwrap();
        let at = bytes.len() - 20;
        bytes[at] ^= 1;
        std::fs::write(&last, bytes).unwrap();
        let node = Node::start_in(home);
        let is_told = |line: &str| line.contains("1 messages") && line.contains("are lost");
        wait_until("the loss is told", || node.log().lines().any(is_told));
        assert!(!node.log().contains("incomplete write"), "{}", node.log());
        assert!(node.ctl(&["status"]).contains("Lost messages: 1\n"), "{}", node.ctl(&["status"]));
        assert_eq!(read_all(&node, "st"), N as usize - 1, "{durability}");
        assert_eq!(read_all(&node, "other"), N as usize);
    }
}

/// Where the chunks of a segment begin.
fn chunks(segment: &[u8]) -> Vec<usize> {
    let number = |at: usize| u32::from_be_bytes(segment[at..at + 4].try_into().unwrap()) as usize;
    let (mut at, mut chunks) = (32, Vec::new());
    while at < segment.len() {
        chunks.push(at);
        at += 48 + usize::from(segment[at + 44]) + number(at + 36) + number(at + 40);
    }
    chunks
}

/// Flips a bit of a chunk in the middle of a segment in the middle, so far behind its beginning.
fn flip_in_the_middle(data: &Path, behind: usize) {
    let path = data.join(segment(data, |n| n / 2));
    let mut bytes = std::fs::read(&path).unwrap();
    let chunks = chunks(&bytes);
    bytes[chunks[chunks.len() / 2] + behind] ^= 1;
    std::fs::write(path, bytes).unwrap();
}

/// Offsets of all chunks that a client of the stream protocol is given, each of one message.
fn offsets(node: &Node, stream: &str, upto: u64) -> Vec<u64> {
    let mut client = stream_client::Client::open(node.stream_address(), "/");
    client.subscribe(0, stream, OffsetSpec::First, 1_000);
    let mut offsets = Vec::new();
    while offsets.last() != Some(&upto) {
        let frame = client.try_frame().unwrap();
        let ToClient::Deliver(deliver) = ToClient::decode(&frame).unwrap() else { continue };
        let chunk = Chunk::decode_delivered(deliver.chunk.0).unwrap();
        chunk.verify_crc().unwrap();
        offsets.push(chunk.header.chunk_id);
    }
    offsets
}

#[test]
fn the_scrubber_tells_of_a_flipped_chunk_and_nobody_is_given_it() {
    let home = data(Node::end_well, &[]);
    let whole = home.path().join("data");
    for behind in [0, 40, 60] {
        let home = copy(&whole);
        flip_in_the_middle(&home.path().join("data"), behind);
        let node = Node::start_in_with(home, &["stream.scrub_interval=1"]);
        node.expect_logged(1, "1 messages from offset ");
        assert!(node.ctl(&["status"]).contains("Lost messages: 1\n"));
        let n = u64::from(N);
        assert_eq!(offsets(&node, "st", n - 1).len() as u64, n - 1, "{behind}");
        assert_eq!(read_all(&node, "st"), N as usize - 1);
        assert!(node.ctl_refused(&["scrub_stream", "st"]).contains(" 1 damaged"));
        node.expect_logged(1, "1 messages from offset ");
    }
}

/// Without a scrubber whoever verifies what it reads meets it first.
#[test]
fn a_consumer_that_meets_a_flipped_chunk_goes_on_behind_it() {
    let home = data(Node::end_well, &[]);
    let whole = home.path().join("data");
    for behind in [0, 60] {
        let home = copy(&whole);
        flip_in_the_middle(&home.path().join("data"), behind);
        let node = Node::start_in_with(home, &["stream.scrub_interval=0"]);
        for _ in 0..2 {
            assert_eq!(read_all(&node, "st"), N as usize - 1, "{behind}");
            node.expect_logged(1, "1 messages from offset ");
        }
        assert!(node.ctl(&["status"]).contains("Lost messages: 1\n"));
        let expected = u64::from(N) - 1;
        assert_eq!(offsets(&node, "st", expected).len() as u64, expected, "{behind}");
    }
}
