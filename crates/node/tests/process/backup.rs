//! A backup of a running node as docs/operations.md describes it: the node stands still while its files are
//! copied.

use super::support::bystander::Bystander;
use super::support::copy_dir;
use super::support::node::Node;
use super::support::wait_until;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use testing::client::Client;

const BODY_BYTES: [usize; 3] = [12, 900, 20_000];
const QUEUE: &str = "backed-up";

/// Publishes without end, and counts what is confirmed: message after message, so that the count says which.
fn publish_until(stop: &AtomicBool, n_confirmed: &AtomicUsize, address: std::net::SocketAddr) {
    let mut client = Client::guest(address);
    client.declare(QUEUE);
    client.select_confirms();
    for number in 0.. {
        if stop.load(Ordering::Relaxed) {
            break;
        }
        let mut body = format!("{number} ").into_bytes();
        body.resize(BODY_BYTES[number % BODY_BYTES.len()].max(body.len()), b'x');
        client.put_publish(QUEUE, true, &body);
        client.wait_for_confirms();
        n_confirmed.store(number + 1, Ordering::Release);
    }
    client.close();
}

#[test]
fn a_copy_of_a_node_that_stands_still_has_all_it_had_confirmed() {
    let node = Node::start(&[]);
    let (stop, n_confirmed) = (Arc::new(AtomicBool::new(false)), Arc::new(AtomicUsize::new(0)));
    let publisher = std::thread::spawn({
        let (stop, n_confirmed, address) = (stop.clone(), n_confirmed.clone(), node.address());
        move || publish_until(&stop, &n_confirmed, address)
    });
    wait_until("messages are confirmed", || n_confirmed.load(Ordering::Acquire) >= 300);
    let bystander = Bystander::watch(&node);
    let copy = tempfile::tempdir().unwrap();
    node.stand_still();
    let n_before = n_confirmed.load(Ordering::Acquire);
    copy_dir(&node.data_dir(), &copy.path().join("data"));
    node.go_on();
    bystander.expect_no_wait("a backup");
    stop.store(true, Ordering::Relaxed);
    publisher.join().unwrap();
    node.stop();

    let restored = Node::start_in(copy);
    let mut client = Client::guest(restored.address());
    let n_restored = usize::try_from(client.declare(QUEUE)).unwrap();
    assert!(n_restored >= n_before, "{n_restored} of {n_before} confirmed are in the backup");
    for number in 0..n_restored {
        let message = client.get(QUEUE).unwrap();
        let expected = format!("{number} ");
        assert!(message.body.starts_with(expected.as_bytes()), "message {number} is another one");
    }
    eprintln!("{n_before} confirmed before the copy, {n_restored} in it");
    client.close();
    restored.stop();
}
