//! Messages that wait for their acknowledgement for too long.

use crate::client::{Client, Kind, block_on, set_policy, short, start_limited};
use broker::{Broker, Diagnosis, Interrupt, Limits, QueueContents, StorageOptions};
use meta::PolicyScope;
use proptest::prelude::*;
use session::{Op, Outcome, Value};
use std::collections::{BTreeMap, VecDeque};
use std::future::Future;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use stdx::Now;
use testing::MemoryDisk;

/// A node on which messages may wait for so many milliseconds.
fn node(timeout_ms: Option<u64>) -> (Arc<Broker>, Client) {
    let limits = Limits { consumer_timeout_ms: timeout_ms, ..Limits::default() };
    let disk = Arc::new(MemoryDisk::new());
    let broker = start_limited(disk, &StorageOptions::default(), limits);
    let client = Client::connect(&broker);
    (broker, client)
}

/// Time goes on to `until_ms` in seconds, as on a running node.
fn pass(broker: &Broker, from_ms: u64, until_ms: u64) {
    for ms in (from_ms..=until_ms).step_by(1_000) {
        broker.tick(Now::at_ms(ms));
    }
}

/// The interrupt the client's task would be asked to obey, and what the client hears when it is done.
fn kicked(client: &mut Client) -> Option<Vec<String>> {
    let connection = Arc::clone(client.session().connection());
    let kicked = pin!(connection.kicked()).poll(&mut Context::from_waker(Waker::noop()));
    match kicked {
        Poll::Ready(Interrupt::FailOverdue) => {
            block_on(client.session().obey(Interrupt::FailOverdue));
            Some(client.heard())
        }
        Poll::Ready(kick) => panic!("{kick:?}"),
        Poll::Pending => None,
    }
}

fn refusal(timeout_ms: u64) -> Option<Vec<String>> {
    Some(vec![format!(
        "channel failed PreconditionFailed: delivery acknowledgement on channel 1 timed out. \
         Timeout value used: {timeout_ms} ms. This timeout value can be configured, see consumers \
         doc guide to learn more"
    )])
}

/// A queue that confirms on that.
fn declare(client: &mut Client, confirm_on: &str) {
    client.declare_with("q", false, &[("x-confirm-on", Value::from(confirm_on))]);
}

/// With and without a record of what consumers hold.
const MODES: [&str; 3] = ["enqueue", "ack", "ack-direct"];

/// The channel is closed, and all that it held goes to somebody else.
#[test]
fn a_channel_that_never_acknowledges_is_closed() {
    MODES.into_iter().for_each(never_acknowledges);
}

fn never_acknowledges(confirm_on: &str) {
    let (broker, mut client) = node(Some(80_000));
    declare(&mut client, confirm_on);
    client.publish("q", &["a", "b"], Kind::Transient);
    client.consume("q", false);
    pass(&broker, 1_000, 70_000);
    assert_eq!(kicked(&mut client), None);
    pass(&broker, 71_000, 91_000);
    assert_eq!(kicked(&mut client), refusal(80_000));
    assert_eq!(kicked(&mut client), None, "once");
    let mut other = Client::connect(&broker);
    assert_eq!(other.get("q"), ["got a again left 1"]);
    // What `get` took counts as well.
    pass(&broker, 92_000, 190_000);
    assert_eq!(kicked(&mut other), refusal(80_000));
}

/// One that acknowledges in time stays, however long it goes on; so does one that takes long for each,
/// or gives back what it gets.
#[test]
fn who_acknowledges_in_time_stays() {
    let (broker, mut client) = node(Some(80_000));
    client.declare("q", false);
    for n in 0..40 {
        client.publish("q", &["a", "b"], Kind::Transient);
        let heard = client.get("q");
        assert!(heard[0].starts_with("got"), "{heard:?}");
        pass(&broker, n * 60_000 + 1_000, (n + 1) * 60_000);
        assert_eq!(kicked(&mut client), None, "{n}");
        let outcome = if n % 2 == 0 { Outcome::Modified } else { Outcome::Accepted };
        client.settle(1, outcome);
    }
}

