//! Queues with rules: times to live, limits, dead letters, priorities, who is served first.

use crate::client::{Client, Kind, at, clear_policy, set_policy, short, start, start_with, text};
use broker::Broker;
use message::Properties;
use meta::PolicyScope;
use session::{Op, Outcome, Table, Value};
use std::sync::Arc;
use stdx::{MonotonicMs, Now, UnixMs};
use testing::{CrashOutcome, MemoryDisk};

const fn number(n: i64) -> Value {
    Value::I64(n)
}

fn new_node() -> (Arc<MemoryDisk>, Arc<Broker>) {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start(&disk);
    (disk, broker)
}

fn wait_until_gone(broker: &Broker, queue: &str) {
    while broker.view().queue("/", queue).is_some() {
        std::thread::yield_now();
    }
}

fn dead_letters_to(queue: &str) -> Vec<(&'static str, Value)> {
    vec![("x-dead-letter-exchange", text("")), ("x-dead-letter-routing-key", text(queue))]
}

fn with(
    mut arguments: Vec<(&'static str, Value)>,
    name: &'static str,
    value: Value,
) -> Vec<(&'static str, Value)> {
    arguments.push((name, value));
    arguments
}

fn expiring(ms: &str) -> Properties {
    Properties { expiration: Some(short(ms)), ..Properties::default() }
}

fn header(client: &Client, name: &str) -> String {
    let headers = client.last_headers();
    let bytes = headers.get(name.as_bytes()).and_then(Value::as_bytes).unwrap_or_default();
    String::from_utf8_lossy(bytes).into_owned()
}

/// A message that is over goes at its time, also behind others, and without consumers;
/// and 99: the smaller one of two times counts.
#[test]
fn messages_expire_on_time_wherever_they_stand() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("dead", false);
    client.declare_with("q", false, &with(dead_letters_to("dead"), "x-message-ttl", number(1_000)));
    client.publish("q", &["long"], Kind::Transient);
    client.publish_with("", "q", &[(expiring("50"), "short"), (expiring("9000"), "longer")]);
    at(&broker, 51);
    assert_eq!(client.get_soon("dead"), "got short left 0");
    assert_eq!(header(&client, "x-last-death-reason"), "expired");
    assert_eq!(client.get("q"), ["got long left 1"]);
    at(&broker, 1_001);
    assert_eq!(client.get_soon("dead"), "got longer left 0");
    client.settle(1, Outcome::Accepted);
    assert_eq!(client.get("q"), ["get empty"]);
    // The one that is held goes when it comes back.
    client.settle(1, Outcome::Released);
    assert_eq!(client.get_soon("dead"), "got long left 0");
}

/// A time to live of 0 is for consumers that wait.
#[test]
fn a_time_to_live_of_zero_reaches_who_waits() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("q", false, &[("x-message-ttl", number(0))]);
    client.publish("q", &["nobody"], Kind::Transient);
    assert_eq!(client.get("q"), ["get empty"]);
    client.consume("q", false);
    assert_eq!(client.publish("q", &["somebody"], Kind::Transient), ["deliver somebody"]);
}

/// Only ready messages count, the oldest makes room, also one that comes back.
#[test]
fn the_oldest_message_makes_room() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("dead", false);
    client.declare_with("q", false, &with(dead_letters_to("dead"), "x-max-length", number(2)));
    client.publish("q", &["a", "b", "c"], Kind::Transient);
    assert_eq!(client.get_soon("dead"), "got a left 0");
    assert_eq!(header(&client, "x-first-death-reason"), "maxlen");
    client.settle(1, Outcome::Accepted);
    assert_eq!(client.get("q"), ["got b left 1"]);
    client.publish("q", &["d"], Kind::Transient);
    client.settle(1, Outcome::Modified);
    assert_eq!(client.get_soon("dead"), "got b left 0", "and it is not redelivered there");
    assert_eq!(client.get("q"), ["got c left 1"]);
}

/// The bodies of ready messages count.
#[test]
fn bytes_are_limited() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("q", false, &[("x-max-length-bytes", number(5))]);
    client.publish("q", &["aaa", "bb", "c"], Kind::Transient);
    assert_eq!(client.get("q"), ["got bb left 1"]);
    client.publish("q", &["dddd"], Kind::Transient);
    client.settle(1, Outcome::Modified);
    assert_eq!(client.get("q"), ["got c left 1"]);
    assert_eq!(client.get("q"), ["got dddd left 0"]);
}

