//! Random work on a queue in the older form against a naive model: every loss of power at every
//! operation, failing operations, flipped bits, flushes in between.

use std::collections::BTreeMap;
use std::sync::Arc;

use message::{Body, MessageRef};
use proptest::prelude::*;
use queue_index::{
    Damage, JOURNALS_FILE, JournalTable, Recovered, V1Options, V1Queue, missing_bodies,
    named_bodies,
};
use segments::{Disk, FileError, OpenMode};
use store::blob::{BlobOptions, BlobStore};
use store::{Queued, StoreError, StoredBody};
use testing::{CrashOutcome, Fault, MemoryDisk};

const EMBED_BELOW: usize = 300;

#[derive(Clone, Debug)]
enum Work {
    /// A message of this length, this many positions behind the last one.
    Publish {
        bytes: u16,
        skip: u16,
        is_persistent: bool,
    },
    /// The nth message is given to a consumer.
    Deliver(u16),
    /// The nth message is done with.
    Ack(u16),
    /// So are this many from the nth on.
    AckRun(u16, u8),
    Purge,
    Sync,
    /// With the whole disk.
    SyncAll,
    Flush,
    /// The process is killed, and starts again.
    Restart,
}

fn work() -> impl Strategy<Value = Vec<Work>> {
    let publish = |bytes, skip| {
        (bytes, skip, prop::bool::weighted(0.9))
            .prop_map(|(bytes, skip, is_persistent)| Work::Publish { bytes, skip, is_persistent })
    };
    let one = prop_oneof![
        12 => publish(0_u16..400, 0_u16..2),
        2 => publish(0_u16..400, 0_u16..20_000),
        4 => any::<u16>().prop_map(Work::Deliver),
        10 => any::<u16>().prop_map(Work::Ack),
        2 => (any::<u16>(), any::<u8>()).prop_map(|(n, run)| Work::AckRun(n, run % 16)),
        1 => Just(Work::Purge),
        5 => Just(Work::Sync),
        2 => Just(Work::SyncAll),
        3 => Just(Work::Flush),
        1 => Just(Work::Restart),
    ];
    prop::collection::vec(one, 1..60)
}

/// The queue's number in the table of journals.
const QUEUE: u64 = 7;

fn options(disk: &MemoryDisk) -> V1Options {
    let table = JournalTable::open(Arc::new(disk.clone()), |queue| queue == QUEUE).unwrap();
    let told = Some((Arc::new(table), QUEUE));
    V1Options { journal_operations_max: 20, told, ..V1Options::new("q/v1") }
}

/// The fate of a message, by the numbers of the calls.
#[derive(Clone, Debug)]
struct Message {
    body: Vec<u8>,
    stored: Option<StoredBody>,
    is_persistent: bool,
    published: u64,
    delivered: Option<u64>,
    acked: Option<u64>,
}

struct Run {
    disk: MemoryDisk,
    queue: V1Queue,
    bodies: BlobStore,
    messages: BTreeMap<u64, Message>,
    /// Also those that were done with before a restart.
    ever: BTreeMap<u64, Message>,
    next: u64,
    damage: Vec<Damage>,
}

fn open_bodies(disk: &MemoryDisk) -> BlobStore {
    let options = BlobOptions { file_bytes: 2000, ..BlobOptions::new("bodies") };
    BlobStore::open(Arc::new(disk.clone()), options).unwrap()
}

fn envelope(body: &[u8], is_persistent: bool) -> MessageRef<'_> {
    MessageRef {
        exchange: b"e",
        routing_key: b"key",
        properties: &[0x10, 0, 2],
        body: Body::Borrowed(body),
        persistent: is_persistent,
        annotations: Default::default(),
        form: message::BodyForm::Plain,
    }
}

impl Run {
    fn new() -> Self {
        let disk = MemoryDisk::new();
        let bodies = open_bodies(&disk);
        let (queue, recovered) =
            V1Queue::open(Arc::new(disk.clone()), options(&disk), &mut |_| panic!("empty"))
                .unwrap();
        assert_eq!((recovered.live, recovered.next_position), (0, 0));
        let (messages, ever) = (BTreeMap::new(), BTreeMap::new());
        Self { disk, queue, bodies, messages, ever, next: 0, damage: Vec::new() }
    }