/// One consumer after the other without a record, beside one of their channel that may take as long as it
/// likes.
#[test]
fn who_acknowledges_in_time_stays_without_a_record() {
    let (broker, mut client) = node(Some(80_000));
    declare(&mut client, "ack-direct");
    client.declare_with(
        "slow",
        false,
        &[("x-confirm-on", Value::from("ack-direct")), ("x-consumer-timeout", Value::I32(0))],
    );
    client.publish("slow", &["stays"], Kind::Transient);
    client.consume_with("slow", "slow", false, &[]);
    let mut other = Client::connect(&broker);
    for n in 0..40 {
        let tag = format!("tag-{n}");
        client.consume_with("q", &tag, false, &[]);
        other.publish("q", &["a", "b"], Kind::Transient);
        assert_eq!(client.heard(), ["deliver a", "deliver b"]);
        pass(&broker, n * 60_000 + 1_000, (n + 1) * 60_000);
        assert_eq!(kicked(&mut client), None, "{n}");
        while client.n_unsettled() > 1 {
            client.settle_newest(Outcome::Accepted);
        }
        client.ask(Op::Detach { consumer_tag: short(&tag) });
    }
}

/// One message that is left over is found among many that are acknowledged in time.
#[test]
fn one_unacknowledged_message_is_found_among_many() {
    MODES.into_iter().for_each(forgets_one);
}

fn forgets_one(confirm_on: &str) {
    let (broker, mut client) = node(Some(80_000));
    declare(&mut client, confirm_on);
    client.publish("q", &["forgotten"], Kind::Transient);
    client.consume("q", false);
    let mut other = Client::connect(&broker);
    let mut closed_at = None;
    for n in 0..10 {
        other.publish("q", &["settled"], Kind::Transient);
        client.heard();
        pass(&broker, n * 20_000 + 1_000, (n + 1) * 20_000);
        if kicked(&mut client).is_some() {
            closed_at = Some((n + 1) * 20_000);
            break;
        }
        client.settle_newest(Outcome::Accepted);
    }
    assert!(matches!(closed_at, Some(80_000..=100_000)), "{closed_at:?}");
}

/// A consumer says so itself, or its queue does by argument or policy; 0 is for ever.
#[test]
fn consumers_and_queues_have_their_own_time() {
    let (broker, mut client) = node(None);
    let timeout = |ms: i64| [("x-consumer-timeout", Value::I64(ms))];
    client.declare_with("by argument", false, &timeout(16_000));
    let direct = [timeout(16_000), [("x-confirm-on", Value::from("ack-direct"))]].concat();
    client.declare_with("direct", false, &direct);
    client.declare("by policy", false);
    client.declare("by consumer", false);
    set_policy(&broker, PolicyScope::User, "policy$", "{\"consumer-timeout\":24000}");
    let mut now_ms = 1_000;
    for (queue, own, expected) in [
        ("by argument", None, Some(16_000)),
        ("by policy", None, Some(24_000)),
        ("by consumer", Some(8_000), Some(8_000)),
        ("by argument", Some(32_000), Some(32_000)),
        ("by argument", Some(0), None),
        ("direct", None, Some(16_000)),
    ] {
        let mut client = Client::connect(&broker);
        client.publish(queue, &["m"], Kind::Transient);
        match own {
            Some(own_ms) => client.consume_with(queue, "tag", false, &timeout(own_ms)),
            None => client.consume(queue, false),
        };
        pass(&broker, now_ms, now_ms + 60_000);
        now_ms += 61_000;
        assert_eq!(kicked(&mut client), expected.and_then(refusal), "{queue} {own:?}");
        client.ask(Op::OpenChannel);
        client.ask(Op::PurgeQueue { queue: short(queue) });
        client.disconnect();
    }
}