/// Messages that a full queue does not take are nacked, and never returned.
#[test]
fn a_full_queue_refuses() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    let full = [("x-max-length", number(2)), ("x-overflow", text("reject-publish"))];
    client.declare_with("q", true, &full);
    client.ask(Op::EnableConfirms);
    let heard = client.publish("q", &["a", "b", "c", "d"], Kind::Mandatory);
    assert_eq!(heard, ["ack 1..=2", "nack 3..=4"]);
    let heard = client.publish("q", &["e"], Kind::Persistent);
    assert_eq!(heard, ["nack 5..=5"]);
    assert_eq!(client.get("q"), ["got a left 1"]);
    let heard = client.publish("q", &["f", "g"], Kind::Persistent);
    let mut heard = client.wait_for(heard, 2);
    heard.sort();
    assert_eq!(heard, ["ack 6..=6", "nack 7..=7"]);
}

/// `reject-publish-dlx` dead-letters what is refused.
#[test]
fn what_is_refused_can_be_dead_lettered() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("dead", false);
    let full = with(dead_letters_to("dead"), "x-max-length", number(1));
    client.declare_with("q", false, &with(full, "x-overflow", text("reject-publish-dlx")));
    client.ask(Op::EnableConfirms);
    let heard = client.publish("q", &["a", "b"], Kind::Transient);
    assert_eq!(heard, ["ack 1..=1", "nack 2..=2"]);
    assert_eq!(client.get_soon("dead"), "got b left 0");
    assert_eq!(header(&client, "x-first-death-queue"), "q");
}

/// The properties, headers and keys of a dead letter.
#[test]
fn a_refused_message_is_dead_lettered() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("q.dead", false);
    client.declare_with("q", false, &dead_letters_to("q.dead"));
    let mut own = Table::default();
    own.insert(short("CC"), Value::Array(vec![text("elsewhere")]));
    own.insert(short("own"), text("kept"));
    let properties = Properties { headers: Some(own), ..expiring("60000") };
    client.publish_with("", "q", &[(properties, "m")]);
    assert_eq!(client.get("q"), ["got m left 0"]);
    client.settle(1, Outcome::Modified);
    assert_eq!(client.get("q"), ["got m again left 0"]);
    client.settle(1, Outcome::Rejected);
    assert_eq!(client.get_soon("q.dead"), "got m left 0");
    let last = client.last();
    assert_eq!((&*last.exchange, &*last.key), (&b""[..], &b"q.dead"[..]));
    assert_eq!(message::View::of(&last.properties).expiration(), None);
    assert_eq!(header(&client, "own"), "kept");
    let headers = client.last_headers();
    assert!(headers.get(b"CC").is_some());
    let death = headers.get(b"x-death").and_then(Value::as_array).unwrap()[0].as_table().unwrap();
    let keys = Value::Array(vec![text("q"), text("elsewhere")]);
    assert_eq!(death.get(b"routing-keys"), Some(&keys));
    assert_eq!(death.get(b"original-expiration"), Some(&text("60000")));
    assert_eq!(death.get(b"reason"), Some(&text("rejected")));
}

/// A message that goes in circles by being refused is counted.
#[test]
fn deaths_are_counted() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("work", false, &dead_letters_to("wait"));
    client.declare_with("wait", false, &with(dead_letters_to("work"), "x-message-ttl", number(10)));
    client.publish("work", &["m"], Kind::Transient);
    for round in 1..=3 {
        assert_eq!(client.get_soon("work"), "got m left 0");
        if round > 1 {
            let headers = client.last_headers();
            let deaths = headers.get(b"x-death").and_then(Value::as_array).unwrap();
            let count = |at: usize| deaths[at].as_table().unwrap().get(b"count").cloned();
            assert_eq!((count(0), count(1)), (Some(number(round - 1)), Some(number(round - 1))));
            assert_eq!(header(&client, "x-last-death-queue"), "wait");
            assert_eq!(header(&client, "x-first-death-queue"), "work");
        }
        client.settle(1, Outcome::Rejected);
        while client.ask_ready("wait") == 0 {
            std::thread::yield_now();
        }
        at(&broker, 100 * u64::try_from(round).unwrap());
    }
}

