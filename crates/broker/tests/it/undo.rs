//! Messages that are taken away, and brought back: a crash anywhere leaves each of them somewhere.

use crate::client::{Client, Kind, block_on, short, start_set, wait_until};
use broker::{
    BringingBack, Broker, BrokerOptions, Browser, DeleteConditions, LookFrom, TakenAway, Taking,
    UndoEntry, UndoOptions, UndoRefused,
};
use queue_type::PickedMessage;
use session::{Op, Value};
use std::collections::BTreeSet;
use std::ops::ControlFlow;
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};
use stream::{StreamDurability, StreamOptions};
use testing::{CrashOutcome, Fault, MemoryDisk};

const N: usize = 12;
/// Some messages each.
const PORTION_BYTES: usize = 200;

fn start(disk: &Arc<MemoryDisk>) -> Arc<Broker> {
    start_bounded(disk, 1 << 20)
}

fn start_bounded(disk: &Arc<MemoryDisk>, bytes_max: u64) -> Arc<Broker> {
    let undo = UndoOptions {
        window_ms: 60_000,
        bytes_max,
        portion_bytes: PORTION_BYTES,
        ..UndoOptions::default()
    };
    let streams = StreamOptions { durability: StreamDurability::Fsync, ..StreamOptions::default() };
    start_set(disk.clone(), BrokerOptions { undo, streams, ..BrokerOptions::default() })
}

/// The value, unless the power is lost before.
fn unless_dead<T>(disk: &MemoryDisk, future: impl Future<Output = T>) -> Option<T> {
    let mut future = pin!(future);
    let mut context = Context::from_waker(Waker::noop());
    let deadline = Instant::now() + Duration::from_secs(60);
    loop {
        if let Poll::Ready(value) = future.as_mut().poll(&mut context) {
            return Some(value);
        }
        if disk.has_lost_power() {
            return None;
        }
        assert!(Instant::now() < deadline, "nothing happens");
        std::thread::yield_now();
    }
}

fn body(n: usize) -> String {
    format!("{n:050}")
}

fn bodies() -> BTreeSet<String> {
    (0..N).map(body).collect()
}

fn fill(broker: &Arc<Broker>, kind: &'static str) {
    let mut client = Client::connect(broker);
    client.declare_with("q", true, &[("x-queue-type", Value::from(kind))]);
    client.declare_exchange("x", "direct", &[]);
    client.bind("x", "q", "k");
    client.ask(Op::EnableConfirms);
    let all: Vec<String> = (0..N).map(body).collect();
    let all: Vec<&str> = all.iter().map(String::as_str).collect();
    let heard = client.publish("q", &all, Kind::Persistent);
    client.wait_for(heard, 1);
    client.disconnect();
}

/// The messages of the queue, if it is there.
fn in_queue(broker: &Arc<Broker>) -> Vec<String> {
    let mut client = Client::connect(broker);
    if broker.queue("/", "q").is_none() {
        return Vec::new();
    }
    let mut all = Vec::new();
    loop {
        let [heard] = &client.get("q")[..] else { panic!("one answer") };
        let Some(heard) = heard.strip_prefix("got ") else { break };
        all.push(heard[..body(0).len()].to_owned());
    }
    client.ask(Op::CloseChannel);
    all
}

/// The messages that can be brought back.
fn in_entries(broker: &Arc<Broker>) -> Vec<String> {
    let mut all = Vec::new();
    for entry in broker.operations().undo().all() {
        let back = BringingBack::begin(broker.operations().undo(), entry.id).unwrap();
        for number in back.portions() {
            let messages = back.messages(number).unwrap();
            let of = |message: &message::OwnedMessage| {
                String::from_utf8(message.message().body.bytes().to_vec()).unwrap()
            };
            all.extend(messages.iter().map(|it| of(&it.message)));
        }
    }
    all
}

/// How a test takes messages away.
#[derive(Clone, Copy, Debug)]
enum Way {
    Purge,
    Delete,
    Remove,
}