    fn live(&self) -> impl Iterator<Item = (&u64, &Message)> {
        self.messages.iter().filter(|(_, message)| message.acked.is_none())
    }

    fn nth(&self, n: u16) -> Option<u64> {
        let place = usize::from(n).checked_rem(self.live().count())?;
        self.live().nth(place).map(|(position, _)| *position)
    }

    fn step(&mut self, work: &Work) -> Result<(), StoreError> {
        match work {
            Work::Publish { bytes, skip, is_persistent } => {
                self.publish(usize::from(*bytes), u64::from(*skip), *is_persistent);
            }
            Work::Deliver(n) => {
                if let Some(position) = self.nth(*n) {
                    let note = self.queue.deliver(position..position + 1);
                    self.messages.get_mut(&position).unwrap().delivered.get_or_insert(note);
                }
            }
            Work::Ack(n) => self.ack_run(*n, 1),
            Work::AckRun(n, run) => self.ack_run(*n, u64::from(*run)),
            Work::Purge => {
                let note = self.queue.ack(0..self.next);
                self.messages.values_mut().for_each(|message| {
                    message.acked.get_or_insert(note);
                });
            }
            Work::Sync => {
                let synced = self.queue.sync(&self.bodies)?;
                assert!(!self.queue.is_dirty());
                assert!(self.messages.values().all(|message| message.published <= synced));
            }
            Work::SyncAll => {
                let unsynced = self.queue.write_unsynced(&self.bodies)?;
                self.disk.sync_all().map_err(|source| FileError::Io {
                    what: "sync",
                    file: String::new(),
                    source,
                })?;
                let synced = self.queue.confirm(unsynced);
                assert!(!self.queue.is_dirty());
                assert!(self.messages.values().all(|message| message.published <= synced));
            }
            Work::Flush => {
                let flushed = self.queue.flush(&self.bodies)?;
                self.damage.extend(flushed.damage);
                assert!(!self.queue.wants_flush());
            }
            Work::Restart => self.restart(CrashOutcome::Everything),
        }
        Ok(())
    }

    fn publish(&mut self, bytes: usize, skip: u64, is_persistent: bool) {
        let position = self.next + skip;
        self.next = position + 1;
        let seed = usize::try_from(position).unwrap();
        let body: Vec<u8> =
            (0..bytes).map(|at| u8::try_from((at + seed * 13) % 251).unwrap()).collect();
        let properties = if bytes.is_multiple_of(2) { &b"properties"[..] } else { b"" };
        let stored = (bytes >= EMBED_BELOW).then(|| StoredBody {
            blob: self.bodies.append(&[properties, &body]),
            bytes: u32::try_from(bytes).unwrap(),
            properties_bytes: u32::try_from(properties.len()).unwrap(),
        });
        let message = envelope(&body, is_persistent);
        let queued = Queued { position, message, stored, is_delivered: false };
        let before = self.queue.unsynced_bytes();
        let added_bytes = stored.map_or(0, |_| bytes);
        let published = self.queue.publish(&queued, added_bytes);
        assert!(self.queue.unsynced_bytes() > before + added_bytes as u64);
        let message =
            Message { body, stored, is_persistent, published, delivered: None, acked: None };
        self.ever.insert(position, message.clone());
        self.messages.insert(position, message);
    }

    fn ack_run(&mut self, n: u16, run: u64) {
        let Some(position) = self.nth(n) else { return };
        let note = self.queue.ack(position..position + run);
        for (_, message) in self.messages.range_mut(position..position + run) {
            message.acked.get_or_insert(note);
        }
    }

