//! Connections opened and dropped, over and over.

use super::support::bystander::Bystander;
use super::support::node::Node;
use super::support::stopwatch::Stopwatch;
use super::support::wait_until;
use std::time::Duration;
use testing::client::{Client, HEADER, Login};

/// Connections at a time.
const N_AT_A_TIME: usize = 200;

/// `LEVERET_CONNECTIONS` asks for another number.
fn n_connections() -> usize {
    std::env::var("LEVERET_CONNECTIONS").map_or(20_000, |n| n.parse().unwrap())
}

#[test]
fn connections_that_come_and_go_leave_nothing_behind() {
    // Not less than this is noise: buffers of threads, and what the allocator keeps.
    const RSS_SPREAD: u64 = 16 << 20;
    let node = Node::start(&[]);
    let come_and_go = |n: usize| {
        for round in 0..n / N_AT_A_TIME {
            let clients: Vec<Client> = (0..N_AT_A_TIME)
                .map(|index| match (round + index) % 40 {
                    0 => Client::guest(node.address()),
                    1 => Client::introduced(node.address(), Login::default()),
                    2..10 => {
                        let mut client = Client::raw(node.address());
                        client.write(HEADER);
                        client
                    }
                    _ => Client::raw(node.address()),
                })
                .collect();
            drop(clients);
        }
    };
    let n_descriptors = node.n_descriptors();
    come_and_go(1000);
    let settled = || node.n_descriptors() <= n_descriptors;
    wait_until("the first thousand sockets are closed", settled);
    let rss = node.rss();
    let bystander = Bystander::watch(&node);
    come_and_go(n_connections());
    bystander.expect_no_wait("connections that come and go");
    wait_until("the sockets are closed", settled);
    wait_until("memory is given back", || node.rss() < rss + RSS_SPREAD);
    node.stop();
}

/// Worst times to connect and to log in, one connection after the other.
#[test]
fn a_burst_of_connections_has_none_sent_twice() {
    /// The system sends the first packet of a connection again after this long.
    const RETRANSMITTED: Duration = Duration::from_secs(1);
    const N_RAW: usize = 2_000;
    const N_LOGINS: usize = 5_000;
    let node = Node::start(&[]);
    let (address, watch) = (node.address(), Stopwatch::of(&node));
    let worst_of = |n: usize, connect: &mut dyn FnMut() -> Client| {
        let mut worst = Duration::ZERO;
        let mut clients = Vec::new();
        for _ in 0..n {
            watch.longest(&mut worst, || clients.push(connect()));
            // Not more than the test's own limit on descriptors allows.
            clients.truncate(N_RAW);
        }
        worst
    };
    let raw = worst_of(N_RAW, &mut || Client::raw(address));
    // Who comes right behind a burst waits until it is accepted, and is not measured.
    Client::guest(address).close();
    let login = worst_of(N_LOGINS, &mut || Client::login(address, Login::default()));
    eprintln!("worst of {N_RAW} connects in a row {raw:?}, of {N_LOGINS} with logins {login:?}");
    assert!(raw.max(login) < RETRANSMITTED, "{raw:?} {login:?}");
    node.stop();
}