/// A message that goes in circles by itself is dropped.
#[test]
fn a_cycle_without_a_reject_ends() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("a", false, &with(dead_letters_to("b"), "x-message-ttl", number(5)));
    client.declare_with("b", false, &with(dead_letters_to("a"), "x-message-ttl", number(5)));
    client.publish("a", &["m"], Kind::Transient);
    at(&broker, 10);
    while client.ask_ready("b") == 0 {
        std::thread::yield_now();
    }
    at(&broker, 20);
    let queues = || broker.view().queues().map(|queue| queue.local_stat().n_departing).sum::<u64>();
    while client.ask_ready("b") > 0 || queues() > 0 {
        std::thread::yield_now();
    }
    assert_eq!(client.get("a"), ["get empty"]);
}

/// The highest first, in order within; missing is 0, too high is the highest.
#[test]
fn higher_priorities_are_served_first() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("q", false, &[("x-max-priority", number(5))]);
    let of = |priority| Properties { priority, ..Properties::default() };
    let messages = [
        (of(None), "none"),
        (of(Some(1)), "1"),
        (of(Some(9)), "9"),
        (of(Some(5)), "5"),
        (of(Some(0)), "0"),
    ];
    client.publish_with("", "q", &messages);
    let expected =
        ["consuming", "deliver 9", "deliver 5", "deliver 1", "deliver none", "deliver 0"];
    assert_eq!(client.consume("q", true), expected);
}

/// Who has the higher priority is served while it has credit.
#[test]
fn consumers_of_higher_priority_are_served_first() {
    let (_disk, broker) = new_node();
    let mut low = Client::connect(&broker);
    let mut high = Client::connect(&broker);
    low.declare("q", false);
    low.consume("q", false);
    high.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
    high.consume_with("q", "", false, &[("x-priority", number(5))]);
    assert_eq!(low.publish("q", &["a", "b"], Kind::Transient), ["deliver b"]);
    assert_eq!(high.heard(), ["deliver a"]);
}

/// One at a time, the next by registration; and none may be exclusive.
#[test]
fn a_single_active_consumer_is_followed_by_the_next() {
    let (_disk, broker) = new_node();
    let [mut first, mut second, mut third] = [(); 3].map(|()| Client::connect(&broker));
    first.declare_with("q", false, &[("x-single-active-consumer", Value::Bool(true))]);
    for (client, tag) in [(&mut first, "1"), (&mut second, "2"), (&mut third, "3")] {
        assert_eq!(client.consume_with("q", tag, false, &[]), ["consuming"]);
    }
    let views = broker.figures().consumers();
    let active: Vec<_> = views.iter().map(|(_, one)| one.activity.as_str()).collect();
    assert_eq!(active, ["single_active", "waiting", "waiting"]);
    third.publish("q", &["a", "b"], Kind::Transient);
    assert_eq!(first.heard(), ["deliver a", "deliver b"]);
    // What it holds stays with it.
    first.ask(Op::Detach { consumer_tag: short("1") });
    third.publish("q", &["c"], Kind::Transient);
    assert_eq!(second.heard(), ["deliver c"]);
    first.disconnect();
    assert_eq!(second.heard(), ["deliver a again", "deliver b again"]);
    second.disconnect();
    assert_eq!(third.heard(), ["deliver a again", "deliver b again", "deliver c again"]);
    let refused = third.consume_with("q", "x", true, &[]);
    assert_eq!(refused, ["channel failed ExclusiveUse: queue 'q' in vhost '/' in exclusive use"]);
}

/// A reject counts as a failure, a nack does not.
#[test]
fn a_delivery_limit_ends_redelivery() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("dead", false);
    client.declare_with("q", false, &with(dead_letters_to("dead"), "x-delivery-limit", number(1)));
    client.publish("q", &["m"], Kind::Transient);
    assert_eq!(client.get("q"), ["got m left 0"]);
    assert!(client.last_headers().get(b"x-delivery-count").is_none());
    client.settle(1, Outcome::Released);
    client.get("q");
    client.settle(1, Outcome::Modified);
    assert_eq!(client.get("q"), ["got m again left 0"]);
    assert_eq!(client.last_headers().get(b"x-delivery-count"), Some(&number(1)));
    assert_eq!(client.last_headers().get(b"x-acquired-count"), Some(&number(2)));
    client.settle(1, Outcome::Modified);
    assert_eq!(client.get_soon("dead"), "got m left 0");
    assert_eq!(header(&client, "x-last-death-reason"), "delivery_limit");
}

