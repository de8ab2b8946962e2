//! Sharded exchanges, as clients and operators see them.

use crate::client::{
    Client, Kind, block_on, clear_policy, set_policy, short, start, start_limited,
};
use broker::{Broker, Limits, StorageOptions};
use meta::{Command, Name, PolicyScope, VhostLimits};
use session::{Flag, Op, Outcome, QueueBinding, Table};
use std::sync::Arc;
use testing::{CrashOutcome, MemoryDisk};

const USER: PolicyScope = PolicyScope::User;

fn node(disk: &Arc<MemoryDisk>) -> Arc<Broker> {
    let limits = Limits { node: "leveret@test".to_owned(), ..Limits::default() };
    start_limited(disk.clone(), &StorageOptions::default(), limits)
}

/// A node with the exchange `x`, which is sharded.
fn sharded(n_shards: u32) -> (Arc<MemoryDisk>, Arc<Broker>, Client) {
    let disk = Arc::new(MemoryDisk::new());
    let broker = node(&disk);
    let mut client = Client::connect(&broker);
    assert_eq!(client.declare_exchange("x", "x-modulus-hash", &[]), ["done"]);
    shard(&broker, n_shards);
    (disk, broker, client)
}

fn shard(broker: &Broker, n_shards: u32) {
    set_policy(broker, USER, "^x$", &format!("{{\"shards-per-node\":{n_shards}}}"));
}

fn name(index: u32) -> String {
    format!("sharding: x - leveret@test - {index}")
}

fn n_consumers(broker: &Broker, n_shards: u32) -> Vec<u64> {
    let stat = |index| broker.view().queue("/", &name(index)).unwrap().local_stat();
    (0..n_shards).map(|index| stat(index).n_consumers).collect()
}

fn n_shards(broker: &Broker) -> usize {
    meta::shards(broker.view().meta.vhost("/").unwrap(), "x").count()
}

fn failed(heard: &[String]) -> &str {
    heard[0].strip_prefix("channel failed PreconditionFailed: ").unwrap()
}

/// Messages are spread over the shards, consumers of the exchange's name as well, and nothing is left.
#[test]
fn consumers_of_the_exchanges_name_share_its_shards() {
    let (_disk, broker, mut client) = sharded(3);
    for expected in [[1, 0, 0], [1, 1, 0], [1, 1, 1], [2, 1, 1]] {
        assert_eq!(client.consume("x", false), ["consuming"]);
        assert_eq!(n_consumers(&broker, 3), expected);
    }
    let mut publisher = Client::connect(&broker);
    for n in 0..60 {
        publisher.publish_to("x", &format!("key {n}"), &[&n.to_string()], Kind::Persistent);
    }
    let mut heard = client.wait_for(Vec::new(), 60);
    heard.sort();
    heard.dedup();
    assert_eq!(heard.len(), 60);
    client.settle(60, Outcome::Accepted);
    for index in 0..3 {
        let stat = broker.view().queue("/", &name(index)).unwrap().local_stat();
        assert_eq!((stat.n_ready, stat.n_unacked), (0, 0));
    }
    // A consumer that goes makes room.
    let tagged = |queue: &str, client: &mut Client| client.consume_with(queue, "tag", false, &[]);
    tagged(&name(2), &mut publisher);
    assert_eq!(n_consumers(&broker, 3), [2, 1, 2]);
    client.disconnect();
    assert_eq!(n_consumers(&broker, 3), [0, 0, 1]);
    publisher.consume("x", true);
    assert_eq!(n_consumers(&broker, 3), [1, 0, 1]);
}

/// Also when they come on many connections at once.
#[test]
fn consumers_that_come_at_once_are_spread() {
    let (_disk, broker, _client) = sharded(4);
    let barrier = Arc::new(std::sync::Barrier::new(8));
    let consuming = (0..8).map(|_| {
        let (broker, barrier) = (Arc::clone(&broker), Arc::clone(&barrier));
        std::thread::spawn(move || {
            let mut client = Client::connect(&broker);
            barrier.wait();
            (0..4).for_each(|_| assert_eq!(client.consume("x", false), ["consuming"]));
            barrier.wait();
            let spread = n_consumers(&broker, 4);
            barrier.wait();
            spread
        })
    });
    let consuming: Vec<_> = consuming.collect();
    for thread in consuming {
        assert_eq!(thread.join().unwrap(), [8, 8, 8, 8]);
    }
}

