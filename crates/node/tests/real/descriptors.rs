//! A node that runs out of file descriptors.

use super::support::bystander::Bystander;
use super::support::client::{Client, Login};
use super::support::node::Node;
use super::support::wait_until;
use rustix::process::{Resource, getrlimit};

/// Five segments of the log and more, each of which needs a descriptor.
const N_PUBLISHES: usize = 4_500;
const PUBLISHES_AT_A_TIME: usize = 100;

fn publish_segments(client: &mut Client) {
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
    let bystander = Bystander::watch(node.address());
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

#[test]
fn the_soft_limit_on_descriptors_is_raised_to_the_hard_one() {
    let node = Node::start_with_ulimit("-Sn 256", &[]);
    let hard = getrlimit(Resource::Nofile).maximum.unwrap();
    assert!(hard > 256, "this machine allows {hard} descriptors only");
    let status = node.ctl(&["status"]);
    assert!(status.contains(&format!(", limit: {hard}\n")), "{status}");
    node.stop();
}