/// How often a message came back is known after a crash and after a stop;
/// a policy that goes and comes makes it begin anew, also after a crash.
#[test]
fn counts_outlive_the_node() {
    let (mut disk, mut broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("dead", true);
    client.declare_with("q", true, &dead_letters_to("dead"));
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"delivery-limit":3}"#);
    client.ask(Op::EnableConfirms);
    let heard = client.publish("q", &["m", "n"], Kind::Persistent);
    client.wait_for(heard, 1);
    let counts = |client: &Client| {
        let headers = client.last_headers();
        let of = |name: &str| headers.get(name.as_bytes()).and_then(Value::as_i64);
        (of("x-delivery-count"), of("x-acquired-count"))
    };
    // Before each round so many deliveries of the first have failed; the second is only given back.
    let rounds =
        [(None, None), (Some(1), Some(1)), (Some(2), Some(2)), (None, None), (Some(1), Some(1))];
    for (round, before) in rounds.into_iter().enumerate() {
        assert!(client.get("q").concat().contains("got m"), "{round}");
        assert_eq!(counts(&client), before, "{round}");
        client.get("q");
        assert_eq!(counts(&client), (None, before.1), "{round}");
        client.settle(1, Outcome::Modified);
        client.settle(1, Outcome::Released);
        if round == 2 {
            clear_policy(&broker, PolicyScope::User);
            set_policy(&broker, PolicyScope::User, "^q$", r#"{"delivery-limit":1}"#);
        }
        if round == 4 {
            break;
        }
        // What is noted is durable with what is confirmed after it.
        let heard = client.publish("dead", &["x"], Kind::Persistent);
        client.wait_for(heard, 1);
        if round == 1 {
            client.disconnect();
            broker.stop().unwrap();
        } else {
            drop(client);
        }
        drop(broker);
        disk = Arc::new(disk.survive(CrashOutcome::OnlySynced));
        broker = start(&disk);
        client = Client::connect(&broker);
        client.ask(Op::EnableConfirms);
    }
    assert_eq!(client.get("q").last().unwrap(), "got n again left 0", "the other is gone");
    client.ask(Op::PurgeQueue { queue: short("q") });
    while client.get_soon("dead").contains("got x") {}
    assert_eq!(header(&client, "x-last-death-reason"), "delivery_limit");
}

/// The notes about counts neither pile up nor keep the log long, and stay true when they are made anew.
#[test]
fn notes_about_counts_are_moved_with_the_log() {
    let (disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("q", true, &[("x-delivery-limit", number(100_000))]);
    client.declare("other", true);
    client.ask(Op::EnableConfirms);
    let heard = client.publish("q", &["m"], Kind::Persistent);
    client.wait_for(heard, 1);
    for _ in 0..5_000 {
        client.get("q");
        client.settle(1, Outcome::Modified);
    }
    let large = "x".repeat(1 << 20);
    for n in 0..10 {
        let heard = client.publish("other", &[&large], Kind::Persistent);
        client.wait_for(heard, 1);
        client.get("other");
        client.settle(1, Outcome::Accepted);
        at(&broker, 100 + n);
    }
    let heard = client.publish("other", &["last"], Kind::Persistent);
    client.wait_for(heard, 1);
    assert!(broker.figures().log().segments < 9, "{:?}", broker.figures().log());
    drop((client, broker));
    let broker = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
    let mut client = Client::connect(&broker);
    assert_eq!(client.get("q").last().unwrap(), "got m again left 0");
    assert_eq!(client.last_headers().get(b"x-delivery-count"), Some(&number(5_000)));
}

/// Policies and operator policies limit deliveries too, of what is there already;
/// and when they go, so do the limits.
#[test]
fn a_policy_limits_deliveries_while_it_is_there() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("dead", false);
    client.declare_with("q", false, &dead_letters_to("dead"));
    client.publish("q", &["m"], Kind::Transient);
    let fail = |client: &mut Client, n: i64, expected: &str| {
        for _ in 0..n {
            assert_eq!(client.get("q"), [expected]);
            client.settle(1, Outcome::Modified);
        }
    };
    fail(&mut client, 1, "got m left 0");
    fail(&mut client, 2, "got m again left 0");
    assert!(client.last_headers().get(b"x-delivery-count").is_none(), "nothing is counted so far");
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"delivery-limit":2}"#);
    fail(&mut client, 2, "got m again left 0");
    clear_policy(&broker, PolicyScope::User);
    fail(&mut client, 3, "got m again left 0");
    assert!(client.last_headers().get(b"x-delivery-count").is_none(), "and nothing any more");
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"delivery-limit":-1}"#);
    fail(&mut client, 3, "got m again left 0");
    set_policy(&broker, PolicyScope::Operator, "^q$", r#"{"delivery-limit":1}"#);
    fail(&mut client, 2, "got m again left 0");
    assert_eq!(client.last_headers().get(b"x-delivery-count"), Some(&number(1)));
    assert_eq!(client.get_soon("dead"), "got m left 0");
    assert_eq!(header(&client, "x-last-death-reason"), "delivery_limit");
    assert_eq!(client.get("q"), ["get empty"]);
}

