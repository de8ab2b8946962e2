//! A node that runs out of file descriptors.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::stopwatch::Stopwatch;
use super::support::wait_until;
use rustix::process::{Resource, getrlimit};
use std::io::ErrorKind;
use std::time::Duration;
use testing::client::{Client, Login};

/// Five segments of the log and more, each of which needs a descriptor.
const N_PUBLISHES: usize = 4_500;
const PUBLISHES_AT_A_TIME: usize = 100;

pub(super) fn publish_segments(client: &mut Client) {
    let body = vec![b'x'; 20_000];
    client.declare("q");
    client.select_confirms();
    for _ in 0..N_PUBLISHES / PUBLISHES_AT_A_TIME {
        for _ in 0..PUBLISHES_AT_A_TIME {
            client.put_publish("q", true, &body);
        }
        client.wait_for_confirms();
    }
}

#[test]
fn sockets_of_strangers_take_no_descriptors_from_storage_nor_from_clients() {
    const N_SOCKETS: usize = 1_020;
    let node = Node::start_with_ulimit("-n 1024", &[]);
    let mut publisher = Client::guest(node.address());
    let bystander = Bystander::watch(&node);
    let idle: Vec<Client> = (0..N_SOCKETS).map(|_| Client::raw(node.address())).collect();
    publish_segments(&mut publisher);
    bystander.expect_no_wait("1,020 idle sockets under a limit of 1,024 descriptors");
    assert!(node.n_descriptors() < 1024 - 128, "the reserve is free");
    drop(idle);
    publisher.close();
    node.stop();
}

#[test]
fn connections_beyond_the_descriptors_there_are_for_them_are_refused_until_some_are_free() {
    let node = Node::start_with_ulimit("-n 256", &[]);
    let mut publisher = Client::guest(node.address());
    let mut open = Vec::new();
    let is_alarm_on = || node.ctl(&["-q", "alarms"]).contains("File descriptor limit alarm on");
    assert!(!is_alarm_on());
    // An eighth, but not less than 64, is kept for storage.
    wait_until("the alarm is on", || {
        if node.next_descriptor() < 192 {
            open.push(Client::guest(node.address()));
        }
        node.log().contains("file descriptor limit alarm set")
    });
    for _ in 0..300 {
        assert_eq!(Client::raw(node.address()).rest(), b"");
    }
    node.expect_logged(1, "[warning] file descriptor limit alarm set");
    assert!(is_alarm_on());
    let status = node.ctl(&["status"]);
    assert!(status.contains("File Descriptors\n\nTotal: 19"), "{status}");
    assert!(status.contains(", limit: 256\n"), "{status}");
    publish_segments(&mut publisher);
    drop(open);
    node.expect_logged(1, "[warning] file descriptor limit alarm cleared");
    assert!(!is_alarm_on());
    Client::login(node.address(), Login::default()).close();
    node.stop();
}

/// Publishes, and waits for all confirms, also while publishers have to wait.
fn publish_patiently(mut client: Client, n_batches: usize, n_each: usize) {
    for _ in 0..n_batches {
        for _ in 0..n_each {
            client.put_publish("q", true, &[b'x'; 20_000]);
        }
        client.flush();
        while !client.unconfirmed.is_empty() {
            if let Err(error) = client.try_confirmed() {
                assert_eq!(error.kind(), ErrorKind::ResourceBusy, "{error}");
            }
        }
    }
}

/// The worst wait of a client that only consumes, while nobody can publish or log in.
fn consume_all(watch: &Stopwatch, client: &mut Client, n_messages: usize) -> Duration {
    let rounds = (0..n_messages).map(|_| {
        watch.time(|| {
            assert!(client.get("there").is_some());
            client.declare("there");
        })
    });
    rounds.max().unwrap()
}

#[test]
fn without_any_descriptor_publishers_wait_and_nothing_confirmed_is_lost() {
    const N_BATCHES: usize = 80;
    const N_EACH: usize = 20;
    const N_THERE: usize = 50;
    let mut node = Node::start(&[]);
    let mut publisher = Client::guest(node.address());
    let mut other = Client::guest(node.address());
    let mut consumer = Client::guest(node.address());
    other.declare("there");
    other.select_confirms();
    (0..N_THERE).for_each(|_| other.put_publish("there", true, b"there"));
    other.wait_for_confirms();
    publisher.declare("q");
    publisher.select_confirms();
    // Those that are kept for storage as well.
    node.limit_descriptors(Some(0));
    let publishing = std::thread::spawn(move || publish_patiently(publisher, N_BATCHES, N_EACH));
    wait_until("a file cannot be opened", || {
        node.log().contains(", publishers are blocked until it opens: Too many open files")
    });
    assert!(!node.log().contains("[error]  cannot"), "it is named");
    let worst = consume_all(&Stopwatch::of(&node), &mut consumer, N_THERE);
    eprintln!("without any descriptor a consumer waited for {worst:?}");
    assert!(worst < Duration::from_secs(2), "{worst:?}");
    other.put_publish("there", true, b"waits");
    other.flush();
    assert_eq!(other.next().show(), "connection.blocked low on file descriptors");
    assert!(!publishing.is_finished());
    node.limit_descriptors(None);
    assert_eq!(other.next().show(), "connection.unblocked");
    other.wait_for_confirms();
    let bystander = Bystander::watch(&node);
    publishing.join().unwrap();
    bystander.expect_no_wait("a publisher that had to wait for descriptors");
    node.expect_logged(1, "files can be opened again, after ");
    node.put_down();
    node.start_again();
    let mut client = Client::guest(node.address());
    assert_eq!(client.declare("q") as usize, N_BATCHES * N_EACH);
    assert_eq!(client.declare("there"), 1);
    client.close();
    node.put_down();
}

#[test]
fn the_soft_limit_on_descriptors_is_raised_to_the_hard_one() {
    let node = Node::start_with_ulimit("-Sn 256", &[]);
    let hard = getrlimit(Resource::Nofile).maximum.unwrap();
    assert!(hard > 256, "this machine allows {hard} descriptors only");
    let status = node.ctl(&["status"]);
    assert!(status.contains(&format!(", limit: {hard}\n")), "{status}");
    node.stop();
}