fn take(disk: &MemoryDisk, broker: &Arc<Broker>, way: Way) -> Option<TakenAway> {
    let queue = broker.queue("/", "q").unwrap();
    let begin = |taking| broker.operations().begin_taking(&queue, taking, "me");
    let taken = match way {
        Way::Purge => block_on(begin(Taking::Purge).take(&|| true)),
        Way::Remove => {
            let all =
                (0..N as u64).map(|position| PickedMessage { position, body_bytes: 50 }).collect();
            block_on(begin(Taking::Remove(all)).take(&|| true))
        }
        Way::Delete => {
            let mut keeping = begin(Taking::Delete);
            keeping.keep(&|| true);
            let conditions = DeleteConditions { if_unused: false, if_empty: false };
            let n_messages = block_on(broker.operations().begin_delete(&queue, conditions)).ok()?;
            keeping.keep(&|| true);
            unless_dead(disk, broker.operations().end_delete(&queue, "me"))?;
            return Some(TakenAway { n_messages, undo: keeping.end_delete(n_messages) });
        }
    };
    unless_dead(disk, broker.operations().durable())?;
    Some(taken)
}

/// Brings everything back; whether it came to its end.
fn bring_back(disk: &MemoryDisk, broker: &Arc<Broker>) -> Option<()> {
    for entry in broker.operations().undo().all() {
        let back = BringingBack::begin(broker.operations().undo(), entry.id).unwrap();
        let (queue, not_bound) =
            unless_dead(disk, broker.operations().queue_of_undo(&back, ""))?.ok()?;
        assert!(not_bound.is_empty());
        for number in back.portions() {
            let messages = back.messages(number)?;
            let taken = unless_dead(disk, broker.operations().put_back(&queue, &messages))?.ok()?;
            assert_eq!(taken.len(), messages.len());
            back.note(number, None).ok()?;
        }
        back.end();
    }
    Some(())
}

/// Loses power at each operation of `act`, and checks what is left; how many there are.
fn at_each_operation(
    prepare: impl Fn(&Arc<MemoryDisk>) -> Arc<Broker>,
    act: impl Fn(&MemoryDisk, &Arc<Broker>) -> Option<()>,
    check: impl Fn(&Arc<MemoryDisk>, &Arc<Broker>, &str),
) -> u64 {
    for at in 0.. {
        let disk = Arc::new(MemoryDisk::new());
        let broker = prepare(&disk);
        disk.inject(disk.operations() + at, Fault::PowerLoss);
        let ended = act(&disk, &broker);
        for outcome in [CrashOutcome::OnlySynced, CrashOutcome::Everything, CrashOutcome::Torn(at)]
        {
            let after = Arc::new(disk.survive(outcome));
            check(&after, &start(&after), &format!("operation {at}, {outcome:?}"));
        }
        if ended.is_some() && !disk.has_lost_power() {
            return at;
        }
    }
    unreachable!("it ends at some time")
}

fn nothing_is_lost(disk: &Arc<MemoryDisk>, broker: &Arc<Broker>, when: &str) {
    let can_be_back = in_entries(broker);
    let there = in_queue(broker);
    let all: BTreeSet<String> = there.into_iter().chain(can_be_back).collect();
    assert_eq!(all, bodies(), "{when}");
    bring_back(disk, broker).unwrap();
    let back: BTreeSet<String> = in_queue(broker).into_iter().collect();
    assert_eq!(back, bodies(), "{when}");
    // The record that the crash has torn is told.
    let left = broker.operations().undo().all();
    assert!(left.iter().all(|it| it.is_damaged && it.n_messages == 0), "{when}: {left:?}");
}

fn filled(kind: &'static str) -> impl Fn(&Arc<MemoryDisk>) -> Arc<Broker> {
    move |disk| {
        let broker = start(disk);
        fill(&broker, kind);
        broker
    }
}

#[test]
fn a_loss_of_power_while_messages_are_taken_away_leaves_each_somewhere() {
    for kind in ["classic", "quorum"] {
        for way in [Way::Purge, Way::Delete, Way::Remove] {
            let act = |disk: &MemoryDisk, broker: &Arc<Broker>| take(disk, broker, way).map(drop);
            let n = at_each_operation(filled(kind), act, nothing_is_lost);
            assert!(n > 10, "{kind} {way:?}: {n}");
        }
    }
}