/// Messages that are given back wait while a policy says so.
#[test]
fn a_policy_delays_retries_while_it_is_there() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare("q", false);
    client.publish("q", &["m"], Kind::Transient);
    let retry = r#"{"delayed-retry-type":"all","delayed-retry-min":100}"#;
    set_policy(&broker, PolicyScope::User, "^q$", retry);
    assert_eq!(client.get("q"), ["got m left 0"]);
    client.settle(1, Outcome::Released);
    assert_eq!(client.get("q"), ["get empty"]);
    at(&broker, 101);
    assert_eq!(client.get_soon("q"), "got m again left 0");
    clear_policy(&broker, PolicyScope::User);
    client.settle(1, Outcome::Released);
    assert_eq!(client.get("q"), ["got m again left 0"]);
}

/// Messages that come back wait.
#[test]
fn a_retry_is_delayed() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    let retry = [("x-delayed-retry-type", text("failed")), ("x-delayed-retry-min", number(100))];
    client.declare_with("q", false, &retry);
    client.publish("q", &["m"], Kind::Transient);
    client.get("q");
    client.settle(1, Outcome::Modified);
    assert_eq!(client.get("q"), ["get empty"]);
    at(&broker, 200);
    assert_eq!(client.get_soon("q"), "got m again left 0");
}

/// Who comes next begins with what the one before did not settle; but one that cancels
/// keeps what it holds, and the next goes on at once.
#[test]
fn a_single_active_consumer_leaves_its_messages_in_order() {
    for cancels in [false, true] {
        let (_disk, broker) = new_node();
        let mut publisher = Client::connect(&broker);
        let single = [("x-single-active-consumer", Value::Bool(true))];
        publisher.declare_with("q", false, &single);
        let mut first = Client::connect(&broker);
        let mut second = Client::connect(&broker);
        for client in [&mut first, &mut second] {
            client.ask(Op::SetPrefetch { prefetch_count: 1, global: false });
            client.consume_with("q", "c", false, &[]);
        }
        publisher.publish("q", &["0", "1", "2"], Kind::Transient);
        assert_eq!(first.heard(), ["deliver 0"]);
        let mut expected = vec!["deliver 0 again", "deliver 1"];
        if cancels {
            first.ask(Op::Detach { consumer_tag: short("c") });
            assert_eq!(second.heard(), ["deliver 1"]);
            expected = vec!["deliver 0 again", "deliver 2"];
        }
        first.ask(Op::CloseChannel);
        let mut heard = second.heard();
        while heard.len() < expected.len() {
            heard.extend(second.settle(1, Outcome::Accepted));
        }
        assert_eq!(heard, expected);
    }
}

