//! Files of queues after a crash: those of deleted ones go by the fact that they were deleted; those that
//! nothing is known of stay, and are named.

use broker::{Broker, BrokerOptions, Steppers};
use log::WalOptions;
use meta::{Command, Name, NamedBy, QueueDeclare, QueueHome, VhostMetadata};
use segments::{Disk, OpenMode};
use session::{ShortString, Table, Value};
use std::pin::pin;
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use testing::{CrashOutcome, MemoryDisk, first_user};

fn open(disk: &MemoryDisk) -> (Arc<Broker>, Steppers) {
    let disk: Arc<dyn Disk> = Arc::new(disk.clone());
    Broker::open_stepped(disk, WalOptions::default(), BrokerOptions::default()).unwrap()
}

/// Carries a change out, and nothing that follows on the threads of queues.
fn change(broker: &Broker, steppers: &mut Steppers, command: Command) {
    let mut changing = pin!(broker.apply_definition(command));
    let mut context = Context::from_waker(Waker::noop());
    loop {
        match changing.as_mut().poll(&mut context) {
            Poll::Ready(done) => return drop(done.unwrap()),
            Poll::Pending => assert!(steppers.log.step(), "it waits for the log alone"),
        }
    }
}

/// The declaration of a durable queue on a node.
pub(crate) fn durable_queue(name: &str, arguments: Table, home: QueueHome) -> Command {
    Command::DeclareQueue(QueueDeclare {
        vhost: Name::from("/"),
        name: Name::from(name),
        named_by: NamedBy::Client,
        durable: true,
        auto_delete: false,
        exclusive_owner: None,
        arguments,
        id: None,
        home,
    })
}

