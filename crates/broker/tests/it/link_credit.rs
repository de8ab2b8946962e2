//! Consumers whose clients give credit: by example, and against a naive model.

use crate::client::{Client, Kind, short, start, start_with, text, wait_until};
use broker::{PagerOptions, StorageOptions};
use proptest::prelude::*;
use session::{ConsumerCredit, LinkId, LinkOp, Op, Outcome, Value};
use std::collections::BTreeMap;
use std::sync::Arc;
use testing::MemoryDisk;

#[test]
fn credit_is_used_up_by_deliveries_and_not_given_back_by_settling() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    let link = client.consume_by_credit("q", "c", false);
    assert_eq!(client.publish("q", &["a", "b", "c", "d"], Kind::Transient), [""; 0]);
    assert_eq!(client.flow(link, 0, 2, ""), ["deliver a", "deliver b"]);
    assert_eq!(client.settle(2, Outcome::Accepted), [""; 0]);
    assert_eq!(client.flow(link, 1, 1, "echo"), ["credit 2+0 of 2"], "one is on its way");
    assert_eq!(client.flow(link, 2, 1, "echo"), ["deliver c", "credit 3+0 of 1"]);
    assert_eq!(client.flow(link, 3, 5, "drain"), ["deliver d", "credit 8+0 of 0 drained"]);
    assert_eq!(client.publish("q", &["e"], Kind::Transient), [""; 0]);
    assert_eq!(client.flow(link, 8, 1, ""), ["deliver e"]);
}

#[test]
fn a_consumer_that_settles_nothing_gets_no_more_than_its_credit_however_many_come() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    let link = client.consume_by_credit("q", "c", true);
    let bodies: Vec<String> = (0..200).map(|n| n.to_string()).collect();
    let bodies: Vec<&str> = bodies.iter().map(String::as_str).collect();
    let mut seen = 0;
    for kind in [Kind::Transient, Kind::Persistent] {
        assert_eq!(client.flow(link, seen, 3, ""), [""; 0]);
        assert_eq!(client.publish("q", &bodies, kind), ["deliver 0", "deliver 1", "deliver 2"]);
        let heard = client.flow(link, seen + 3, 1_000, "drain");
        assert_eq!((heard.len(), &*heard[0], &*heard[196]), (198, "deliver 3", "deliver 199"));
        seen += 1_003;
        assert_eq!(heard[197], format!("credit {seen}+0 of 0 drained"));
    }
    assert_eq!(client.ask_ready("q"), 0);
}

#[test]
fn a_link_that_ends_has_failed_to_settle_in_a_classic_queue_and_not_in_a_quorum_queue() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = Client::connect(&broker);
    client.declare("classic", true);
    client.declare_with("quorum", true, &[("x-queue-type", Value::from("quorum"))]);
    let n_failed = |queue: &str, ends_link: bool| {
        let mut client = Client::connect(&broker);
        client.publish(queue, &["a"], Kind::Transient);
        let link = client.consume_by_credit(queue, "c", false);
        assert_eq!(client.flow(link, 0, 1, ""), ["deliver a"]);
        if ends_link {
            client.ask(Op::Link(LinkOp::Detach(LinkId(link))));
        } else {
            client.disconnect();
            client = Client::connect(&broker);
        }
        let again = client.consume_by_credit(queue, "d", false);
        assert_eq!(client.flow(again, 0, 1, ""), ["deliver a again"]);
        let n_failed = client.last_given().n_failed;
        assert_eq!(client.settle(1, Outcome::Accepted), [""; 0]);
        n_failed
    };
    assert_eq!([n_failed("classic", true), n_failed("classic", false)], [1, 1]);
    assert_eq!([n_failed("quorum", true), n_failed("quorum", false)], [0, 1]);
}