#[test]
fn a_loss_of_power_while_they_are_brought_back_leaves_each_somewhere() {
    for kind in ["classic", "quorum"] {
        for way in [Way::Purge, Way::Delete] {
            let prepare = |disk: &Arc<MemoryDisk>| {
                let broker = filled(kind)(disk);
                let taken = take(disk, &broker, way).unwrap();
                assert_eq!(taken.n_messages, N as u64);
                broker
            };
            let n = at_each_operation(prepare, bring_back, nothing_is_lost);
            assert!(n > 10, "{kind} {way:?}: {n}");
        }
    }
}

#[test]
fn a_disk_that_refuses_the_files_keeps_nobody_from_purging() {
    for fault in [Fault::Io, Fault::NoSpace] {
        for at in 0..12 {
            let disk = Arc::new(MemoryDisk::new());
            let broker = filled("classic")(&disk);
            disk.inject(disk.operations() + at, fault);
            let queue = broker.queue("/", "q").unwrap();
            let keeping = broker.operations().begin_taking(&queue, Taking::Purge, "");
            let taken = block_on(keeping.take(&|| true));
            assert_eq!(taken.n_messages, N as u64, "{fault:?} at {at}");
            let n_kept = in_entries(&broker).len() as u64;
            let n_left_out = taken.undo.and_then(|entry| entry.n_left_out);
            assert_eq!(n_kept + n_left_out.unwrap_or(N as u64 - n_kept), N as u64);
        }
    }
}

#[test]
fn a_purge_that_is_stopped_leaves_the_rest_and_keeps_what_it_took() {
    let broker = filled("classic")(&Arc::new(MemoryDisk::new()));
    let queue = broker.queue("/", "q").unwrap();
    let take = |n_asked: usize| {
        let left = std::cell::Cell::new(n_asked);
        let goes_on = || left.replace(left.get().saturating_sub(1)) > 0;
        block_on(broker.operations().begin_taking(&queue, Taking::Purge, "").take(&goes_on))
    };
    let none = take(0);
    assert!(none.n_messages == 0 && none.undo.is_none(), "{none:?}");
    let some = take(1);
    assert_eq!(queue.local_stat().n_ready, N as u64 - some.n_messages);
    assert_eq!(some.undo.map(|entry| entry.n_messages), Some(some.n_messages));
    assert!(some.n_messages > 0);
}

#[test]
fn there_is_room_for_the_last_ones_only() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start_bounded(&disk, 1_500);
    fill(&broker, "classic");
    let purge = || take(&disk, &broker, Way::Purge).unwrap().undo.unwrap();
    let first = purge();
    assert_eq!((first.n_messages, first.n_left_out), (N as u64, Some(0)));
    fill(&broker, "classic");
    let second = purge();
    let ids = |broker: &Broker| -> Vec<u64> {
        broker.operations().undo().all().iter().map(|entry| entry.id).collect()
    };
    assert_eq!(ids(&broker), [second.id], "the first one gave way");
    assert_eq!((second.n_messages, second.n_left_out), (N as u64, Some(0)));

    let broker = start_bounded(&Arc::new(disk.survive(CrashOutcome::OnlySynced)), 500);
    fill(&broker, "classic");
    let queue = broker.queue("/", "q").unwrap();
    let keeping = broker.operations().begin_taking(&queue, Taking::Purge, "");
    let taken = block_on(keeping.take(&|| true));
    let undo = taken.undo.unwrap();
    assert_eq!(taken.n_messages, N as u64);
    assert!((1..N as u64).contains(&undo.n_messages), "{undo:?}");
    assert_eq!(undo.n_left_out, Some(N as u64 - undo.n_messages));
    assert!(undo.bytes <= 500 && ids(&broker) == [undo.id], "{undo:?}");
}