/// Messages of all consumers of a channel come back together, in order.
#[test]
fn what_the_consumers_of_a_channel_held_comes_back_together() {
    for is_single in [false, true] {
        let (_disk, broker) = new_node();
        let mut client = Client::connect(&broker);
        client.declare_with("q", false, &[("x-single-active-consumer", Value::Bool(is_single))]);
        client.ask(Op::SetPrefetch { prefetch_count: 2, global: false });
        client.consume_with("q", "a1", false, &[]);
        client.consume_with("q", "a2", false, &[]);
        let mut publisher = Client::connect(&broker);
        publisher.publish("q", &["0", "1", "2", "3"], Kind::Transient);
        let n_held = if is_single { 2 } else { 4 };
        assert_eq!(client.heard().len(), n_held);
        let mut other = Client::connect(&broker);
        other.consume_with("q", "b", false, &[]);
        client.ask(Op::CloseChannel);
        let mut expected = ["deliver 0 again", "deliver 1 again", "deliver 2", "deliver 3"];
        if !is_single {
            expected[2..].copy_from_slice(&["deliver 2 again", "deliver 3 again"]);
        }
        assert_eq!(other.heard(), expected);
    }
}

/// A queue that nobody uses goes; publishing is no use.
#[test]
fn an_unused_queue_goes() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("q", true, &[("x-expires", number(1_000))]);
    at(&broker, 900);
    client.publish("q", &["m"], Kind::Transient);
    client.get("q");
    client.settle(1, Outcome::Accepted);
    at(&broker, 1_100);
    client.declare_with("q", true, &[("x-expires", number(1_000))]);
    at(&broker, 2_000);
    assert!(broker.view().queue("/", "q").is_some());
    assert_eq!(client.look_up("q"), ["declared 0 0"]);
    at(&broker, 2_900);
    assert!(broker.view().queue("/", "q").is_some());
    client.consume_with("q", "c", false, &[]);
    at(&broker, 9_000);
    client.ask(Op::Detach { consumer_tag: short("c") });
    at(&broker, 9_900);
    assert!(broker.view().queue("/", "q").is_some());
    at(&broker, 10_001);
    wait_until_gone(&broker, "q");
}

/// By now alarms that are due, and policies, have been seen to: dead letters come after both.
fn wait_for_rules(client: &mut Client) {
    client.declare("dead", false);
    client.declare_with("over", false, &dead_letters_to("dead"));
    client.publish_with("", "over", &[(expiring("0"), "m")]);
    assert_eq!(client.get_soon("dead"), "got m left 0");
}

/// A clock that is set takes no unused queue away, and keeps none.
#[test]
fn an_unused_queue_goes_by_time_that_passes_whatever_the_clock_says() {
    const DAY_MS: u64 = 86_400_000;
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("q", true, &[("x-expires", number(1_000))]);
    broker
        .tick(Now { monotonic_ms: MonotonicMs::from_raw(500), unix_ms: UnixMs::from_raw(DAY_MS) });
    wait_for_rules(&mut client);
    assert!(broker.view().queue("/", "q").is_some(), "deleted by a clock that was set forward");
    broker.tick(Now { monotonic_ms: MonotonicMs::from_raw(1_001), unix_ms: UnixMs::from_raw(3) });
    wait_until_gone(&broker, "q");
}