/// Requests that make no sense for several queues are refused, whether or not a queue has that name too.
#[test]
fn the_exchanges_name_stands_for_its_shards() {
    let (_disk, broker, mut client) = sharded(2);
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    let binding = || QueueBinding {
        queue: short("x"),
        exchange: short("amq.direct"),
        routing_key: short("k"),
        arguments: Table::default(),
    };
    for (op, text) in [
        (Op::DeleteQueue { queue: short("x"), if_unused, if_empty }, "delete"),
        (Op::PurgeQueue { queue: short("x") }, "purge"),
        (Op::BindQueue(binding()), "bind"),
        (Op::UnbindQueue(binding()), "unbind"),
    ] {
        let mut client = Client::connect(&broker);
        let expected = format!("Can't {text} sharded queue: <<\"x\">>");
        assert_eq!(failed(&client.ask(op)), expected);
    }
    // Declaring it declares the first shard.
    assert_eq!(client.look_up("x"), ["declared 0 0"]);
    assert_eq!(client.declare("x", true), ["declared 0 0"]);
    client.publish(&name(0), &["first"], Kind::Transient);
    client.publish(&name(1), &["second"], Kind::Transient);
    assert_eq!(client.look_up("x"), ["declared 1 0"]);
    let transient = Client::connect(&broker).declare("x", false);
    assert!(failed(&transient).contains(&format!("'durable' for queue '{}'", name(0))));
    assert!(broker.view().queue("/", "x").is_none());
    // `get` takes from the one with the fewest consumers.
    assert_eq!(client.get("x"), ["got first left 0"]);
    assert_eq!(client.get("x"), ["get empty"]);
    let mut other = Client::connect(&broker);
    other.consume(&name(0), false);
    assert_eq!(client.get("x"), ["got second left 0"]);
}

/// A queue of the same name is out of reach while the exchange is sharded.
#[test]
fn a_queue_of_the_same_name_is_hidden() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = node(&disk);
    let mut client = Client::connect(&broker);
    client.declare("x", true);
    client.publish("x", &["hidden"], Kind::Persistent);
    client.declare_exchange("x", "fanout", &[]);
    shard(&broker, 1);
    assert_eq!(client.get("x"), ["get empty"]);
    clear_policy(&broker, USER);
    assert_eq!(client.get("x"), ["got hidden left 0"]);
    assert_eq!(n_shards(&broker), 1, "they stay");
}

#[test]
fn without_shards_nobody_can_consume() {
    let (_disk, broker, mut client) = sharded(0);
    let expected = "Error finding sharded queue for: <<\"x\">>";
    assert_eq!(failed(&client.consume("x", false)), expected);
    let mut client = Client::connect(&broker);
    assert_eq!(failed(&client.get("x")), expected);
    // COMPAT: the first shard is declared all the same; it is no shard yet.
    let mut client = Client::connect(&broker);
    assert_eq!(client.declare("x", true), ["declared 0 0"]);
    assert_eq!(n_shards(&broker), 1);
    assert_eq!(failed(&client.consume("x", false)), expected);
}

/// Those that a policy asks for no more keep their messages and their bindings, and nobody is given them.
#[test]
fn fewer_shards_leave_the_others_as_they_are() {
    let (_disk, broker, mut client) = sharded(3);
    shard(&broker, 1);
    assert_eq!(n_shards(&broker), 3);
    for _ in 0..2 {
        client.consume("x", false);
    }
    assert_eq!(n_consumers(&broker, 3), [2, 0, 0]);
    let bindings = || broker.view().meta.routes("/").unwrap().n_bindings_from("x");
    assert_eq!(bindings(), 3);
    shard(&broker, 3);
    client.consume("x", false);
    assert_eq!(n_consumers(&broker, 3), [2, 1, 0]);
    let (exchange, if_unused) = (short("x"), Flag::No.is_set());
    assert_eq!(client.ask(Op::DeleteExchange { exchange, if_unused }), ["done"]);
    assert_eq!(n_consumers(&broker, 3), [2, 1, 0], "consumers stay with their shards");
    let missing = client.consume("x", false);
    assert_eq!(missing, ["channel failed NotFound: no queue 'x' in vhost '/'"]);
    // The exchange comes again, and finds its shards.
    let mut client = Client::connect(&broker);
    client.declare_exchange("x", "x-modulus-hash", &[]);
    assert_eq!((bindings(), n_shards(&broker)), (3, 3));
}

/// Permissions are asked for the shard, as the plugin has it.
#[test]
fn a_consumer_needs_the_right_to_read_the_shard() {
    let (_disk, broker, _client) = sharded(1);
    let allowed = |read: &str| {
        let (user, vhost) = (Name::from("guest"), Name::from("/"));
        let none = String::new();
        let (configure, write, read) = (none.clone(), none, read.to_owned());
        let command = Command::SetPermissions { user, vhost, configure, write, read };
        block_on(broker.apply_definition(command)).unwrap();
        Client::connect(&broker).consume("x", false)
    };
    let refused = allowed("^x$");
    let expected = format!("read access to queue '{}' in vhost '/' refused", name(0));
    assert!(refused[0].contains(&expected), "{refused:?}");
    assert_eq!(allowed("^sharding: x - "), ["consuming"]);
}