    /// Starts again after what `survival` says; what is found must follow from what was durable.
    fn restart(&mut self, survival: CrashOutcome) {
        let synced = self.queue.synced();
        let disk = self.disk.survive(survival);
        check_missing_bodies(&disk);
        let (queue, bodies, recovered, found) = open(&disk);
        assert_eq!(recovered.damage.len(), 0, "{:?}", recovered.damage);
        assert_eq!(recovered.live, found.len() as u64);
        let is_durable = |note: Option<u64>| note.is_some_and(|note| note <= synced);
        for (position, message) in &self.messages {
            let is_found = found.contains_key(position);
            assert!(!is_found || message.is_persistent, "{position} was transient");
            assert!(!(is_found && is_durable(message.acked)), "{position} comes again");
            let must_be = is_durable(Some(message.published)) && message.acked.is_none();
            assert!(is_found || !must_be || !message.is_persistent, "{position} is lost");
        }
        let next_position = self.next;
        let (before, mut messages) = (&self.messages, BTreeMap::new());
        for (position, is_delivered) in found {
            let message = &before[&position];
            assert!(!is_delivered || message.delivered.is_some(), "{position} was not delivered");
            assert!(is_delivered || !is_durable(message.delivered), "{position} was delivered");
            let delivered = is_delivered.then_some(0);
            messages.insert(
                position,
                Message { published: 0, delivered, acked: None, ..message.clone() },
            );
        }
        // A position may be used again only if nobody can have been told of the message there.
        assert!(recovered.next_position <= next_position);
        assert!(messages.keys().all(|position| *position < recovered.next_position));
        self.next = recovered.next_position;
        (self.disk, self.queue, self.bodies, self.messages) = (disk, queue, bodies, messages);
    }

    fn check(&self, bytes_max: u64) {
        let mut read = Vec::new();
        let mut from = 0;
        while from < self.next {
            let upto = self.queue.read(from..self.next, bytes_max, &mut |position, queued| {
                let queued = queued.unwrap();
                assert_eq!(position, queued.position);
                let message = &self.messages[&position];
                let mut body = queued.message.body.bytes().to_vec();
                assert_eq!(queued.stored, message.stored);
                if let Some(stored) = queued.stored {
                    self.bodies.read(stored.blob, &mut body).unwrap();
                    let properties = body.drain(..stored.properties_bytes as usize);
                    assert!(b"properties".starts_with(properties.as_slice()));
                }
                assert_eq!(body, message.body);
                let expected = envelope(&body, message.is_persistent);
                let MessageRef { exchange, routing_key, properties, persistent, .. } =
                    queued.message;
                assert_eq!(exchange, expected.exchange);
                assert_eq!(routing_key, expected.routing_key);
                assert_eq!(properties, expected.properties);
                assert_eq!(persistent, expected.persistent);
                assert_eq!(queued.is_delivered, message.delivered.is_some());
                read.push(position);
            });
            assert!(upto > from, "it goes on");
            from = upto;
        }
        let live: Vec<u64> = self.live().map(|(position, _)| *position).collect();
        assert_eq!(read, live);
        assert_eq!(self.queue.stats().live, live.len() as u64);
    }
}

/// A file of bodies is missed if a live message names it, and only then.
fn check_missing_bodies(disk: &MemoryDisk) {
    let named = named_bodies(disk, "q/v1").unwrap();
    for file in 0..=named.last_key_value().map_or(1, |(last, _)| last + 1) {
        let missing = missing_bodies(disk, "q/v1", &|other| other != file).unwrap();
        assert_eq!(missing, named.contains_key(&file).then_some(file));
    }
}

fn open(disk: &MemoryDisk) -> (V1Queue, BlobStore, Recovered, BTreeMap<u64, bool>) {
    let bodies = open_bodies(disk);
    let mut found = BTreeMap::new();
    let mut last = None;
    let (queue, recovered) = V1Queue::open(Arc::new(disk.clone()), options(disk), &mut |live| {
        assert!(last < Some(live.position), "positions rise");
        last = Some(live.position);
        if let Some(blob) = live.blob {
            assert!(bodies.retain(blob, 1), "the body of {} is gone", live.position);
            let blob_bytes = bodies.blob_bytes(blob).unwrap();
            assert!(blob_bytes - live.body_bytes <= 10, "properties may lie in front of it");
        }
        found.insert(live.position, live.is_delivered);
    })
    .unwrap();
    (queue, bodies, recovered, found)
}