/// A node whose quorum queues let consumers take that long.
fn quorum_node(timeout_ms: u64, arguments: &[(&'static str, Value)]) -> (Arc<Broker>, Client) {
    let limits = Limits { quorum_timeout_ms: Some(timeout_ms), ..Limits::default() };
    let disk = Arc::new(MemoryDisk::new());
    let broker = start_limited(disk, &StorageOptions::default(), limits);
    let mut client = Client::connect(&broker);
    let quorum = [("x-queue-type", Value::from("quorum"))];
    client.declare_with("q", true, &[&quorum, arguments].concat());
    (broker, client)
}

/// The message held for too long goes to somebody else and counts as no failure; the rest stays its own. The
/// consumer may come again with its tag.
#[test]
fn a_consumer_of_a_quorum_queue_is_cancelled_and_its_channel_stays() {
    let (broker, mut client) = quorum_node(80_000, &[]);
    assert_eq!(client.consume_with("q", "tag", false, &[]), ["consuming"]);
    let mut other = Client::connect(&broker);
    other.publish("q", &["a"], Kind::Transient);
    assert_eq!(client.heard(), ["deliver a"]);
    pass(&broker, 1_000, 60_000);
    other.publish("q", &["b"], Kind::Transient);
    assert_eq!(client.heard(), ["deliver b"]);
    pass(&broker, 61_000, 82_000);
    assert_eq!(client.wait_for(Vec::new(), 1), ["consumer lost"]);
    assert_eq!(other.get("q"), ["got a again left 0"]);
    assert_eq!(other.last_headers().get(b"x-delivery-count"), None);
    assert_eq!(other.last_headers().get(b"x-acquired-count"), Some(&Value::I64(1)));
    // Late, and too late.
    assert_eq!(client.settle_newest(Outcome::Accepted), Vec::<String>::new());
    assert_eq!(client.settle(1, Outcome::Released), Vec::<String>::new());
    assert_eq!(other.settle(1, Outcome::Released), Vec::<String>::new());
    assert_eq!(client.consume_with("q", "tag", false, &[]), ["consuming", "deliver a again"]);
    pass(&broker, 83_000, 100_000);
    assert_eq!(kicked(&mut client), None);
    assert_eq!(client.ask(Op::Detach { consumer_tag: short("tag") }), ["cancelled"]);
}

/// It is still sent those on which it has spent credit.
#[test]
fn a_consumer_that_settles_what_it_held_for_too_long_stays() {
    let (broker, mut client) = quorum_node(80_000, &[]);
    client.settle_overdue();
    let link = client.consume_by_credit("q", "tag", false);
    let mut other = Client::connect(&broker);
    client.make_room(1);
    client.flow(link, 0, 2, "");
    other.publish("q", &["a", "b", "c"], Kind::Transient);
    assert_eq!(client.heard(), ["deliver a"]);
    pass(&broker, 1_000, 82_000);
    assert_eq!(client.wait_for(Vec::new(), 1), ["2 timed out"]);
    crate::client::wait_until("they come back", || other.ask_ready("q") == 3);
    assert_eq!(client.resume(), ["deliver b"]);
    client.fill_up(false);
    client.resume();
    assert_eq!(client.flow(link, 2, 2, ""), [""; 0], "nothing before it has settled");
    assert_eq!(client.settle_newest(Outcome::Accepted), [""; 0], "nor before it has settled all");
    assert_eq!(client.settle(1, Outcome::Accepted), ["deliver a again", "deliver b again"]);
    assert_eq!(client.settle(2, Outcome::Accepted), [""; 0]);
    assert_eq!(client.flow(link, 4, 1, ""), ["deliver c"]);
    pass(&broker, 83_000, 100_000);
    assert_eq!(kicked(&mut client), None);
}

/// Messages that it is given later than the one it forgot come back in their time as well.
#[test]
fn what_a_cancelled_consumer_still_holds_comes_back_and_its_channel_stays() {
    let (broker, mut client) = quorum_node(80_000, &[]);
    client.consume("q", false);
    let mut other = Client::connect(&broker);
    for (body, from_ms) in [("a", 0), ("b", 40_000)] {
        other.publish("q", &[body], Kind::Transient);
        pass(&broker, from_ms + 1_000, from_ms + 40_000);
    }
    pass(&broker, 81_000, 122_000);
    let heard = client.wait_for(Vec::new(), 3);
    assert_eq!(heard, ["deliver a", "deliver b", "consumer lost"]);
    crate::client::wait_until("they come back", || other.ask_ready("q") == 2);
    assert_eq!(kicked(&mut client), None);
}

/// There is no consumer that could be cancelled.
#[test]
fn a_get_from_a_quorum_queue_that_is_not_acknowledged_closes_its_channel() {
    let (broker, mut client) = quorum_node(80_000, &[("x-consumer-timeout", Value::I64(16_000))]);
    client.publish("q", &["a"], Kind::Transient);
    assert_eq!(client.get("q"), ["got a left 0"]);
    pass(&broker, 1_000, 15_000);
    assert_eq!(kicked(&mut client), None);
    pass(&broker, 16_000, 17_000);
    let mut other = Client::connect(&broker);
    crate::client::wait_until("it comes back", || other.ask_ready("q") == 1);
    pass(&broker, 18_000, 20_000);
    assert_eq!(kicked(&mut client), refusal(16_000));
}

/// The next in line is active at once.
#[test]
fn a_single_active_consumer_that_forgets_a_message_is_taken_over_from() {
    let single = ("x-single-active-consumer", Value::Bool(true));
    let (broker, mut client) = quorum_node(80_000, &[single]);
    let mut second = Client::connect(&broker);
    client.consume("q", false);
    second.consume("q", false);
    second.publish("q", &["a", "b"], Kind::Transient);
    assert_eq!(client.heard(), ["deliver a", "deliver b"]);
    client.settle_newest(Outcome::Accepted);
    pass(&broker, 1_000, 82_000);
    assert_eq!(client.wait_for(Vec::new(), 1), ["consumer lost"]);
    assert_eq!(second.wait_for(Vec::new(), 1), ["deliver a again"]);
}

/// Publishes, acknowledgements of the oldest or the newest, and seconds that pass.
type Step = (usize, Option<bool>, u64);

/// The age of what the client holds, as told, against what it is: never more, and less by so much at most.
fn tells_the_age(
    (broker, mut client): (Arc<Broker>, Client),
    steps: &[Step],
    less_ms_max: fn(u64) -> u64,
) {
    let is_right = |told_ms, age_ms| told_ms <= age_ms && age_ms <= told_ms + less_ms_max(age_ms);
    let mut other = Client::connect(&broker);
    client.consume("q", false);
    let (mut now_ms, mut given_ms) = (1_000, VecDeque::new());
    pass(&broker, now_ms, now_ms);
    for (n_published, settled, seconds) in steps {
        for _ in 0..*n_published {
            other.publish("q", &["m"], Kind::Transient);
            client.heard();
            given_ms.push_back(now_ms);
        }
        // None is held for too long: the channel would fail.
        while given_ms.iter().any(|at_ms| now_ms - at_ms > 50_000) {
            client.settle(1, Outcome::Accepted);
            given_ms.pop_front();
        }
        if *settled == Some(true) && !given_ms.is_empty() {
            client.settle(1, Outcome::Accepted);
            given_ms.pop_front();
        } else if *settled == Some(false) && !given_ms.is_empty() {
            client.settle_newest(Outcome::Accepted);
            given_ms.pop_back();
        }
        pass(&broker, now_ms + 1_000, now_ms + seconds * 1_000);
        now_ms += seconds * 1_000;
        let mut held_ms = BTreeMap::new();
        let queue = broker.view().queues().next().unwrap().clone();
        Diagnosis(&queue).note_held_ms(Now::at_ms(now_ms), &mut held_ms);
        let told_ms = held_ms.into_values().next();
        let age_ms = given_ms.iter().min().map(|at_ms| now_ms - at_ms);
        assert_eq!(told_ms.is_some(), age_ms.is_some());
        let (told_ms, age_ms) = (told_ms.unwrap_or_default(), age_ms.unwrap_or_default());
        assert!(is_right(told_ms, age_ms), "{told_ms} of {age_ms}");
        // Without a record of who holds what nobody is named.
        let mut holders = QueueContents(&queue).holders(&(0..1_000).collect());
        holders.sort_by_key(|holder| holder.position);
        assert!(holders.is_empty() || holders.len() == given_ms.len());
        for (holder, at_ms) in holders.iter().zip(&given_ms) {
            let (told_ms, age_ms) = (holder.held_ms, now_ms - at_ms);
            assert!(is_right(told_ms, age_ms), "{told_ms} of {age_ms}");
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(24))]

    #[test]
    fn the_age_of_what_is_held_is_told(
        steps in prop::collection::vec((0..3_usize, any::<Option<bool>>(), 0..12_u64), 1..40),
    ) {
        for confirm_on in MODES {
            let (broker, mut client) = node(Some(80_000));
            declare(&mut client, confirm_on);
            // Looks are five seconds apart, and told within the second; where there is no record of what is
            // held, an eighth of the time-out.
            let less_ms_max = |age_ms: u64| (age_ms / 8).max(6_000);
            tells_the_age((broker, client), &steps, match confirm_on {
                "ack-direct" => |_| 12_000,
                _ => less_ms_max,
            });
        }
        tells_the_age(quorum_node(80_000, &[]), &steps, |_| 0);
    }
}
