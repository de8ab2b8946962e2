//! kill -9 in the middle of traffic: what was confirmed is there.
//!
//! `DURABILITY_ROUNDS` asks for another number of rounds, `DURABILITY_MESSAGES` for another number of
//! confirmed messages in each, `DURABILITY_SETTINGS` for other `key=value` settings, with spaces
//! between, than [`SETTINGS`].

mod amqp10;
mod ledger;
mod load;
mod streams;

use super::support::node::Node;
use super::support::wait_until;
use amqp091::method::{BasicQos, ExchangeDeclare, QueueBind, QueueDeclare};
use amqp091::{Method, ShortString, Table, TableRef, Value};
use ledger::{COPIES, FANOUT, Ledger, N_QUEUES, queue_name};
use std::sync::Mutex;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use testing::Random;
use testing::client::Client;

/// Queues keep next to nothing in memory.
const SETTINGS: &str = "backlog_memory=0";
const N_PUBLISHERS: usize = 4;
const N_CONSUMERS: usize = 5;
/// Messages that a consumer of a quorum queue holds where it has no limit of its own.
const HELD_MAX: u32 = 2_000;

fn from_env<T: std::str::FromStr>(name: &str, otherwise: T) -> T {
    std::env::var(name).ok().and_then(|value| value.parse().ok()).unwrap_or(otherwise)
}

/// A node on which traffic and restarts take turns.
pub(super) struct Proof {
    pub(super) node: Node,
    ledger: Mutex<Ledger>,
    random: Random,
    n_publishers: AtomicU32,
    n_lost: usize,
    /// Publishers and consumers of AMQP 1.0 beside the others, as many of each.
    n_amqp10: usize,
    /// Policies change the form of queues all the time.
    flips_versions: bool,
    n_flips: usize,
    /// The most that was in files of pages when the node ended.
    most_paged_bytes: u64,
}

impl Proof {
    pub(super) fn start(start: fn(&[&str]) -> Node) -> Self {
        Self::start_with(start, false)
    }

    /// As [`Proof::start`], with quorum queues among the queues.
    fn start_with(start: fn(&[&str]) -> Node, any_quorum: bool) -> Self {
        let settings: String = from_env("DURABILITY_SETTINGS", SETTINGS.to_owned());
        let settings: Vec<&str> = settings.split_ascii_whitespace().collect();
        let node = start(&settings);
        let mut ledger = Ledger::default();
        ledger.any_quorum = any_quorum;
        declare_all(&node, &ledger);
        Self {
            node,
            ledger: Mutex::new(ledger),
            random: Random::by_chance(),
            n_publishers: AtomicU32::new(0),
            n_lost: 0,
            n_amqp10: 0,
            flips_versions: false,
            n_flips: 0,
            most_paged_bytes: 0,
        }
    }