fn run_until_it_fails(work: &[Work], fault: Option<(u64, Fault)>) -> Run {
    let mut run = Run::new();
    if let Some((operation, fault)) = fault {
        run.disk.inject(run.disk.operations() + operation, fault);
    }
    for one in work {
        let outcome = run.step(one);
        if fault.is_none() {
            outcome.unwrap();
        } else if outcome.is_err() {
            break;
        }
    }
    run
}

fn without_restarts(work: Vec<Work>) -> Vec<Work> {
    work.into_iter().filter(|one| !matches!(one, Work::Restart)).collect()
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 64, ..ProptestConfig::default() })]

    #[test]
    fn every_live_message_reads_back(work in work(), bytes_max in 1_u64..2000) {
        let mut run = Run::new();
        for one in &work {
            run.step(one).unwrap();
            run.check(bytes_max);
        }
        assert!(run.damage.is_empty());
    }

    #[test]
    fn nothing_is_left_of_an_emptied_queue(work in work()) {
        let mut run = run_until_it_fails(&work, None);
        for one in [Work::Flush, Work::Purge, Work::Flush] {
            run.step(&one).unwrap();
        }
        prop_assert_eq!(run.disk.list("q/v1").unwrap(), Vec::<String>::new());
        prop_assert_eq!(run.queue.stats().file_bytes, 0);
    }

    #[test]
    fn a_failing_operation_loses_nothing_durable(
        work in work(),
        operation in 0_u64..120,
        is_full in any::<bool>(),
        seed in any::<u64>(),
    ) {
        let fault = if is_full { Fault::NoSpace } else { Fault::Io };
        let work = without_restarts(work);
        let mut run = run_until_it_fails(&work, Some((operation, fault)));
        run.check(u64::MAX);
        run.restart(CrashOutcome::Torn(seed));
        run.check(u64::MAX);
    }

    #[test]
    fn a_flipped_bit_is_never_handed_out(work in work(), place in any::<(u16, u16, u8)>()) {
        let mut run = run_until_it_fails(&work, None);
        run.step(&Work::Sync).unwrap();
        let names = run.disk.list("q/v1").unwrap();
        let Some(name) = usize::from(place.0).checked_rem(names.len()).map(|at| &names[at]) else {
            return Ok(());
        };
        let name = format!("q/v1/{name}");
        let bytes = run.disk.open(&name, OpenMode::Existing).unwrap().len().unwrap();
        run.disk.flip_bit(&name, usize::from(place.1) % usize::try_from(bytes).unwrap(), place.2);
        let after = run.disk.survive(CrashOutcome::Everything);
        let opened = V1Queue::open(Arc::new(after.clone()), options(&after), &mut |_| ());
        for queue in [run.queue, opened.unwrap().0] {
            queue.read(0..run.next, u64::MAX, &mut |position, queued| match queued {
                Ok(queued) if queued.stored.is_none() => {
                    assert_eq!(queued.message.body.bytes(), run.ever[&position].body);
                }
                Ok(queued) => assert_eq!(queued.stored, run.ever[&position].stored),
                Err(StoreError::Disk(FileError::Corrupt { file, .. })) => assert_eq!(file, name),
                Err(error) => panic!("{error}"),
            });
        }
    }
}