#[test]
fn a_drain_waits_for_messages_on_disk_and_for_room() {
    let pager = PagerOptions {
        budget_bytes: 4_000,
        allowance_bytes_min: 4_000,
        allowance_bytes_max: 4_000,
        ..PagerOptions::default()
    };
    let storage = StorageOptions { pager, page_file_bytes: 20_000, ..StorageOptions::default() };
    let broker = start_with(Arc::new(MemoryDisk::new()), &storage);
    let mut client = Client::connect(&broker);
    client.declare("q", true);
    let bodies: Vec<String> = (0..500).map(|n| format!("{n:0>100}")).collect();
    for part in bodies.chunks(50) {
        let part: Vec<&str> = part.iter().map(String::as_str).collect();
        client.publish("q", &part, Kind::Transient);
    }
    let queue = broker.view().queue("/", "q").unwrap();
    wait_until("pages to be written", || {
        queue.as_classic().unwrap().inspect().pages_on_disk() > 10
    });
    let link = client.consume_by_credit("q", "c", true);
    let heard = client.flow(link, 0, 600, "drain");
    let heard = client.wait_for(heard, 501);
    assert_eq!(heard[499], format!("deliver {}", bodies[499]));
    assert_eq!(heard[500], "credit 600+0 of 0 drained");

    client.fill_up(true);
    client.flow(link, 600, 1, "");
    assert_eq!(client.publish("q", &["a"], Kind::Transient), ["deliver a"], "it is full now");
    client.publish("q", &["b", "c"], Kind::Transient);
    assert_eq!(client.flow(link, 601, 5, "drain"), [""; 0]);
    assert_eq!(client.resume(), ["deliver b"]);
    let heard = client.ask(Op::PurgeQueue { queue: short("q") });
    assert_eq!(heard, ["credit 606+0 of 0 drained", "purged 1"]);
}

#[test]
fn a_quorum_queue_tells_the_credit_behind_what_waits_for_room() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = Client::connect(&broker);
    client.declare_with("q", true, &[("x-queue-type", text("quorum"))]);
    let link = client.consume_by_credit("q", "c", false);
    client.publish("q", &["a", "b", "c", "d"], Kind::Persistent);
    assert_eq!(client.flow(link, 0, 1, "echo"), ["deliver a", "credit 1+0 of 3"]);
    assert_eq!(client.settle(1, Outcome::Accepted), [""; 0], "settling gives no credit");
    client.fill_up(true);
    assert_eq!(client.flow(link, 1, 9, "drain"), ["deliver b"]);
    assert_eq!(client.resume(), ["deliver c"]);
    client.fill_up(false);
    assert_eq!(client.resume(), ["deliver d", "credit 10+0 of 0 drained"]);
}

#[test]
fn a_quorum_queue_counts_in_the_credit_it_tells_what_it_has_given_since_it_was_asked() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = Client::connect(&broker);
    client.declare_with("q", true, &[("x-queue-type", text("quorum"))]);
    let link = client.consume_by_credit("q", "c", false);
    client.publish("q", &["a", "b"], Kind::Persistent);
    client.fill_up(true);
    assert_eq!(client.flow(link, 0, 9, "echo"), ["deliver a"]);
    client.fill_up(false);
    client.publish("q", &["c"], Kind::Persistent);
    assert_eq!(client.resume(), ["deliver b", "deliver c", "credit 3+6 of 0"]);
}

#[test]
fn a_quorum_queue_takes_back_what_waits_beyond_credit_that_shrinks() {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let (mut client, mut other) = (Client::connect(&broker), Client::connect(&broker));
    client.declare_with("q", true, &[("x-queue-type", text("quorum"))]);
    let link = client.consume_by_credit("q", "c", false);
    client.publish("q", &["a", "b", "c", "d"], Kind::Persistent);
    client.fill_up(true);
    assert_eq!(client.flow(link, 0, 9, ""), ["deliver a"]);
    assert_eq!(client.ask_ready("q"), 0, "all are the consumer's");
    assert_eq!(client.flow(link, 1, 1, ""), [""; 0]);
    assert_eq!(client.ask_ready("q"), 2);
    let of_other = other.consume_by_credit("q", "o", false);
    assert_eq!(other.flow(of_other, 0, 1, ""), ["deliver c"]);
    client.fill_up(false);
    assert_eq!(client.resume(), ["deliver b"]);
    assert_eq!(client.flow(link, 2, 0, "echo"), ["credit 2+0 of 1"]);
    assert_eq!(client.flow(link, 2, 5, "drain"), ["deliver d", "credit 7+0 of 0 drained"]);
}