#[test]
fn consumers_keep_what_they_hold_and_nothing_is_kept_for_ever() {
    for kind in ["classic", "quorum"] {
        let disk = Arc::new(MemoryDisk::new());
        let broker = filled(kind)(&disk);
        let mut client = Client::connect(&broker);
        client.ask(Op::Get { queue: short("q"), no_ack: false });
        let taken = take(&disk, &broker, Way::Remove).unwrap();
        assert_eq!(taken.n_messages, N as u64 - 1, "{kind}");
        let entry = taken.undo.unwrap();
        assert_eq!(entry.n_messages, N as u64 - 1, "{kind}");
        assert!(!in_entries(&broker).contains(&body(0)));
        let back = BringingBack::begin(broker.operations().undo(), entry.id).unwrap();
        assert!(BringingBack::begin(broker.operations().undo(), entry.id).is_err(), "it is busy");
        assert!(!broker.operations().undo().forget(entry.id), "it is busy");
        let late = stdx::Now::at_ms(70_000);
        broker.tick(late);
        drop(back);
        assert!(
            BringingBack::begin(broker.operations().undo(), entry.id).is_err(),
            "it is too late"
        );
        broker.tick(late);
        let files = disk.files();
        assert!(files.iter().all(|(name, _)| !name.starts_with("undo/")), "{files:?}");
    }
}

/// The messages of the stream by offset.
fn in_stream(broker: &Broker) -> Vec<String> {
    let mut browser = Browser::new(&broker.queue("/", "q").unwrap(), LookFrom::Position(0));
    let mut all = Vec::new();
    let mut take = |at: &broker::LookedAt<'_>| {
        assert_eq!(at.seen.position, all.len() as u64);
        all.push(String::from_utf8(at.seen.message.body.bytes().to_vec()).unwrap());
        ControlFlow::Continue(())
    };
    while browser.step(&mut take).unwrap() {}
    all
}

/// The directories that have files of streams, and the files of entries.
fn kept(disk: &MemoryDisk) -> (BTreeSet<String>, usize) {
    let files = disk.files();
    let streams = files.iter().filter_map(|(name, _)| name.strip_prefix("streams/"));
    let dirs = streams.map(|name| name.split('/').next().unwrap().to_owned()).collect();
    (dirs, files.iter().filter(|(name, _)| name.starts_with("undo/")).count())
}

fn the_stream_is_whole(disk: &Arc<MemoryDisk>, broker: &Arc<Broker>, when: &str) {
    let n_entries = broker.operations().undo().all().len();
    assert_eq!(n_entries, usize::from(broker.queue("/", "q").is_none()), "{when}");
    assert_eq!(kept(disk).1, n_entries, "{when}");
    bring_back(disk, broker).unwrap();
    let all: Vec<String> = bodies().into_iter().collect();
    assert_eq!(in_stream(broker), all, "{when}");
    fill(broker, "stream");
    assert_eq!(in_stream(broker), [&all[..], &all].concat(), "{when}");
    wait_until("no other files are there", || {
        let (dirs, n_entries) = kept(disk);
        (dirs.len(), n_entries) == (1, 0)
    });
}

#[test]
fn a_loss_of_power_while_a_stream_is_deleted_leaves_it_or_an_entry() {
    let act = |disk: &MemoryDisk, broker: &Arc<Broker>| {
        let taken = take(disk, broker, Way::Delete)?;
        assert_eq!(taken.undo.unwrap().n_messages, N as u64);
        Some(())
    };
    let n = at_each_operation(filled("stream"), act, the_stream_is_whole);
    assert!(n > 5, "{n}");
}

#[test]
fn a_loss_of_power_while_a_stream_is_brought_back_leaves_it_or_an_entry() {
    let n = at_each_operation(deleted, bring_back, the_stream_is_whole);
    assert!(n > 2, "{n}");
}

/// Whoever knew the deleted stream by its id does not take the other for it.
#[test]
fn a_stream_that_is_brought_back_has_a_new_id() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = filled("stream")(&disk);
    let id = || broker.queue("/", "q").unwrap().id();
    let before = id();
    for _ in 0..2 {
        take(&disk, &broker, Way::Delete).unwrap().undo.unwrap();
        bring_back(&disk, &broker).unwrap();
    }
    assert!(id().0 >= before.0 + 2);
    the_stream_is_whole(&disk, &broker, "the stream is back");
}