fn declare(name: &str, (argument, value): (&'static str, Value)) -> Command {
    let mut arguments = Table::new();
    arguments.push(ShortString::from_static(argument), value);
    durable_queue(name, arguments, QueueHome::default())
}

fn delete(name: &str) -> Command {
    Command::DeleteQueue { vhost: Name::from("/"), name: Name::from(name), by: None }
}

/// The files of queues and virtual hosts.
fn files_of(disk: &MemoryDisk) -> Vec<String> {
    let is_of =
        |name: &String| ["streams/", "queues/", "vhosts/"].iter().any(|it| name.starts_with(it));
    disk.files().into_iter().map(|(name, _)| name).filter(is_of).collect()
}

fn put(disk: &MemoryDisk, name: &str, bytes: &[u8]) {
    disk.create_dir(name.rsplit_once('/').unwrap().0).unwrap();
    disk.open(name, OpenMode::New).unwrap().write_at(0, bytes).unwrap();
}

/// A broker with a stream that has a part of a chunk, and a queue of version 1, whose id is 2.
fn filled(disk: &MemoryDisk) -> (Arc<Broker>, Steppers) {
    let (broker, mut steppers) = open(disk);
    let commands = [
        declare("stream", ("x-queue-type", Value::from("stream"))),
        declare("v1", ("x-queue-version", Value::I32(1))),
    ];
    for command in first_user().into_iter().chain(commands) {
        change(&broker, &mut steppers, command);
    }
    let files = files_of(disk);
    let segment = files.iter().find(|it| it.ends_with(".segment")).unwrap();
    let file = disk.open(segment, OpenMode::Existing).unwrap();
    file.write_at(file.len().unwrap(), b"a part of a chunk").unwrap();
    (broker, steppers)
}

/// The queues are deleted, and the process is killed before their files are removed.
#[test]
fn files_of_deleted_queues_go_by_the_fact_after_a_kill() {
    for has_snapshot in [false, true] {
        let disk = MemoryDisk::new();
        let (broker, mut steppers) = filled(&disk);
        put(&disk, "queues/2/00000001.jif", b"entries");
        let files = files_of(&disk);
        for name in ["stream", "v1"] {
            change(&broker, &mut steppers, delete(name));
        }
        if has_snapshot {
            broker.snapshot_definitions().unwrap();
        }
        let disk = disk.survive(CrashOutcome::Everything);
        drop(broker);
        assert_eq!(files_of(&disk), files, "the removal is still to come");
        let (broker, mut steppers) = open(&disk);
        while steppers.v1.step() || steppers.streams.step() {}
        assert_eq!(broker.figures().leftovers(), [""; 0], "snapshot: {has_snapshot}");
        assert_eq!(files_of(&disk), [""; 0], "snapshot: {has_snapshot}");
    }
}

/// Killed before the deletion is in the log: everything is there.
#[test]
fn files_stay_while_the_deletion_is_not_logged() {
    let disk = MemoryDisk::new();
    let (broker, _steppers) = filled(&disk);
    let files = files_of(&disk);
    for name in ["stream", "v1"] {
        let command = delete(name);
        let mut changing = pin!(broker.apply_definition(command));
        assert!(changing.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_pending());
    }
    let disk = disk.survive(CrashOutcome::Everything);
    let (broker, mut steppers) = open(&disk);
    while steppers.v1.step() || steppers.streams.step() {}
    assert_eq!((broker.figures().leftovers(), files_of(&disk)), (Vec::new(), files));
    assert!(["stream", "v1"].iter().all(|name| broker.queue("/", name).is_some()));
}

#[test]
fn files_that_nothing_is_known_of_stay_and_keep_their_ids() {
    let disk = MemoryDisk::new();
    drop(open(&disk));
    let mut chunks = vec![7; 32];
    chunks.extend(b"a part of a chunk");
    put(&disk, "streams/70/00000000000000000000.segment", &chunks);
    put(&disk, "queues/90/00000001.jif", b"an entry");
    put(&disk, "vhosts/x/bodies/note", b"a body");
    // A declaration that a crash has undone leaves a stream in which nothing ever was.
    put(&disk, "streams/80/00000000000000000000.segment", &[7; 32]);
    put(&disk, "streams/80/00000000000000000000.index", &[7; 64]);
    for start in 0..3 {
        let disk = disk.survive(CrashOutcome::Everything);
        let (broker, mut steppers) = open(&disk);
        while steppers.v1.step() || steppers.streams.step() {}
        assert_eq!(
            broker.figures().leftovers(),
            ["streams/70", "queues/90", "vhosts/x"],
            "start {start}"
        );
        assert_eq!(files_of(&disk).len(), 3, "start {start}");
        let commands =
            first_user().into_iter().chain([declare("q", ("x-expires", Value::I32(9_000)))]);
        commands.for_each(|command| change(&broker, &mut steppers, command));
        assert_eq!(broker.queue("/", "q").unwrap().id().0, 91);
    }
}

/// A virtual host of a lost definition is made anew: it does not come to have what the other one had.
#[test]
fn a_new_virtual_host_does_not_take_the_files_of_an_unknown_one() {
    let mut disk = MemoryDisk::new();
    drop(open(&disk));
    put(&disk, "vhosts/x/bodies/00000001.blobs", b"a body");
    disk.sync_all().unwrap();
    let (broker, mut steppers) = open(&disk);
    assert_eq!(broker.figures().leftovers(), ["vhosts/x"]);
    let (vhost, metadata) = (Name::from("x"), VhostMetadata::default());
    change(&broker, &mut steppers, Command::CreateVhost { vhost, metadata });
    for outcome in [CrashOutcome::Everything, CrashOutcome::OnlySynced] {
        assert_eq!(broker.figures().leftovers(), ["vhosts/x.1"]);
        disk = disk.survive(outcome);
        let (broker, _steppers) = open(&disk);
        assert_eq!(broker.figures().leftovers(), ["vhosts/x.1"]);
        assert_eq!(files_of(&disk), ["vhosts/x.1/bodies/00000001.blobs"]);
    }
}