/// A consumer as its client knows it.
#[derive(Debug)]
struct Link {
    id: u64,
    tag: String,
    /// Deliveries, and what was drained.
    count: u32,
    credit: u32,
    is_draining: bool,
}

#[derive(Clone, Debug)]
enum Step {
    Attach(bool),
    Publish(u8),
    /// With deliveries that the client has not seen.
    Flow(usize, u32, u32, &'static str),
    Settle(Outcome),
    Cancel(usize),
    Purge,
    Read,
}

impl Step {
    /// Messages that may become ready.
    const fn n_come(&self) -> u8 {
        match self {
            Self::Publish(n) => *n,
            Self::Settle(_) => 1,
            Self::Attach(_) | Self::Flow(..) | Self::Cancel(_) | Self::Purge | Self::Read => 0,
        }
    }
}

fn step() -> impl Strategy<Value = Step> {
    let how = prop_oneof![Just(""), Just("echo"), Just("drain"), Just("drain echo")];
    let outcome = prop_oneof![Just(Outcome::Accepted), Just(Outcome::Released)];
    prop_oneof![
        1 => any::<bool>().prop_map(Step::Attach),
        4 => (1..6_u8).prop_map(Step::Publish),
        6 => (any::<usize>(), 0..3_u32, 0..6_u32, how)
            .prop_map(|(n, unseen, credit, how)| Step::Flow(n, unseen, credit, how)),
        3 => outcome.prop_map(Step::Settle),
        1 => any::<usize>().prop_map(Step::Cancel),
        1 => Just(Step::Purge),
        2 => Just(Step::Read),
    ]
}

struct World {
    client: Client,
    links: Vec<Link>,
    n_ready: u32,
    n_links: usize,
    /// Credit that is to be told, by link.
    owed: BTreeMap<u64, ConsumerCredit>,
}

impl World {
    fn run(&mut self, step: &Step) {
        let pick = |n: usize, links: &[Link]| n.checked_rem(links.len());
        let n_ready_most = self.n_ready + u32::from(step.n_come());
        match *step {
            Step::Attach(no_ack) if self.links.len() < 3 => {
                self.n_links += 1;
                let tag = self.n_links.to_string();
                let id = self.client.consume_by_credit("q", &tag, no_ack);
                self.links.push(Link { id, tag, count: 0, credit: 0, is_draining: false });
            }
            Step::Attach(_) => {}
            Step::Publish(n) => {
                self.n_ready += u32::from(n);
                self.client.publish("q", &vec!["m"; n.into()], Kind::Transient);
            }
            Step::Flow(n, unseen, credit, how) => {
                let Some(at) = pick(n, &self.links) else { return };
                let link = &mut self.links[at];
                let seen = link.count - unseen.min(link.count);
                link.credit = (seen + credit).saturating_sub(link.count);
                link.is_draining = how.contains("drain");
                let is_told = how == "echo";
                let id = link.id;
                self.client.flow(id, seen, credit, how);
                self.note_deliveries();
                if is_told {
                    self.owed.insert(id, self.credit_of(&self.links[at], false));
                }
            }
            Step::Settle(outcome) => {
                if self.client.n_unsettled() > 0 {
                    self.n_ready += u32::from(outcome == Outcome::Released);
                    self.client.settle(1, outcome);
                }
            }
            Step::Cancel(n) => {
                if let Some(at) = pick(n, &self.links) {
                    let consumer_tag = short(&self.links[at].tag);
                    self.client.ask(Op::Detach { consumer_tag });
                    self.note_deliveries();
                    self.links.remove(at);
                }
            }
            Step::Purge => {
                self.client.ask(Op::PurgeQueue { queue: short("q") });
                self.n_ready = 0;
            }
            Step::Read => drop(self.client.resume()),
        }
        self.note_deliveries();
        self.end_drains();
        let mut told: BTreeMap<_, _> = self.client.credits().into_iter().collect();
        for told in told.values_mut() {
            // Another link may have been given messages since.
            assert!((self.n_ready..=n_ready_most).contains(&told.available), "{told:?}");
            told.available = self.n_ready;
        }
        assert_eq!(told, std::mem::take(&mut self.owed));
    }