#[test]
fn a_loss_of_power_while_a_stream_is_forgotten_leaves_all_of_it_or_nothing() {
    let act = |disk: &MemoryDisk, broker: &Arc<Broker>| {
        let id = broker.operations().undo().all()[0].id;
        assert!(broker.operations().undo().forget(id));
        let is_gone = || kept(disk) == (BTreeSet::new(), 0);
        wait_until("all files are gone", || disk.has_lost_power() || is_gone());
        is_gone().then_some(())
    };
    let check = |disk: &Arc<MemoryDisk>, broker: &Arc<Broker>, when: &str| {
        if broker.operations().undo().all().is_empty() {
            wait_until(when, || kept(disk) == (BTreeSet::new(), 0));
        } else {
            the_stream_is_whole(disk, broker, when);
        }
    };
    let n = at_each_operation(deleted, act, check);
    assert!(n > 2, "{n}");
}

/// A broker whose stream is deleted.
fn deleted(disk: &Arc<MemoryDisk>) -> Arc<Broker> {
    let broker = filled("stream")(disk);
    take(disk, &broker, Way::Delete).unwrap().undo.unwrap();
    broker
}

#[test]
fn the_files_of_a_stream_go_with_what_could_bring_it_back() {
    let late = stdx::Now::at_ms(70_000);
    for way in ["too late", "forgotten", "no room"] {
        let disk = Arc::new(MemoryDisk::new());
        let broker = start_bounded(&disk, 2_600);
        fill(&broker, "stream");
        let entry = take(&disk, &broker, Way::Delete).unwrap().undo.unwrap();
        assert_eq!(kept(&disk).0.len(), 1, "{way}");
        match way {
            "too late" => broker.tick(late),
            "forgotten" => assert!(broker.operations().undo().forget(entry.id)),
            _ => {
                fill(&broker, "stream");
                let other = take(&disk, &broker, Way::Delete).unwrap().undo.unwrap();
                assert!(other.bytes > 1_300 && !broker.operations().undo().forget(entry.id));
                assert!(broker.operations().undo().forget(other.id));
            }
        }
        wait_until("all files are gone", || kept(&disk) == (BTreeSet::new(), 0));
    }
}

#[test]
fn a_stream_that_is_too_large_is_deleted_for_good() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = start_bounded(&disk, 500);
    fill(&broker, "stream");
    assert_eq!(broker.operations().undo().kept_stream(&broker.queue("/", "q").unwrap()), None);
    assert_eq!(take(&disk, &broker, Way::Delete).unwrap().undo, None);
    wait_until("all files are gone", || kept(&disk) == (BTreeSet::new(), 0));
}

#[test]
fn a_stream_does_not_take_the_place_of_another() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = filled("stream")(&disk);
    let entry = take(&disk, &broker, Way::Delete).unwrap().undo.unwrap();
    for kind in ["stream", "classic"] {
        let mut client = Client::connect(&broker);
        client.declare_with("q", true, &[("x-queue-type", Value::from(kind))]);
        let back = BringingBack::begin(broker.operations().undo(), entry.id).unwrap();
        let refused = block_on(broker.operations().queue_of_undo(&back, "")).unwrap_err();
        assert!(matches!(refused, UndoRefused::NoQueue(_)), "{refused:?}");
        client.ask(Op::DeleteQueue {
            queue: short("q"),
            if_unused: session::Flag::No,
            if_empty: session::Flag::No,
        });
    }
    // It has noted where the files were to go.
    let [left] = &broker.operations().undo().all()[..] else { panic!("one entry is left") };
    assert_eq!(UndoEntry { bytes: entry.bytes, ..left.clone() }, entry);
    the_stream_is_whole(&disk, &broker, "the name is free");
}

#[test]
fn a_stream_that_two_delete_is_kept_once() {
    let disk = Arc::new(MemoryDisk::new());
    let broker = filled("stream")(&disk);
    let queue = broker.queue("/", "q").unwrap();
    let begin = || broker.operations().begin_taking(&queue, Taking::Delete, "me");
    let (one, other) = (begin(), begin());
    block_on(broker.operations().end_delete(&queue, "me"));
    assert!(other.end_delete(0).is_none() && one.end_delete(0).is_some());
    the_stream_is_whole(&disk, &broker, "two have deleted it");
    // One that is not deleted after all stays what it was.
    let queue = broker.queue("/", "q").unwrap();
    assert_eq!(broker.operations().begin_taking(&queue, Taking::Delete, "me").end_delete(0), None);
    assert_eq!((in_stream(&broker).len(), kept(&disk).1), (2 * N, 0));
}