/// A limit of queues leaves out what is too much; the rest works, and a start makes what was left out.
#[test]
fn a_limit_leaves_shards_out() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = node(&disk);
    let limit = |max_queues, broker: &Broker| {
        let limits = VhostLimits { max_queues, ..VhostLimits::default() };
        let command = Command::SetVhostLimits { vhost: "/".into(), limits };
        block_on(broker.apply_definition(command)).unwrap();
    };
    limit(Some(3), &broker);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    client.declare_exchange("x", "x-modulus-hash", &[]);
    shard(&broker, 4);
    assert_eq!(n_shards(&broker), 2);
    (0..2).for_each(|_| drop(client.consume("x", false)));
    assert_eq!(n_consumers(&broker, 2), [1, 1]);
    limit(None, &broker);
    drop(client);
    drop(broker);
    let broker = node(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
    assert_eq!(n_shards(&broker), 4);
}

/// The policy and the shards that it asks for are one entry of the log: a crash leaves both or none. Shards
/// are there again after it, with their messages.
#[test]
fn shards_survive_a_crash_with_their_policy() {
    let (disk, broker, mut client) = sharded(2);
    for n in 0..20 {
        client.publish_to("x", &format!("key {n}"), &["kept"], Kind::Persistent);
    }
    let ready = |broker: &Broker| {
        let stat = |index| broker.view().queue("/", &name(index)).unwrap().local_stat().n_ready;
        [stat(0), stat(1)]
    };
    let before = ready(&broker);
    assert!(before.iter().all(|n| *n > 0) && before.iter().sum::<u64>() == 20, "{before:?}");
    set_policy(&broker, USER, "^x$", r#"{"shards-per-node":3,"routing-key":"k"}"#);
    let routes = |broker: &Broker| {
        let view = broker.view();
        let bindings = view.meta.routes("/").unwrap();
        bindings.bindings_from("x").map(|it| it.key.to_text().into_owned()).collect::<Vec<_>>()
    };
    assert_eq!(routes(&broker), ["k", "k", "k"]);
    drop(client);
    drop(broker);
    let broker = node(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
    assert_eq!((routes(&broker).len(), n_shards(&broker)), (3, 3));
    assert_eq!(ready(&broker), before);
}

/// A shard that somebody has deleted is made again by a start. One of a node of another name counts.
#[test]
fn a_start_makes_what_is_missing() {
    let (disk, broker, mut client) = sharded(2);
    let (if_unused, if_empty) = (Flag::No, Flag::No);
    client.ask(Op::DeleteQueue { queue: short(&name(0)), if_unused, if_empty });
    assert_eq!(client.consume("x", false), ["consuming"]);
    assert_eq!(n_shards(&broker), 1);
    drop(client);
    drop(broker);
    let broker = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
    let view = broker.view();
    let shards: Vec<_> = meta::shards(view.meta.vhost("/").unwrap(), "x")
        .map(|(n, queue)| (n, &*queue.name))
        .collect();
    assert_eq!(shards, [(0, "sharding: x -  - 0"), (1, &*name(1))]);
}

/// More exchanges than one step changes: all of them follow before the policy is answered.
#[test]
fn a_policy_for_many_exchanges_goes_in_slices() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = node(&disk);
    let mut client = Client::connect(&broker);
    for n in 0..300 {
        client.declare_exchange(&format!("many {n}"), "fanout", &[]);
    }
    let count = |broker: &Broker| {
        let view = broker.view();
        let vhost = view.meta.vhost("/").unwrap();
        let bindings: usize =
            (0..300).map(|n| vhost.routes.n_bindings_from(&format!("many {n}"))).sum();
        (vhost.queues().count(), bindings)
    };
    set_policy(&broker, USER, "^many", r#"{"shards-per-node":4}"#);
    assert_eq!(count(&broker), (1_200, 1_200));
    drop(client);
    drop(broker);
    let broker = node(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
    assert_eq!(count(&broker), (1_200, 1_200));
    set_policy(&broker, USER, "^many", r#"{"shards-per-node":4,"routing-key":"k"}"#);
    assert_eq!(count(&broker), (1_200, 1_200));
    clear_policy(&broker, USER);
    assert_eq!(count(&broker), (1_200, 0));
}