    /// Traffic until enough is confirmed; then the node ends in the middle of it.
    pub(super) fn traffic(&mut self, end: impl FnOnce(&mut Node)) {
        let Self { node, ledger, random, n_publishers, flips_versions, n_flips, .. } = self;
        let ledger = &*ledger;
        let n_confirmed = || ledger.lock().unwrap().counts.confirmed;
        let most = from_env("DURABILITY_MESSAGES", 3000);
        let enough = n_confirmed() + 50 + random.below(most) as u64;
        let address = node.address();
        let mut connect = |n| -> Vec<(Client, Random)> {
            (0..n).map(|_| (Client::guest(address), random.fork())).collect()
        };
        let mut publishers = connect(N_PUBLISHERS);
        publishers.iter_mut().for_each(|(client, _)| client.select_confirms());
        let (consumers, meddlers) = (connect(N_CONSUMERS), connect(1));
        let consumers = consumers.into_iter().map(|(mut client, mut random)| {
            let queue = load::start_consuming(&mut client, &mut random);
            (client, random, queue)
        });
        let consumers: Vec<_> = consumers.collect();
        let peers = (0..self.n_amqp10).map(|_| {
            let queue = amqp10::some_queue(random);
            let connect = |queue| (amqp10::Client::connect(address, queue), random.fork());
            (queue, [None, Some(queue)].map(connect))
        });
        let peers: Vec<_> = peers.collect();
        // Each ends with an error, which is the end of its connection.
        std::thread::scope(|scope| {
            for (mut client, mut random) in publishers {
                let publisher = n_publishers.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move || load::publish(&mut client, ledger, &mut random, publisher));
            }
            for (mut client, mut random, queue) in consumers {
                scope.spawn(move || load::consume(&mut client, queue, ledger, &mut random));
            }
            for (queue, [(mut publisher, mut some), (mut consumer, mut other)]) in peers {
                let n = n_publishers.fetch_add(1, Ordering::Relaxed);
                scope.spawn(move || amqp10::publish(&mut publisher, ledger, &mut some, n));
                scope.spawn(move || amqp10::consume(&mut consumer, queue, ledger, &mut other));
            }
            for (mut client, mut random) in meddlers {
                scope.spawn(move || load::meddle(&mut client, ledger, &mut random));
            }
            wait_until("enough is confirmed", || {
                if *flips_versions {
                    flip_versions(node, random);
                    *n_flips += 1;
                }
                n_confirmed() >= enough
            });
            ledger.lock().unwrap().is_ending = true;
            end(node);
        });
        ledger.lock().unwrap().is_ending = false;
        self.most_paged_bytes = self.most_paged_bytes.max(self.node.bytes_in("pages"));
    }

    /// Reads all queues back: takes everything, or gives it back, which makes them deep.
    pub(super) fn check(&mut self) {
        let is_kept = self.random.below(3) > 0;
        let mut client = Client::guest(self.node.address());
        let mut ledger = self.ledger.lock().unwrap();
        for queue in 0..N_QUEUES {
            let name = queue_name(queue);
            // Passive would do; this one fails when the queue is another one now.
            let n_ready = declare_queue(&mut client, &name, ledger.is_quorum(queue));
            // A consumer of a quorum queue holds so many at most.
            let is_kept = is_kept && (n_ready <= HELD_MAX || !ledger.is_quorum(queue));
            client.consume(&name, !is_kept);
            let mut read = ledger.read_back(queue);
            for _ in 0..n_ready {
                read.found(&load::delivery(queue, &client.message().unwrap()));
            }
            assert_eq!(client.get(&name), None, "more than {n_ready} messages in {name}");
            self.n_lost += read.end(is_kept);
        }
        client.close();
        assert_eq!(self.n_lost, 0, "confirmed messages are lost");
    }

    fn rounds(&mut self, n: usize, end: fn(&mut Node)) {
        let mut slowest_start = Duration::ZERO;
        for _ in 0..n {
            self.traffic(end);
            let started = Instant::now();
            self.node.start_again();
            slowest_start = slowest_start.max(started.elapsed());
            self.check();
        }
        let counts = &self.ledger.lock().unwrap().counts;
        let Self { n_lost, n_flips, most_paged_bytes, .. } = self;
        eprintln!("{n} rounds, {n_lost} lost, slowest start {slowest_start:?}, {counts:?}");
        eprintln!("{n_flips} changes of policies about versions");
        eprintln!("up to {most_paged_bytes} bytes in pages on disk");
        let is_paged = *most_paged_bytes > 0 || std::env::var_os("DURABILITY_SETTINGS").is_some();
        assert!(is_paged, "no backlog was written to pages");
    }
}

/// Asks for another form of some queues, or the one they have: their conversion may be under way when
/// this returns.
fn flip_versions(node: &Node, random: &mut Random) {
    let pattern = ["^durable-", "^durable-1", "^durable-[02468]$"][random.below(3)];
    let definition = format!("{{\"queue-version\":{}}}", 1 + random.below(2));
    node.ctl(&["set_policy", "form", pattern, &definition, "--apply-to", "queues"]);
}

/// Declares a queue. How many messages are ready there.
fn declare_queue(client: &mut Client, queue: &str, is_quorum: bool) -> u32 {
    if !is_quorum {
        return client.declare(queue);
    }
    let kind = (ShortString::from_static("x-queue-type"), Value::from("quorum"));
    let arguments = Table::from_iter([kind]).to_bytes();
    let (queue, arguments) = (queue.as_bytes(), TableRef::trusted(&arguments));
    let declare = QueueDeclare { queue, durable: true, arguments, ..QueueDeclare::default() };
    client.say(1, declare);
    let answer = client.next();
    let Method::QueueDeclareOk(declared) = answer.method() else { panic!("{}", answer.show()) };
    declared.message_count
}

/// All queues are there, before and after.
fn declare_all(node: &Node, ledger: &Ledger) {
    let mut client = Client::guest(node.address());
    let (exchange, kind) = (FANOUT.as_bytes(), b"fanout".as_slice());
    let declare = ExchangeDeclare { exchange, kind, durable: true, ..ExchangeDeclare::default() };
    assert_eq!(client.ask(1, declare), "exchange.declare-ok");
    for queue in 0..N_QUEUES {
        declare_queue(&mut client, &queue_name(queue), ledger.is_quorum(queue));
    }
    for queue in COPIES {
        let queue = queue_name(queue);
        let bind = QueueBind { queue: queue.as_bytes(), exchange, ..QueueBind::default() };
        assert_eq!(client.ask(1, bind), "queue.bind-ok");
    }
    client.close();
}

#[test]
fn what_was_confirmed_survives_kill_9() {
    let mut proof = Proof::start(Node::start);
    proof.rounds(from_env("DURABILITY_ROUNDS", 5), Node::kill);
    proof.node.stop();
}