proptest! {
    // Each tries all its crash points, so a few are much.
    #![proptest_config(ProptestConfig { cases: 12, ..ProptestConfig::default() })]

    #[test]
    fn a_loss_of_power_at_any_operation_loses_nothing_durable(work in work(), seed in any::<u64>()) {
        let work = without_restarts(work);
        let first = Run::new().disk.operations();
        let operations = run_until_it_fails(&work, None).disk.operations() - first;
        for operation in 0..operations {
            let torn = CrashOutcome::Torn(seed ^ operation);
            for survival in [CrashOutcome::Everything, CrashOutcome::OnlySynced, torn] {
                let mut run = run_until_it_fails(&work, Some((operation, Fault::PowerLoss)));
                run.restart(survival);
                run.check(u64::MAX);
                // What a start has found stays, also if the process before did not sync it.
                run.restart(CrashOutcome::OnlySynced);
                run.check(u64::MAX);
                // And it goes on from there: with a flush that is interrupted too.
                run.publish(10, 0, true);
                run.ack_run(0, 1);
                run.publish(400, 1, true);
                run.step(&Work::Sync).unwrap();
                run.disk.inject(run.disk.operations() + operation % 9, Fault::PowerLoss);
                for one in [Work::Ack(1), Work::Flush, Work::Ack(0), Work::Sync, Work::Flush] {
                    if run.step(&one).is_err() {
                        break;
                    }
                }
                run.restart(survival);
                run.check(u64::MAX);
                for one in [Work::Ack(0), Work::Flush, Work::Deliver(0), Work::Sync] {
                    run.step(&one).unwrap();
                }
                run.restart(survival);
                run.check(u64::MAX);
            }
        }
    }
}

#[test]
fn a_journal_is_flushed_when_it_is_full_and_segments_go_when_they_are_done_with() {
    let mut run = Run::new();
    for _ in 0..19 {
        run.publish(10, 0, true);
    }
    assert!(!run.queue.wants_flush());
    run.publish(10, 16_384, true);
    assert!(run.queue.wants_flush());
    run.step(&Work::Flush).unwrap();
    assert_eq!(run.disk.list("q/v1").unwrap(), ["0.idx", "1.idx"]);
    for _ in 0..19 {
        run.step(&Work::Ack(0)).unwrap();
    }
    run.step(&Work::Flush).unwrap();
    assert_eq!(run.disk.list("q/v1").unwrap(), ["1.idx"]);
    run.check(u64::MAX);
}

#[test]
fn a_damaged_segment_is_reported_at_the_start() {
    let mut run = Run::new();
    for _ in 0..3 {
        run.publish(100, 0, true);
        run.step(&Work::Flush).unwrap();
    }
    // In the header of the second block.
    let first_bytes = 48 + 24 + (12 + 4 + 3 + 100);
    assert!(run.disk.flip_bit("q/v1/0.idx", 32 + first_bytes + 5, 3));
    let (_, _, recovered, found) = open(&run.disk);
    let [damage] = &recovered.damage[..] else { panic!("{:?}", recovered.damage) };
    let StoreError::Disk(FileError::Corrupt { file, offset, .. }) = &damage.error else {
        panic!("{damage}");
    };
    assert_eq!((file.as_str(), *offset), ("q/v1/0.idx", 32 + first_bytes as u64));
    assert_eq!((damage.bytes, damage.n_entries), (first_bytes as u64, None));
    // In the table of the same block.
    assert!(run.disk.flip_bit("q/v1/0.idx", 32 + first_bytes + 5, 3));
    assert!(run.disk.flip_bit("q/v1/0.idx", 32 + first_bytes + 60, 3));
    let (_, _, recovered, _) = open(&run.disk);
    let [damage] = &recovered.damage[..] else { panic!("{:?}", recovered.damage) };
    let told = format!("{first_bytes} bytes, with 1 messages at most");
    assert!(damage.to_string().ends_with(&told), "{damage}");
    assert_eq!(found.keys().copied().collect::<Vec<_>>(), [0, 2]);
}

/// A queue with two segments and `n_journals` journals that are not flushed, after a restart.
fn stopped_with_journals(n_journals: usize) -> Run {
    let mut run = Run::new();
    for _ in 0..3 {
        run.publish(100, 0, true);
    }
    run.publish(100, 16_384, true);
    run.step(&Work::Flush).unwrap();
    for _ in 0..n_journals {
        run.publish(100, 0, true);
        run.step(&Work::Sync).unwrap();
        run.publish(50, 0, true);
        run.step(&Work::Sync).unwrap();
        run.step(&Work::Restart).unwrap();
    }
    run
}