/// The time for which nobody has used a queue goes on where it was at a clean stop: the time while the node
/// is down is left out. After a crash it begins anew.
#[test]
fn the_time_a_queue_is_unused_goes_on_over_clean_restarts() {
    let (disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    for version in [1, 2] {
        let arguments = [("x-expires", number(1_000)), ("x-queue-version", number(version))];
        client.declare_with(&format!("q{version}"), true, &arguments);
    }
    client.declare_with("used", true, &[("x-expires", number(1_000))]);
    client.consume_with("used", "c", false, &[]);
    at(&broker, 700);
    client.disconnect();
    broker.stop().unwrap();
    drop(broker);
    let crashed = Arc::new(disk.survive(CrashOutcome::OnlySynced));
    let broker = start(&disk);
    at(&broker, 250);
    wait_for_rules(&mut Client::connect(&broker));
    assert!(["q1", "q2", "used"].iter().all(|queue| broker.view().queue("/", queue).is_some()));
    broker.stop().unwrap();
    drop(broker);
    let broker = start(&disk);
    at(&broker, 51);
    ["q1", "q2"].iter().for_each(|queue| wait_until_gone(&broker, queue));
    assert!(broker.view().queue("/", "used").is_some(), "its consumer was there until the stop");
    at(&broker, 750);
    wait_until_gone(&broker, "used");

    drop(start(&crashed));
    let broker = start(&crashed);
    at(&broker, 999);
    wait_for_rules(&mut Client::connect(&broker));
    assert!(broker.view().queue("/", "q2").is_some(), "nobody knows after a crash");
    at(&broker, 1_000);
    ["q1", "q2"].iter().for_each(|queue| wait_until_gone(&broker, queue));
}

/// A policy makes it expire: its time begins then, not when it was declared.
#[test]
fn a_queue_has_its_time_from_when_a_policy_says_so() {
    let (_disk, broker) = new_node();
    let mut client = Client::connect(&broker);
    client.declare_with("q", true, &[("x-max-length", number(5))]);
    at(&broker, 100_000);
    set_policy(&broker, PolicyScope::User, "^q$", r#"{"expires":1000}"#);
    wait_for_rules(&mut client);
    at(&broker, 100_900);
    wait_for_rules(&mut client);
    assert!(broker.view().queue("/", "q").is_some(), "deleted for the time before the policy");
    at(&broker, 101_000);
    wait_until_gone(&broker, "q");
}

/// Messages that consumers had at a crash are ready after it, and make room like others, before anybody
/// publishes.
#[test]
fn a_length_limit_outlives_a_crash() {
    for version in [1, 2] {
        let (disk, broker) = new_node();
        let mut client = Client::connect(&broker);
        client.declare("dead", true);
        let limited = with(dead_letters_to("dead"), "x-max-length", number(1));
        client.declare_with("q", true, &with(limited, "x-queue-version", number(version)));
        client.consume("q", false);
        client.ask(Op::EnableConfirms);
        let heard = client.publish("q", &["a", "b"], Kind::Persistent);
        assert_eq!(client.wait_for(heard, 3), ["deliver a", "deliver b", "ack 1..=2"]);

        let broker = start(&Arc::new(disk.survive(CrashOutcome::OnlySynced)));
        let mut client = Client::connect(&broker);
        assert_eq!(client.get_soon("dead"), "got a left 0");
        assert_eq!(header(&client, "x-first-death-reason"), "maxlen");
        assert_eq!(client.ask_ready("q"), 1);
    }
}

/// Deadlines, priorities and letters in transit are those of before a crash, in memory and in page images.
#[test]
fn rules_outlive_a_crash() {
    let pager = broker::PagerOptions {
        budget_bytes: 4_000,
        allowance_bytes_min: 4_000,
        allowance_bytes_max: 4_000,
        ..broker::PagerOptions::default()
    };
    let limits = broker::StorageOptions { pager, ..broker::StorageOptions::default() };
    let disk = MemoryDisk::new();
    let broker = start_with(Arc::new(disk.clone()), &limits);
    let mut client = Client::connect(&broker);
    client.ask(Op::EnableConfirms);
    client.declare("dead", true);
    client.declare_with("q", true, &with(dead_letters_to("dead"), "x-max-priority", number(3)));
    let large = "x".repeat(1_000);
    let of = |priority, ms| Properties {
        priority: Some(priority),
        delivery_mode: Some(2),
        ..expiring(ms)
    };
    let mut messages: Vec<_> = (0..40).map(|n| (of(n % 4, "900000"), large.as_str())).collect();
    messages.push((of(0, "500"), "short"));
    let heard = client.publish_with("", "q", &messages);
    assert_eq!(client.wait_for(heard, 1), ["ack 1..=41"]);
    let queue = broker.view().queue("/", "q").unwrap();
    while queue.as_classic().unwrap().inspect().pages_on_disk() < 5 {
        std::thread::yield_now();
    }
    let survivors = disk.survive(CrashOutcome::OnlySynced);
    drop((client, queue, broker));
    let broker = start_with(Arc::new(survivors), &limits);
    let mut client = Client::connect(&broker);
    assert_eq!(client.ask_ready("q"), 41);
    at(&broker, 600);
    assert_eq!(client.get_soon("dead"), "got short left 0");
    client.get_soon("q");
    let properties = client.last().properties;
    assert_eq!(message::View::of(&properties).priority(), Some(3));
    at(&broker, 900_100);
    while client.ask_ready("dead") < 39 {
        std::thread::yield_now();
    }
    assert_eq!(client.ask_ready("q"), 0);
}