    fn credit_of(&self, link: &Link, drain: bool) -> ConsumerCredit {
        let Link { count: delivery_count, credit, .. } = *link;
        ConsumerCredit { delivery_count, credit, available: self.n_ready, drain, is_active: None }
    }

    /// Takes what came: never more than the credit, and all that may come.
    fn note_deliveries(&mut self) {
        for link in &mut self.links {
            let came = self.client.take_n_delivered(link.id);
            assert!(came <= link.credit, "{came} came of {link:?}");
            (link.count, link.credit) = (link.count + came, link.credit - came);
            self.n_ready -= came;
        }
        for link in self.links.iter().filter(|it| it.credit > 0) {
            assert!(self.n_ready == 0 || self.client.is_full(link.id), "{link:?} wants more");
        }
    }

    fn end_drains(&mut self) {
        for at in 0..self.links.len() {
            let link = &mut self.links[at];
            if link.is_draining && (self.n_ready == 0 || link.credit == 0) {
                link.count += std::mem::take(&mut link.credit);
                link.is_draining = false;
                let credit = self.credit_of(&self.links[at], true);
                self.owed.insert(self.links[at].id, credit);
            }
        }
    }
}

fn run(kind: &'static str, n_room: usize, steps: &[Step]) {
    let broker = start(&Arc::new(MemoryDisk::new()));
    let mut client = Client::connect(&broker);
    client.declare_with("q", true, &[("x-queue-type", text(kind))]);
    client.make_room(n_room);
    let (links, owed) = (Vec::new(), BTreeMap::new());
    let mut world = World { client, links, n_ready: 0, n_links: 0, owed };
    steps.iter().for_each(|step| world.run(step));
    assert_eq!(world.client.ask_ready("q"), u64::from(world.n_ready));
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]
    #[test]
    fn link_credit_agrees_with_a_naive_model(steps in prop::collection::vec(step(), 0..60)) {
        run("classic", 7, &steps);
        run("quorum", 10_000, &steps);
    }
}

#[test]
fn clients_that_give_credit_are_told_who_is_the_single_active_consumer() {
    let told = |client: &Client| -> Vec<Option<bool>> {
        client.credits().into_iter().map(|(_, credit)| credit.is_active).collect()
    };
    for kind in ["classic", "quorum"] {
        let broker = start(&Arc::new(MemoryDisk::new()));
        let (mut first, mut second) = (Client::connect(&broker), Client::connect(&broker));
        let single = ("x-single-active-consumer", Value::Bool(true));
        first.declare_with("q", true, &[("x-queue-type", text(kind)), single]);
        let link = first.consume_by_credit("q", "a", true);
        assert_eq!(told(&first), [], "no credit was given");
        first.flow(link, 0, 5, "");
        assert_eq!(told(&first), [Some(true)]);
        first.flow(link, 0, 6, "echo");
        assert_eq!(told(&first), [None], "the client knows");
        let waiting = second.consume_by_credit("q", "b", true);
        second.flow(waiting, 0, 5, "");
        assert_eq!((told(&first), told(&second)), (Vec::new(), vec![Some(false)]));
        first.ask(Op::Detach { consumer_tag: short("a") });
        assert_eq!(told(&second), [Some(true)], "{kind}");
        // One that comes with a higher priority takes over from a consumer of a quorum queue.
        let takes_over = kind == "quorum";
        let link = first.consume_by_credit_with("q", "c", true, &[("x-priority", Value::I64(5))]);
        let lost = if takes_over { vec![Some(false)] } else { Vec::new() };
        assert_eq!(told(&second), lost, "{kind}");
        first.flow(link, 0, 5, "");
        assert_eq!((told(&first), told(&second)), (vec![Some(takes_over)], Vec::new()), "{kind}");
    }
}