/// Whatever a file is cut to, what was synced in it is told, and once.
#[test]
fn a_file_that_is_cut_off_is_told_with_what_it_had() {
    for (n_journals, name, told) in [
        (1, "00000002.jif", "q/v1/00000002.jif"),
        (2, "00000002.jif", "a file q/v1/*.jif"),
        (2, "00000003.jif", "a file q/v1/*.jif"),
        (1, "1.idx", "a file q/v1/*.idx"),
    ] {
        let run = stopped_with_journals(n_journals);
        let whole = run.live().count();
        let name = format!("q/v1/{name}");
        let bytes = run.disk.open(&name, OpenMode::Existing).unwrap().len().unwrap();
        for left in 0..bytes {
            let disk = run.disk.survive(CrashOutcome::Everything);
            disk.open(&name, OpenMode::Existing).unwrap().set_len(left).unwrap();
            let (_, _, recovered, found) = open(&disk);
            let [damage, rest @ ..] = &recovered.damage[..] else { panic!("{name} of {left}") };
            assert!(recovered.torn.is_empty() && rest.len() <= 1, "{recovered:?}");
            assert_eq!(damage.bytes, bytes - left.max(32), "{damage}");
            assert!(damage.to_string().starts_with(&format!("the end of {told} is missing")));
            let named = format!("{} in {name}", left.saturating_sub(32));
            assert_eq!(damage.to_string().contains(&named), told.contains('*'), "{damage}");
            assert!(rest.iter().all(|rest| rest.error.to_string().starts_with(&name)), "{rest:?}");
            assert!(found.len() < whole);
            let (_, _, recovered, _) = open(&disk);
            let is_cut = |damage: &&Damage| damage.to_string().contains("is missing");
            assert_eq!(recovered.damage.iter().find(is_cut).map(ToString::to_string), None);
        }
    }
}

/// As programs wrote it that knew of no lengths.
#[test]
fn without_lengths_in_the_table_nothing_is_told() {
    let run = stopped_with_journals(1);
    let table = run.disk.open(JOURNALS_FILE, OpenMode::Existing).unwrap();
    let mut slot = [0; 64];
    table.read_at(0, &mut slot).unwrap();
    assert!(slot[48..].chunks(8).all(|bytes| bytes != [0; 8]), "both lengths are there");
    slot[48..].fill(0);
    let crc = segments::crc32c(&slot[8..]);
    slot[4..8].copy_from_slice(&crc.to_le_bytes());
    table.write_at(0, &slot).unwrap();
    run.disk.open("q/v1/00000002.jif", OpenMode::Existing).unwrap().set_len(32).unwrap();
    let (_, _, recovered, found) = open(&run.disk);
    assert!(recovered.damage.is_empty() && recovered.torn.is_empty(), "{recovered:?}");
    assert_eq!(found.len(), 4);
}

#[test]
fn reads_go_on_while_others_publish_sync_and_flush() {
    let mut run = Run::new();
    for _ in 0..50 {
        run.publish(40, 0, true);
    }
    let Run { queue, bodies, messages, .. } = &run;
    std::thread::scope(|scope| {
        for _ in 0..2 {
            scope.spawn(|| {
                for _ in 0..200 {
                    let mut n = 0;
                    queue.read(0..50, u64::MAX, &mut |position, queued| {
                        let queued = queued.unwrap();
                        assert_eq!(queued.message.body.bytes(), messages[&position].body);
                        n += 1;
                    });
                    assert_eq!(n, 50);
                }
            });
        }
        scope.spawn(|| {
            for position in 50..250 {
                let message = envelope(b"more", true);
                let more = Queued { position, message, stored: None, is_delivered: false };
                queue.publish(&more, 0);
                queue.sync(bodies).unwrap();
                queue.ack(position..position + 1);
                assert!(queue.flush(bodies).unwrap().damage.is_empty());
            }
        });
    });
}