#[test]
fn what_was_confirmed_survives_kill_9_in_quorum_queues_and_beside_them() {
    let mut proof = Proof::start_with(Node::start, true);
    proof.rounds(from_env("DURABILITY_ROUNDS", 4), Node::kill);
    proof.node.stop();
}

#[test]
fn what_was_accepted_over_amqp_10_survives_kill_9() {
    let mut proof = Proof::start_with(Node::start, true);
    proof.n_amqp10 = 3;
    proof.rounds(from_env("DURABILITY_ROUNDS", 5), Node::kill);
    proof.node.stop();
}

#[test]
fn what_was_confirmed_survives_kill_9_while_queues_are_converted() {
    let mut proof = Proof::start(Node::start);
    proof.flips_versions = true;
    proof.rounds(from_env("DURABILITY_ROUNDS", 4), Node::kill);
    assert!(proof.n_flips > 0);
    proof.node.stop();
}

/// Ready messages, unacknowledged ones and bytes of all of them.
fn counts(node: &Node) -> String {
    node.ctl(&["list_queues", "messages_ready", "messages_unacknowledged", "message_bytes", "-q"])
}

#[test]
fn a_conversion_leaves_counts_as_they_are() {
    const N_MESSAGES: u16 = 1_000;
    let mut node = Node::start(&["backlog_memory=0"]);
    let mut client = Client::guest(node.address());
    client.declare("counted");
    client.select_confirms();
    for number in 0..N_MESSAGES {
        client.put_content("", "counted", 2, &vec![b'x'; number.into()]);
    }
    client.wait_for_confirms();
    let mut holder = Client::guest(node.address());
    let qos = BasicQos { prefetch_count: 10, ..BasicQos::default() };
    assert_eq!(holder.ask(1, qos), "basic.qos-ok");
    holder.consume("counted", false);
    for _ in 0..10 {
        holder.message().unwrap();
    }
    let before = counts(&node);
    assert!(before.contains("990\t10"), "{before}");
    for version in [1, 2, 1] {
        let definition = format!("{{\"queue-version\":{version}}}");
        node.ctl(&["set_policy", "form", "counted", &definition, "--apply-to", "queues"]);
        let is_converted = || {
            let shown = node.ctl(&[
                "list_queues",
                "storage_version",
                "conversion",
                "-q",
                "--no-table-headers",
            ]);
            shown.split_ascii_whitespace().eq([version.to_string().as_str()])
        };
        wait_until("the queue is converted", is_converted);
        assert_eq!(counts(&node), before);
    }
    holder.close();
    client.close();
    for _ in 0..2 {
        node.kill_and_start();
        assert_eq!(Client::guest(node.address()).declare("counted"), u32::from(N_MESSAGES));
    }
    node.stop();
}

#[test]
fn what_was_confirmed_survives_a_stop_in_the_middle() {
    let mut proof = Proof::start(Node::start);
    proof.rounds(2, Node::end_well);
    proof.node.stop();
}

#[test]
fn definitions_survive_and_a_second_start_is_quick() {
    use amqp091::method::{ExchangeBind, ExchangeDeclare, QueueBind, QueueDeclare};
    let mut node = Node::start(&[]);
    let mut client = Client::guest(node.address());
    for (exchange, kind) in [(b"ex-1", b"topic".as_slice()), (b"ex-2", b"fanout")] {
        let declare =
            ExchangeDeclare { exchange, kind, durable: true, ..ExchangeDeclare::default() };
        assert_eq!(client.ask(1, declare), "exchange.declare-ok");
    }
    let bind = ExchangeBind {
        source: b"ex-1",
        destination: b"ex-2",
        routing_key: b"a.#",
        ..ExchangeBind::default()
    };
    assert_eq!(client.ask(1, bind), "exchange.bind-ok");
    for number in 0..1000 {
        client.declare(&format!("q-{number}"));
    }
    let bind = QueueBind { queue: b"q-7", exchange: b"ex-2", ..QueueBind::default() };
    assert_eq!(client.ask(1, bind), "queue.bind-ok");
    let transient =
        QueueDeclare { queue: b"transient", exclusive: true, ..QueueDeclare::default() };
    assert_eq!(client.ask(1, transient), "queue.declare-ok");

    let started = Instant::now();
    node.kill_and_start();
    // A machine that is busy with other tests included.
    assert!(started.elapsed().as_secs() < 5, "{:?}", started.elapsed());
    let listed = node.ctl(&["list_queues", "name", "-q"]);
    assert_eq!(listed.lines().filter(|line| line.starts_with("q-")).count(), 1000);
    assert!(!listed.contains("transient"), "{listed}");
    let mut client = Client::guest(node.address());
    client.put_content("ex-1", "a.b", 2, b"through both");
    assert_eq!(client.get("q-7").unwrap().body, b"through both");
    assert_eq!(client.get("q-8"), None);
    node.stop();
}
